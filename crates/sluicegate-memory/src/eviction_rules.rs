//! The rules of a table's handles, which decide when a state may be evicted.

use std::collections::HashMap;

use sluicegate_core::kernel::{NEVER, Now};

use crate::cell::Cell;
use crate::scales::Scales;

/// The rules of a table. A state may only be removed if it equals a fresh key's under all of them.
///
/// There may be thousands of rules, such as one for each customer's numbers, and a thread that adds
/// a key evaluates some states. So only the few rules that keep states longest are evaluated.
pub(crate) struct EvictionRules<C: Cell> {
    /// Each rule with its number of handles.
    all: HashMap<C::Rule, usize>,
    /// The rules that keep states longest: a state that is fresh to these is fresh to all.
    decisive: Vec<C::Rule>,
    /// Number of `decisive` rules that no handle has any longer.
    gone: usize,
}

impl<C: Cell> Default for EvictionRules<C> {
    fn default() -> Self {
        Self { all: HashMap::new(), decisive: Vec::new(), gone: 0 }
    }
}

impl<C: Cell> EvictionRules<C> {
    /// Number of rules for each departed rule that may stay decisive.
    const KEPT_FOR: usize = 64;

    /// Registers a handle with `rule`.
    pub(crate) fn join(&mut self, rule: &C::Rule) {
        if let Some(handles) = self.all.get_mut(rule) {
            *handles += 1;
            return;
        }
        if self.all.is_empty() {
            // The last rule was only kept as a placeholder for later handles.
            *self = Self::default();
        }
        self.all.insert(rule.clone(), 1);
        let decisive = decisive::<C>(&self.decisive.iter().chain([rule]));
        self.decisive = decisive;
    }

    /// Unregisters a handle with `rule`. The last rule of a table is kept.
    pub(crate) fn leave(&mut self, rule: &C::Rule) {
        let Some(handles) = self.all.get_mut(rule) else { return };
        *handles -= 1;
        if *handles > 0 {
            return;
        }
        self.all.remove(rule);
        self.gone += usize::from(self.decisive.contains(rule));
        // Comparing all rules after each departure would take too long if thousands leave. A
        // departed rule keeps states longer than necessary, which is safe.
        if !self.all.is_empty() && self.gone > self.all.len() / Self::KEPT_FOR {
            self.decisive = decisive::<C>(&self.all.keys());
            self.gone = 0;
        }
    }

    /// Returns the µs from now until a state may be dropped.
    pub(crate) fn expires_in(&self, cell: &C, scales: &Scales, now: Now) -> u64 {
        let by_each = self.decisive.iter().map(|rule| cell.expires_in(rule, scales, now));
        by_each.max().unwrap_or(NEVER)
    }

    /// Returns the worth of a state to the rule that loses most with it.
    pub(crate) fn worth(&self, cell: &C, scales: &Scales, now: Now) -> Worth {
        let expires_in = self.expires_in(cell, scales, now);
        if expires_in == 0 {
            return Worth { used: 0, expires_in };
        }
        let by_each = self.decisive.iter().map(|rule| cell.used(rule, scales, now));
        Worth { used: by_each.max().unwrap_or(NEVER), expires_in }
    }
}

/// The order of eviction: the state of lesser worth goes first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Worth {
    /// Units that are forgotten with the state; 0 if it equals a fresh key's.
    pub(crate) used: u64,
    /// µs until the state equals a fresh key's.
    pub(crate) expires_in: u64,
}

impl Worth {
    /// Returns whether the state may be removed without a loss.
    pub(crate) const fn is_fresh(self) -> bool {
        self.expires_in == 0
    }
}

/// Returns the rules that together keep every state as long as all `rules` do.
fn decisive<'r, C: Cell>(rules: &(impl Iterator<Item = &'r C::Rule> + Clone)) -> Vec<C::Rule> {
    let mut decisive: Vec<&C::Rule> = Vec::new();
    for outlasts in C::OUTLASTS {
        let mut longest: Vec<&C::Rule> = Vec::new();
        // Decisive rules come first, so an equal rule doesn't replace them.
        for rule in decisive.iter().copied().chain(rules.clone()) {
            if !longest.iter().any(|other| outlasts(other, rule)) {
                longest.retain(|other| !outlasts(rule, other));
                longest.push(rule);
            }
        }
        for rule in longest {
            if !decisive.contains(&rule) {
                decisive.push(rule);
            }
        }
    }
    decisive.into_iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sluicegate_core::kernel::{Rule, bucket, warm_up, window};
    use sluicegate_core::{MAX_EXACT, Policy};

    use super::*;
    use crate::cell::{BucketCell, LogCell, PlainCell};
    use crate::scales::Tag;

    fn rule(spec: &str) -> Rule {
        spec.parse::<Policy>().unwrap().rule().clone()
    }

    fn bucket(spec: &str) -> bucket::Bucket {
        if let Rule::Bucket(rule) = rule(spec) { rule } else { panic!("{spec} is no bucket") }
    }

    fn warm_up(spec: &str) -> warm_up::WarmUp {
        if let Rule::WarmUp(rule) = rule(spec) { rule } else { panic!("{spec} is no warm-up") }
    }

    /// Registers and unregisters rules, and returns the remaining ones.
    fn attend<C: Cell>(
        judges: &mut EvictionRules<C>,
        rules: &[C::Rule],
        leave: &[bool],
    ) -> Vec<C::Rule> {
        rules.iter().for_each(|rule| judges.join(rule));
        let mut left = Vec::new();
        for (rule, leaves) in rules.iter().zip(leave) {
            if *leaves { judges.leave(rule) } else { left.push(rule.clone()) }
        }
        left
    }

    fn rates() -> impl Strategy<Value = String> {
        let count = prop_oneof![1 => Just(0_u64), 9 => 1..5_000_u64];
        let period = prop_oneof![Just("us"), Just("7ms"), Just("s"), Just("min"), Just("30d")];
        (count, period).prop_map(|(count, period)| format!("{count}/{period}"))
    }

    fn buckets() -> impl Strategy<Value = bucket::Bucket> {
        let kinds = prop_oneof![
            4 => rates().prop_map(|rate| format!("token_bucket {rate} burst 3")),
            1 => rates().prop_map(|rate| format!("smooth {rate} burst 5us start empty")),
            1 => rates().prop_map(|rate| format!("smooth {rate} burst 5us start full")),
        ];
        kinds.prop_map(|spec| bucket(&spec))
    }

    proptest! {
        #[test]
        fn a_few_buckets_keep_a_state_as_long_as_all(
            rules in prop::collection::vec((buckets(), any::<bool>()), 2..40),
            unit in 0..40_usize,
            deficit in prop_oneof![0..100_u64, 0..1_000_000_000_u64, 0..=MAX_EXACT],
            newest in 0..40_000_000_u64,
            now in 0..40_000_000_u64,
        ) {
            let (rules, leave): (Vec<_>, Vec<_>) = rules.into_iter().unzip();
            let scales = Scales::default();
            let unit = rules[unit % rules.len()].unit();
            let tag = scales.tag_of(unit).unwrap();
            let cell = BucketCell::write(bucket::State { newest, deficit, unit }, tag);
            let now = Now { micros: now, max_clock_back: Some(10_000_000) };
            let mut judges = EvictionRules::default();
            let left = attend::<BucketCell>(&mut judges, &rules, &leave);
            prop_assert!(judges.decisive.len() <= 3);
            if let Some(longest) = left.iter().map(|rule| cell.expires_in(rule, &scales, now)).max() {
                prop_assert_eq!(judges.expires_in(&cell, &scales, now), longest);
            }
        }

        #[test]
        fn a_few_warm_ups_keep_a_state_as_long_as_all(
            rules in prop::collection::vec((rates(), any::<bool>()), 2..20),
            debt in 0..1_000_000_u64,
            deficit in prop_oneof![0..100_u64, 0..1_000_000_000_u64, 0..=MAX_EXACT],
            newest in 0..40_000_000_u64,
            now in 0..40_000_000_u64,
        ) {
            let (rules, leave): (Vec<_>, Vec<_>) = rules.into_iter().unzip();
            let rules: Vec<_> =
                rules.iter().map(|rate| warm_up(&format!("warmup {rate} over 10us"))).collect();
            let unit = rules[0].unit();
            let state = warm_up::State { newest, debt, deficit, unit };
            let cell = PlainCell::<warm_up::WarmUp>::new(state, Tag::NONE);
            let (scales, now) =
                (Scales::default(), Now { micros: now, max_clock_back: Some(10_000_000) });
            let mut judges = EvictionRules::default();
            let left = attend::<PlainCell<warm_up::WarmUp>>(&mut judges, &rules, &leave);
            prop_assert!(judges.decisive.len() <= 2);
            if let Some(longest) = left.iter().map(|rule| cell.expires_in(rule, &scales, now)).max() {
                prop_assert_eq!(judges.expires_in(&cell, &scales, now), longest);
            }
        }
    }

    #[test]
    fn rules_that_are_gone_keep_states_for_too_long_at_most_and_not_for_ever() {
        let cell = BucketCell::write(bucket::State { newest: 0, deficit: 1, unit: 1 }, Tag::NONE);
        let (scales, now) = (Scales::default(), Now { micros: 0, max_clock_back: None });
        let rules: Vec<_> =
            (1..=1_000).map(|count| bucket(&format!("token_bucket {count}/d"))).collect();
        let mut judges = EvictionRules::default();
        rules.iter().for_each(|rule| judges.join(rule));
        // The slowest leaves first, so that each rule is decisive once.
        for (index, rule) in rules.iter().enumerate().take(999) {
            judges.leave(rule);
            let longest = cell.expires_in(&rules[index + 1], &scales, now);
            assert!(judges.expires_in(&cell, &scales, now) >= longest);
        }
        assert_eq!(judges.decisive, rules[999..]);
    }

    #[test]
    fn ten_thousand_sets_of_numbers_are_judged_by_one_or_two() {
        let mut buckets = EvictionRules::<BucketCell>::default();
        let mut windows = EvictionRules::<PlainCell<window::FixedWindow>>::default();
        let mut logs = EvictionRules::<LogCell>::default();
        for count in (1..=10_000).rev() {
            buckets.join(&bucket(&format!("token_bucket {count}/min burst 50")));
            let (window, log) =
                (rule(&format!("fixed_window {count}/h")), rule(&format!("sliding_log {count}/h")));
            let (Rule::Window(window), Rule::Log(log)) = (window, log) else {
                panic!("a window and a log");
            };
            windows.join(&window);
            logs.join(&log);
        }
        assert!(buckets.decisive.len() <= 2, "the slowest, and the finest scale");
        assert_eq!((windows.decisive.len(), logs.decisive.len()), (1, 1));
    }
}
