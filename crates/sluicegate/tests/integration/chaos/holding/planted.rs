//! Traces with one fault each, which the auditors have to find, and the traces without it.

use sluicegate::store::Span;

use super::deals::{Conditions, Deal, deals_of};
use super::verdicts::Verdicts;

/// The numbers of the limits, and of the kinds of requests, as in journals.
const PERMITS: u8 = 0;
const QUEUED: u8 = 1;
const GRANTS: u8 = 2;
const JOBS: u8 = 4;
const AT_ONCE: &str = "0 0";
const PERMIT: &str = "1 0";
const WAITS: &str = "2 0";
const WAITS_BEHIND: &str = "2 1";

const KILLED: u64 = 90_000_000;

/// A journal with times in ms: the text after the first two numbers.
#[derive(Default)]
struct Trace(String);

impl Trace {
    fn line(mut self, deal: u64, millis: u64, event: &str) -> Self {
        self.0 += &format!("{deal} {} {event}\n", millis * 1_000);
        self
    }

    fn asks(self, deal: u64, millis: u64, rule: u8, manner: &str) -> Self {
        self.line(deal, millis, &format!("asks {rule} 0 1 {manner} 0"))
    }

    /// Adds a request for a unit, which is held for a second from a millisecond later on.
    fn takes(self, deal: u64, millis: u64, rule: u8, manner: &str) -> Self {
        self.asks(deal, millis, rule, manner).took(deal, millis + 1)
    }

    fn took(self, deal: u64, millis: u64) -> Self {
        self.line(deal, millis + 1, &format!("took {} 1000000 0", millis * 1_000))
    }

    fn job(self, deal: u64, millis: u64, rule: u8, (units, job): (u64, u64)) -> Self {
        let asked = self.line(deal, millis, &format!("asks {rule} 0 {units} {AT_ONCE} {job}"));
        asked.took(deal, millis + 1)
    }

    fn deals(&self) -> Vec<Deal> {
        deals_of(0, &self.0, KILLED)
    }

    fn finds(&self) -> Vec<&'static str> {
        let conditions =
            Conditions { held_for: Span::SECOND, outages: vec![(30_000_000, 31_000_000)] };
        Verdicts::on(&self.deals(), &conditions).kinds()
    }
}

fn three(rule: u8) -> Trace {
    (0..3).fold(Trace::default(), |trace, deal| trace.takes(deal, 1_000, rule, AT_ONCE))
}

#[test]
fn one_more_in_flight_is_found_and_at_the_end_of_another_is_fine() {
    assert!(three(PERMITS).takes(3, 2_000, PERMITS, AT_ONCE).finds().is_empty());
    let early = three(PERMITS).asks(3, 1_999, PERMITS, AT_ONCE);
    let early = early.line(3, 2_001, "took 2000999 1000000 0");
    assert_eq!(early.finds(), ["too many in flight"]);
    let released = three(PERMITS).line(0, 1_500, "settles");
    assert!(released.takes(3, 1_501, PERMITS, AT_ONCE).finds().is_empty());
    // A release that is carried out twice frees units of others.
    let twice = three(PERMITS).line(0, 1_500, "settles").line(0, 1_502, "settled 0");
    let twice = twice.takes(3, 1_503, PERMITS, AT_ONCE).takes(4, 1_600, PERMITS, AT_ONCE);
    assert_eq!(twice.finds(), ["too many in flight"]);
}

#[test]
fn what_is_renewed_is_in_flight_and_a_permit_that_is_not_lost() {
    let renewed = three(PERMITS).line(0, 1_900, "renews 1000000");
    let heard = renewed.line(0, 1_901, "renewed 1");
    let heard = heard.takes(3, 2_010, PERMITS, AT_ONCE).takes(4, 2_011, PERMITS, AT_ONCE);
    assert!(heard.finds().is_empty());
    assert_eq!(heard.takes(5, 2_012, PERMITS, AT_ONCE).finds(), ["too many in flight"]);
    let permits = (0..3).fold(Trace::default(), |it, deal| it.takes(deal, 1_000, PERMITS, PERMIT));
    let acts = permits.line(0, 2_100, "acts").takes(3, 2_050, PERMITS, AT_ONCE);
    let acts = acts.takes(4, 2_051, PERMITS, AT_ONCE);
    assert!(acts.finds().is_empty());
    assert_eq!(acts.takes(5, 2_052, PERMITS, AT_ONCE).finds(), ["too many in flight"]);
}

#[test]
fn a_holder_that_acts_after_its_end_is_found() {
    assert!(three(PERMITS).line(0, 2_000, "acts").finds().is_empty());
    assert_eq!(three(PERMITS).line(0, 2_001, "acts").finds(), ["late act"]);
}

#[test]
fn units_that_come_back_too_late_or_never_are_found() {
    let denied =
        |millis| three(PERMITS).asks(3, millis, PERMITS, AT_ONCE).line(3, millis + 1, "denied");
    assert!(denied(2_000).finds().is_empty());
    assert_eq!(denied(2_002).finds(), ["unfounded denial"]);
    // A release has been carried out when it was answered, and else maybe at the end.
    let released = three(PERMITS).line(0, 1_500, "settles");
    let heard = |trace: Trace, answer: &str| trace.line(0, 1_502, answer);
    let again =
        |trace: Trace| trace.asks(3, 1_503, PERMITS, AT_ONCE).line(3, 1_504, "denied").finds();
    assert_eq!(again(heard(released, "settled 0")), ["unfounded denial"]);
    let released = three(PERMITS).line(0, 1_500, "settles");
    assert!(again(heard(released, "settled 4")).is_empty());
}

#[test]
fn a_call_that_was_given_up_may_be_carried_out_until_the_outage_ends() {
    let unknown = |given_up: u64, denied: u64| {
        let trace = (0..3)
            .fold(Trace::default(), |it, deal| it.asks(deal, given_up - 250, PERMITS, AT_ONCE));
        let trace = (0..3).fold(trace, |it, deal| it.line(deal, given_up, "failed 1"));
        trace.asks(3, denied, PERMITS, AT_ONCE).line(3, denied, "denied").finds()
    };
    assert!(unknown(10_000, 11_500).is_empty());
    assert_eq!(unknown(10_000, 11_501), ["unfounded denial"]);
    // It may have waited for the end of an outage.
    assert!(unknown(29_800, 32_300).is_empty());
    assert_eq!(unknown(29_800, 32_301), ["unfounded denial"]);
    assert!(unknown(30_500, 32_500).is_empty());
    assert_eq!(unknown(30_500, 32_501), ["unfounded denial"]);
}

/// Returns a trace with two in flight and one waiter.
fn waiting() -> Trace {
    let full = Trace::default().takes(0, 1_000, QUEUED, AT_ONCE).takes(1, 1_000, QUEUED, AT_ONCE);
    let waits = full.asks(2, 1_500, QUEUED, WAITS_BEHIND).line(2, 1_501, "behind 0");
    waits.asks(2, 1_900, QUEUED, WAITS_BEHIND).line(2, 1_901, "behind 0")
}

#[test]
fn who_passes_by_those_who_wait_is_found() {
    for manner in [WAITS_BEHIND, AT_ONCE] {
        let trace = waiting().takes(3, 2_003, QUEUED, manner);
        assert!(trace.finds().is_empty(), "there is room for both");
    }
    let one_free = || waiting().line(0, 1_600, "settles").line(0, 1_601, "settled 0");
    assert!(one_free().takes(3, 1_700, QUEUED, WAITS).finds().is_empty(), "it goes first");
    assert_eq!(one_free().takes(3, 1_700, QUEUED, WAITS_BEHIND).finds(), ["out of turn"]);
    assert_eq!(one_free().takes(3, 1_700, QUEUED, AT_ONCE).finds(), ["out of turn"]);
    // A request at the same time may have been first.
    assert!(one_free().asks(3, 1_500, QUEUED, WAITS_BEHIND).took(3, 1_700).finds().is_empty());
    assert!(one_free().took(2, 1_950).finds().is_empty());
}

#[test]
fn a_ticket_that_is_not_gone_in_time_is_found_and_one_that_is_lost() {
    // The waiter is killed: its ticket expires 0.8 s after its last possible request.
    let behind = |trace: Trace, millis, ahead: u64| {
        trace.asks(3, millis, QUEUED, WAITS_BEHIND).line(3, millis, &format!("behind {ahead}"))
    };
    assert!(behind(waiting(), 1_950, 1).finds().is_empty());
    assert_eq!(behind(waiting(), 1_950, 2).finds(), ["ghost in the queue"]);
    let left = || waiting().line(2, 1_910, "settles").line(2, 1_911, "settled 2");
    assert_eq!(behind(left(), 1_912, 1).finds(), ["ghost in the queue"]);
    let first = |ahead: u64| {
        let full =
            Trace::default().takes(0, 1_000, QUEUED, AT_ONCE).takes(1, 1_000, QUEUED, AT_ONCE);
        let other = full.asks(2, 1_100, QUEUED, WAITS).line(2, 1_101, "behind 0");
        let waits = other.asks(3, 1_200, QUEUED, WAITS).line(3, 1_201, "behind 0");
        waits.asks(3, 1_300, QUEUED, WAITS).line(3, 1_301, &format!("behind {ahead}")).finds()
    };
    assert_eq!((first(0), first(1)), (vec![], vec!["lost place"]));
}

#[test]
fn a_unit_that_nobody_gets_while_somebody_waits_is_found() {
    let waits = |until: u64| {
        let asks = (0..=(until - 10_000) / 100).fold(Trace::default(), |trace, ask| {
            let millis = 10_000 + 100 * ask;
            trace.asks(0, millis, QUEUED, WAITS).line(0, millis + 1, "failed 0")
        });
        (0..=(until - 10_000) / 100).fold(asks, |trace, ask| {
            let millis = 10_000 + 100 * ask;
            trace.asks(0, millis, QUEUED, WAITS).line(0, millis + 1, "behind 0")
        })
    };
    assert_eq!(waits(16_000).finds(), ["unfounded denial"]);
    assert_eq!(waits(18_000).finds(), ["lost unit", "unfounded denial"]);
}

#[test]
fn more_used_units_than_the_limit_are_found_however_they_were_settled() {
    // A named job that is settled for nothing, and one that isn't settled. A burst has 30 units.
    let (for_nothing, stays) = (0, 6);
    let full = |job: u64| {
        (0..30).fold(Trace::default(), |it, deal| it.job(deal, 1_000, GRANTS, (1, job + 24 * deal)))
    };
    let one_more = |trace: Trace| trace.job(99, 1_050, GRANTS, (1, stays + 24 * 99));
    assert!(full(stays).finds().is_empty());
    assert_eq!(one_more(full(stays)).finds(), ["too much used"]);
    assert!(full(stays).job(99, 1_100, GRANTS, (1, stays + 24 * 99)).finds().is_empty());
    // A settlement that may have happened counts as one. A settlement that came too late counts as usage of all held
    // units.
    let settled = |found: u64| {
        let trace = full(for_nothing).line(3, 1_010, "settles");
        one_more(trace.line(3, 1_011, &format!("settled {found}"))).finds()
    };
    assert_eq!((settled(0), settled(4)), (vec![], vec![]));
    assert_eq!(settled(3), ["too much used"]);
    // After a settlement that gave back twice, two are admitted instead of one.
    let twice = full(for_nothing).line(3, 1_010, "settles").line(3, 1_011, "settled 0");
    let twice = one_more(twice).job(98, 1_050, GRANTS, (1, stays + 24 * 98));
    assert_eq!(twice.finds(), ["too much used"]);
}

#[test]
fn an_id_that_is_charged_twice_is_found_by_its_times_and_by_who_is_denied() {
    let first = || Trace::default().job(0, 1_000, JOBS, (2, 7));
    let asks = |trace: Trace| trace.line(1, 1_100, &format!("asks {JOBS} 0 2 {AT_ONCE} 7"));
    assert!(asks(first()).line(1, 1_101, "took 1001000 1000000 1").finds().is_empty());
    assert_eq!(asks(first()).line(1, 1_101, "took 1100500 1000000 0").finds(), ["charged twice"]);
    // Eight of ten units remain, plus units that flow back.
    let asks = |units: u64| {
        let trace = first().line(1, 1_001, &format!("asks {JOBS} 0 {units} {AT_ONCE} 8"));
        trace.line(1, 1_001, "denied").finds()
    };
    assert_eq!((asks(9), asks(8)), (vec![], vec!["unfounded denial"]));
}
