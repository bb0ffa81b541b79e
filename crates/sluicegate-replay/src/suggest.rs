//! Suggests limits from a log: the usage of keys, and the smallest numbers that meet a goal.
//!
//! All results are exact. A suggested limit was played, so its denials are those of a replay. The
//! next smaller number was played too, and denies more than the goal allows.

use std::collections::BTreeMap;

use serde::Serialize;
use sluicegate_core::{Algorithm, Costs, Decision, Error, Policy, Rate, Span, Store, Window};

use crate::decide::{at_once, decide, fresh_run, on_every_core};
use crate::goal::{Counted, Goal};
use crate::keys;
use crate::listed::used_of_widest;
use crate::need::{widest, with_number};
use crate::plan::alone;
use crate::recording::Recording;
use crate::requests::Arrival;

/// The limits that a log suggests, and the usage of its keys.
#[derive(Debug, Serialize)]
pub struct Suggestions {
    /// The goal, as text.
    pub(crate) deny_at_most: String,
    pub(crate) used: Vec<Used>,
    pub(crate) limits: Vec<Suggestion>,
}

/// The units that one key takes within one clock second, minute or hour in which it makes a request.
#[derive(Debug, Serialize)]
pub(crate) struct Used {
    /// Length of the window.
    pub(crate) per: &'static str,
    /// Number of windows of all keys.
    pub(crate) windows: u64,
    pub(crate) p50: u64,
    pub(crate) p95: u64,
    pub(crate) p99: u64,
    pub(crate) max: u64,
}

/// A limit with the smallest number that denies no more than the goal allows.
#[derive(Debug, Serialize)]
pub struct Suggestion {
    pub(crate) spec: String,
    /// Units that a fresh key can take: the limit of a window, the burst of a bucket.
    pub(crate) number: u64,
    pub(crate) denied: u64,
    pub(crate) keys_denied: u64,
    /// Key with the most denials.
    pub(crate) denied_most: Option<String>,
}

impl Suggestion {
    /// Returns the spec of the policy.
    #[must_use]
    pub fn spec(&self) -> &str {
        &self.spec
    }

    /// Returns the number of denied requests in the log.
    #[must_use]
    pub const fn denied(&self) -> u64 {
        self.denied
    }

    /// Returns the number of keys with a denied request.
    #[must_use]
    pub const fn keys_denied(&self) -> u64 {
        self.keys_denied
    }
}

impl Suggestions {
    /// Returns the suggested limits.
    #[must_use]
    pub fn limits(&self) -> &[Suggestion] {
        &self.limits
    }
}

/// The windows, with their names.
const PERIODS: [(&str, Span); 3] =
    [("second", Span::SECOND), ("minute", Span::MINUTE), ("hour", Span::HOUR)];

impl Goal {
    /// Number of calls of `progress` by [`Goal::search`].
    pub const STEPS: u64 = 2 * PERIODS.len() as u64;

    /// Searches for the smallest limits that deny at most this share of a recording. The search
    /// plays the recording in a store that answers immediately. Calls `progress` after each search.
    ///
    /// # Errors
    /// Returns an error if the store fails, or doesn't answer immediately.
    pub fn search<S: Store>(
        self,
        store: &S,
        recording: &Recording,
        progress: impl Fn(),
    ) -> Result<Suggestions, Error> {
        let search = Search { goal: self, store, recording };
        let used = PERIODS.iter().map(|&(per, span)| Used::of(recording, per, span));
        let used: Vec<_> = used.collect::<Result<Option<_>, Error>>()?.unwrap_or_default();
        let mut limits = Vec::new();
        for (_, span) in PERIODS.iter().zip(&used).map(|(period, _)| period) {
            let window = Policy::fixed_window(1, Window::Aligned((*span).into())).ok();
            limits.extend(window.map(|policy| search.smallest(&policy)).transpose()?.flatten());
            progress();
        }
        for ((_, span), used) in PERIODS.iter().zip(&used) {
            // Use the exact rate, unless a bucket with that rate can't hold the units that a key
            // needs.
            for digits in [u32::MAX, 3, 2, 1] {
                let rate = Rate::new(rounded_up(used.p99, digits), (*span).into()).ok();
                let policy = rate.and_then(|rate| Policy::token_bucket(rate, 1).ok());
                let found = policy.map(|policy| search.smallest(&policy)).transpose()?.flatten();
                if let Some(found) = found {
                    limits.push(found);
                    break;
                }
            }
            progress();
        }
        Ok(Suggestions { deny_at_most: self.to_string(), used, limits })
    }
}

/// Rounds a number up to at most `digits` significant digits.
fn rounded_up(number: u64, digits: u32) -> u64 {
    let beyond = (number.checked_ilog10().unwrap_or(0) + 1).saturating_sub(digits);
    let unit = 10_u64.pow(beyond);
    number.div_ceil(unit).saturating_mul(unit)
}

impl Used {
    /// Returns the nearest-rank percentiles of the units per key and window; `None` if there are no
    /// requests.
    fn of(recording: &Recording, per: &'static str, span: Span) -> Result<Option<Self>, Error> {
        // Number of windows by units. There are few different sums, because they add up to the
        // units of the log.
        let mut windows: BTreeMap<u64, u64> = BTreeMap::new();
        for part in recording.parts() {
            for requests in part?.by_key() {
                let mut current: Option<(u64, u64)> = None;
                for Arrival { at, costs, .. } in requests.iter() {
                    let window = at.as_micros() / span.as_micros();
                    let units = if let Costs::Same(cost) = costs { cost.get() } else { 1 };
                    match &mut current {
                        Some((open, sum)) if *open == window => *sum = sum.saturating_add(units),
                        _ => {
                            if let Some((_, sum)) = current.replace((window, units)) {
                                *windows.entry(sum).or_default() += 1;
                            }
                        }
                    }
                }
                if let Some((_, sum)) = current {
                    *windows.entry(sum).or_default() += 1;
                }
            }
        }
        let count = windows.values().sum::<u64>();
        let percentile = |percent: u64| {
            let rank = (u128::from(count) * u128::from(percent)).div_ceil(100);
            let mut passed = 0;
            let reaches = |(_, number): &(&u64, &u64)| {
                passed += u128::from(**number);
                passed >= rank
            };
            windows.iter().find(reaches).map(|(sum, _)| *sum)
        };
        let max = windows.last_key_value().map(|(&max, _)| max);
        let used =
            |[p50, p95, p99, max]: [u64; 4]| Self { per, windows: count, p50, p95, p99, max };
        let numbers = [percentile(50), percentile(95), percentile(99), max];
        Ok(match numbers {
            [Some(p50), Some(p95), Some(p99), Some(max)] => Some(used([p50, p95, p99, max])),
            _ => None,
        })
    }
}

struct Search<'r, S> {
    goal: Goal,
    store: &'r S,
    recording: &'r Recording,
}

/// The denials under a number.
#[derive(Clone, Copy, Default)]
struct Denied {
    requests: u64,
    keys: u64,
    /// Key with the most denials, and their number; the first one if several have as many.
    most: Option<(u64, u32)>,
}

impl<S: Store> Search<'_, S> {
    /// Returns the policy with the smallest number that meets the goal; `None` if no number does.
    fn smallest(&self, policy: &Policy) -> Result<Option<Suggestion>, Error> {
        let Some(needs) = self.needs(policy)? else { return Ok(None) };
        let number = match self.goal.of {
            Counted::Keys => {
                // In descending order, only keys before a number can need more.
                let mut sorted = needs.clone();
                sorted.sort_unstable_by(|a, b| b.cmp(a));
                let most = usize::try_from(self.goal.of(needs.len() as u64)).ok();
                most.and_then(|most| sorted.get(most)).map_or(1, |number| (*number).max(1))
            }
            Counted::Requests => {
                let most = self.goal.of(self.recording.requests());
                let largest = needs.iter().copied().max().unwrap_or(1);
                let (mut low, mut high) = (1, largest.max(1));
                while low < high {
                    let number = low + (high - low) / 2;
                    if self.denied(policy, number, &needs)?.requests <= most {
                        high = number;
                    } else {
                        low = number + 1;
                    }
                }
                high
            }
        };
        let denied = self.denied(policy, number, &needs)?;
        let recording = self.recording;
        Ok(with_this(policy, number).map(|policy| Suggestion {
            spec: written(&policy),
            number,
            denied: denied.requests,
            keys_denied: denied.keys,
            denied_most: denied
                .most
                .map(|(_, key)| keys::text(recording.keys.get(key), recording.key().is_some())),
        }))
    }

    /// Returns, by key, the smallest number that denies none of its requests; `None` if a key needs
    /// more than the policy's maximum.
    fn needs(&self, policy: &Policy) -> Result<Option<Vec<u64>>, Error> {
        let Some(widest) = widest(policy).pop() else { return Ok(None) };
        let opened = self.store.open(alone(1, widest), fresh_run());
        let mut needs = vec![0; self.recording.keys.len()];
        for part in self.recording.parts() {
            let part = part?;
            let keys: Vec<_> = part.by_key().collect();
            let found = on_every_core(&keys, Vec::new, |found, requests| {
                let key = self.recording.keys.get(requests.key);
                found.push((requests.key, at_once(used_of_widest(&opened, key, *requests))?));
                Ok(())
            })?;
            for (key, number) in found.into_iter().flatten() {
                let Some(number) = number else { return Ok(None) };
                needs[key as usize] = number;
            }
        }
        Ok(Some(needs))
    }

    /// Returns the denials under a number: only keys that need more have any.
    fn denied(&self, policy: &Policy, number: u64, needs: &[u64]) -> Result<Denied, Error> {
        let mut whole = Denied::default();
        let Some(policy) = with_this(policy, number) else { return Ok(whole) };
        let opened = self.store.open(alone(1, policy), fresh_run());
        for part in self.recording.parts() {
            let part = part?;
            let more = part.by_key().filter(|requests| needs[requests.key as usize] > number);
            let more: Vec<_> = more.collect();
            let denied = on_every_core(&more, Denied::default, |denied, requests| {
                let key = self.recording.keys.get(requests.key);
                let mut of_key = 0;
                at_once(decide(&opened, key, *requests, |answer, _| {
                    of_key += u64::from(answer.is_ok_and(Decision::is_denied));
                }))?;
                denied.add(Denied {
                    requests: of_key,
                    keys: u64::from(of_key > 0),
                    most: (of_key > 0).then_some((of_key, requests.key)),
                });
                Ok(())
            })?;
            denied.into_iter().for_each(|denied| whole.add(denied));
        }
        Ok(whole)
    }
}

impl Denied {
    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.keys += other.keys;
        let both = self.most.into_iter().chain(other.most);
        self.most = both.max_by_key(|&(denied, key)| (denied, u32::MAX - key));
    }
}

/// Formats the spec with its burst, which a policy omits if it is the default.
fn written(policy: &Policy) -> String {
    match policy.algorithm() {
        Algorithm::TokenBucket { rate, burst } => format!("token_bucket {rate} burst {burst}"),
        _ => policy.to_string(),
    }
}

fn with_this(policy: &Policy, number: u64) -> Option<Policy> {
    policy.with_algorithm(with_number(policy.algorithm(), number)?).ok()
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use proptest::prelude::*;
    use sluicegate::MemoryStore;

    use super::*;
    use crate::plan::Plan;
    use crate::reader::LogReader;

    fn recording(requests: &[(u64, u8, u64)]) -> Recording {
        let mut log = String::new();
        for (time, key, cost) in requests {
            let _ = writeln!(log, "{{\"time\":{time},\"key\":\"{key}\",\"cost\":{cost}}}");
        }
        LogReader::new("log").read(log.as_bytes()).unwrap()
    }

    fn played(recording: &Recording, spec: &str) -> (u64, u64) {
        let plan = Plan::side_by_side([spec.parse().unwrap()]);
        let report = plan.play_now(&MemoryStore::new(), recording, &|_| ()).unwrap();
        let subject = report.subjects().next().unwrap();
        (subject.denied(), subject.keys_denied())
    }

    /// Returns the spec with the searched number reduced by 1; `None` at 1.
    fn smaller(spec: &str) -> Option<String> {
        let policy: Policy = spec.parse().unwrap();
        let number = widest(&policy).len();
        assert_eq!(number, 1);
        let current = (1..).find(|&number| with_this(&policy, number).as_ref() == Some(&policy))?;
        Some(written(&with_this(&policy, current.checked_sub(1).filter(|&less| less > 0)?)?))
    }

    #[test]
    fn percentiles_are_those_of_clock_windows_with_requests() {
        // Key 0 takes 1 in each of 98 minutes; key 1 takes 5 in one minute and 9 in another.
        let mut requests: Vec<_> = (0..98).map(|minute| (minute * 60, 0, 1)).collect();
        requests.extend([(59, 1, 5), (60, 1, 4), (119, 1, 5)]);
        let used = Used::of(&recording(&requests), "minute", Span::MINUTE).unwrap().unwrap();
        assert_eq!((used.windows, used.p50, used.p95, used.p99, used.max), (100, 1, 1, 5, 9));
    }

    #[test]
    fn a_rate_is_rounded_up() {
        for (number, digits, rounded) in
            [(1_234, u32::MAX, 1_234), (1_234, 3, 1_240), (999, 2, 1_000), (7, 1, 7), (0, 1, 0)]
        {
            assert_eq!(rounded_up(number, digits), rounded);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_suggested_limit_denies_no_more_than_it_says(
            requests in prop::collection::vec((0_u64..9_000, 0_u8..6, 1_u64..4), 1..120),
            percent in prop_oneof![Just(0_u64), 1_u64..30, Just(99)],
            of_keys in any::<bool>(),
        ) {
            let recording = recording(&requests);
            let of = if of_keys { "keys" } else { "requests" };
            let goal: Goal = format!("{percent}% of {of}").parse().unwrap();
            let found = goal.search(&MemoryStore::new(), &recording, || ()).unwrap();
            prop_assert_eq!(found.limits().len(), 6);
            for limit in found.limits() {
                let denials = played(&recording, limit.spec());
                prop_assert_eq!(denials, (limit.denied(), limit.keys_denied()), "{}", limit.spec());
                let share = |(denied, keys): (u64, u64)| if of_keys {
                    (keys, recording.keys.len() as u64)
                } else {
                    (denied, recording.requests())
                };
                let (denied, all) = share(denials);
                prop_assert!(denied * 100 <= percent * all, "{}: {denied} of {all}", limit.spec());
                if let Some(less) = smaller(limit.spec()) {
                    let (denied, all) = share(played(&recording, &less));
                    prop_assert!(denied * 100 > percent * all, "{less} is enough, too");
                }
            }
        }
    }
}
