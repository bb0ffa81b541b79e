//! Tests the reservation queue when nine in ten clients give up.
//!
//! The turns of cancelled reservations are passed to the next callers. No client gets an instant
//! that another client still holds, and no interval has more acts than the limit.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use sluicegate_conformance::schedules::Dice;
use sluicegate_conformance::suite::block_on;
use sluicegate_core::for_stores::DecisionForStores as _;
use sluicegate_core::{
    HoldId, Limit, OpenOptions, OpenedLimit as _, Operation, Receipt, Request, Span, Store,
    TimeSource, Timestamp,
};
use sluicegate_memory::MemoryStore;

const START: u64 = 1_699_920_000_000_000;
const SECOND: u64 = 1_000_000;
const CLIENTS: usize = 120;
/// Spacing of the binding policy: one act per 5 ms.
const SPACING: u64 = 5_000;

/// The state of a client that has an instant.
struct Holding {
    instant: u64,
    gives_up: bool,
    receipt: Option<Receipt>,
}

/// The instants that clients hold, and the acts.
struct Auditor {
    burst: u64,
    told: BTreeMap<u64, usize>,
    acts: Vec<u64>,
}

impl Auditor {
    fn tell(&mut self, instant: u64, client: usize) {
        let other = self.told.insert(instant, client);
        assert_eq!(other, None, "{client} was told {instant}, which another holds");
    }

    fn give_up(&mut self, instant: u64, client: usize) {
        assert_eq!(self.told.remove(&instant), Some(client));
    }

    /// Records an act. Its instant stays taken, so that no other client gets it again.
    fn act(&mut self, now: u64) {
        self.acts.push(now);
    }

    /// Checks that every interval has at most burst + rate·t acts.
    fn assert_limit_was_kept(&self) {
        let mut least = i128::MAX;
        for (index, at) in self.acts.iter().enumerate() {
            let owed = i128::from(SPACING) * index as i128 - i128::from(*at);
            least = least.min(owed);
            let most = i128::from(SPACING) * (i128::from(self.burst) - 1);
            assert!(owed - least <= most, "too many acts until {at}");
        }
    }
}

/// Returns the acts per second, after a second in which the queue fills.
async fn acts_per_second<S: Store>(
    store: &S,
    (specs, burst): (&[&str], u64),
    seconds: u64,
    hands_on: bool,
) -> u64 {
    let limit = Limit::new("giving-up", specs).unwrap();
    let run = format!("giving-up-{}-{hands_on}", std::process::id());
    let options = OpenOptions::default().time(TimeSource::Injected { run });
    let opened = store.open(limit, options);
    let mut dice = Dice::new(7);
    let mut auditor = Auditor { burst, told: BTreeMap::new(), acts: Vec::new() };
    let mut clients: Vec<Option<Holding>> = (0..CLIENTS).map(|_| None).collect();
    let mut events: BinaryHeap<Reverse<(u64, usize)>> =
        (0..CLIENTS).map(|client| Reverse((START + dice.below(20_000), client))).collect();
    while let Some(Reverse((now, client))) = events.pop() {
        if now > START + seconds * SECOND {
            break;
        }
        let at = Timestamp::from_micros(now).unwrap();
        let pause = now + 1 + dice.below(20_000);
        let next = match clients[client].take() {
            Some(Holding { instant, gives_up: true, receipt }) => {
                auditor.give_up(instant, client);
                let receipt = receipt.unwrap();
                let is_given_back = opened.ask(Request::cancel(&receipt).at(at)).wait().await;
                let again = opened.ask(Request::cancel(&receipt).at(at)).wait().await;
                let [first, again] =
                    [is_given_back, again].map(|answer| answer.unwrap().is_allowed());
                assert!(!again || !hands_on, "a reservation is cancelled once");
                assert!(first || !hands_on, "a turn that is ahead is handed on");
                pause
            }
            Some(Holding { instant, .. }) => {
                assert_eq!(now, instant);
                auditor.act(now);
                pause
            }
            None => {
                let (one, two) = (dice.next(), dice.next());
                let id = (u128::from(one) << 64 | u128::from(two)).to_be_bytes();
                let id = HoldId::from_bytes(id);
                let is_check = dice.one_in(50);
                let request = if is_check {
                    Request::check(b"all")
                } else {
                    let reserve = Operation::Reserve { within: Span::SECOND };
                    let request = Request::new(reserve, b"all");
                    if hands_on { request.in_line_as(&id) } else { request.with_receipt() }
                };
                let mut decision = opened.ask(request.at(at)).wait().await.unwrap();
                if decision.is_denied() {
                    pause
                } else {
                    let wait = Span::from(decision.wait()).as_micros();
                    let instant = now + wait;
                    auditor.tell(instant, client);
                    let patience = 1_000 + dice.below(50_000);
                    let gives_up = !dice.one_in(10) && patience < wait;
                    let receipt = decision.take_receipt();
                    clients[client] = Some(Holding { instant, gives_up, receipt });
                    if gives_up { now + patience } else { instant }
                }
            }
        };
        events.push(Reverse((next, client)));
    }
    auditor.assert_limit_was_kept();
    let counted = auditor.acts.iter().filter(|at| **at >= START + SECOND).count() as u64;
    counted / (seconds - 1)
}

const ONE: (&[&str], u64) = (&["gcra 200/s burst 1"], 1);
const TWO: (&[&str], u64) = (&["token_bucket 200/s burst 20", "leaky_bucket 400/s capacity 1"], 20);

#[test]
fn turns_are_handed_on_by_the_embedded_store() {
    block_on(async {
        for what in [ONE, TWO] {
            let lost = acts_per_second(&MemoryStore::new(), what, 10, false).await;
            let handed_on = acts_per_second(&MemoryStore::new(), what, 10, true).await;
            assert!(lost < 60, "{lost} acts per second if turns are lost: {what:?}");
            assert!(handed_on >= 180, "{handed_on} acts per second: {what:?}");
        }
    });
}

#[cfg(feature = "servers")]
#[test]
fn turns_are_handed_on_by_a_real_server() {
    use sluicegate_redis::RedisStore;
    use sluicegate_testkit::servers::{Server, available};

    block_on(async {
        for binary in available().unwrap() {
            let server = Server::start_with(&binary, &[]).unwrap();
            let builder = RedisStore::builder(&server.url()).unwrap();
            let store = builder.deadline(Duration::from_secs(5)).build();
            let handed_on = acts_per_second(&store, ONE, 3, true).await;
            assert!(handed_on >= 180, "{handed_on} acts per second");
        }
    });
}
