//! The fast path for limits with only permits. It gives the answers of
//! [`step_with_books`](super::step_with_books) with less work.

use std::slice;

use super::hold::has_room;
use crate::book::{Book, Charged, HeldUnits, HoldRecord, RecordContent};
use crate::decision::Decision;
use crate::decision::DecisionForStores as _;
use crate::failure::Error;
use crate::hold::{Hold, HoldFound, HoldId};
use crate::kernel::permits::Permits;
use crate::kernel::{Charge, Kernel as _, Now, Verdict};
use crate::limit::Limit;
use crate::number::Cost;
use crate::on_expiry::OnExpiry;

/// Takes permits for a check with a hold. For stores.
///
/// The limit's only policy must be an enforced `concurrency` without a queue. The limit must not
/// ban subjects or return unsettled holds.
///
/// `cost` is the cost of the request, and `book` has the records of its subject. Unless the
/// decision allows, only expired records have changed.
///
/// # Errors
/// Returns the errors of [`step_with_books`](super::step_with_books).
#[inline]
pub fn take_permits(
    limit: &Limit,
    rule: &Permits,
    (hold, cost): (&Hold, Cost),
    now: Now,
    book: &mut Book,
) -> Result<Decision, Error> {
    hold.validate(limit)?;
    has_room(limit, hold, now, slice::from_ref(book))?;
    let (identity, units) = (limit.members()[0].identity(), cost.get());
    let until = now.after(hold.lasts);
    let mut balance = book.flight(rule, identity, now.micros, (units, until));
    let verdict = rule.judge(&balance, units, None);
    let Verdict::Pass { wait } = verdict else {
        let _ = book.make_room(now.micros, OnExpiry::Keep);
        return Ok(Decision::of_one(limit, rule, &balance, units, verdict));
    };
    rule.charge(&mut balance, Charge::Admitted { cost: units, act_in: wait })?;
    book.remove_ended(now.micros, OnExpiry::Keep);
    let entry = HeldUnits { identity, returns: false, units, at: now.micros, more: None };
    let content = RecordContent::Live(Charged::One(entry));
    book.put(hold.id, HoldRecord { until, content });
    Ok(Decision::of_one(limit, rule, &balance, units, verdict).with_hold(*hold))
}

/// Releases the permits of a hold of such a limit, for a settlement without the units used. For
/// stores.
///
/// `None` if there is more to do. Then nothing has changed, and
/// [`step_with_books`](super::step_with_books) answers.
#[inline]
pub fn release_permits(
    limit: &Limit,
    rule: &Permits,
    id: HoldId,
    now: Now,
    book: &mut Book,
) -> Option<Decision> {
    let identity = limit.members()[0].identity();
    let units = book.get(id, now.micros)?.units_of(identity)?.units;
    if !book.tickets().is_empty() {
        return None;
    }
    book.remove(id);
    let balance = book.flight(rule, identity, now.micros, (0, 0));
    let peeked = Decision::of_one(limit, rule, &balance, 0, Verdict::Pass { wait: 0 });
    Some(peeked.of_hold(HoldFound::Live, [Some(units)].into_iter()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::for_stores::step_with_books;
    use crate::kernel::Rule;
    use crate::request::{Costs, Request};
    use crate::time::Span;

    #[derive(Clone, Debug)]
    enum Act {
        Take(u8, u64, u64),
        Release(u8),
    }

    fn act() -> impl Strategy<Value = Act> {
        prop_oneof![
            (0..6_u8, 1..5_u64, 1..40_u64).prop_map(|(id, cost, lasts)| Act::Take(id, cost, lasts)),
            (0..6_u8).prop_map(Act::Release),
        ]
    }

    proptest! {
        #[test]
        fn the_straight_way_leads_where_the_general_one_does(
            acts in prop::collection::vec((act(), 0..20_u64), 0..60),
        ) {
            let limit = Limit::new("l", vec!["concurrency 4 hold 1min"])?;
            let Rule::Permits(rule) = limit.members()[0].policy().rule() else { unreachable!() };
            let (mut straight, mut general) = (Book::default(), [Book::default()]);
            let mut micros = 1_000_000;
            for (act, later) in acts {
                micros += later * 1_000;
                let now = Now { micros, max_clock_back: None };
                let id = |number| HoldId::from_bytes([number; 16]);
                let mut ask = |request: &Request<'_>| {
                    step_with_books(&limit, request, now, &mut [None], &mut general)
                        .map(|step| step.decision)
                };
                let (answer, expected) = match act {
                    Act::Take(number, cost, millis) => {
                        let lasts = Span::from_millis(millis)?;
                        let (hold, cost) = (Hold { id: id(number), lasts: lasts.into() }, Cost::new(cost)?);
                        let request = Request::check(b"k").costs(Costs::Same(cost)).hold(&hold);
                        let taken = take_permits(&limit, rule, (&hold, cost), now, &mut straight);
                        (Some(taken), ask(&request))
                    }
                    Act::Release(number) => {
                        let released =
                            release_permits(&limit, rule, id(number), now, &mut straight);
                        let request = Request::settle(b"k", id(number), &[]);
                        (released.map(Ok), ask(&request))
                    }
                };
                match answer {
                    Some(answer) => {
                        prop_assert_eq!(format!("{answer:?}"), format!("{expected:?}"));
                    }
                    None => prop_assert!(expected?.is_denied()),
                }
                prop_assert_eq!(&straight, &general[0]);
            }
        }
    }
}
