//! The `tollgate` binary; everything is in the library beside it.

fn main() -> std::process::ExitCode {
    tollgate_server::run()
}
