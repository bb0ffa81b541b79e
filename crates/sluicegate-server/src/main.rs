//! The `sluicegate` binary. Everything is in the library of this crate.

fn main() -> std::process::ExitCode {
    sluicegate_server::run()
}
