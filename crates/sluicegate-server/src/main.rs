//! The `sluicegate` binary. This crate's library contains all code.

fn main() -> std::process::ExitCode {
    sluicegate_server::run()
}
