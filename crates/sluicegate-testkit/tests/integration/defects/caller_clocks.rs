//! Source 0: a sorted-set window, a token bucket and a funnel in floats, by the callers' clocks.

use sluicegate_conformance::schedules::{Kind, Plan, each};
use sluicegate_core::{Cost, Policy, RequestErrorKind, RetryAfter, Span};
use sluicegate_testkit::servers::Reply;

use crate::defects::everywhere::{
    DAY, Everywhere, HOUR, KINDS, MIN, MS, S, START, at, every, limit, retry, times,
};
use crate::defects::libraries::assert_answers_like_the_model;
use crate::defects::raw::{injected, on_each_server};
use crate::scripted::Scripted;

/// Seed defect 0.1.
#[test]
fn a_thousand_calls_in_one_instant_are_a_thousand_calls() {
    for spec in ["sliding_log 1/s", "sliding_window 1/s slices 10", "fixed_window 1/s"] {
        let in_one_us = Everywhere::new(&[spec]).allowed(times(1_000, 0));
        let in_one_ms = Everywhere::new(&[spec]).allowed(every(1, 0, 1_000));
        assert_eq!((in_one_us, in_one_ms), (1, 1), "{spec}");
    }
    let fifty_each_ms = (0..100).flat_map(|ms| times(50, ms * MS));
    assert_eq!(Everywhere::new(&["sliding_log 100/s"]).allowed(fifty_each_ms), 100);
}

/// Seed defect 0.2.
#[test]
fn refused_calls_do_not_lock_the_caller_out() {
    let allowed = |spec: &str, step, end| Everywhere::new(&[spec]).allowed(every(step, 0, end));
    assert_eq!(allowed("sliding_log 10/s", 50 * MS, MIN), 600);
    assert_eq!(allowed("sliding_log 10/s", 90 * MS, MIN), 557);
    assert_eq!(allowed("sliding_log 5/10s", 500 * MS, 10 * MIN), 300);
}

/// Seed defect 0.3: at most 10 counted entries of 14 bytes, and a TTL bounded by the window.
#[test]
fn a_log_keeps_no_more_entries_than_its_limit_and_idle_keys_go() {
    let each_ms = every(MS, 0, MIN);
    assert_eq!(Everywhere::embedded(&["sliding_log 10/min"]).allowed(each_ms), 10);
    on_each_server(|raw| {
        let handle = raw.open_injected(&["sliding_log 10/min"]);
        let mut allowed = 0;
        // A call each ms for 1 s, then each second for 2 min: expired entries free their places.
        for ms in (0..1_000).chain((1..120).map(|second| second * 1_000)) {
            allowed += u32::from(raw.ask(&handle, injected(ms * MS)).is_allowed());
        }
        assert_eq!(allowed, 20);
        let longest = raw.keys().into_iter().map(|key| raw.number(&[b"STRLEN", &key])).max();
        assert!(longest <= Some(20 * 14), "{longest:?} bytes: 10 that count, 10 that have left");
    });
    on_each_server(|raw| {
        let handle = raw.open(&["sliding_log 10/min"]);
        for index in 0..200_u32 {
            let subject = index.to_string();
            let _ = raw.ask(&handle, sluicegate_core::Request::check(subject.as_bytes()));
        }
        let keys = raw.keys();
        assert_eq!(keys.len(), 400, "the packed states and the log of each");
        for key in keys {
            let life = raw.life(&key);
            // The entries' own key is renewed once per window, so it lasts for two windows.
            assert!((1..=120_002).contains(&life), "{} lives {life} ms", key.escape_ascii());
        }
    });
    let own = sluicegate_conformance::reference::Clock::Own { max_clock_back_us: 5 * S };
    let mut scripts =
        Scripted::new(crate::defects::everywhere::policies(&["sliding_log 10/min"]), own);
    for index in 0..2_000_u32 {
        let subject = index.to_string();
        let check = sluicegate_core::Operation::Check;
        let _ =
            scripts.decide(START, subject.as_bytes(), check, sluicegate_core::Costs::Own).unwrap();
    }
    assert_eq!(scripts.stored().len(), 4_000);
    scripts.expire(START + 2 * MIN + 2 * MS);
    assert_eq!(scripts.stored().len(), 0);
}

/// Seed defect 0.4: the time of clients is never used. If the store's own clock was an hour ahead,
/// requests of that time count as made now.
#[test]
fn a_clock_that_is_ahead_neither_doubles_the_limit_nor_locks_out() {
    on_each_server(|node_a| {
        let node_b = node_a.another();
        let (a, b) = (node_a.open(&["sliding_log 5/10s"]), node_b.open(&["sliding_log 5/10s"]));
        let ahead = node_b.try_ask(&b, injected(10 * S)).unwrap_err();
        let kind = ahead.as_request().unwrap().kind();
        assert_eq!(kind, RequestErrorKind::Invalid, "a request can't bring a time");
        let allowed = (0..5).map(|_| {
            u32::from(node_a.check(&a).is_allowed()) + u32::from(node_b.check(&b).is_allowed())
        });
        assert_eq!(allowed.sum::<u32>(), 5);
    });
    // B takes its 5 immediately, A calls every 10 s for 58 min.
    let mut one_clock = Everywhere::of_nodes(&["sliding_log 5/10s"], 2);
    assert_eq!(one_clock.allowed(times(5, 0).map(|ask| ask.node(1))), 5);
    assert_eq!(one_clock.allowed(every(10 * S, 10 * S, 3_510 * S)), 350);
    // The store's own clock was an hour ahead for those 5: 10 s from the first call on.
    let mut stepped = Everywhere::own_clock(&["sliding_log 5/10s"]);
    assert_eq!(stepped.allowed(times(5, HOUR)), 5);
    let first = stepped.ask(at(0));
    assert!(first.warnings().restamped);
    assert_eq!(retry(&first), Some(10 * S));
    assert_eq!(stepped.allowed(every(10 * S, 10 * S, 3_510 * S)), 350);
}

/// Seed defect 0.5.
#[test]
fn the_first_call_pays_too() {
    for spec in ["token_bucket 10/s", "gcra 10/s", "leaky_bucket 10/s"] {
        assert_eq!(Everywhere::new(&[spec]).allowed(times(1_000, 0)), 10, "{spec}");
        let in_tens = times(100, 0).map(|ask| ask.cost(10));
        assert_eq!(10 * Everywhere::new(&[spec]).allowed(in_tens), 10, "{spec}");
        assert_eq!(retry(&Everywhere::new(&[spec]).ask(at(0).cost(1_000))), None, "{spec}");
    }
}

/// Seed defects 0.6 and, for every kind, library defect 7.19.
#[test]
fn a_cost_above_the_capacity_is_refused_for_ever_and_says_so() {
    let mut all = Everywhere::new(&["token_bucket 10/s"]);
    for attempt in 0..10 {
        assert_eq!(retry(&all.ask(at(attempt * 1_001 * MS).cost(11))), None);
    }
    assert_eq!(all.remaining(10_010 * MS), 10, "and costs nothing");
    for spec in
        KINDS.iter().filter(|spec| !spec.starts_with("smooth") && !spec.starts_with("warmup"))
    {
        let mut all = Everywhere::new(&[spec]);
        for ask in [at(0), at(0).peek(), at(10 * S)] {
            assert_eq!(retry(&all.ask(ask.cost(11))), None, "{spec}");
        }
        assert!(all.ask(at(20 * S).cost(10)).is_allowed(), "{spec}");
    }
}

/// Seed defect 0.7: token bucket and funnel; one call a second before the change.
#[test]
fn a_live_key_is_judged_by_the_present_numbers() {
    for word in ["token_bucket", "leaky_bucket"] {
        let (fast, slow) = (format!("{word} 100/s"), format!("{word} 1/s"));
        let mut down = Everywhere::new(&[&fast]);
        assert!(down.ask(at(0)).is_allowed());
        down.set_policies(&[&slow]);
        assert_eq!(down.allowed(every(10 * MS, S, 11 * S + 1)), 11);
        let mut up = Everywhere::new(&[&slow]);
        assert!(up.ask(at(0)).is_allowed());
        up.set_policies(&[&fast]);
        assert_eq!(up.allowed(every(MS, S, 11 * S + 1)), 1_100);
    }
}

/// Seed defect 0.8.
#[test]
fn one_call_from_the_future_holds_nobody_up() {
    for spec in ["token_bucket 10/s", "leaky_bucket 10/s"] {
        for ahead in [MIN, HOUR] {
            let mut all = Everywhere::own_clock(&[spec]);
            assert!(all.ask(at(ahead)).is_allowed());
            let asks: Vec<_> = every(100 * MS, 0, 10 * MIN).collect();
            assert_eq!(all.allowed(asks), 6_000, "{spec}: at once, and from then on");
        }
        // Two nodes under the store's one clock, at 20/s each for 60 s, which take turns to be
        // first.
        let mut shared = Everywhere::of_nodes(&[spec], 2);
        let mut allowed = [0_u64; 2];
        for tick in 0..1_200_u64 {
            let first = usize::from(tick % 4 >= 2);
            for node in [first, 1 - first] {
                allowed[node] += u64::from(shared.ask(at(tick * 50 * MS).node(node)).is_allowed());
            }
        }
        assert_eq!(allowed.iter().sum::<u64>(), 609, "10 and 10 a second for 59.95 s");
        assert!(allowed.iter().all(|&allowed| allowed >= 300), "{allowed:?}");
    }
}

/// Seed defect 0.9.
#[test]
fn the_wait_is_rounded_up_and_never_is_a_value_of_its_own() {
    for (spec, millis, micros) in [
        ("token_bucket 3/10s burst 1", Some(3_334), Some(3_333_334)),
        ("token_bucket 3000/s burst 1", Some(1), Some(334)),
        ("token_bucket 0/s burst 1", None, None),
    ] {
        let mut all = Everywhere::new(&[spec]);
        assert!(all.ask(at(0)).is_allowed());
        let refused = all.ask(at(0));
        assert_eq!(refused.retry_after().as_millis_ceil(), millis, "{spec}");
        assert_eq!(retry(&refused), micros, "{spec}");
        if let Some(micros) = micros {
            assert!(all.ask(at(micros - 1)).is_denied(), "{spec}");
            assert!(all.ask(at(micros)).is_allowed(), "{spec}");
        } else {
            assert_eq!(all.ask(at(365 * DAY)).retry_after(), RetryAfter::Never);
        }
    }
}

/// Seed defect 0.10.
#[test]
fn a_call_at_the_exact_moment_passes() {
    assert_eq!(
        Everywhere::new(&["token_bucket 1/49ms"]).allowed(every(49 * MS, 0, 49_000 * MS)),
        1_000
    );
    for interval in 1..=1_000_u64 {
        let mut all = Everywhere::embedded(&[&format!("token_bucket 1/{interval}ms")]);
        let exact = every(interval * MS, 0, 20 * interval * MS);
        assert_eq!(all.allowed(exact), 20, "{interval} ms");
    }
    let plan = Plan {
        kinds: vec![Kind::TokenBucket, Kind::LeakyBucket],
        max_policies: 1,
        ..Plan::default()
    };
    each("30 000 decisions of buckets", 500, |seed| {
        assert_answers_like_the_model(&plan.schedule(seed));
    });
}

/// Seed defect 0.11.
#[test]
fn units_below_a_microsecond_and_empty_windows_are_refused() {
    for spec in
        ["token_bucket 1/ns", "leaky_bucket 1/ns", "token_bucket 1/0s", "leaky_bucket 1/0us"]
    {
        assert!(spec.parse::<Policy>().is_err(), "{spec}");
    }
    for spec in [
        "sliding_log 1/0s",
        "fixed_window 1/0s",
        "sliding_counter 1/0s",
        "sliding_window 1/0s slices 1",
    ] {
        assert!(spec.parse::<Policy>().is_err(), "{spec}");
    }
    // A microsecond is a valid unit.
    let mut all = Everywhere::new(&["token_bucket 1/us burst 10"]);
    assert_eq!(all.allowed(times(2_000, 0)), 10);
    assert_eq!(all.allowed(times(2_000, 3)), 3);
}

/// Seed defect 0.12: a cost below 1 can't be created.
#[test]
fn a_cost_can_not_make_tokens() {
    assert!(Cost::new(0).is_err());
    let negative = (-1_000_i64).cast_unsigned();
    assert!(Cost::try_from(negative).is_err(), "however it was cast");
    let mut all = Everywhere::new(&["token_bucket 10/s"]);
    assert_eq!(all.allowed(times(11, 0)), 10);
    assert_eq!(all.try_ask(at(0).costs(&[negative])).unwrap_err(), RequestErrorKind::Invalid);
    assert_eq!(all.allowed(times(10, 0)), 0);
}

/// Seed defect 0.13.
#[test]
fn a_funnel_is_charged_the_cost_of_the_very_call() {
    let mut one = Everywhere::new(&["leaky_bucket 1/h capacity 1"]);
    assert_eq!(retry(&one.ask(at(0).cost(100))), None);
    assert_eq!(one.allowed(times(2, 0)), 1);
    let mut ten = Everywhere::new(&["leaky_bucket 1/h capacity 10"]);
    assert!(ten.ask(at(0)).is_allowed());
    assert_eq!(ten.allowed(times(50, 0).map(|ask| ask.cost(10))), 0);
    assert_eq!(ten.ask(at(0).take(10)).granted(), 9, "at most 9 more units");
    // A cost of 0 is not charged, and admits nothing else.
    let mut zero = Everywhere::new(&["leaky_bucket 1/h capacity 10"]);
    assert!(zero.ask(at(0).costs(&[0])).is_allowed());
    assert_eq!(zero.allowed(times(1_000, 0)), 10);
}

/// Seed defect 0.14: the leaky bucket as a meter is a token bucket. Only the shaper paces requests.
#[test]
fn a_meter_lets_bursts_through_and_a_shaper_paces() {
    let asks: Vec<_> = every(10 * MS, 0, MIN).collect();
    assert_eq!(asks.len(), 6_000);
    let funnel = Everywhere::new(&["leaky_bucket 10/s capacity 10"]).allowed_at(asks.clone());
    let bucket = Everywhere::new(&["token_bucket 10/s burst 10"]).allowed_at(asks);
    assert_eq!(funnel, bucket, "0 of 6000 differ");
    assert_eq!(funnel.iter().filter(|&&instant| instant <= S).count(), 20);
    let mut paced = Everywhere::new(&["shaper 10/s queue 9"]);
    let waits: Vec<_> = (0..10).map(|_| Span::from(paced.ask(at(0)).wait()).as_micros()).collect();
    assert_eq!(waits, (0..10).map(|place| place * 100 * MS).collect::<Vec<_>>());
    assert_eq!(retry(&paced.ask(at(0))), Some(100 * MS));
}

/// Seed defect 0.15.
#[test]
fn a_key_of_another_type_starts_fresh_and_every_key_expires() {
    let mut all = Everywhere::new(&["sliding_log 3/min as same"]);
    for spec in
        ["token_bucket 3/min as same", "fixed_window 3/min as same", "sliding_log 3/min as same"]
    {
        all.set_policies(&[spec]);
        assert_eq!(all.allowed(times(10, 0)), 3, "{spec}");
        let _ = all.ask(at(0).to(sluicegate_core::Operation::Reset));
    }
    on_each_server(|raw| {
        let handle = raw.open(&["token_bucket 10/min"]);
        let _ = raw.check(&handle);
        let key = raw.only_key();
        // A foreign list is stored where the states should be.
        raw.command(&[b"DEL", &key]);
        raw.command(&[b"RPUSH", &key, b"1"]);
        let healed = raw.check(&handle);
        assert!(healed.is_allowed() && healed.warnings().discarded);
        assert!(!raw.check(&handle).warnings().discarded);
        assert_eq!(raw.command(&[b"TYPE", &key]), Reply::Status("string".to_owned()));
        for index in 0..1_000_u32 {
            let subject = index.to_string();
            let _ = raw.ask(&handle, sluicegate_core::Request::check(subject.as_bytes()));
        }
        for key in raw.keys() {
            let life = raw.life(&key);
            assert!((1..=12_002).contains(&life), "{} lives {life} ms", key.escape_ascii());
        }
    });
}

/// Seed defect 0.16: a wait is a queue position, and the whole wait is compared.
#[test]
fn waiters_who_would_wait_too_long_are_refused_at_once() {
    let mut all = Everywhere::new(&["token_bucket 1/s burst 1"]);
    let answers = all.ask_all(&vec![at(0).reserve(1_500 * MS); 20]);
    let waits: Vec<_> = answers
        .iter()
        .map(|answer| answer.as_ref().unwrap())
        .filter(|decision| decision.is_allowed())
        .map(|decision| Span::from(decision.wait()).as_micros())
        .collect();
    assert_eq!(waits, [0, S], "one now and one in a second; the next would wait 2 s");
    let last = answers[19].as_ref().unwrap();
    assert_eq!(retry(last), Some(500 * MS), "then a second of waiting would do");
}

/// Seed defect 0.17, as far as the core is concerned: a refusal is a complete value.
#[test]
fn a_refusal_is_a_typed_answer() {
    let mut all = Everywhere::new(&["token_bucket 1/s", "fixed_window 1/min as minute"]);
    assert!(all.ask(at(0)).is_allowed());
    let refused = all.ask(at(0));
    assert_eq!(refused.binding_index(), Some(1));
    assert_eq!(
        limit(&["token_bucket 1/s", "fixed_window 1/min as minute"]).position("minute"),
        Some(1)
    );
    assert_eq!(refused.retry_after(), RetryAfter::After(Span::MINUTE.into()));
    assert_eq!(refused.policy(0).unwrap().reset_after(), Some(Span::SECOND.into()));
}
