//! The `sluicegate` binary: a rate limiting service over HTTP, and the command line around it.
//!
//! This crate has no API for other crates: depend on `sluicegate`.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod answer;
mod cli;
mod commands;
mod cost;
mod http;
mod output;
mod replay;
mod setup;

use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::{Cli, Command};
use crate::commands::Verb;
use crate::output::{Exit, Failure};

/// The program: reads the arguments, does what they say, and returns the exit status.
#[must_use]
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let message =
                format!("can't start, because no thread or socket could be created: {error}");
            return Failure::usage(message).report().into();
        }
    };
    let exit = runtime.block_on(dispatch(cli.command));
    // A pending DNS lookup can't be cancelled, and its result isn't needed.
    runtime.shutdown_background();
    exit
}

async fn dispatch(command: Command) -> ExitCode {
    let done: Result<Exit, Failure> = match command {
        Command::Serve(args) => http::serve(args).await,
        Command::Acquire(args) => {
            commands::ask(Verb::Acquire { within: args.within }, args.ask).await
        }
        Command::Ban(args) => commands::ask(Verb::Ban { lasts: args.lasts }, args.ask).await,
        Command::Charge(args) => commands::ask(Verb::Charge, args).await,
        Command::Check(args) => commands::ask(Verb::Check, args).await,
        Command::Peek(args) => commands::ask(Verb::Peek, args).await,
        Command::Refund(args) => commands::ask(Verb::Refund, args).await,
        Command::Reset(args) => commands::ask(Verb::Reset, args).await,
        Command::Take(args) => commands::ask(Verb::Take, args).await,
        Command::Unban(args) => commands::ask(Verb::Unban, args).await,
        Command::Config(args) => commands::config(&args).await,
        Command::Conformance(args) => commands::conformance(args).await,
        Command::Replay(args) => return replay::run(args).await,
    };
    done.unwrap_or_else(|failure| failure.report()).into()
}
