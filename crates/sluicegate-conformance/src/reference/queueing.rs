//! The waiters for permits: a list that is sorted for every request.

use sluicegate_core::{Algorithm, Enforcement, HoldId, Queued, Span, Ticket};

use super::{Model, Named, Refusal, Seat};
use crate::algorithms::Retry;

/// One ticket.
#[derive(Clone, Debug)]
pub(super) struct Waiter {
    pub(super) key: Vec<u8>,
    policy: String,
    id: HoldId,
    priority: u8,
    /// Its number in the order of all arrivals.
    arrival: u64,
    until: u64,
    units: u64,
}

/// The id and the ticket of a request that may wait.
pub(super) type Asker<'a> = (HoldId, &'a Ticket);

/// Returns the queue length and the lowest priority of an enforced policy.
fn queue_of(named: &Named) -> Option<(u64, u8)> {
    match named.policy.algorithm() {
        Algorithm::Concurrency { queue: Some(queue), .. }
            if named.policy.enforcement() == Enforcement::Enforced =>
        {
            Some((queue.length, u8::try_from(queue.priorities - 1).ok()?))
        }
        _ => None,
    }
}

impl Model {
    /// Returns the index of the policy whose queue a request waits in.
    fn queue(&self) -> Result<usize, Refusal> {
        let queues: Vec<usize> = (0..self.policies.len())
            .filter(|index| queue_of(&self.policies[*index]).is_some())
            .collect();
        if let [only] = queues[..] { Ok(only) } else { Err(Refusal::NoQueue) }
    }

    /// Checks that a request may wait.
    pub(super) fn can_wait(&self, operation: &super::Operation) -> Result<(), Refusal> {
        let index = self.queue()?;
        let own = self.policies[index].policy.cost().get();
        if operation.units_for(index, own) > 0 { Ok(()) } else { Err(Refusal::NothingToWaitFor) }
    }

    /// Returns the number of waiters for a key's permits.
    pub(super) fn waiting(&self, now_us: u64, key: &[u8]) -> u64 {
        self.waiters.iter().filter(|it| it.key == key && it.until > now_us).count() as u64
    }

    /// Returns the valid tickets of a policy, in order.
    fn tickets(&self, now_us: u64, key: &[u8], policy: &str) -> Vec<&Waiter> {
        let mut line: Vec<&Waiter> = self.waiters.iter().collect();
        line.retain(|it| it.key == key && it.policy == policy && it.until > now_us);
        line.sort_by_key(|waiter| (waiter.priority, waiter.arrival));
        line
    }

    /// Returns the ends and units of the waiters: those ahead of the caller, the others, and the
    /// caller's own.
    pub(super) fn line_up(
        &self,
        now_us: u64,
        key: &[u8],
        named: &Named,
        asker: Option<Asker<'_>>,
    ) -> [Vec<(u64, u64)>; 3] {
        let Some((_, lowest)) = queue_of(named) else { return Default::default() };
        let line = self.tickets(now_us, key, &named.name);
        let own = asker.and_then(|(id, _)| line.iter().find(|waiter| waiter.id == id));
        let is_ahead = |waiter: &Waiter| match (asker, own) {
            (None, _) => true,
            (Some(_), Some(own)) => (waiter.priority, waiter.arrival) < (own.priority, own.arrival),
            (Some((_, ticket)), None) => waiter.priority <= ticket.priority.min(lowest),
        };
        let is_own = |waiter: &Waiter| asker.is_some_and(|(id, _)| id == waiter.id);
        let units = |is: &dyn Fn(&Waiter) -> bool| {
            let some = line.iter().filter(|waiter| is(waiter));
            some.map(|waiter| (waiter.until, waiter.units)).collect::<Vec<_>>()
        };
        [
            units(&|waiter| !is_own(waiter) && is_ahead(waiter)),
            units(&|waiter| !is_own(waiter) && !is_ahead(waiter)),
            units(&is_own),
        ]
    }

    /// Returns the waiters after a request that may wait, and the request's queue outcome.
    pub(super) fn after_asking(
        &self,
        now_us: u64,
        key: &[u8],
        (id, ticket): Asker<'_>,
        seats: &[Seat<'_>],
        (allowed, retry): (bool, Retry),
    ) -> Result<(Vec<Waiter>, Option<Queued>), Refusal> {
        let index = self.queue()?;
        let named = &self.policies[index];
        let line = self.tickets(now_us, key, &named.name);
        let own = line.iter().find(|waiter| waiter.id == id).copied().cloned();
        let mut others = self.waiters.clone();
        others.retain(|waiter| waiter.key != key || waiter.id != id);
        if allowed {
            return Ok((others, None));
        }
        let is_refused = !seats[index].verdict.admitted();
        // A cost above a limit never passes.
        let mut never = false;
        for seat in seats.iter().filter(|seat| !seat.is_shadow()) {
            let limit = seat.account.report(seat.algorithm(), seat.at)?.limit;
            never |= limit.is_some_and(|limit| seat.units > limit);
        }
        if never || own.is_none() && !is_refused {
            return Ok((self.waiters.clone(), None));
        }
        let (length, lowest) = queue_of(named).ok_or(Refusal::NoQueue)?;
        if own.is_none() && line.len() as u64 >= length {
            return Ok((self.waiters.clone(), Some(Queued::Full)));
        }
        let latest = self.waiters.iter().map(|waiter| waiter.arrival).max().unwrap_or(0);
        let (priority, arrival) = match own {
            Some(own) => (own.priority, own.arrival),
            None => (ticket.priority.min(lowest), latest + 1),
        };
        let lives = ticket.lives.as_micros();
        let ahead = line.iter().filter(|waiter| waiter.id != id);
        let ahead = ahead.filter(|waiter| (waiter.priority, waiter.arrival) < (priority, arrival));
        let within = match retry {
            Retry::After(after) => after.min(lives / 2),
            _ => lives / 2,
        };
        let ask_within = Span::from_micros(within).unwrap_or(Span::MILLISECOND);
        let queued = Queued::Waits { ahead: ahead.count() as u64, ask_within };
        let (policy, until) = (named.name.clone(), now_us + lives);
        let units = seats[index].units;
        others.push(Waiter { key: key.to_vec(), policy, id, priority, arrival, until, units });
        Ok((others, Some(queued)))
    }

    /// Removes the ticket of a settled id. Returns whether it was waiting.
    pub(super) fn leave(&mut self, now_us: u64, key: &[u8], id: HoldId) -> bool {
        let names: Vec<String> = self
            .policies
            .iter()
            .filter(|named| queue_of(named).is_some())
            .map(|named| named.name.clone())
            .collect();
        let before = self.waiters.len();
        self.waiters.retain(|it| {
            let waits = it.until > now_us && names.contains(&it.policy);
            !(it.key == key && it.id == id && waits)
        });
        self.waiters.len() < before
    }
}
