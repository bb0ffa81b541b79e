//! `sluicegate replay`: a recorded access log, played through policies.

mod logs;
mod policies;
mod results;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgGroup, Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use sluicegate::config::StoreUrl;
use sluicegate::http::ClientAddress;
use sluicegate::store::StoreOptions;
use sluicegate_core::{Error, SharedStore, Span};
use sluicegate_replay::{KeyExpression, LogFormat, Plan, PolicySpec, Recording, Report};

use crate::output::{Failure, without_charge};
use crate::setup::{CapArgs, parse_deadline, store_url};

use logs::LogArgs;
use policies::{limit_of, policy_spec};
use results::{PrefixArgs, ResultArgs, playable, suggest};

/// The arguments of `sluicegate replay`.
#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("policies").args(["policy", "config", "suggest"]).required(true).multiple(true)))]
#[command(after_help = "\
Examples:
  sluicegate replay --log access.log.gz --policy \"token_bucket 10/s burst 20\" --policy \"sliding_log 100/min\"
  sluicegate replay --log access.log --config limits.yaml --limit login --key host+user --format json
  sluicegate replay --log access.log --policy \"fixed_window 100/min\" --format html > replay.html
  sluicegate replay --log access.log --suggest \"1% of requests\"
  sluicegate replay --log 'access.log*' --policy \"gcra 5/s\"
  sluicegate replay --log decisions.jsonl --limit login --policy \"sliding_window 5/min\"
  sluicegate replay --log app.jsonl --fields time=ts,key=user.id,cost=usage.total_tokens --policy \"fixed_window 1000/min\"

Exit status: 0 done, 2 something to correct, 3 the store failed.")]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    logs: LogArgs,

    /// A policy to play the log through, such as "token_bucket 10/s burst 20"; may be repeated.
    ///
    /// Several policies are decided separately, side by side.
    #[arg(long, value_name = "SPEC", num_args = 1.., value_parser = policy_spec)]
    policy: Vec<PolicySpec>,

    /// The config file that has the limit to play the log through.
    #[arg(long, value_name = "FILE", requires = "limit", conflicts_with = "policy")]
    config: Option<PathBuf>,

    #[command(flatten)]
    caps: CapArgs,

    /// The limit of the config file; its policies are decided together, all or nothing. Only its decisions of a
    /// decision log are played.
    ///
    /// Its `enabled`, `key`, `allow`, `block` and `overrides` are ignored. With --policy it only chooses decisions of a
    /// decision log.
    #[arg(long, value_name = "NAME")]
    limit: Option<String>,

    /// The fields that make the key, joined with `+`, from ip, host, user, method, path, status and
    /// agent [default: ip, or host for json].
    ///
    /// `ip` is the client's address as middleware limits it: without its port, in canonical form, and
    /// as a network of --ipv4-prefix or --ipv6-prefix bits. Text that isn't an address is used
    /// unchanged. `host` is the text as logged, or the key in the line. A path is taken as logged,
    /// with its query. A missing field is empty.
    #[arg(long, value_name = "EXPR")]
    key: Option<KeyExpression>,

    #[command(flatten)]
    prefixes: PrefixArgs,

    /// The store that decides the requests, by the times in the log.
    ///
    /// The replay has separate states, which are deleted afterwards. The store in the config file
    /// isn't used.
    #[arg(long, value_name = "URL", default_value = "memory:")]
    store: String,

    /// The deadline of a call to the store.
    #[arg(long, value_name = "SPAN", default_value = "5s", value_parser = parse_deadline)]
    deadline: Span,

    #[command(flatten)]
    results: ResultArgs,

    /// The format of the result.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = ReportFormat::Table)]
    format: ReportFormat,
}

/// The format of a report.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum ReportFormat {
    /// For people.
    Table,
    /// For programs.
    Json,
    /// One page with plots, for browsers: a file that needs no other.
    Html,
}

/// Replays a log and prints the result.
///
/// The exit status is 0, 2 if the request is invalid or the log can't be read, or 3 if the store
/// fails.
pub(crate) async fn run(args: ReplayArgs) -> ExitCode {
    match replay(&args, &mut io::stdout().lock()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report().into(),
    }
}

async fn replay(args: &ReplayArgs, output: &mut impl Write) -> Result<(), Failure> {
    let url = store_url(&args.store)?;
    let (plan, address) = match (&args.config, &args.limit) {
        (Some(file), Some(name)) => {
            let (limit, address) = limit_of(file, args.caps, name)?;
            (Plan::together(limit), address)
        }
        _ => (Plan::side_by_side(args.policy.iter().cloned()), ClientAddress::peer()),
    };
    let address = args.prefixes.applied_to(address)?;
    let store = open_store(&url, args.deadline)?;
    let counts_in_flight = plan.permits().next().is_some();
    let limit = args.limit.as_deref();
    let recording = args.logs.read(args.key.clone(), limit, address, counts_in_flight)?;
    let is_decision_log = recording.format() == Some(LogFormat::Sluicegate);
    if limit.is_some() && args.config.is_none() && !is_decision_log {
        return Err(Failure::usage(
            "--limit without --config chooses decisions of a decision log, and this is another log: omit it",
        ));
    }
    let suggests = args.results.suggest.is_some();
    let (plan, left_out) = playable(plan.top(args.results.top), &recording, suggests)?;
    let stopped = |error: Error| {
        let error = without_charge(&error);
        Failure::store(format_args!("the replay stopped, because the store failed: {error}"))
    };
    let mut report = play(&plan, &url, &store, &recording).await.map_err(stopped)?;
    if let Some(goal) = args.results.suggest {
        report = report.with_suggestions(suggest(goal, &recording).map_err(stopped)?);
    }
    print(&report, args.format, output)?;
    left_out.map_or(Ok(()), Err)
}

fn open_store(url: &StoreUrl, deadline: Span) -> Result<SharedStore, Failure> {
    let mut options = StoreOptions::default();
    options.deadline = deadline.into();
    url.open(&options).map_err(|error| Failure::usage(format_args!("--store: {error}")))
}

async fn play(
    plan: &Plan,
    url: &StoreUrl,
    store: &SharedStore,
    recording: &Recording,
) -> Result<Report, Error> {
    let bar = progress("deciding", plan.decisions(recording));
    let advance = |decisions| bar.inc(decisions);
    let report = match url {
        StoreUrl::Memory => plan.play_now(store, recording, &advance)?,
        _ => plan.play(store, recording, &advance).await?,
    };
    bar.finish_and_clear();
    Ok(report)
}

fn print(report: &Report, format: ReportFormat, output: &mut impl Write) -> Result<(), Failure> {
    let written = match format {
        ReportFormat::Table => report.write_table(&mut *output),
        ReportFormat::Json => report.write_json(&mut *output),
        ReportFormat::Html => report.write_html(&mut *output),
    };
    match written.and_then(|()| output.flush()) {
        // The reader closed the pipe; that isn't an error.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written
            .map_err(|error| Failure::usage(format_args!("the result can't be written: {error}"))),
    }
}

/// Returns a progress bar, which is visible only on a terminal.
fn progress(doing: &'static str, length: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(length).with_message(doing);
    match ProgressStyle::with_template("{msg:10} {wide_bar} {percent:>3} % {eta:>4}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
