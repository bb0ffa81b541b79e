//! Observes the service once a second, for the streams of operators.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use sluicegate::config::Reload;
use sluicegate::store::{Store as _, StoreStats};
use sluicegate::testing::{Clock as _, SystemClock};
use sluicegate::{Config, OnStoreFailure};
use sluicegate_core::for_stores::SettingChange;
use sluicegate_core::printable;
use tokio::time::{Instant, MissedTickBehavior};

use super::service::Service;
use super::used_capacity;
use crate::activity::{
    CertificateEnd, ChangedLimit, Counts, DenyingLimit, FEW_DENIALS, Gauges, LimitReload, MainKey,
    Observed, Problem, StoreFailure, problems,
};
use crate::decisions::shown;
use crate::fleet::{Entry, differing_for_ms};

/// Observes the service once a second. Never completes.
pub(crate) async fn observe(service: Arc<Service>) {
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut denying = Vec::new();
    let mut first_seen: HashMap<String, Instant> = HashMap::new();
    loop {
        ticks.tick().await;
        let (entries, stats) = (service.fleet.entries(), service.registry.store().stats());
        if service.activity.tick(gauges(&service, &entries, stats)) {
            denying = denying_limits(&service);
            let is_alone = entries.len() < 2;
            service.fleet.tell_used(if is_alone {
                Vec::new()
            } else {
                used_capacity::told(&service)
            });
        }
        let mut found = problems(&observed(&service, &entries, stats, &denying));
        first_seen.retain(|id, _| found.iter().any(|problem| problem.id == *id));
        for problem in &mut found {
            let since = first_seen.entry(problem.id.clone()).or_insert_with(Instant::now);
            problem.since_ms = problem.since_ms.or_else(|| Some(millis(since.elapsed())));
        }
        service.overview.set_problems(found);
        service.overview.seconds.send_modify(|second| *second += 1);
    }
}

/// Returns the milliseconds of a duration.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the problems that a caller may see, whose limits pass `is_shown`.
pub(super) fn shown_problems(
    service: &Service,
    sees_all: bool,
    is_shown: impl Fn(&str) -> bool,
) -> Vec<Problem> {
    let all = service.overview.problems();
    let own = all.iter().filter(|problem| problem.limit.as_deref().is_none_or(&is_shown)).cloned();
    // A detail may quote the file, which names other limits.
    own.map(|it| if sees_all { it } else { Problem { detail: None, ..it } }).collect()
}

fn gauges(service: &Service, entries: &[Entry], stats: StoreStats) -> Gauges {
    let StoreStats { keys, bytes, evicted_live, .. } = stats;
    let closed = service.listeners.iter().map(|listener| listener.connections.closed());
    Gauges {
        decisions: service.metrics.answers().decision_durations(),
        store_calls: service.metrics.answers().store_call_durations(),
        store_up: service.readiness.is_up(),
        breaker_open: is_breaker_open(service),
        keys,
        bytes,
        leased_units: crate::fleet::leased_units(&service.registry),
        processes: u64::try_from(entries.len()).unwrap_or(u64::MAX),
        evicted_live: evicted_live.unwrap_or(0),
        log_left_out: service.overview.log_left_out(),
        closed_connections: closed.flatten().sum(),
        overloaded: service.turns.refused(),
    }
}

fn observed(
    service: &Service,
    entries: &[Entry],
    stats: StoreStats,
    denying: &[DenyingLimit],
) -> Observed {
    let StoreStats { keys, max_keys, bytes, max_bytes, .. } = stats;
    let (store_us, [evicted, log_left_out, closed_connections, overloaded]) =
        service.activity.totals(|totals| (totals.store_us(), totals.grown()));
    let store = service.readiness.failure().map(|(error, down)| StoreFailure {
        error,
        down_ms: down.map(millis),
        answers: answers(service),
    });
    let reloads = service.watch.as_ref().map(|watch| (watch.last_error(), watch.reloads()));
    let refused = reloads.and_then(|(error, reloads)| {
        let age = reloads.first().map_or(0, |reload| millis(reload.age()));
        Some((Config::without_passwords(&error?.to_string()), age))
    });
    let now = i64::try_from(SystemClock::new().now().as_micros() / 1_000_000).unwrap_or(i64::MAX);
    let certificates = service.listeners.iter().filter_map(|listener| {
        let left = listener.certificate_expires()? - now;
        Some(CertificateEnd { listener: listener.kind.name(), left })
    });
    let deadline = store_us.and_then(|quantiles| {
        let limits = service.registry.limits();
        let shortest = limits.iter().map(|it| it.deadline.unwrap_or(Config::DEADLINE)).min()?;
        Some((quantiles.p99, u64::try_from(shortest.as_micros()).unwrap_or(u64::MAX)))
    });
    let mut configurations: BTreeMap<Option<&str>, Vec<String>> = BTreeMap::new();
    for entry in entries {
        configurations.entry(entry.config.as_deref()).or_default().push(entry.name.clone());
    }
    let refusers = entries.iter().filter(|entry| entry.refused.is_some());
    Observed {
        store,
        refused,
        keys: keys.zip(max_keys),
        bytes: bytes.zip(max_bytes),
        evicted,
        closed_connections,
        overloaded,
        waiting: (service.waiting.taken() as u64, service.waiting.most() as u64),
        are_top_keys_full: service.top_keys.is_full(),
        are_series_full: service.metrics.answers().is_full(),
        overrides: (service.registry.overrides().known() as u64, SettingChange::MOST as u64),
        certificates: certificates.collect(),
        configurations: configurations.into_values().collect(),
        differing_for_ms: differing_for_ms(entries),
        refusers: refusers.map(|entry| entry.name.clone()).collect(),
        log_left_out,
        denying: denying.to_vec(),
        store_p99_us: deadline,
        overrides_error: service.registry.overrides().last_error(),
    }
}

/// Returns whether a circuit breaker keeps calls from the store; `None` without a breaker.
pub(super) fn is_breaker_open(service: &Service) -> Option<bool> {
    let measures = service.registry.store().measures();
    let breakers = measures.iter().filter(|measure| measure.name() == "breaker_open");
    breakers.map(|measure| measure.value() > 0).max()
}

/// Returns the numbers of limits by their answers when the store fails.
fn answers(service: &Service) -> [usize; 4] {
    let mut answers = [0; 4];
    for config in service.registry.limits() {
        let [allow, deny, local, error] = &mut answers;
        *match config.on_store_failure {
            OnStoreFailure::Allow => allow,
            OnStoreFailure::Deny => deny,
            OnStoreFailure::Local => local,
            _ => error,
        } += 1;
    }
    answers
}

/// Returns the limits with the most denials in the last minute.
fn denying_limits(service: &Service) -> Vec<DenyingLimit> {
    /// Number of steps of a minute, and of the 10 min before.
    const MINUTE: usize = 6;
    const BEFORE: usize = 60;
    /// Maximum number of limits.
    const MOST: usize = 50;
    let mut limits: Vec<(String, Counts, Counts, Option<ChangedLimit>)> =
        service.activity.limits(|limits| {
            let read = limits.iter().map(|(name, limit)| {
                let (now, before) = limit.steps(|it| (it.sum(0, MINUTE), it.sum(MINUTE, BEFORE)));
                (name, now, before, limit)
            });
            let many = read.filter(|(_, now, ..)| now.denied >= FEW_DENIALS);
            many.map(|(name, now, before, limit)| (name.to_string(), now, before, limit.changed()))
                .collect()
        });
    limits
        .sort_unstable_by(|one, other| other.1.denied.cmp(&one.1.denied).then(one.0.cmp(&other.0)));
    limits.truncate(MOST);
    let watch = service.watch.as_ref().filter(|_| limits.iter().any(|(.., it)| it.is_some()));
    let reloads = watch.map(|watch| watch.reloads()).unwrap_or_default();
    let denying = limits.into_iter().map(|(limit, now, before, changed)| {
        let reload = changed.and_then(|changed| reload_of(&limit, changed, &reloads));
        let few = service.top_keys.few(&limit, 1);
        let main_key = few.by_denials.into_iter().next().and_then(|top| {
            let sure = top.count.saturating_sub(top.at_most_over);
            let key = top.key.or(top.key_bytes)?;
            Some(MainKey { key: printable(&shown(key.as_bytes())), denials: sure, of: few.denials })
        });
        let of = |counts: Counts| (counts.allowed + counts.denied, counts.denied);
        DenyingLimit { limit, now: of(now), before: of(before), main_key, reload }
    });
    denying.collect()
}

/// Returns the reload that made a change of a limit in the last hour. An override changes a limit without one.
fn reload_of(limit: &str, changed: ChangedLimit, reloads: &[Reload]) -> Option<LimitReload> {
    const LONGEST: Duration = Duration::from_secs(60 * 60);
    /// Maximum time between the change and its entry in the list of reloads.
    const APART: Duration = Duration::from_secs(2);
    let ChangedLimit { age, before, since } = changed;
    let mut applied = reloads.iter().filter_map(|it| Some((it.age(), it.outcome.as_ref().ok()?)));
    let (_, changes) = applied.find(|(reload, changes)| {
        changes.changed.iter().any(|name| name.as_str() == limit) && reload.abs_diff(age) < APART
    })?;
    let begins = format!("Limit `{limit}`");
    let own = changes.details.iter().filter(|change| change.starts_with(&begins)).cloned();
    let at = SystemClock::new().now().as_micros() / 1_000;
    let minute = at.saturating_sub(millis(age)) / 60_000;
    let time = format!("{:02}:{:02}", minute / 60 % 24, minute % 60);
    let found = LimitReload { time, changes: own.collect(), before, since };
    (age < LONGEST).then_some(found)
}
