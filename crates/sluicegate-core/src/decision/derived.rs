//! Decisions that layers make of those of a store.

use super::{Decision, Extras, Notes, Said, Source};
use crate::kernel::NEVER;
use crate::lease::Lease;
use crate::limit::Limit;
use crate::time::{Span, Timestamp};

impl Decision {
    /// The same denial, given so long afterwards without asking the store again: what was to be waited
    /// for is nearer by that. What remains, and when states are fresh, is as the store said it. For
    /// layers that remember denials.
    pub fn repeated(&self, after: Span) -> Self {
        let after = after.as_micros();
        let mut repeated = self.clone().with_source(Source::DenyCache);
        for numbers in &mut repeated.policies {
            if numbers.said == Said::Refuses && numbers.amount != NEVER {
                numbers.amount = numbers.amount.saturating_sub(after);
                if numbers.amount == 0 {
                    numbers.said = Said::Passes;
                }
            }
        }
        if !repeated.allowed && repeated.instant != NEVER {
            repeated.instant = repeated.instant.saturating_sub(after).max(1);
        }
        repeated
    }

    /// The same decision without the lease that came with it. For layers that keep it.
    pub fn without_lease(mut self) -> Self {
        if let Some(extras) = &mut self.extras {
            extras.lease = None;
            if **extras == Extras::default() {
                self.extras = None;
            }
        }
        self
    }

    /// The decision on a request of these costs per policy by who holds units of a lease that this
    /// decision granted at `taken_at`: allowed, with what the store said was left, and of each policy
    /// what is still held. For layers that take leases.
    pub fn leased(&self, taken_at: Timestamp, costs: &[u64], held: impl Fn(usize) -> u64) -> Self {
        let mut leased = self.clone().with_source(Source::Lease);
        let members = self.limit.as_ref().map_or(&[][..], Limit::members);
        for (index, (numbers, member)) in leased.policies.iter_mut().zip(members).enumerate() {
            let ticks = member.policy().rule().profile().ticks_of(held(index));
            numbers.remaining = numbers.remaining.saturating_add(ticks);
        }
        leased.instant = taken_at.as_micros();
        leased.granted = costs.iter().copied().max().unwrap_or(0);
        leased.notes = Notes::default();
        leased
    }

    /// The same decision with a lease for who asked. For stores.
    pub fn with_lease(mut self, lease: Lease) -> Self {
        self.extras.get_or_insert_default().lease = Some(lease);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::RetryAfter;

    #[test]
    fn a_repeated_denial_has_less_to_wait_for() {
        let policies = ["gcra 1/s as second", "gcra 1/min as minute", "gcra 0/h as never"];
        let specs = policies.map(|spec| spec.parse().unwrap()).to_vec();
        let limit = Limit::new("l".parse().unwrap(), specs).unwrap();
        let now = crate::Now { micros: 0, max_clock_back: None };
        let mut held = [None, None, None];
        let charge = crate::Request::new(crate::Operation::Charge, b"k")
            .costs(crate::Costs::Each(&[1, 1, 0]));
        let _ = crate::step(&limit, &charge, now, &mut held).unwrap();
        let check = crate::Request::check(b"k").costs(crate::Costs::Each(&[1, 1, 0]));
        let denial = crate::step(&limit, &check, now, &mut held).unwrap().decision;
        let ms = |millis| Span::from_millis(millis).unwrap();
        let retries = |decision: &Decision| {
            decision.policies().map(|policy| policy.retry_after()).collect::<Vec<_>>()
        };
        let (after, not) = (RetryAfter::After, RetryAfter::NotRefused);
        assert_eq!(retries(&denial), [after(ms(1_000)), after(ms(60_000)), not]);
        let later = denial.repeated(ms(400));
        assert_eq!(later.retry_after(), after(ms(59_600)));
        assert_eq!(retries(&later), [after(ms(600)), after(ms(59_600)), not]);
        let later = denial.repeated(ms(1_000));
        assert_eq!(retries(&later), [not, after(ms(59_000)), not]);
        assert_eq!((later.source(), later.is_denied()), (Source::DenyCache, true));
        assert_eq!(later.binding().unwrap().name().as_str(), "minute");
    }
}
