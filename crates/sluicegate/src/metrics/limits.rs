//! The counters of each limit.
//!
//! [`LimitCounters`] has one [`Series`] for each limit of the configuration, up to a number of label sets. So a
//! limit's label sets exist before its first request, and no request can add one.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::mem;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use sluicegate_core::{Enforcement, Limit, LimitName, Member, PolicyName};

use crate::observe::Configured;
use crate::on_store_failure::OnStoreFailure;

/// A counted outcome or event of a limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Count {
    Allowed,
    Denied,
    DeniedTogether,
    StoreFull,
    Bypassed,
    Blocked,
    FailedOpen,
    FailedClosed,
    LocalAllowed,
    LocalDenied,
    ShadowDenied,
    /// A decision together with other limits.
    Together,
    Ban,
}

impl Count {
    /// All outcomes of decisions, with their labels.
    const OUTCOMES: [(Self, &str); 11] = [
        (Self::Allowed, "allowed"),
        (Self::Denied, "denied"),
        (Self::DeniedTogether, "denied_together"),
        (Self::StoreFull, "store_full"),
        (Self::Bypassed, "bypassed"),
        (Self::Blocked, "blocked"),
        (Self::FailedOpen, "failed_open"),
        (Self::FailedClosed, "failed_closed"),
        (Self::LocalAllowed, "local_allowed"),
        (Self::LocalDenied, "local_denied"),
        (Self::ShadowDenied, "shadow_denied"),
    ];
    const NUMBER: usize = Self::Ban as usize + 1;
}

/// The counters of all limits. Clones share them.
#[derive(Clone)]
pub(super) struct LimitCounters {
    /// The maximum number of label sets, unless the configuration has another one.
    max_series: usize,
    /// Whether only limits of registries are counted by their own names.
    pub(super) only_of_registries: bool,
    /// Writing a page and changing many limits take long. Both work on an `Arc` of their own, so that requests can
    /// count in the meantime.
    known: Arc<RwLock<Arc<Known>>>,
    /// Held during a change of `known`.
    changes: Arc<Mutex<()>>,
}

/// The limits that are counted by their names.
#[derive(Clone)]
struct Known {
    entries: HashMap<LimitName, Entry>,
    /// The label sets of `entries` that are shown, and the maximum number of these.
    series: usize,
    max_series: usize,
    failures: Failures,
    /// Whether a limit is counted under `other` because there are too many label sets.
    is_full: bool,
    /// The counts under the name `other`.
    other: Series,
}

/// A limit that is counted by its name.
#[derive(Clone)]
struct Entry {
    series: Series,
    users: Users,
}

/// The users of a limit.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Users {
    /// A limiter outside of a registry.
    Code,
    /// This many registries. Without any, the latest change removed the limit: requests that were under way count, but
    /// nothing is shown.
    Registries(usize),
}

/// The counters of one limit. Clones share them.
#[derive(Clone)]
struct Series {
    name: LimitName,
    /// First the row without a policy, then one for each policy.
    rows: Vec<Arc<Row>>,
    has_bans: bool,
    failures: Failures,
}

/// The counters of a policy, or of the limit as a whole.
struct Row {
    policy: Option<(PolicyName, Enforcement)>,
    counts: [AtomicU64; Count::NUMBER],
}

/// The answers of limits when their store fails.
#[derive(Clone, Copy, Default)]
struct Failures {
    allow: bool,
    deny: bool,
    local: bool,
}

impl LimitCounters {
    /// The label of limits that aren't counted by their own names.
    const OTHER: &str = "other";

    pub(super) fn new(max_series: usize) -> Self {
        let known = Known {
            entries: HashMap::new(),
            series: 0,
            max_series,
            failures: Failures::default(),
            is_full: false,
            other: Series::other(),
        };
        Self {
            max_series,
            only_of_registries: false,
            known: Arc::new(RwLock::new(Arc::new(known))),
            changes: Arc::default(),
        }
    }

    /// Counts for the part of a limit at an index. `policy` is the policy that caused it.
    pub(super) fn count(
        &self,
        limit: &Limit,
        part: usize,
        count: Count,
        policy: Option<&PolicyName>,
    ) {
        let Some(name) = limit.parts().get(part) else { return };
        let known = self.read();
        if let Some(entry) = known.entries.get(name) {
            return entry.series.add(count, policy);
        }
        if known.is_full || self.only_of_registries {
            return known.other_series().add(count, None);
        }
        drop(known);
        self.add(name, limit, part);
        // Look again: by now the limit is known, or there are too many.
        let known = self.read();
        match known.entries.get(name) {
            Some(entry) => entry.series.add(count, policy),
            None => known.other_series().add(count, None),
        }
    }

    /// Counts decisions that a client made by itself.
    pub(super) fn count_reported(&self, limit: &Limit, allowed: u64, denied: u64) {
        let known = self.read();
        for name in limit.parts() {
            let series = known.entries.get(name).map(|entry| &entry.series);
            let series = series.unwrap_or_else(|| known.other_series());
            let policy = limit.members().first().map(Member::name);
            series.add_many(Count::Allowed, None, allowed);
            series.add_many(Count::Denied, policy, denied);
        }
    }

    /// Counts for a limit of the configuration.
    pub(super) fn count_named(&self, name: &LimitName, count: Count) {
        let known = self.read();
        let series = known.entries.get(name).map(|entry| &entry.series);
        series.unwrap_or_else(|| known.other_series()).add(count, None);
    }

    /// Adds a limit that no registry has, before its first answer.
    pub(super) fn add_parts(&self, limit: &Limit) {
        for (part, name) in limit.parts().iter().enumerate() {
            self.add(name, limit, part);
        }
    }

    /// Adds a limit that no registry has.
    #[cold]
    fn add(&self, name: &LimitName, limit: &Limit, part: usize) {
        let _alone = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut guard = self.write();
        if guard.entries.contains_key(name) {
            return;
        }
        let known = Arc::make_mut(&mut guard);
        let failures = Failures { allow: true, deny: true, local: true };
        let series = Series::new(name, limit, part, failures, None);
        let is_told = known.is_full;
        known.insert(series, Users::Code);
        let (is_full, max_series) = (known.is_full, known.max_series);
        // The log is written after the lock is free, because a subscriber may send a request.
        drop(guard);
        if is_full && !is_told {
            warn(max_series, 1);
        }
    }

    /// Returns whether a limit is counted under `other` because there are too many label sets.
    pub(super) fn is_full(&self) -> bool {
        self.read().is_full
    }

    /// Applies a registry's new configuration to the counters.
    pub(super) fn configure(&self, configured: &Configured<'_>) {
        let names = |configs: &[Arc<crate::config_file::LimitConfig>]| {
            configs.iter().map(|config| config.limit.name().clone()).collect::<Vec<_>>()
        };
        let alone = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let before = Arc::clone(&self.read());
        let mut known = Known::clone(&before);
        known.max_series = configured.metrics.max_series.map_or(self.max_series, NonZeroUsize::get);
        let removed_before: HashSet<LimitName> = known.removed().cloned().collect();
        for name in names(configured.before) {
            if let Some(Entry { users: Users::Registries(users), .. }) =
                known.entries.get_mut(&name)
            {
                *users = users.saturating_sub(1);
            }
        }
        for config in configured.limits {
            known.failures.note(config.on_store_failure);
            if let Some(entry) = known.entries.get_mut(config.limit.name()) {
                entry.users = match entry.users {
                    Users::Code => Users::Registries(1),
                    Users::Registries(users) => Users::Registries(users + 1),
                };
            }
        }
        let was_full = mem::take(&mut known.is_full);
        let entries = mem::take(&mut known.entries);
        known.series = 0;
        // Existing names are kept, because counters that are shown must not go back.
        let limits: HashMap<&LimitName, &Limit> =
            configured.limits.iter().map(|config| (config.limit.name(), &config.limit)).collect();
        let mut kept: Vec<Entry> = entries.into_values().collect();
        kept.sort_unstable_by(|one, other| one.series.name.cmp(&other.series.name));
        for Entry { series, users } in kept {
            if users == Users::Registries(0) && removed_before.contains(&series.name) {
                continue;
            }
            let next = match limits.get(&series.name) {
                Some(limit) => Series::new(&series.name, limit, 0, known.failures, Some(&series)),
                None => series,
            };
            known.insert(next, users);
        }
        for config in configured.limits {
            if known.is_full {
                // There may be 100,000 more.
                break;
            }
            let name = config.limit.name();
            if !known.entries.contains_key(name) {
                let series = Series::new(name, &config.limit, 0, known.failures, None);
                known.insert(series, Users::Registries(1));
            }
        }
        let unnamed = limits.keys().filter(|name| !known.entries.contains_key(**name)).count();
        let (is_full, max_series) = (known.is_full, known.max_series);
        *self.write() = Arc::new(known);
        drop(alone);
        if is_full && !was_full {
            warn(max_series, unnamed);
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Arc<Known>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Arc<Known>> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Adds a limit, if there are few enough label sets.
    fn insert(&mut self, mut series: Series, users: Users) {
        if series.name == self.other.name {
            // A limit may have this name too.
            series.rows[0] = Arc::clone(&self.other.rows[0]);
        }
        if users != Users::Registries(0) {
            let number = self.series.saturating_add(series.number());
            // Once a limit doesn't fit, no later one gets its own name, however few policies it has.
            if self.is_full || number > self.max_series {
                self.is_full = true;
                return;
            }
            self.series = number;
        }
        self.entries.insert(series.name.clone(), Entry { series, users });
    }

    /// Returns the limits that the latest change removed.
    fn removed(&self) -> impl Iterator<Item = &LimitName> {
        self.entries
            .iter()
            .filter(|(_, entry)| entry.users == Users::Registries(0))
            .map(|(name, _)| name)
    }

    fn other_series(&self) -> &Series {
        self.entries.get(&self.other.name).map_or(&self.other, |entry| &entry.series)
    }

    /// Returns the shown counters, by name.
    fn shown(&self) -> Vec<&Series> {
        let shown = self.entries.values().filter(|entry| entry.users != Users::Registries(0));
        let mut shown: Vec<&Series> = shown.map(|entry| &entry.series).collect();
        let has_other = shown.iter().any(|series| series.name == self.other.name);
        if !has_other && (self.is_full || self.other.is_used()) {
            shown.push(&self.other);
        }
        shown.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        shown
    }
}

impl Series {
    /// Makes the counters of the part of a limit. It continues the counters of `before`.
    fn new(
        name: &LimitName,
        limit: &Limit,
        part: usize,
        failures: Failures,
        before: Option<&Self>,
    ) -> Self {
        let members = limit.members().iter().filter(|member| member.part() == part);
        let policies =
            members.map(|member| Some((member.name().clone(), member.policy().enforcement())));
        let rows = std::iter::once(None).chain(policies).map(|policy| {
            let mut known = before.iter().flat_map(|before| &before.rows);
            let same = known.find(|row| row.policy == policy);
            same.map_or_else(|| Arc::new(Row::new(policy)), Arc::clone)
        });
        let has_bans = limit.ban(part).is_some();
        Self { name: name.clone(), rows: rows.collect(), has_bans, failures }
    }

    #[expect(clippy::expect_used, reason = "the name is a constant")]
    fn other() -> Self {
        let name = LimitCounters::OTHER.parse().expect("it is a name");
        let failures = Failures::default();
        Self { name, rows: vec![Arc::new(Row::new(None))], has_bans: false, failures }
    }

    /// Counts under a policy, or under none if the limit no longer has the policy.
    fn add(&self, count: Count, policy: Option<&PolicyName>) {
        self.add_many(count, policy, 1);
    }

    fn add_many(&self, count: Count, policy: Option<&PolicyName>, number: u64) {
        let of_policy = policy.and_then(|policy| {
            self.rows.iter().find(|row| row.policy.as_ref().is_some_and(|(name, _)| name == policy))
        });
        let row = of_policy.unwrap_or(&self.rows[0]);
        row.counts[count as usize].fetch_add(number, Ordering::Relaxed);
    }

    /// Returns whether a label set exists before anything is counted under it.
    fn has(&self, row: &Row, count: Count) -> bool {
        let enforcement = row.policy.as_ref().map(|(_, enforcement)| *enforcement);
        match (count, enforcement) {
            (
                Count::Allowed
                | Count::DeniedTogether
                | Count::StoreFull
                | Count::Bypassed
                | Count::Blocked
                | Count::Together,
                None,
            ) => true,
            (Count::Denied | Count::Ban, None) => self.has_bans,
            (Count::FailedOpen, None) => self.failures.allow,
            (Count::FailedClosed, None) => self.failures.deny,
            (Count::LocalAllowed, None) => self.failures.local,
            (Count::Denied, Some(Enforcement::Enforced)) => true,
            (Count::LocalDenied, Some(Enforcement::Enforced)) => self.failures.local,
            (Count::ShadowDenied, Some(Enforcement::Shadow)) => true,
            _ => false,
        }
    }

    /// Returns the number of label sets that exist from the start.
    fn number(&self) -> usize {
        let outcomes = Count::OUTCOMES.into_iter().map(|(count, _)| count);
        let all = outcomes.chain([Count::Together, Count::Ban]);
        let of_row = |row: &Row| all.clone().filter(|count| self.has(row, *count)).count();
        self.rows.iter().map(|row| of_row(row)).sum()
    }

    fn is_used(&self) -> bool {
        let counts = self.rows.iter().flat_map(|row| &row.counts);
        counts.into_iter().any(|count| count.load(Ordering::Relaxed) > 0)
    }

    /// Returns the count under a label set, if it is shown.
    fn shown(&self, row: &Row, count: Count) -> Option<u64> {
        let number = row.counts[count as usize].load(Ordering::Relaxed);
        (number > 0 || self.has(row, count)).then_some(number)
    }
}

impl Row {
    fn new(policy: Option<(PolicyName, Enforcement)>) -> Self {
        Self { policy, counts: Default::default() }
    }
}

impl Failures {
    const fn note(&mut self, answer: OnStoreFailure) {
        match answer {
            OnStoreFailure::Allow => self.allow = true,
            OnStoreFailure::Deny => self.deny = true,
            OnStoreFailure::Local => self.local = true,
            OnStoreFailure::Error => {}
        }
    }
}

/// Logs that this many limits have no series of their own.
fn warn(max_series: usize, limits: usize) {
    let limits = if limits == 1 { "1 limit".to_owned() } else { format!("{limits} limits") };
    tracing::warn!(
        "the metrics of limits have {max_series} series at most, so {limits} and further ones count together as \
         limit=\"{}\": set `metrics.max_series` to a larger number",
        LimitCounters::OTHER
    );
}

impl Collector for LimitCounters {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let known = Arc::clone(&self.read());
        let shown = known.shown();
        let help = "Checks by limit, binding policy (empty when none binds) and outcome.";
        let mut family = encoder.encode_descriptor("decisions", help, None, MetricType::Counter)?;
        for series in &shown {
            for row in &series.rows {
                let policy = row.policy.as_ref().map_or("", |(name, _)| name.as_str());
                for (count, outcome) in Count::OUTCOMES {
                    let Some(number) = series.shown(row, count) else { continue };
                    let labels =
                        [("limit", series.name.as_str()), ("policy", policy), ("outcome", outcome)];
                    ConstCounter::new(number).encode(family.encode_family(&labels)?)?;
                }
            }
        }
        for (name, help, count) in [
            (
                "decisions_together",
                "Checks that a limit decided together with other limits.",
                Count::Together,
            ),
            ("bans", "Bans that began, by the limit that bans.", Count::Ban),
        ] {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for series in &shown {
                let Some(number) = series.shown(&series.rows[0], count) else { continue };
                let labels = [("limit", series.name.as_str())];
                ConstCounter::new(number).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for LimitCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.read();
        f.debug_struct("LimitCounters")
            .field("max_series", &known.max_series)
            .field("series", &known.series)
            .finish_non_exhaustive()
    }
}
