//! The `sluicegate` binary: a rate limiting service over HTTP, and the command line around it.
//!
//! This crate has no API for other crates: depend on `sluicegate`.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod access;
mod activity;
mod cli;
mod commands;
mod cost;
mod decisions;
#[cfg(feature = "envoy")]
mod envoy;
mod explain;
mod fleet;
#[cfg(feature = "envoy")]
mod grpc;
mod http;
#[cfg(test)]
mod in_process;
mod listening;
mod logging;
mod output;
mod printable_json;
mod replay;
#[cfg(feature = "resp")]
mod resp;
mod running;
mod serve;
mod serving;
mod setup;
mod signals;
mod simulate;
mod supervisor;
mod token;
mod trace_context;
#[cfg(feature = "otlp")]
mod traces;
#[cfg(not(feature = "otlp"))]
#[path = "traces/without.rs"]
mod traces;

use std::process::ExitCode;

use sluicegate::store::Operation;

use crate::cli::{
    AcquireArgs, BanArgs, Cli, Command, HeldArgs, PauseArgs, RenewArgs, ReserveArgs, ResumeArgs,
    SettleArgs, TakeArgs,
};
use crate::commands::{HoldVerb, Terms, UsedArg, Verb};
use crate::output::{Exit, Failure};
use crate::serving::PassedSockets;

/// Runs the program: parses the arguments, runs the command, and returns the exit status.
#[must_use]
pub fn run() -> ExitCode {
    let cli = Cli::read();
    // Before there are other threads: it changes the environment.
    let passed = PassedSockets::take();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let message =
                format!("can't start, because no thread or socket could be created: {error}");
            return Failure::usage(message).report().into();
        }
    };
    let exit = runtime.block_on(dispatch(cli.command, passed));
    // A pending DNS lookup can't be cancelled, and its result isn't needed.
    runtime.shutdown_background();
    exit
}

async fn dispatch(command: Command, passed: PassedSockets) -> ExitCode {
    let done: Result<Exit, Failure> = match command {
        Command::Serve(args) => serve::serve(args, passed).await,
        Command::Acquire(AcquireArgs { held: HeldArgs { ask, hold }, within, priority }) => {
            let terms = Terms { hold, ..Terms::default() };
            commands::ask(Verb::Acquire { within, priority }, terms, ask).await
        }
        Command::Ban(BanArgs { ask, lasts }) => {
            commands::ask(Verb::Decide(Operation::Ban { lasts }), Terms::default(), ask).await
        }
        Command::Cancel(args) => commands::settle(HoldVerb::Cancel, args).await,
        Command::Charge(args) => take(Verb::Decide(Operation::Charge), args).await,
        Command::Check(args) => take(Verb::Decide(Operation::Check), args).await,
        Command::Bans(args) => commands::bans(args).await,
        Command::Keys(args) => commands::keys(args).await,
        Command::Revoke(args) => commands::revoke(args).await,
        Command::Health(args) => commands::health(args).await,
        Command::Holders(args) => commands::holders(args).await,
        Command::Pause(PauseArgs { of: ResumeArgs { ask, policy }, lasts }) => {
            let verb = Verb::Decide(Operation::Pause { lasts, policy: None });
            commands::ask(verb, Terms { policy, ..Terms::default() }, ask).await
        }
        Command::Peek(args) => {
            commands::ask(Verb::Decide(Operation::Peek), Terms::default(), args).await
        }
        Command::Refund(args) => {
            commands::ask(Verb::Decide(Operation::Refund), Terms::default(), args).await
        }
        Command::Recent(args) => commands::recent(args).await,
        Command::Top(args) => commands::top(args).await,
        Command::Release(args) => commands::settle(HoldVerb::Release, args).await,
        Command::Renew(RenewArgs { of, lasts }) => {
            commands::settle(HoldVerb::Renew { lasts }, of).await
        }
        Command::Reserve(ReserveArgs { ask, within }) => {
            commands::ask(Verb::Decide(Operation::Reserve { within }), Terms::default(), ask).await
        }
        Command::Reset(args) => {
            commands::ask(Verb::Decide(Operation::Reset), Terms::default(), args).await
        }
        Command::Resume(ResumeArgs { ask, policy }) => {
            let verb = Verb::Decide(Operation::Resume { policy: None });
            commands::ask(verb, Terms { policy, ..Terms::default() }, ask).await
        }
        Command::Settle(SettleArgs { of, used }) => match UsedArg::together(&used) {
            Ok(used) => commands::settle(HoldVerb::Settle { used }, of).await,
            Err(message) => Err(Failure::usage(message)),
        },
        Command::Simulate(args) => commands::simulate(args).await,
        Command::Take(args) => take(Verb::Decide(Operation::Take), args).await,
        Command::Unban(args) => {
            commands::ask(Verb::Decide(Operation::Unban), Terms::default(), args).await
        }
        Command::Config(args) => commands::config(&args).await,
        Command::Completions(args) => commands::completions(args.shell),
        Command::Man(args) => commands::man(&args.folder),
        Command::Limits(args) => commands::limits(args).await,
        Command::Explain(args) => commands::explain(args).await,
        Command::Fleet(args) => commands::fleet(args).await,
        Command::Override(args) => commands::overrides(args.command).await,
        #[cfg(feature = "envoy")]
        Command::Envoy(args) => envoy::envoy(args, passed).await,
        Command::Conformance(args) => commands::conformance(args).await,
        Command::Replay(args) => return replay::run(args).await,
    };
    done.unwrap_or_else(|failure| failure.report()).into()
}

async fn take(verb: Verb, args: TakeArgs) -> Result<Exit, Failure> {
    let TakeArgs { held: HeldArgs { ask, hold }, request_id } = args;
    commands::ask(verb, Terms { hold, request_id, ..Terms::default() }, ask).await
}
