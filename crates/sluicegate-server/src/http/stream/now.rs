//! The event `now`: the state of the service.

use std::collections::HashSet;

use serde::Serialize;
use sluicegate::store::{Store as _, StoreStats};

use super::super::observing::{is_breaker_open, millis, shown_problems};
use super::super::service::Service;
use crate::access::Caller;
use crate::activity::{Counts, LimitActivity, Problem, Quantiles};
use crate::fleet::{Entry, config_digest, differing_for_ms, leased_units};

#[derive(Serialize)]
pub(super) struct Now {
    name: String,
    version: &'static str,
    uptime_ms: u64,
    rates: Rates,
    decision_us: Option<Quantiles>,
    store_us: Option<Quantiles>,
    store: StoreNow,
    breaker: Option<&'static str>,
    leased_units: u64,
    waiting: usize,
    streams: usize,
    config: ConfigNow,
    fleet: FleetNow,
    overrides: usize,
    problems: Vec<Problem>,
}

#[derive(Serialize)]
struct Rates {
    #[serde(flatten)]
    counts: Counts,
    errors: u64,
}

#[derive(Serialize)]
struct StoreNow {
    kind: &'static str,
    state: &'static str,
    error: Option<String>,
    down_ms: Option<u64>,
    keys: Option<u64>,
    max_keys: Option<u64>,
    bytes: Option<u64>,
    max_bytes: Option<u64>,
    evicted_live: Option<u64>,
    durable: bool,
}

#[derive(Serialize)]
struct ConfigNow {
    file: Option<String>,
    generation: u64,
    stale: bool,
    digest: Option<String>,
}

#[derive(Serialize)]
struct FleetNow {
    processes: usize,
    configurations: usize,
    differing_for_ms: Option<u64>,
}

impl Now {
    /// Returns the state of the service, as far as a caller may see it.
    pub(super) fn of(service: &Service, caller: &Caller) -> Self {
        let registry = &service.registry;
        let store = registry.store();
        let StoreStats { keys, max_keys, bytes, max_bytes, evicted_live, .. } = store.stats();
        let failure = service.readiness.failure();
        let state = match (&failure, service.readiness.is_up()) {
            (Some(_), _) => "down",
            (None, Some(_)) => "up",
            (None, None) => "unknown",
        };
        let (error, down) = failure.map_or((None, None), |(error, down)| (Some(error), down));
        let (mut counts, mut errors, decision_us, store_us) = service.activity.totals(|totals| {
            (totals.rates, totals.errors, totals.decision_us(), totals.store_us())
        });
        if !caller.covers_all() {
            errors = 0;
            counts = service.activity.limits(|limits| {
                let own = limits.iter().filter(|(name, _)| caller.covers(name.as_str()));
                let rates = own.map(|(_, limit)| LimitActivity::rates(limit));
                rates.fold(Counts::default(), Counts::plus)
            });
        }
        let breaker =
            is_breaker_open(service).map(|is_open| if is_open { "open" } else { "closed" });
        let entries = service.fleet.entries();
        let own = entries.iter().find(|entry| entry.id == service.fleet.id());
        let configurations: HashSet<_> = entries.iter().map(|entry| &entry.config).collect();
        let watch = service.watch.as_ref();
        Self {
            name: own.map(|own: &Entry| own.name.clone()).unwrap_or_default(),
            version: env!("CARGO_PKG_VERSION"),
            uptime_ms: millis(service.overview.started.elapsed()),
            rates: Rates { counts, errors },
            decision_us,
            store_us,
            store: StoreNow {
                kind: service.overview.store_kind(),
                state,
                error,
                down_ms: down.map(millis),
                keys,
                max_keys,
                bytes,
                max_bytes,
                evicted_live,
                durable: registry.overrides().outlast_the_process().unwrap_or(false),
            },
            breaker,
            leased_units: leased_units(registry),
            waiting: service.waiting.taken(),
            streams: service.overview.streams(),
            config: ConfigNow {
                file: watch.map(|watch| watch.path().display().to_string()),
                generation: registry.generation(),
                stale: service.is_stale(),
                digest: config_digest(registry),
            },
            fleet: FleetNow {
                processes: entries.len(),
                configurations: configurations.len(),
                differing_for_ms: differing_for_ms(&entries),
            },
            overrides: registry.overrides().known(),
            problems: shown_problems(service, caller.covers_all(), |limit| caller.covers(limit)),
        }
    }
}
