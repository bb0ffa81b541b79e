//! The event `limits`: a window of the limits, with their rates and top keys.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::Serialize;
use sluicegate::config::LimitConfig;
use sluicegate::policy::{Enforcement, LimitName};

use super::super::service::Service;
use super::super::status::is_on;
use super::super::used_capacity::UsedCapacity;
use super::history::CountSeries;
use super::window::{Show, Sort, Window};
use crate::access::Caller;
use crate::activity::{Counts, LimitActivity, LimitView, Totals};
use crate::decisions::{FewKeys, TopKey};

/// Number of keys in a list.
const TOP: usize = 3;

#[derive(Serialize)]
pub(super) struct Limits {
    total: usize,
    matching: usize,
    offset: usize,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    name: String,
    enabled: bool,
    overridden: bool,
    policies: Vec<String>,
    shadow: bool,
    rates: Counts,
    sums: Counts,
    capacity_permille: Option<u64>,
    top_denied: Vec<TopKey>,
    top_used: Vec<TopKey>,
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<CountSeries>,
}

/// A limit that passes, with its numbers.
struct Found {
    config: Arc<LimitConfig>,
    view: LimitView,
    capacity: Option<u64>,
}

impl Limits {
    /// Returns the limits of a window that a caller may see. `known` has the rows that the reader knows: others get their
    /// history, and all do with `all_histories`.
    pub(super) fn of(
        service: &Service,
        caller: &Caller,
        window: &Window,
        known: &mut HashSet<String>,
        all_histories: bool,
    ) -> Self {
        let registry = &service.registry;
        let used = UsedCapacity::of(service.fleet.others());
        let configs = registry.limits();
        let own = configs.into_iter().filter(|it| caller.covers(it.limit.name().as_str()));
        let mut total = 0;
        let mut found: Vec<Found> = service.activity.limits(|busy| {
            let own = own.inspect(|_| total += 1);
            own.filter_map(|config| find(service, window, &used, config, busy)).collect()
        });
        let matching = found.len();
        let name = |found: &Found| found.config.limit.name().clone();
        match window.sort {
            Sort::Name => found.sort_by_cached_key(name),
            _ => {
                found.sort_by_cached_key(|found| (Reverse(found.weight(window.sort)), name(found)));
            }
        }
        if !window.search.is_empty() {
            // A link to a limit searches for its name, which may be a part of many other names.
            found.sort_by_cached_key(|it| {
                it.config.limit.name().as_str().to_lowercase() != window.search
            });
        }
        let steps = service.activity.totals(Totals::kept);
        let shown = found.into_iter().skip(window.offset).take(window.count);
        let rows: Vec<Row> = shown
            .map(|found| {
                let is_new = all_histories || !known.contains(found.config.limit.name().as_str());
                row(service, &used, found, is_new.then_some(steps))
            })
            .collect();
        known.clear();
        known.extend(rows.iter().map(|row| row.name.clone()));
        Self { total, matching, offset: window.offset, rows }
    }
}

/// Returns a limit with its numbers, if the window may show it.
fn find(
    service: &Service,
    window: &Window,
    used: &UsedCapacity,
    config: Arc<LimitConfig>,
    busy: &HashMap<LimitName, LimitActivity>,
) -> Option<Found> {
    let name = config.limit.name().as_str();
    if !window.search.is_empty() && !name.to_lowercase().contains(&window.search) {
        return None;
    }
    let view = busy.get(name).map(LimitActivity::view).unwrap_or_default();
    let passes = match window.show {
        Show::All => true,
        Show::Busy => !view.sums.is_zero(),
        Show::Denied => view.sums.denied > 0,
        Show::Shadow => is_shadow(&config),
        Show::Overridden => is_overridden(service, name),
        Show::Off => !is_on(&service.registry, name),
    };
    if !passes {
        return None;
    }
    let needs_capacity = window.sort == Sort::Capacity;
    let capacity =
        needs_capacity.then(|| used.permille(&config, &service.top_keys.few(name, 1))).flatten();
    Some(Found { config, view, capacity })
}

impl Found {
    /// Returns the numbers by which limits are sorted.
    fn weight(&self, sort: Sort) -> (u64, u64) {
        let LimitView { rates, sums } = self.view;
        match sort {
            Sort::Denied => (sums.denied, sums.allowed),
            Sort::Rate => (rates.allowed + rates.denied, sums.allowed + sums.denied),
            Sort::Shadow => (sums.shadow_denied, sums.denied),
            Sort::Capacity => (self.capacity.unwrap_or(0), sums.denied),
            Sort::Name => (0, 0),
        }
    }
}

fn row(service: &Service, used: &UsedCapacity, found: Found, history: Option<usize>) -> Row {
    let Found { config, view, .. } = found;
    let name = config.limit.name().as_str();
    let few = match view.sums.is_zero() {
        true => FewKeys::default(),
        false => service.top_keys.few(name, TOP),
    };
    let history = history.map(|count| {
        service.activity.limits(|limits| match limits.get(name) {
            Some(limit) => limit.steps(|steps| steps.last(count).collect()),
            None => std::iter::repeat_n(Counts::default(), count).collect(),
        })
    });
    let members = config.limit.members().iter();
    Row {
        name: name.to_owned(),
        enabled: is_on(&service.registry, name),
        overridden: is_overridden(service, name),
        policies: members.map(|member| member.policy().to_string()).collect(),
        shadow: is_shadow(&config),
        rates: view.rates,
        sums: view.sums,
        capacity_permille: used.permille(&config, &few),
        top_denied: few.by_denials,
        top_used: few.by_use,
        history,
    }
}

/// Returns `true` if the limit or one of its keys has an override at run time.
fn is_overridden(service: &Service, name: &str) -> bool {
    let overrides = service.registry.overrides();
    overrides.is_of_whole(name) || overrides.count(name) > 0
}

fn is_shadow(config: &LimitConfig) -> bool {
    let mut members = config.limit.members().iter();
    members.any(|member| member.policy().enforcement() == Enforcement::Shadow)
}
