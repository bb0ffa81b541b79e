//! Decisions that layers make of those of a store.

use super::{Decision, DecisionForStores as _, Notes, Said, Source};
use crate::kernel::NEVER;
use crate::limit::Limit;
use crate::time::{Span, Timestamp};

impl Decision {
    pub(crate) fn repeated(&self, after: Span) -> Self {
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

    pub(crate) fn leased(
        &self,
        taken_at: Timestamp,
        costs: &[u64],
        held: impl Fn(usize) -> u64,
    ) -> Self {
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
        let now = crate::for_stores::Now { micros: 0, max_clock_back: None };
        let mut held = [None, None, None];
        let charge = crate::Request::new(crate::Operation::Charge, b"k")
            .costs(crate::Costs::Each(&[1, 1, 0]));
        let _ = crate::for_stores::step(&limit, &charge, now, &mut held).unwrap();
        let check = crate::Request::check(b"k").costs(crate::Costs::Each(&[1, 1, 0]));
        let denial = crate::for_stores::step(&limit, &check, now, &mut held).unwrap().decision;
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
