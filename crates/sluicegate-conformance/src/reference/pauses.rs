//! Pauses, and the requests that pauses and bans refuse.

use std::collections::HashMap;

use sluicegate_core::MAX_EXACT;

use super::answer::{Answer, Banned, Paused, Repeat};
use super::{Clock, Model, Operation, Retry};

/// The pauses of each key.
pub(super) type Pauses = HashMap<Vec<u8>, Vec<Pause>>;

/// One pause of a key.
#[derive(Clone, Debug)]
pub(super) struct Pause {
    /// The name of the paused policy; `None` for the whole limit.
    policy: Option<String>,
    /// The time when it was last set.
    stamp: u64,
    ends: u64,
    /// Whether a request came after its end. A store may then have removed it.
    was_over: bool,
}

impl Model {
    /// Returns `true` if the clock has stepped back into a pause that a store may have removed.
    #[must_use]
    pub fn may_have_lost_a_pause(&self, now_us: u64, key: &[u8]) -> bool {
        self.pauses_of(key).iter().any(|pause| pause.was_over && pause.ends > now_us)
    }

    /// Returns the times at which a key's pauses end.
    #[must_use]
    pub fn pause_edges(&self, key: &[u8]) -> Vec<u64> {
        self.pauses_of(key).iter().map(|pause| pause.ends).collect()
    }

    fn pauses_of(&self, key: &[u8]) -> &[Pause] {
        self.pauses.get(key).map_or(&[], Vec::as_slice)
    }

    /// Returns the answer to a request that the key's ban or a pause refuses.
    pub(super) fn refused(
        &mut self,
        now: u64,
        key: &[u8],
        operation: &Operation,
    ) -> Option<Answer> {
        for pause in self.pauses.get_mut(key).into_iter().flatten() {
            pause.was_over |= pause.ends <= now;
        }
        if !operation.is_refusable() {
            return None;
        }
        let costs =
            |index: usize| operation.units_for(index, self.policies[index].policy.cost().get()) > 0;
        let asked: Vec<usize> = (0..self.policies.len()).filter(|index| costs(*index)).collect();
        let (denials, restamped) = self.denials(now, key);
        let ban = denials.rest(now).filter(|_| self.ban.is_some() && !asked.is_empty());
        let pauses = self.restamped_pauses(now, key, operation);
        let pause = self.longest(&pauses, now, &asked);
        let ends = [ban, pause.map(|pause| pause.ends_in_us)];
        let retry = Retry::After(ends.into_iter().flatten().max()?);
        if !matches!(operation, Operation::Peek { .. }) {
            self.pauses.insert(key.to_vec(), pauses);
            if restamped && self.ban.is_some() {
                self.bans.insert(key.to_vec(), denials);
            }
        }
        Some(Answer {
            allowed: false,
            binding: None,
            wait_us: 0,
            retry,
            granted: Some(0),
            lease: None,
            holds: false,
            queued: None,
            repeat: Repeat::No,
            ban: ban.map(|rest| Banned { ends_in_us: rest, begins: false }),
            pause,
            resumed: None,
            restamped: restamped && self.ban.is_some(),
            policies: Vec::new(),
        })
    }

    /// Returns the longest pause of a request that costs these policies something. The whole
    /// limit's comes first, and then those of policies in their order.
    fn longest(&self, pauses: &[Pause], now: u64, asked: &[usize]) -> Option<Paused> {
        let whole = (!asked.is_empty()).then_some(None);
        let mut longest: Option<Paused> = None;
        for policy in whole.into_iter().chain(asked.iter().copied().map(Some)) {
            let name = policy.map(|index| &self.policies[index].name);
            let running = |pause: &&Pause| pause.policy.as_ref() == name && pause.ends > now;
            let Some(pause) = pauses.iter().find(running) else { continue };
            let ends_in_us = pause.ends - now;
            if longest.is_none_or(|longest| ends_in_us > longest.ends_in_us) {
                longest = Some(Paused { policy, ends_in_us });
            }
        }
        longest
    }

    /// Returns a key's pauses at `now`, as an operation that heeds or changes them leaves them.
    fn restamped_pauses(&self, now: u64, key: &[u8], operation: &Operation) -> Vec<Pause> {
        let mut pauses = self.pauses_of(key).to_vec();
        let Clock::Own { max_clock_back_us } = self.clock else { return pauses };
        for pause in pauses.iter_mut().filter(|pause| pause.stamp > now + max_clock_back_us) {
            if operation.is_refusable() || operation.changes_pauses() {
                pause.ends = pause.ends.min(now + (pause.ends - pause.stamp));
                pause.stamp = now;
            }
        }
        pauses
    }

    /// Returns a key's pauses after an operation, the pause that it set, and whether it ended a
    /// pause.
    pub(super) fn pauses_after(
        &self,
        now: u64,
        key: &[u8],
        operation: &Operation,
    ) -> (Vec<Pause>, Option<Paused>, Option<bool>) {
        let mut pauses = self.restamped_pauses(now, key, operation);
        let name = |policy: Option<usize>| policy.map(|index| self.policies[index].name.clone());
        match *operation {
            Operation::Reset => (Vec::new(), None, None),
            Operation::Pause { lasts_us, policy } => {
                let meant = name(policy);
                pauses.retain(|pause| pause.ends > now);
                let before = pauses.iter().find(|pause| pause.policy == meant).cloned();
                pauses.retain(|pause| pause.policy != meant);
                let ends = (now + lasts_us).min(MAX_EXACT);
                let ends = before.as_ref().map_or(ends, |before| before.ends.max(ends));
                let stamp = before.map_or(now, |before| before.stamp.max(now));
                pauses.push(Pause { policy: meant, stamp, ends, was_over: false });
                (pauses, Some(Paused { policy, ends_in_us: ends - now }), None)
            }
            Operation::Resume { policy } => {
                let meant = name(policy);
                let is_meant = |pause: &Pause| meant.is_none() || pause.policy == meant;
                let resumed = pauses.iter().any(|pause| is_meant(pause) && pause.ends > now);
                pauses.retain(|pause| !is_meant(pause));
                (pauses, None, Some(resumed))
            }
            _ => (pauses, None, None),
        }
    }
}
