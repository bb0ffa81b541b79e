//! The `sluicegate` binary; everything is in the library beside it.

fn main() -> std::process::ExitCode {
    sluicegate_server::run()
}
