//! While a store fails, each process decides by its share. The store is charged after its recovery.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::num::NonZeroU16;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sluicegate::decision::Source;
use sluicegate::error::{RequestErrorKind, StoreErrorKind};
use sluicegate::layers::{Fallback, FallbackChange, FallbackLimit, FallsBack, Processes};
use sluicegate::policy::Cost;
use sluicegate::store::{
    Costs, Measure, MemoryLimit, OpenOptions, OpenedLimit as _, Operation, Request, Span, Store,
};
use sluicegate::testing::{ManualClock, Timestamp};
use sluicegate::{Decision, Error, Limit, MemoryStore};
use sluicegate_conformance::schedules::{Dice, each};
use sluicegate_testkit::layers::{Outage, Unsteady, UnsteadyLimit};

const AWAY: Outage = Outage::Away(StoreErrorKind::Unavailable);

/// Several processes that share a store, and each have a fallback.
struct Fleet {
    clock: Arc<ManualClock>,
    store: Unsteady<MemoryStore>,
    processes: Vec<Fallback<Unsteady<MemoryStore>>>,
    told: Arc<Mutex<Vec<String>>>,
}

type Opened = FallbackLimit<UnsteadyLimit<MemoryLimit>>;

fn fleet(processes: u16) -> Fleet {
    let clock = Arc::new(ManualClock::new(Timestamp::from_micros(1_790_000_000_000_000).unwrap()));
    let store = Unsteady::new(MemoryStore::builder().clock(clock.clone()).build());
    let told = Arc::new(Mutex::new(Vec::new()));
    let processes = (0..processes).map(|_| {
        let told = Arc::clone(&told);
        Fallback::builder(store.clone(), number(processes))
            .clock(clock.clone())
            .on_change(move |event| {
                told.lock().unwrap().push(match &event.change {
                    FallbackChange::Entered { because, processes } => {
                        format!("entered as one of {processes}: {because}")
                    }
                    FallbackChange::Left { after } => {
                        format!("left after {}", Span::from(*after).in_words())
                    }
                    change => panic!("{change:?}"),
                });
            })
            .build()
    });
    let processes = processes.collect();
    Fleet { clock, store, processes, told }
}

impl Fleet {
    fn open(&self, limit: &Limit) -> Vec<Opened> {
        let open = |process: &Fallback<_>| process.open(limit.clone(), OpenOptions::default());
        self.processes.iter().map(open).collect()
    }

    fn pass(&self, millis: u64) {
        self.clock.advance(Duration::from_millis(millis));
    }

    fn told(&self) -> Vec<String> {
        std::mem::take(&mut self.told.lock().unwrap())
    }
}

fn number(processes: u16) -> Processes {
    Processes::Number(NonZeroU16::new(processes).unwrap())
}

fn limit(specs: &[&str]) -> Limit {
    Limit::new("local", specs.iter().copied()).unwrap()
}

fn cost(units: u64) -> Costs<'static> {
    Costs::Same(Cost::new(units).unwrap())
}

fn ask(opened: &Opened, request: Request<'_>) -> Decision {
    opened.ask_now(request).unwrap().unwrap()
}

fn check(opened: &Opened, key: &str) -> Decision {
    ask(opened, Request::check(key.as_bytes()))
}

/// Returns how many of `checks` checks pass.
fn passed(opened: &Opened, key: &str, checks: usize) -> usize {
    (0..checks).filter(|_| check(opened, key).is_allowed()).count()
}

/// Returns the store's remaining units.
fn left(fleet: &Fleet, limit: &Limit, key: &str) -> Option<u64> {
    let plain = fleet.store.open(limit.clone(), OpenOptions::default());
    let peek = Request::new(Operation::Peek, key.as_bytes());
    plain.ask_now(peek).unwrap().unwrap().remaining()
}

fn measure(store: &impl Store, name: &str, label: Option<&str>) -> u64 {
    let measures = store.measures();
    let mut found = measures.iter().filter(|measure| {
        measure.name() == name && measure.labels().next().map(|(_, value)| value) == label
    });
    found.next().map(Measure::value).unwrap()
}

#[test]
fn while_the_store_fails_each_process_has_its_share_and_says_so_once() {
    let fleet = fleet(4);
    let limit = limit(&["fixed_window 40/h", "token_bucket 100/d burst 100 as daily"]);
    let opened = fleet.open(&limit);
    let decision = check(&opened[0], "alice");
    assert_eq!((decision.source(), decision.remaining()), (Source::Store, Some(39)));
    for kind in [
        StoreErrorKind::Unavailable,
        StoreErrorKind::Overloaded,
        StoreErrorKind::Timeout,
        StoreErrorKind::Disconnected,
        StoreErrorKind::Unacknowledged,
        StoreErrorKind::Unexpected,
    ] {
        fleet.store.set(Outage::Away(kind));
        assert_eq!(check(&opened[3], &format!("{kind:?}")).source(), Source::Fallback);
    }
    fleet.store.set(AWAY);
    for process in &opened {
        let decision = check(process, "alice");
        assert_eq!((decision.source(), decision.remaining()), (Source::Fallback, Some(9)));
        let quotas = decision.policies().map(|policy| policy.limit()).collect::<Vec<_>>();
        assert_eq!(quotas, [Some(10), Some(25)]);
        assert_eq!(passed(process, "alice", 20), 9);
        let denied = check(process, "alice");
        assert_eq!(denied.binding().unwrap().name().as_str(), "fixed_window");
        assert!(!denied.is_assumed());
    }
    let told = fleet.told();
    assert_eq!(told.len(), 4, "each says so once: {told:?}");
    assert!(told.iter().all(|told| told.starts_with("entered as one of 4: it is away")
        || told.starts_with("entered as one of 4: ")));

    fleet.store.set(None);
    fleet.pass(999);
    assert_eq!(check(&opened[0], "bob").source(), Source::Store);
    assert_eq!(fleet.told(), Vec::<String>::new(), "it may fail again");
    fleet.pass(1);
    for process in &opened {
        assert_eq!(check(process, "bob").source(), Source::Store);
    }
    assert_eq!(fleet.told(), vec!["left after 1 s".to_owned(); 4]);
    assert_eq!(measure(&fleet.processes[0], "fallback_answers", Some("true")), 10);
    assert_eq!(measure(&fleet.processes[0], "fallback_answers", Some("false")), 12);
    assert_eq!(measure(&fleet.processes[0], "fallback_active", None), 0);
}

#[test]
fn what_remains_is_charged_for_each_key_before_its_first_answer_and_once() {
    let fleet = fleet(2);
    let limit = limit(&["token_bucket 1/s burst 20", "fixed_window 100/h as hourly"]);
    let opened = fleet.open(&limit);
    for key in ["alice", "bob", "carol"] {
        assert_eq!(passed(&opened[0], key, 5), 5);
    }
    fleet.pass(10_000);
    fleet.store.set(AWAY);
    assert_eq!(passed(&opened[0], "alice", 30), 10);
    assert_eq!(passed(&opened[1], "alice", 4), 4);
    assert_eq!(passed(&opened[0], "bob", 3), 3);
    assert_eq!(measure(&fleet.processes[0], "fallback_owing_keys", None), 2);
    // Half a unit flows back in each second: of ten units five remain, of four none.
    fleet.pass(10_000);
    fleet.store.set(None);
    let asked = fleet.store.asked();
    assert_eq!(left(&fleet, &limit, "alice"), Some(20));
    let decision = ask(&opened[0], Request::new(Operation::Peek, b"alice"));
    assert_eq!(decision.source(), Source::Store);
    let remaining = |decision: &Decision| {
        decision.policies().map(|policy| policy.remaining().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(remaining(&decision), [15, 85], "five of the bucket and ten of the hour");
    assert_eq!(remaining(&check(&opened[1], "alice")), [14, 80]);
    // Requests of others don't affect it.
    assert_eq!(remaining(&check(&opened[1], "bob")), [19, 94]);
    assert_eq!(remaining(&check(&opened[0], "bob")), [18, 90]);
    for process in &opened {
        for key in ["alice", "bob", "carol"] {
            let _ = ask(process, Request::new(Operation::Peek, key.as_bytes()));
        }
    }
    assert_eq!(remaining(&check(&opened[0], "alice")), [13, 79]);
    assert_eq!(measure(&fleet.processes[0], "fallback_owing_keys", None), 0);
    assert_eq!(measure(&fleet.processes[0], "fallback_charges", Some("charged")), 2);
    assert!(fleet.store.asked() - asked < 30, "a peek, a charge and the request itself");
}

#[test]
fn a_store_that_comes_and_goes_does_not_fill_the_local_limiter_anew() {
    let fleet = fleet(2);
    let limit = limit(&["token_bucket 1/h burst 100"]);
    let opened = fleet.open(&limit);
    let mut all = 0;
    for _ in 0..50 {
        fleet.store.set(AWAY);
        all += passed(&opened[0], "alice", 2) + passed(&opened[1], "alice", 2);
        fleet.store.set(None);
        for process in &opened {
            let _ = ask(process, Request::new(Operation::Peek, b"alice"));
        }
    }
    assert_eq!(all, 100, "as much as one outage admits");
    assert_eq!(left(&fleet, &limit, "alice"), Some(0), "and all of it is charged");
    assert_eq!(measure(&fleet.processes[0], "fallback_charges", Some("charged")), 25);
}

#[test]
fn costs_and_denials_are_counted_as_they_were_charged() {
    let fleet = fleet(2);
    let limit = limit(&[
        "fixed_window 100/h",
        "fixed_window 40/h charge_denied as strict",
        "fixed_window 10/h shadow as watching",
    ]);
    let opened = fleet.open(&limit);
    fleet.store.set(AWAY);
    let costs = [8, 3, 4];
    let each = Request::check(b"alice").costs(Costs::Each(&costs));
    assert!(ask(&opened[0], each).is_allowed());
    // The shadow would refuse another four: it is not charged. Half of `strict` is charged with two
    // denials, and full.
    assert!(ask(&opened[0], each).is_allowed());
    let costs = [0, 20, 0];
    assert!(ask(&opened[0], Request::check(b"alice").costs(Costs::Each(&costs))).is_denied());
    let upto = Request::new(Operation::Take, b"bob").costs(cost(70));
    assert_eq!(ask(&opened[0], upto).granted(), 20);
    assert!(ask(&opened[0], Request::new(Operation::Peek, b"carol")).is_allowed());
    fleet.store.set(None);
    for (key, remaining) in [("alice", [84, 20, 6]), ("bob", [80, 20, 5]), ("carol", [100, 40, 10])]
    {
        let peek = ask(&opened[0], Request::new(Operation::Peek, key.as_bytes()));
        let found = peek.policies().map(|policy| policy.remaining().unwrap()).collect::<Vec<_>>();
        assert_eq!(found, remaining, "{key}");
    }
    let peek = Request::new(Operation::Peek, b"dave");
    for request in [Request::check(b"dave").costs(cost(2)), peek] {
        fleet.store.set(AWAY);
        assert!(ask(&opened[0], request).is_allowed());
        fleet.store.set(None);
        assert_eq!(ask(&opened[0], peek).remaining(), Some(38), "a peek is not charged");
    }
}

#[test]
fn several_limits_together_owe_for_each_of_their_keys() {
    let fleet = fleet(2);
    let named = |name: &str, spec: &str| Limit::new(name, [spec]).unwrap();
    let (user, org) = (named("user", "fixed_window 10/h"), named("org", "fixed_window 40/h"));
    let joint = Limit::together([user.clone(), org.clone()]).unwrap();
    let open = |limit: &Limit| fleet.processes[0].open(limit.clone(), OpenOptions::default());
    let (joint, user, org) = (open(&joint), open(&user), open(&org));
    fleet.store.set(AWAY);
    let together = |user: &'static [u8]| Request::check(user).also(&[b"acme"]);
    for _ in 0..3 {
        assert_eq!(ask(&joint, together(b"alice")).source(), Source::Fallback);
    }
    assert!(ask(&joint, together(b"bob")).is_allowed());
    assert_eq!(passed(&user, "alice", 9), 2, "it shares what is used with the limit alone");
    fleet.store.set(None);
    let decision = ask(&joint, together(b"alice"));
    let remaining = decision.policies().map(|policy| policy.remaining().unwrap());
    assert_eq!(remaining.collect::<Vec<_>>(), [10 - 5 - 1, 40 - 4 - 1]);
    assert_eq!(check(&org, "acme").remaining(), Some(40 - 4 - 2));
    assert_eq!(check(&user, "bob").remaining(), Some(10 - 1 - 1));
}

#[test]
fn what_cannot_be_decided_here_fails_as_the_store_does() {
    let fleet = fleet(4);
    let limit = limit(&["token_bucket 10/h burst 20 cost 2"]);
    let opened = &fleet.open(&limit)[0];
    let taken = check(opened, "alice").taken_at().unwrap();
    fleet.store.set(AWAY);
    for operation in [
        Operation::Charge,
        Operation::Refund,
        Operation::Reset,
        Operation::GiveBack { taken_at: taken },
    ] {
        let answer = opened.ask_now(Request::new(operation, b"alice")).unwrap();
        let error = answer.unwrap_err();
        assert_eq!(error.as_store().unwrap().kind(), StoreErrorKind::Unavailable, "{operation:?}");
    }
    // The store admits a cost of 6, which a share of 5 never does.
    let error = opened.ask_now(Request::check(b"alice").costs(cost(6))).unwrap().unwrap_err();
    assert_eq!(
        error.to_string(),
        "it is away; the request costs more than the share of this process"
    );
    let never = ask(opened, Request::check(b"alice").costs(cost(21)));
    assert!(never.is_denied() && never.retry_after() == sluicegate::RetryAfter::Never);
    let wrong = opened.ask_now(Request::check(b"alice").also(&[b"acme"])).unwrap().unwrap_err();
    assert_eq!(wrong.as_request().unwrap().kind(), RequestErrorKind::Invalid);
    let within = Span::from_millis(100_000_000).unwrap();
    let reserved = Request::new(Operation::Reserve { within }, b"alice").with_receipt();
    for _ in 0..3 {
        let reserved = ask(opened, reserved);
        assert_eq!((reserved.is_allowed(), reserved.receipt()), (true, None));
    }
    for options in [
        OpenOptions::default().layer(FallsBack(false)),
        OpenOptions::default()
            .time(sluicegate::store::TimeSource::Injected { run: "r".to_owned() }),
    ] {
        let is_injected = options.time != sluicegate::store::TimeSource::Store;
        let opened = fleet.processes[0].open(limit.clone(), options);
        let at = is_injected.then_some(Timestamp::EPOCH);
        let answer = opened.ask_now(Request::check(b"alice").at(at)).unwrap();
        assert!(matches!(answer, Err(Error::Store(_))));
    }
}

#[test]
fn a_reset_of_a_key_is_one_here_too() {
    let fleet = fleet(2);
    let limit = limit(&["fixed_window 10/h"]);
    let opened = &fleet.open(&limit)[0];
    fleet.store.set(AWAY);
    assert_eq!(passed(opened, "alice", 9), 5);
    fleet.store.set(None);
    assert!(ask(opened, Request::new(Operation::Reset, b"alice")).is_allowed());
    assert_eq!(check(opened, "alice").remaining(), Some(9));
    fleet.store.set(AWAY);
    assert_eq!(passed(opened, "alice", 9), 5);
}

#[test]
fn keys_beyond_those_that_may_owe_fail_as_the_store_does() {
    let fleet = fleet(1);
    let process = Fallback::builder(fleet.store.clone(), number(1))
        .clock(fleet.clock.clone())
        .most(2)
        .build();
    let opened = process.open(limit(&["gcra 1/s"]), OpenOptions::default());
    fleet.store.set(AWAY);
    assert!(check(&opened, "alice").is_allowed() && check(&opened, "bob").is_allowed());
    assert!(check(&opened, "alice").is_denied(), "it owes already");
    let error = opened.ask_now(Request::check(b"carol")).unwrap().unwrap_err();
    assert!(
        error.to_string().ends_with("as many keys as can be owe it something, so none is added")
    );
    assert!(ask(&opened, Request::new(Operation::Peek, b"carol")).is_allowed());
    // Units that have flowed back are no longer pending.
    fleet.pass(1_000);
    let is_decided = |_| opened.ask_now(Request::check(b"carol")).unwrap().is_ok();
    assert!((0..100).any(is_decided), "they are looked for by and by");
}

/// Checks the joint trace of all processes against the documentation, in any interval of length t.
///
/// - The bound is twice the burst and twice the refill in t.
/// - If all processes use the key after the recovery, it is twice the burst, the rate, and the rate again during the
///   outage.
/// - From the beginning of the only outage, it is once the burst and the rate.
#[test]
fn all_processes_together_admit_no_more_than_is_stated() {
    each("outages", 400, |seed| {
        let mut dice = Dice::new(seed);
        let count = dice.pick(&[1_u16, 2, 5]);
        let [per_second, burst] = [4, 8].map(|most| u64::from(count) * dice.between(1, most));
        let fleet = fleet(count);
        let limit = limit(&[&format!("token_bucket {per_second}/s burst {burst}")]);
        let opened = fleet.open(&limit);
        let (outages, all_ask) = (dice.pick(&[1, 1, 20]), dice.one_in(2));
        let (mut admitted, mut away, mut now) = (Vec::new(), Vec::new(), 0_u64);
        for phase in 0..=2 * outages {
            let is_away = phase % 2 == 1;
            let outage = if dice.one_in(3) { Outage::Silent } else { AWAY };
            fleet.store.set(is_away.then_some(outage));
            let end = now + dice.pick(&[1, 100, 1_000, 5_000, 20_000]);
            if is_away {
                away.push((now, end));
            } else if all_ask {
                for process in &opened {
                    let _ = ask(process, Request::new(Operation::Peek, b"alice"));
                }
            }
            while now < end {
                for _ in 0..dice.between(1, 30) {
                    if check(&opened[dice.below_len(opened.len())], "alice").is_allowed() {
                        admitted.push(now);
                    }
                }
                let step = dice.pick(&[1, 10, 250, 1_000]).min(end - now);
                now += step;
                fleet.pass(step);
            }
        }
        // In thousandths of a unit.
        let (rate, burst) = (|millis: u64| millis * per_second, burst * 1_000);
        for (first, &from) in admitted.iter().enumerate() {
            let is_first = first == 0 || admitted[first - 1] < from;
            for (index, &to) in admitted.iter().enumerate().skip(first).filter(|_| is_first) {
                let passed = 1_000 * (index - first + 1) as u64;
                let within =
                    |&(start, end): &(u64, u64)| to.min(end).saturating_sub(from.max(start));
                let again = if all_ask { away.iter().map(within).sum() } else { to - from };
                let mut most = 2 * burst + rate(to - from) + rate(again);
                if let (true, [(start, _)]) = (all_ask, &away[..])
                    && from >= *start
                {
                    most = burst + rate(to - start);
                }
                assert!(passed <= most, "{passed} from {from} to {to} ms, at most {most}");
            }
        }
    });
}
