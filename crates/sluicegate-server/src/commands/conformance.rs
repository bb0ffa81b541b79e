//! `conformance`: a store held against cases with known answers.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::io::IsTerminal as _;
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};
use sluicegate::config::Config;
use sluicegate::{
    AnyHandle, AnyStore, Cost, Costs, Limit, Operation, Policy, Request, Span, Store, StoreError,
    StoreErrorKind, StoreOptions, StoreUrl, TimeSource, Timestamp,
};
use sluicegate_conformance::{self as conformance, Step, StepAnswer, StepError, Target};

use crate::cli::ConformanceArgs;
use crate::output::{Exit, Failure, say, without_charge};
use crate::setup::store_url;

/// Runs every case of a file and prints what failed.
///
/// # Errors
/// When the file can't be read, or the store failed.
pub(crate) async fn conformance(args: ConformanceArgs) -> Result<Exit, Failure> {
    let file = args.file.display();
    let text = std::fs::read_to_string(&args.file)
        .map_err(|error| Failure::usage(format_args!("{file} can't be read: {error}")))?;
    let cases = conformance::read(&text)
        .map_err(|error| Failure::usage(format_args!("{file}: {error}")))?;
    if cases.is_empty() {
        return Err(Failure::usage(format_args!("{file} holds no case")));
    }
    let url = store_url(&args.store)?;
    let mut options = StoreOptions::from(&Config::default());
    options.deadline = args.deadline.into();
    let store = AnyStore::open(&url, &options).map_err(Failure::usage)?;
    let mut target = StoreTarget::new(store);
    let bar = progress(cases.len() as u64);
    let run = conformance::run(&mut target, &cases, |_, failures| {
        if !args.json {
            bar.suspend(|| failures.iter().for_each(say));
        }
        bar.inc(1);
    });
    let report = match run.await {
        Ok(report) => report,
        Err(error) => return Err(store_failed(&url, &error)),
    };
    bar.finish_and_clear();
    target.forget().await.map_err(|error| store_failed(&url, &error))?;
    if args.json {
        say(serde_json::to_string(&report).map_err(Failure::usage)?);
    } else {
        say(&report);
    }
    Ok(if report.failed == 0 { Exit::Allowed } else { Exit::Denied })
}

fn store_failed(url: &StoreUrl, error: &StoreError) -> Failure {
    Failure::store(format_args!("store {url}: {}", without_charge(error)))
}

/// A store under injected time: every case in states of its own, which are deleted after it.
struct StoreTarget {
    store: AnyStore,
    /// What no other run is called.
    run: String,
    cases: u64,
    current: Option<Current>,
}

struct Current {
    limit: Arc<Limit>,
    handle: AnyHandle,
    keys: HashSet<Vec<u8>>,
    last: Timestamp,
}

impl StoreTarget {
    fn new(store: AnyStore) -> Self {
        let random = || RandomState::new().hash_one(std::process::id());
        let run = format!("conformance-{:016x}{:016x}", random(), random());
        Self { store, run, cases: 0, current: None }
    }

    fn prepare(&self, policies: Vec<Policy>) -> Result<(Arc<Limit>, AnyHandle), StoreError> {
        let invalid = |message: String| StoreError::new(StoreErrorKind::InvalidRequest, message);
        let name = "conformance"
            .parse()
            .map_err(|error: sluicegate::NameError| invalid(error.to_string()))?;
        let limit = Limit::new(name, policies).map_err(|error| invalid(error.to_string()))?;
        let limit = Arc::new(limit);
        let time = TimeSource::Injected { run: format!("{}-{}", self.run, self.cases) };
        let handle = self.store.open(Arc::clone(&limit), time);
        Ok((limit, handle))
    }

    /// Deletes what the case before left.
    async fn forget(&mut self) -> Result<(), StoreError> {
        let Some(current) = self.current.take() else {
            return Ok(());
        };
        for key in &current.keys {
            let request = Request {
                key,
                also: &[],
                operation: Operation::Reset,
                costs: Costs::Own,
                at: Some(current.last),
            };
            let _ = self.store.decide(&current.handle, request).await?;
        }
        Ok(())
    }
}

impl Target for StoreTarget {
    type Error = StoreError;

    async fn open(&mut self, policies: Vec<Policy>) -> Result<(), StoreError> {
        self.forget().await?;
        self.cases += 1;
        let (limit, handle) = self.prepare(policies)?;
        let keys = HashSet::new();
        self.current = Some(Current { limit, handle, keys, last: Timestamp::EPOCH });
        Ok(())
    }

    async fn set_policies(&mut self, policies: Vec<Policy>) -> Result<(), StoreError> {
        let (limit, handle) = self.prepare(policies)?;
        if let Some(current) = &mut self.current {
            (current.limit, current.handle) = (limit, handle);
        }
        Ok(())
    }

    async fn step(&mut self, step: &Step<'_>) -> Result<StepAnswer, StepError<StoreError>> {
        let refused = |message: String| StepError::Refused(message);
        let current =
            self.current.as_mut().ok_or_else(|| refused("no limit is open".to_owned()))?;
        let at = Timestamp::from_micros(step.at_us).map_err(|error| refused(error.to_string()))?;
        let cost = Cost::new(step.cost).map_err(|error| refused(error.to_string()))?;
        let within =
            Span::from_micros(step.timeout_us).map_err(|error| refused(error.to_string()))?;
        let operation = if within.is_zero() || !current.limit.can_reserve() {
            Operation::Check
        } else {
            Operation::Reserve { within }
        };
        if !current.keys.contains(step.key) {
            current.keys.insert(step.key.to_vec());
        }
        current.last = at;
        let request =
            Request { key: step.key, also: &[], operation, costs: Costs::Same(cost), at: Some(at) };
        match self.store.decide(&current.handle, request).await {
            Ok(decision) => Ok(StepAnswer::from(&decision)),
            Err(error) if error.is_store_failure() => Err(StepError::Store(error)),
            Err(error) => Err(refused(error.to_string())),
        }
    }
}

/// A progress bar on a terminal; nothing in a pipe.
fn progress(cases: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(cases);
    match ProgressStyle::with_template("{wide_bar} {pos} of {len} cases {eta:>4}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
