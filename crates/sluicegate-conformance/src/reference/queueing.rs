//! Who waits for permits: a list, sorted anew for every question.

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
    /// It came as so manieth of all.
    arrival: u64,
    until: u64,
    units: u64,
}

/// Of who asks to wait: the id and the ticket.
pub(super) type Asker<'a> = (HoldId, &'a Ticket);

/// Of an enforced policy: how many may wait, and the lowest priority.
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
    /// Where a request waits.
    fn queue(&self) -> Result<usize, Refusal> {
        let queues: Vec<usize> = (0..self.policies.len())
            .filter(|index| queue_of(&self.policies[*index]).is_some())
            .collect();
        if let [only] = queues[..] { Ok(only) } else { Err(Refusal::NoQueue) }
    }

    /// Whether a request may wait.
    pub(super) fn can_wait(&self, operation: &super::Operation) -> Result<(), Refusal> {
        let index = self.queue()?;
        let own = self.policies[index].policy.cost().get();
        if operation.units_for(index, own) > 0 { Ok(()) } else { Err(Refusal::NothingToWaitFor) }
    }

    /// How many wait for what a key has in flight.
    pub(super) fn waiting(&self, now_us: u64, key: &[u8]) -> u64 {
        self.waiters.iter().filter(|it| it.key == key && it.until > now_us).count() as u64
    }

    /// The tickets of a policy that live, in their order.
    fn tickets(&self, now_us: u64, key: &[u8], policy: &str) -> Vec<&Waiter> {
        let mut line: Vec<&Waiter> = self.waiters.iter().collect();
        line.retain(|it| it.key == key && it.policy == policy && it.until > now_us);
        line.sort_by_key(|waiter| (waiter.priority, waiter.arrival));
        line
    }

    /// Tells what is in flight who waits for it: those before whoever asks, the others, and its own.
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

    /// The list after a request that was to wait, and what it is told.
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
        // Costs above a limit never pass.
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

    /// Whoever settles an id leaves the queue; whether it waited.
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
