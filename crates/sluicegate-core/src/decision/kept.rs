//! Decisions as bytes, so that a repeated request can get the same answer.
//!
//! | bytes | a decision, which is allowed |
//! | --- | --- |
//! | 8 | units granted |
//! | 8 | when they were taken, µs since the epoch; 2^64 − 1 for none |
//! | 1 | warnings, as bits |
//! | 1, 16 | whether it holds anything, and the id of the hold |
//! | 50 | each policy: index of its part, identity, verdict, units left, µs until fresh, amount, used, current, and the tiers that refused |

use smallvec::SmallVec;

use super::{Decision, NEVER, Numbers, Said, Warnings};
use crate::hold::{Hold, HoldId};
use crate::kernel::ID_BYTES;
use crate::limit::{Identity, Limit, Member};
use crate::policy::Enforcement;
use crate::request::Request;
use crate::time::Timestamp;

const HEAD_BYTES: usize = 8 + 8 + 1 + 1 + HoldId::BYTES;
const POLICY_BYTES: usize = 1 + (ID_BYTES - 1) + 1 + 5 * 8 + 4;

impl Decision {
    /// Returns the number of bytes of a decision about `policies` policies.
    pub(crate) const fn kept_bytes(policies: usize) -> usize {
        HEAD_BYTES + policies * POLICY_BYTES
    }

    /// Returns the decision as bytes, if it is allowed.
    pub(crate) fn keep(&self) -> Box<[u8]> {
        let mut bytes = Vec::with_capacity(Self::kept_bytes(self.policies.len()));
        bytes.extend_from_slice(&self.granted.to_be_bytes());
        bytes.extend_from_slice(&self.instant.to_be_bytes());
        let Warnings { restamped, discarded, full } = self.warnings;
        bytes.push(u8::from(restamped) | u8::from(discarded) << 1 | u8::from(full) << 2);
        let hold = self.hold();
        bytes.push(u8::from(hold.is_some()));
        bytes.extend_from_slice(&hold.map_or([0; HoldId::BYTES], |hold| hold.id.to_bytes()));
        let members = self.limit.as_ref().map_or(&[][..], Limit::members);
        for (numbers, member) in self.policies.iter().zip(members) {
            let rule = member.policy().rule().profile();
            bytes.push(part_byte(member));
            bytes.extend_from_slice(&member.identity().to_bytes());
            bytes.push(numbers.said as u8);
            let (units, micros) =
                (rule.whole_units(numbers.remaining), rule.whole_micros(numbers.reset));
            for number in [units, micros, numbers.amount, numbers.used, numbers.current] {
                bytes.extend_from_slice(&number.to_be_bytes());
            }
            bytes.extend_from_slice(&numbers.violated.to_be_bytes());
        }
        bytes.into_boxed_slice()
    }

    /// Reads a [kept](Decision::keep) decision as the answer to a repeated request; `None` if the
    /// bytes are malformed.
    pub(crate) fn of_kept(limit: &Limit, request: &Request<'_>, bytes: &[u8]) -> Option<Self> {
        let (head, policies) = bytes.split_at_checked(HEAD_BYTES)?;
        let (granted, rest) = split_number(head)?;
        let (instant, rest) = split_number(rest)?;
        let (&[warnings, holds], id) = rest.split_first_chunk()?;
        let numbers = limit.members().iter().map(|member| numbers_of(member, policies));
        let numbers: SmallVec<[Numbers; 3]> = numbers.collect();
        let mut decision = Self::new(limit.clone(), numbers, true, granted, instant, None);
        decision.warnings = Warnings {
            restamped: warnings & 1 != 0,
            discarded: warnings & 2 != 0,
            full: warnings & 4 != 0,
        };
        if let Some(hold) = request.holds().filter(|_| holds == 1) {
            let id = HoldId::from_bytes(id.try_into().ok()?);
            decision.set_hold(Hold { id, ..*hold });
        }
        Some(repeat(decision))
    }

    /// Returns `true` if the request repeats an earlier one with [its id](Request::idempotent).
    ///
    /// The decision is then the earlier one, and nothing was charged now.
    #[must_use]
    pub fn is_repeat(&self) -> bool {
        self.extras.as_ref().is_some_and(|extras| extras.repeat)
    }
}

/// Returns the decision on a request that is only known to have been allowed before.
pub(super) fn known(
    limit: &Limit,
    request: &Request<'_>,
    taken_at: Timestamp,
    granted: Option<u64>,
) -> Decision {
    let numbers = limit.members().iter().map(|member| numbers_of(member, &[])).collect();
    let costs = |is_counted: fn(&Member) -> bool| {
        let members = limit.members().iter().enumerate();
        let counted = members.filter(move |(_, member)| is_counted(member));
        counted.map(|(index, _)| request.cost_of(limit, index)).max().unwrap_or(0)
    };
    let enforced = costs(|member| member.policy().enforcement() == Enforcement::Enforced);
    let cost = if enforced > 0 { enforced } else { costs(|_| true) };
    let (granted, at) = (granted.unwrap_or(cost), taken_at.as_micros());
    repeat(Decision::new(limit.clone(), numbers, true, granted, at, None))
}

/// Returns the kept numbers of a policy. A policy without any reports what it would for a fresh
/// key.
fn numbers_of(member: &Member, kept: &[u8]) -> Numbers {
    let mut kept = kept.chunks_exact(POLICY_BYTES);
    let rule = member.policy().rule().profile();
    let ticks_of = |units| if units == NEVER { NEVER } else { rule.ticks_of(units) };
    // Policies of two parts may share one identity.
    let found = kept.find_map(|policy| {
        let (part, rest) = policy.split_first()?;
        let (identity, rest) = rest.split_first_chunk::<{ ID_BYTES - 1 }>()?;
        let is_of = Identity::from_bytes(*identity) == member.identity();
        (is_of && *part == part_byte(member)).then_some(rest)
    });
    let read = |kept: &[u8]| {
        let (&said, rest) = kept.split_first()?;
        let (units, rest) = split_number(rest)?;
        let (micros, rest) = split_number(rest)?;
        let (amount, rest) = split_number(rest)?;
        let (used, rest) = split_number(rest)?;
        let (current, rest) = split_number(rest)?;
        Some(Numbers {
            remaining: ticks_of(units),
            reset: rule.ticks_of_micros(micros),
            amount,
            used,
            current,
            violated: u32::from_be_bytes(*rest.first_chunk()?),
            said: if said == Said::Refuses as u8 { Said::Refuses } else { Said::Passes },
        })
    };
    found
        .and_then(read)
        .unwrap_or_else(|| Numbers { remaining: ticks_of(rule.limit), ..Numbers::NOTHING })
}

/// Returns the index of the policy's part. A limit has at most as many parts as policies, 64.
fn part_byte(member: &Member) -> u8 {
    u8::try_from(member.part()).unwrap_or(u8::MAX)
}

fn split_number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u64::from_be_bytes(*number), rest))
}

/// Marks the decision as the answer to a repeated request.
pub(super) fn repeat(mut decision: Decision) -> Decision {
    decision.extras_mut().repeat = true;
    decision
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::for_stores::{Book, Now, step_with_books};
    use crate::{Costs, Idempotency, RequestId};

    #[test]
    fn a_repeat_tells_policies_of_one_identity_apart() {
        let of = |name: &str, policy: &str| Limit::new(name, vec![policy]).unwrap();
        let (user, org) = (of("user", "fixed_window 9/d"), of("org", "fixed_window 99/d"));
        let limit = Limit::together([user, org]).unwrap();
        assert_eq!(limit.members()[0].identity(), limit.members()[1].identity());
        let (mut held, mut books) = ([None, None], [Book::default(), Book::default()]);
        let once =
            Idempotency { id: RequestId::from_bytes([1; 16]), lasts: Duration::from_secs(60) };
        for is_repeat in [false, true] {
            let (also, costs) = ([&b"acme"[..]], [2, 3]);
            let request =
                Request::check(b"alice").also(&also).costs(Costs::Each(&costs)).idempotent(once);
            let now = Now { micros: 0, max_clock_back: None };
            let step = step_with_books(&limit, &request, now, &mut held, &mut books).unwrap();
            let left = step.decision.policies().map(|policy| policy.remaining());
            assert_eq!(left.collect::<Vec<_>>(), [Some(7), Some(96)]);
            assert_eq!(step.decision.is_repeat(), is_repeat);
        }
    }
}
