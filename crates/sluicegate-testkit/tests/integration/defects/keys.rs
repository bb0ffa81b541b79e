//! Defects of published libraries with keys: their TTLs, their bytes and their owners.

use sluicegate_conformance::reference::Clock;
use sluicegate_conformance::schedules::{Dice, Plan, Step, each};
use sluicegate_core::{
    Costs, Limit, OpenOptions, Operation, Request, RequestErrorKind, Span, Store as _, TimeSource,
    Timestamp,
};
use sluicegate_testkit::wait::until;

use crate::defects::everywhere::{
    Everywhere, HOUR, KINDS, MS, S, START, at, kinds_of_ten, policies, slow, times,
};
use crate::defects::raw::{Raw, check_of, injected, on_each_server, to};
use crate::scripted::Scripted;

/// Library defect 7.1: two connections with their own states, one clock.
#[test]
fn two_clients_never_take_more_than_the_limit_between_them() {
    on_each_server(|raw| {
        let other = raw.another();
        for spec in kinds_of_ten().map(slow) {
            let (a, b) = (raw.open(&[&spec]), other.open(&[&spec]));
            let pair =
                |_| u32::from(raw.check(&a).is_allowed()) + u32::from(other.check(&b).is_allowed());
            assert_eq!((0..20).map(pair).sum::<u32>(), 10, "{spec}");
            let dated = raw.try_ask(&a, injected(HOUR)).unwrap_err();
            assert_eq!(
                dated.as_request().unwrap().kind(),
                RequestErrorKind::Invalid,
                "{spec}: no client's time is taken"
            );
            let _ = raw.ask(&a, to(Operation::Reset, 1));
        }
    });
}

/// Library defect 7.5: by a clock under which keys expire.
#[test]
fn a_key_lives_at_least_until_its_state_is_fresh_again() {
    let awkward = [
        "gcra 1/199ms",
        "token_bucket 1/3s",
        "token_bucket 3/7s burst 5",
        "leaky_bucket 7/3s capacity 1",
        "token_bucket 1/us burst 1",
        "gcra 333/s burst 1",
        "shaper 7/3s queue 3",
        "smooth 3/7s burst 1s start full",
        "warmup 3/7s over 10s",
        "fixed_window 3/1001us",
        "sliding_counter 3/1001us",
        "sliding_log 3/1001us and 5/7s",
        "sliding_window 3/7ms slices 7",
        "sliding_window 3/700ms slices 100",
    ];
    for spec in awkward.into_iter().chain(KINDS) {
        for (charged, after) in [(1, 0), (3, 1), (15, 999)] {
            let mut scripts =
                Scripted::new(policies(&[spec]), Clock::Own { max_clock_back_us: 5 * S });
            let cost = Costs::Same(sluicegate_core::Cost::new(charged).unwrap());
            let decision = scripts.decide(START + after, b"k", Operation::Charge, cost).unwrap();
            let fresh = START
                + after
                + Span::from(decision.policy(0).unwrap().reset_after().unwrap()).as_micros();
            for (key, stored) in scripts.stored() {
                let expires = stored.expires_ms.unwrap() * MS;
                assert!(
                    expires >= fresh,
                    "{spec} {}: {expires} before {fresh}",
                    key.escape_ascii()
                );
            }
        }
        // So no answer ever shows an expiry.
        let mut all = Everywhere::own_clock(&[spec]);
        let mut dice = Dice::named(spec);
        let mut now = 0;
        for _ in 0..200 {
            now += dice.below(100) * MS + dice.below(1_000);
            let _ = all.ask(at(now).cost(1 + dice.below(3)));
        }
    }
}

/// Returns the longest permitted TTL of a key in ms.
///
/// This is a calendar's window, or a day for a policy that starts empty. For all others, it is the
/// time until the state is fresh again.
fn longest_life(spec: &str, reset: Option<Span>) -> i64 {
    let reset = i64::try_from(reset.unwrap().as_millis_ceil()).unwrap();
    let least = match spec {
        _ if spec.contains("calendar") => 25 * 3_600_000,
        _ if spec.starts_with("smooth") && !spec.contains("full") => 86_400_000,
        _ => 0,
    };
    least.max(reset) + 2
}

/// Library defects 7.8 and 7.9.
#[test]
fn every_key_has_a_life_and_none_a_longer_one_than_stated() {
    on_each_server(|raw| {
        for spec in KINDS.map(slow) {
            let handle = raw.open(&[&spec]);
            for (operation, units) in [
                (Operation::Check, 1),
                (Operation::Check, 4),
                (Operation::Take, 3),
                (Operation::Refund, 2),
                (Operation::Check, 50),
                (Operation::Charge, 25),
                (Operation::Refund, 1),
                (Operation::Check, 1),
            ] {
                let before =
                    raw.ask(&handle, to(Operation::Peek, 1)).policy(0).unwrap().reset_after();
                let after = raw.ask(&handle, to(operation, units)).policy(0).unwrap().reset_after();
                for key in raw.keys() {
                    let (life, most) =
                        (raw.life(&key), longest_life(&spec, before.max(after).map(Span::from)));
                    assert!(
                        (1..=most).contains(&life),
                        "{spec} {operation:?} {}: {life} of {most} ms",
                        key.escape_ascii()
                    );
                }
            }
            let _ = raw.ask(&handle, to(Operation::Reset, 1));
            assert!(raw.keys().is_empty(), "{spec}: {:?}", raw.keys());
        }
    });
}

/// Library defects 7.10, 7.11 and 7.18: a denial and a peek change no bytes and no TTLs, and a
/// refund extends no TTL.
#[test]
fn denials_and_peeks_change_no_byte_and_lengthen_no_life() {
    on_each_server(|raw| {
        for spec in KINDS.map(slow) {
            let handle = raw.open(&[&spec]);
            let _ = raw.ask(&handle, to(Operation::Peek, 1));
            assert!(raw.keys().is_empty(), "{spec}: a peek at a fresh key");
            let _ = raw.ask(&handle, check_of(1));
            until("a denial", || {
                let decision = raw.check(&handle);
                if decision.is_denied() { Ok(()) } else { Err(decision.remaining()) }
            });
            let (bytes, lives) = (raw.dump(), lives(&raw));
            for request in [
                check_of(1),
                check_of(5),
                check_of(1_000_000),
                to(Operation::Peek, 1),
                to(Operation::Take, 9),
            ] {
                let _ = raw.ask(&handle, request);
                assert_eq!(raw.dump(), bytes, "{spec} {request:?}");
                assert!(
                    lives.iter().zip(self::lives(&raw)).all(|(before, after)| after <= *before),
                    "{spec}"
                );
            }
            let before = self::lives(&raw);
            let _ = raw.ask(&handle, to(Operation::Refund, 1));
            let after = self::lives(&raw);
            // One kind is renewed to its initial TTL, but not longer: the policy that must be kept
            // for a day.
            let anew = if spec == "smooth 10/w burst 1w" { 86_400_002 } else { 0 };
            for (before, after) in before.iter().zip(after) {
                assert!(after <= anew.max(before + 1), "{spec}: {before} ms and then {after}");
            }
            let _ = raw.ask(&handle, to(Operation::Reset, 1));
        }
    });
}

fn lives(raw: &Raw<'_>) -> Vec<i64> {
    raw.keys().iter().map(|key| raw.life(key)).collect()
}

/// Library defect 7.7: with any numbers, a script fails before it writes, or not at all.
#[test]
fn an_error_comes_before_any_write() {
    on_each_server(|raw| {
        let mut errors = 0;
        each("errors write nothing", 40, |seed| {
            let schedule = Plan::default().schedule(seed);
            let run = TimeSource::Injected { run: seed.to_string() };
            let open = |policies: &[sluicegate_core::Policy]| {
                let limit = Limit::new("test", policies.to_vec()).unwrap();
                raw.store.open(limit, OpenOptions::default().time(run.clone()))
            };
            let mut handle = open(&schedule.policies);
            for step in &schedule.steps {
                match step {
                    Step::SetPolicies(policies) => handle = open(policies),
                    Step::Request(request) => {
                        let (operation, costs) = request.operation.for_store();
                        let is_error = request.expected.is_err();
                        let before = is_error.then(|| raw.dump());
                        let at = Timestamp::from_micros(request.now_us).unwrap();
                        let asked = Request::new(operation, &request.key).costs(costs).at(at);
                        let got = raw.try_ask(&handle, asked);
                        assert_eq!(got.is_err(), is_error, "{got:?}\n{schedule}");
                        if let Some(before) = before {
                            errors += 1;
                            assert_eq!(raw.dump(), before, "{schedule}");
                        }
                    }
                }
            }
        });
        assert!(errors > 0 || std::env::var_os("SLUICEGATE_SEED").is_some());
    });
}

/// Library defect 7.15, for units without an id: a refund to an unknown subject creates no key.
#[test]
fn a_refund_to_an_unknown_subject_leaves_no_trace() {
    on_each_server(|raw| {
        for spec in KINDS.map(slow) {
            let handle = raw.open(&[&spec]);
            let _ = raw.ask(&handle, to(Operation::Refund, 5));
            assert!(raw.keys().is_empty(), "{spec}");
            let malformed = to(Operation::Refund, 1).costs(Costs::Each(&[u64::MAX]));
            let error = raw.try_ask(&handle, malformed).unwrap_err();
            assert_eq!(error.as_request().unwrap().kind(), RequestErrorKind::Invalid);
        }
    });
}

/// Library defect 7.23 and seed defect 1.7: either key of a log may be evicted. Then the log is new
/// and complete, and the next decisions are as usual.
#[test]
fn a_log_that_lost_one_of_its_keys_starts_afresh() {
    on_each_server(|raw| {
        for spec in
            ["sliding_log 10/h", "sliding_log 10/h and 20/d", "sliding_window 10/h slices 3600"]
        {
            for lost in 0..2 {
                for taken in [1, 7, 10] {
                    let handle = raw.open(&[spec]);
                    for _ in 0..taken {
                        assert!(raw.check(&handle).is_allowed());
                    }
                    let keys = raw.keys();
                    assert_eq!(keys.len(), 2);
                    raw.command(&[b"DEL", &keys[lost]]);
                    let first = raw.check(&handle);
                    assert!(first.is_allowed(), "{spec}");
                    assert_eq!(
                        first.warnings().discarded,
                        lost == 1,
                        "{spec}: half a state is reported"
                    );
                    assert_eq!(
                        (0..20).filter(|_| raw.check(&handle).is_allowed()).count(),
                        9,
                        "{spec}"
                    );
                    assert!(raw.keys().iter().all(|key| raw.life(key) > 0), "{spec}");
                    let _ = raw.ask(&handle, to(Operation::Reset, 1));
                }
            }
        }
    });
}

/// Library defect 7.27.
#[test]
fn no_subject_is_another_and_a_reset_is_no_pattern() {
    let subjects = [
        "", "*", "a", "a*", "ab", "?", "[ab]", "a:b", "a%3ab", "A", "ä", "a ", "{a}", "}", "a\n",
        "a\0",
    ];
    let mut all = Everywhere::new(&["sliding_log 2/h", "fixed_window 2/h"]);
    for subject in subjects {
        assert_eq!(all.allowed(times(3, 0).map(|ask| ask.key(subject))), 2, "{subject:?}");
    }
    for reset in ["*", "a*", "?", "[ab]"] {
        let _ = all.ask(at(0).key(reset).to(Operation::Reset));
        for subject in subjects {
            let left = all.ask(at(0).key(subject).peek()).remaining();
            assert_eq!(
                left,
                Some(if subject == reset { 2 } else { 0 }),
                "{subject:?} after {reset}"
            );
        }
        assert_eq!(all.allowed(times(3, 0).map(|ask| ask.key(reset))), 2);
    }
}
