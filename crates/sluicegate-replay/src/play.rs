//! Deciding the requests of a recording.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use sluicegate_core::{
    Decision, Error, Hold, HoldId, Limit, Member, OpenOptions, OpenedLimit, Operation, Policy,
    Request, RequestError, RequestErrorKind, Span, Store, StoreError, StoreErrorKind, TimeSource,
    Timestamp, Used,
};

use crate::need;
use crate::plan::{Needs, Plan, alone, played};
use crate::recording::Recording;
use crate::report::Report;
use crate::requests::{Arrival, OfKey};
use crate::tally::{KeyTally, LimitTally};
use crate::timeline::Timeline;

impl Plan {
    /// Decides every request of a recording in a store that answers immediately, on every core. The
    /// states are separate from all others, and are deleted when their key is done.
    ///
    /// Calls `progress` at intervals with the number of decisions since the last call; in total,
    /// [`Plan::decisions`].
    ///
    /// # Errors
    /// Returns an error if the store fails, or doesn't answer immediately. A cost that no state can hold isn't a
    /// failure: that request counts as an error.
    pub fn play_now<S: Store>(
        &self,
        store: &S,
        recording: &Recording,
        progress: &(impl Fn(u64) + Sync),
    ) -> Result<Report, Error> {
        let timeline = recording.timeline();
        let tallies = play_now(store, self, recording, timeline, progress)?;
        let needs = at_once(needs_of(store, &self.limits, &tallies, recording))?;
        self.report(&tallies, &needs, recording, timeline)
    }

    /// Like [`Plan::play_now`], in any store: many keys at the same time, each in order. If the store fails
    /// midway, the states it still has expire.
    ///
    /// # Errors
    /// Returns an error if the store fails. A cost that no state can hold isn't a failure: that request counts as
    /// an error.
    pub async fn play<S: Store>(
        &self,
        store: &S,
        recording: &Recording,
        progress: &(impl Fn(u64) + Sync),
    ) -> Result<Report, Error> {
        let timeline = recording.timeline();
        let tallies = play(store, self, recording, timeline, progress).await?;
        let needs = needs_of(store, &self.limits, &tallies, recording).await?;
        self.report(&tallies, &needs, recording, timeline)
    }
}

impl Plan {
    /// Opens each limit, with states that no other run shares, and a tally of its own.
    fn opened<S: Store>(&self, store: &S, timeline: Timeline) -> Vec<(S::Opened, LimitTally)> {
        let options = fresh_run();
        let opened = |limit: &Limit| {
            let tally = LimitTally::new(limit.members().len(), self.top, timeline);
            (store.open(played(limit), options.clone()), tally)
        };
        self.limits.iter().map(opened).collect()
    }
}

/// The number of keys that are decided concurrently in a remote store: enough to hide the round trips.
const KEYS_AT_ONCE: usize = 256;

/// Options of limits that share no state with any other run.
pub(crate) fn fresh_run() -> OpenOptions {
    let random = || RandomState::new().hash_one(std::process::id());
    let run = format!("replay-{:016x}{:016x}", random(), random());
    OpenOptions::default().time(TimeSource::Injected { run })
}

/// Decides every request under each limit separately, in a store that answers immediately.
fn play_now<S: Store>(
    store: &S,
    plan: &Plan,
    recording: &Recording,
    timeline: Timeline,
    progress: &(impl Fn(u64) + Sync),
) -> Result<Vec<LimitTally>, Error> {
    let mut played = plan.opened(store, timeline);
    for part in recording.parts() {
        let part = part?;
        let keys: Vec<_> = part.by_key().collect();
        for (opened, whole) in &mut played {
            let policies = opened.limit().members().len();
            let tallies = on_every_core(
                &keys,
                || {
                    (
                        LimitTally::new(policies, plan.top, timeline),
                        KeyTally::new(policies, timeline),
                    )
                },
                |(tally, of_key), requests| {
                    let key = recording.keys.get(requests.key);
                    at_once(play_key(opened, key, *requests, of_key))?;
                    tally.add(requests.key, requests.len(), of_key);
                    progress(requests.len());
                    Ok(())
                },
            )?;
            tallies.into_iter().for_each(|(tally, _)| whole.merge(tally));
        }
    }
    Ok(played.into_iter().map(|(_, tally)| tally).collect())
}

/// Works on every key, each core on one key after the other, and returns what each core made of its keys.
pub(crate) fn on_every_core<K: Sync, T: Send>(
    keys: &[K],
    new: impl Fn() -> T + Sync,
    work: impl Fn(&mut T, &K) -> Result<(), Error> + Sync,
) -> Result<Vec<T>, Error> {
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(keys.len());
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut made = new();
        while let Some(key) = keys.get(next.fetch_add(1, Ordering::Relaxed)) {
            work(&mut made, key)?;
        }
        Ok(made)
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(worker)).collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        joined.map(|made| made.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}

/// Decides every request under each limit separately, in any store: many keys concurrently, each in
/// order. Afterwards the store keeps nothing of them. If it fails before, what it keeps expires.
async fn play<S: Store>(
    store: &S,
    plan: &Plan,
    recording: &Recording,
    timeline: Timeline,
    progress: &(impl Fn(u64) + Sync),
) -> Result<Vec<LimitTally>, Error> {
    let mut played = plan.opened(store, timeline);
    for part in recording.parts() {
        let part = part?;
        for (opened, tally) in &mut played {
            let opened = &*opened;
            let policies = opened.limit().members().len();
            let mut keys = part.by_key();
            let mut under_way = FuturesUnordered::new();
            loop {
                while under_way.len() < KEYS_AT_ONCE
                    && let Some(requests) = keys.next()
                {
                    let key = recording.keys.get(requests.key);
                    under_way.push(async move {
                        let mut of_key = KeyTally::new(policies, timeline);
                        play_key(opened, key, requests, &mut of_key).await?;
                        Ok::<_, Error>((requests, of_key))
                    });
                }
                let Some(played) = under_way.next().await else { break };
                let (requests, of_key) = played?;
                tally.add(requests.key, requests.len(), &of_key);
                progress(requests.len());
            }
        }
    }
    Ok(played.into_iter().map(|(_, tally)| tally).collect())
}

async fn play_key(
    opened: &impl OpenedLimit,
    key: &[u8],
    requests: OfKey<'_>,
    of_key: &mut KeyTally,
) -> Result<(), Error> {
    of_key.clear();
    decide(opened, key, requests, |answer, at| match answer {
        Ok(decision) => of_key.add(decision, at),
        Err(error) => of_key.add_error(error, at),
    })
    .await
}

/// Decides the requests of a key in order, and makes the store forget the key. `look` receives each decision, or the
/// error of a request whose cost no state can hold: only that request is refused.
pub(crate) async fn decide(
    opened: &impl OpenedLimit,
    key: &[u8],
    requests: OfKey<'_>,
    mut look: impl FnMut(Result<&Decision, &RequestError>, Timestamp),
) -> Result<(), Error> {
    let mut last = Timestamp::EPOCH;
    let holds = opened.limit().has_permits();
    let mut in_flight = BinaryHeap::new();
    for (number, Arrival { at, costs, lasts }) in requests.iter().enumerate() {
        while let Some((end, id)) = next_end(&mut in_flight, at) {
            let _ = opened.ask(Request::settle(key, id, Used::AsCharged).at(end)).wait().await?;
        }
        let hold =
            Hold { id: HoldId::from_bytes((number as u128).to_be_bytes()), lasts: Span::DAY };
        let mut request = Request::check(key).costs(costs).at(at);
        if holds {
            request = request.hold(&hold);
        }
        match opened.ask(request).wait().await {
            Ok(decision) if decision.notes().full => {
                let message =
                    "has no memory for the states of another key: its denials say nothing";
                return Err(StoreError::new(StoreErrorKind::Unavailable, message).into());
            }
            Ok(decision) => {
                if decision.hold().is_some() {
                    in_flight.push(Reverse((at.saturating_add(lasts), hold.id)));
                }
                look(Ok(&decision), at);
            }
            Err(Error::Request(error)) if error.kind() == RequestErrorKind::Overflow => {
                look(Err(&error), at);
            }
            Err(error) => return Err(error),
        }
        last = at;
    }
    let _ = opened.ask(Request::new(Operation::Reset, key).at(last)).wait().await?;
    Ok(())
}

/// Takes the request that ends first, if it has ended by a time: a permit isn't in use at its end.
fn next_end(
    in_flight: &mut BinaryHeap<Reverse<(Timestamp, HoldId)>>,
    by: Timestamp,
) -> Option<(Timestamp, HoldId)> {
    let Reverse((end, _)) = in_flight.peek()?;
    if *end > by { None } else { in_flight.pop().map(|Reverse(ended)| ended) }
}

/// The result of a future over a store that has to answer immediately.
pub(crate) fn at_once<T>(future: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    future.now_or_never().unwrap_or_else(|| {
        let message = "the store can't answer immediately: use `Plan::play`";
        Err(RequestError::new(RequestErrorKind::WouldBlock, message).into())
    })
}

/// What the listed keys would have needed of each limit, policy by policy.
async fn needs_of<S: Store>(
    store: &S,
    limits: &[Limit],
    tallies: &[LimitTally],
    recording: &Recording,
) -> Result<Vec<Needs>, Error> {
    let listed: Vec<HashSet<_>> = tallies.iter().map(|tally| tally.listed().collect()).collect();
    let mut needs = vec![Needs::new(); limits.len()];
    if listed.iter().all(HashSet::is_empty) {
        return Ok(needs);
    }
    // Opened once: each opened limit has tables of its own.
    let open = |part: Policy| store.open(played(&alone(1, part)), fresh_run());
    let widest = |member: &Member| {
        let parts: Vec<_> = need::widest(member.policy()).into_iter().map(open).collect();
        (member.policy().clone(), parts)
    };
    let widest: Vec<Vec<_>> =
        limits.iter().map(|limit| limit.members().iter().map(widest).collect()).collect();
    for part in recording.parts() {
        for requests in part?.by_key() {
            let key = recording.keys.get(requests.key);
            for (index, members) in widest.iter().enumerate() {
                if !listed[index].contains(&requests.key) {
                    continue;
                }
                let mut policies = Vec::with_capacity(members.len());
                for (policy, parts) in members {
                    let mut numbers = Vec::with_capacity(parts.len());
                    for opened in parts {
                        numbers.push(used_of_widest(opened, key, requests).await?);
                    }
                    let numbers: Option<Vec<_>> = numbers.into_iter().collect();
                    policies.push(numbers.and_then(|numbers| need::raised(policy, &numbers)));
                }
                needs[index].insert(requests.key, policies);
            }
        }
    }
    Ok(needs)
}

/// The maximum that a key has used of a limit of one policy in its [widest](need::widest) form; `None` if even that
/// denies a request. Requests whose cost no state can hold don't count.
pub(crate) async fn used_of_widest(
    opened: &impl OpenedLimit,
    key: &[u8],
    requests: OfKey<'_>,
) -> Result<Option<u64>, Error> {
    let mut used = Some(0);
    decide(opened, key, requests, |answer, _| {
        let Ok(decision) = answer else { return };
        let numbers = decision.policies().next().and_then(|outcome| {
            outcome.is_admitted().then_some(())?;
            outcome.limit()?.checked_sub(outcome.remaining()?)
        });
        used = used.zip(numbers).map(|(most, number)| most.max(number));
    })
    .await?;
    Ok(used)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use sluicegate::{MemoryLimit, MemoryStore, StoreId};
    use sluicegate_core::Answer;

    use super::*;
    use crate::reader::LogReader;
    use crate::record::{Moment, Record};

    /// A store that answers late, some requests later than others, and notes who is waiting.
    #[derive(Clone, Default)]
    struct Late {
        inner: MemoryStore,
        waiting: Arc<Mutex<HashSet<Vec<u8>>>>,
        most_waiting: Arc<AtomicUsize>,
    }

    struct LateLimit(MemoryLimit, Late);

    impl Store for Late {
        type Opened = LateLimit;

        fn id(&self) -> StoreId {
            self.inner.id()
        }

        fn open(&self, limit: Limit, options: OpenOptions) -> LateLimit {
            LateLimit(self.inner.open(limit, options), self.clone())
        }
    }

    impl OpenedLimit for LateLimit {
        fn limit(&self) -> &Limit {
            self.0.limit()
        }

        fn ask<'a>(
            &'a self,
            request: Request<'a>,
        ) -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a> {
            let Late { waiting, most_waiting, .. } = &self.1;
            Answer::Later(async move {
                let key = request.key();
                let is_alone = waiting.lock().unwrap().insert(key.to_vec());
                assert!(is_alone, "two requests of one key are under way");
                let second = request.time().unwrap().as_micros() / 1_000_000;
                for _ in 0..second * key.len() as u64 % 7 {
                    tokio::task::yield_now().await;
                }
                let many = waiting.lock().unwrap().len();
                most_waiting.fetch_max(many, Ordering::Relaxed);
                let answer = self.0.decide(request);
                waiting.lock().unwrap().remove(key);
                answer
            })
        }
    }

    fn recording() -> Recording {
        let mut log = String::new();
        for number in 0..5_000_u64 {
            let key = "k".repeat(usize::try_from(number * number % 61).unwrap());
            let time = number * 7_919 % 1_000;
            log.push_str(&format!(
                "{{\"time\":{time},\"key\":\"{key}\",\"cost\":{}}}\n",
                number % 3 + 1
            ));
        }
        LogReader::new("log").read(log.as_bytes()).unwrap()
    }

    #[tokio::test]
    async fn late_answers_come_to_the_same_and_each_key_keeps_its_order() {
        let late = Late::default();
        let limits =
            [&["sliding_log 12/min"][..], &["gcra 15/min", "fixed_window 90/h aligned"][..]]
                .map(|specs| sluicegate::limit("l", specs).unwrap());
        let plan = |limit: &Limit| Plan::together(limit.clone());
        let (recording, told) = (recording(), |_| ());
        let timeline = recording.timeline();
        let at_once = MemoryStore::new();
        for plan in limits.iter().map(plan) {
            let expected = play_now(&at_once, &plan, &recording, timeline, &told).unwrap();
            assert!(expected.iter().all(|tally| tally.whole.denied > 500));
            assert_eq!(play(&late, &plan, &recording, timeline, &told).await.unwrap(), expected);
        }
        assert!(late.most_waiting.load(Ordering::Relaxed) > 10);
    }

    /// Requests of one key, each with its time and duration in seconds.
    fn lasting(requests: &[(u64, u64)], moment: Moment) -> Recording {
        let mut recording = Recording::new("log", None);
        for (time, duration) in requests {
            let mut record = Record::at(time * 1_000_000);
            record.duration = Some(duration * 1_000_000);
            recording.add(b"k", &record, moment).unwrap();
        }
        recording.sort().unwrap();
        recording
    }

    fn denied(recording: &Recording, spec: &str) -> u64 {
        let plan = Plan::side_by_side([spec.parse().unwrap()]);
        let report = plan.play_now(&MemoryStore::new(), recording, &|_| ()).unwrap();
        report.subjects().next().unwrap().denied()
    }

    #[test]
    fn a_permit_is_released_when_its_request_ends() {
        // Ends at 4, 5 and 7; the last one starts when the first ends.
        let starts = lasting(&[(1, 3), (2, 3), (3, 1), (4, 3)], Moment::Start);
        assert_eq!(denied(&starts, "concurrency 2 hold 30s"), 1);
        assert_eq!(denied(&starts, "concurrency 3 hold 30s"), 0);
        assert_eq!(denied(&starts, "concurrency 1 hold 30s"), 2);
        // A holder renews its permit: a hold shorter than the request makes no difference.
        assert_eq!(denied(&starts, "concurrency 2 hold 1s"), 1);
    }

    #[test]
    fn requests_whose_time_is_the_end_are_decided_in_order_of_their_start() {
        let starts = lasting(&[(10, 50), (20, 1), (30, 5), (40, 1)], Moment::Start);
        // The same requests, in the order in which a server logs their ends.
        let ends = lasting(&[(21, 1), (35, 5), (41, 1), (60, 50)], Moment::End);
        for (spec, expected) in
            [("concurrency 1 hold 30s", 3), ("concurrency 2 hold 30s", 0), ("gcra 1/25s", 2)]
        {
            assert_eq!(
                (denied(&starts, spec), denied(&ends, spec)),
                (expected, expected),
                "{spec}"
            );
        }
    }

    #[test]
    fn a_number_that_a_key_needed_denies_none_of_its_requests() {
        let recording = recording();
        for spec in [
            "sliding_log 12/min and 100/h",
            "token_bucket 10/min burst 3",
            "gcra 10/min burst 3",
            "leaky_bucket 10/min capacity 3",
            "shaper 10/min queue 2",
            "fixed_window 9/min",
            "fixed_window 9/min aligned",
            "fixed_window 9/d calendar UTC",
            "sliding_window 9/min",
            "sliding_counter 9/min",
        ] {
            let play = |spec: &str| {
                let plan = Plan::side_by_side([spec.parse().unwrap()]).top(100);
                plan.play_now(&MemoryStore::new(), &recording, &|_| ()).unwrap()
            };
            let report = play(spec);
            let listed = &report.policies[0].counts.denied_most;
            assert!(!listed.is_empty(), "{spec}");
            for key in listed {
                let needed = key.needed.as_ref().unwrap();
                let raised = play(needed);
                let still = &raised.policies[0].counts.denied_most;
                assert!(still.iter().all(|other| other.key != key.key), "{spec}: {needed}");
            }
        }
        let report = Plan::side_by_side(["smooth 10/min".parse().unwrap()]);
        let report = report.play_now(&MemoryStore::new(), &recording, &|_| ()).unwrap();
        assert_eq!(report.policies[0].counts.denied_most[0].needed, None);
    }

    #[test]
    fn a_replay_can_be_spawned() {
        fn is_send(_: &impl Send) {}
        let (recording, store) = (recording(), MemoryStore::new());
        let plan = Plan::side_by_side(["gcra 1/s".parse().unwrap()]);
        is_send(&plan.play(&store, &recording, &|_| ()));
    }
}
