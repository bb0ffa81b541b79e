//! `config check`.

use std::time::Duration;

use sluicegate::config::LimitConfig;
use sluicegate::store::{
    Acknowledgement, OpenOptions, OpenedLimit as _, Operation, Request, SharedStore, Store as _,
    StoreOptions,
};
use sluicegate::{Config, Error, Limit, Limiter, Usage};

use crate::cli::{ConfigArgs, ConfigCommand};
use crate::output::{Exit, Failure, complain, counted, say};

/// Deadline of each call to the store, connecting included.
const PATIENCE: Duration = Duration::from_secs(5);

/// Key that the store decides about.
const SUBJECT: &[u8] = b"sluicegate-config-check";

/// Checks a file, and its store if requested.
///
/// # Errors
/// Returns an error that lists every problem of the file, or that describes the problem of the
/// store.
pub(crate) async fn config(args: &ConfigArgs) -> Result<Exit, Failure> {
    let ConfigCommand::Check { file, connect, caps } = &args.command;
    let config = caps.load(file)?;
    for warning in config.warnings() {
        complain(format_args!("warning: {warning}"));
    }
    let limits = counted(config.limits.len() as u64, "limit");
    let warnings = match config.warnings().len() {
        0 => String::new(),
        count => format!(", {}", counted(count as u64, "warning")),
    };
    say(format_args!("{}: {limits}, no errors{warnings}", file.display()));
    for limit in named_by_envoy(&config) {
        let name = limit.name();
        if limit.can_pace() {
            say(format_args!("limit {name}: Envoy's quota filter (RLQS) can share it"));
        } else {
            say(format_args!(
                "limit {name}: Envoy's quota filter (RLQS) can't share it, only its rate limit filter can use it"
            ));
        }
    }
    if *connect {
        for remark in decide(&config).await? {
            say(format_args!("note: store {}: {remark}", config.store));
        }
        say(format_args!("store {}: decides", config.store));
    }
    Ok(Exit::Allowed)
}

/// Returns the limits that are assigned to descriptors and buckets of Envoy, in the order of the configuration.
fn named_by_envoy(config: &Config) -> impl Iterator<Item = &Limit> {
    let is_named = |limit: &&Limit| {
        let mut lines = config.envoy.domains.values().flat_map(|domain| &domain.descriptors);
        lines.any(|line| line.limit() == limit.name())
    };
    config.limits.iter().map(|config| &config.limit).filter(is_named)
}

/// Makes every limit decide in the store and deletes the resulting state. Returns what could not be
/// checked.
async fn decide(config: &Config) -> Result<Vec<String>, Failure> {
    let mut options = StoreOptions::from(config);
    options.deadline = PATIENCE;
    let failure = |error: Error| Failure::of_store(&config.store, &error);
    let store = config.store.open(&options).map_err(Failure::usage)?;
    let limits: Vec<_> = config.limits.iter().map(|config| opened_as(config)).collect();
    let unknown = store.rehearse(limits.clone()).await.map_err(|error| failure(error.into()))?;
    for (limit, options) in limits {
        if limit.has_permits() {
            hold(&store, &limit, options.acknowledged).await.map_err(failure)?;
            continue;
        }
        let opened = store.open(limit, options);
        // Run every operation that reads or writes, because a store user may lack the right to some
        // of them. The second check reads what the first one wrote.
        for operation in [
            Operation::Check,
            Operation::Check,
            Operation::Peek,
            Operation::Take,
            Operation::Refund,
            Operation::Reset,
        ] {
            let asked = opened.ask(Request::new(operation, SUBJECT)).wait().await;
            let _ = asked.map_err(failure)?;
        }
    }
    Ok(unknown)
}

/// Returns a limit, with the options that affect the rights it needs in the store.
fn opened_as(config: &LimitConfig) -> (Limit, OpenOptions) {
    let mut options = OpenOptions::default();
    options.acknowledged = config.replicas;
    (config.limit.clone(), options)
}

/// Holds units of a limit and settles them, with every call that needs a right of its own.
async fn hold(
    store: &SharedStore,
    limit: &Limit,
    replicas: Option<Acknowledgement>,
) -> Result<(), Error> {
    let limiter = Limiter::builder(store.clone(), limit.clone());
    let limiter = match replicas {
        Some(replicas) => limiter.acknowledged(replicas).build(),
        None => limiter.build(),
    };
    let second = Duration::from_secs(1);
    let lasts = limit.longest_hold().map_or(second, |longest| longest.min(second));
    let grant = limiter.check(SUBJECT).hold(lasts).await?;
    if let Some(token) = grant.token() {
        let _ = limiter.renew(token, lasts).await?;
        let _ = limiter.settle(token, Usage::as_charged()).await?;
    }
    let _ = limiter.reset(SUBJECT).await?;
    Ok(())
}
