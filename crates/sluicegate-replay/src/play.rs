//! Deciding the requests of a recording.

use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use sluicegate_core::{
    Answer, Costs, Decision, Error, Limit, OpenOptions, OpenedLimit, Operation, Request,
    RequestError, RequestErrorKind, Store, TimeSource, Timestamp,
};

use crate::plan::Plan;
use crate::recording::{Arrival, OfKey, Recording};
use crate::report::Report;
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
    /// When the store fails, or would have to be waited for. A cost that no state can hold is no
    /// failure: that request is denied.
    pub fn play_now<S: Store>(
        &self,
        store: &S,
        recording: &Recording,
        progress: &(impl Fn(u64) + Sync),
    ) -> Result<Report, Error> {
        let timeline = recording.timeline();
        let tallies = play_now(store, &self.limits, recording, timeline, progress)?;
        Ok(self.report(&tallies, recording, timeline))
    }

    /// Like [`Plan::play_now`], in any store: many keys at once, each in order. If the store fails
    /// midway, the states it still has expire.
    ///
    /// # Errors
    /// When the store fails. A cost that no state can hold is no failure: that request is denied.
    pub async fn play<S: Store>(
        &self,
        store: &S,
        recording: &Recording,
        progress: &(impl Fn(u64) + Sync),
    ) -> Result<Report, Error> {
        let timeline = recording.timeline();
        let tallies = play(store, &self.limits, recording, timeline, progress).await?;
        Ok(self.report(&tallies, recording, timeline))
    }
}

/// How many keys to decide at once in a remote store: enough to hide the round trips.
const KEYS_AT_ONCE: usize = 256;

/// A time source that shares no state with any other run.
fn fresh_run() -> TimeSource {
    let random = || RandomState::new().hash_one(std::process::id());
    TimeSource::Injected { run: format!("replay-{:016x}{:016x}", random(), random()) }
}

/// Decides every request under each limit by itself, in a store that answers at once: each core
/// takes one key after the other.
fn play_now<S: Store>(
    store: &S,
    limits: &[Limit],
    recording: &Recording,
    timeline: Timeline,
    progress: &(impl Fn(u64) + Sync),
) -> Result<Vec<LimitTally>, Error> {
    let run = fresh_run();
    let keys: Vec<_> = recording.by_key().collect();
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(keys.len());
    let mut tallies = Vec::with_capacity(limits.len());
    for limit in limits {
        let opened = store.open(limit.clone(), OpenOptions::default().time(run.clone()));
        let next = AtomicUsize::new(0);
        let work = || {
            let mut tally = LimitTally::new(limit.members().len(), timeline);
            let mut of_key = KeyTally::new(limit.members().len(), timeline);
            while let Some(requests) = keys.get(next.fetch_add(1, Ordering::Relaxed)) {
                let key = recording.keys.get(requests.key);
                play_key_now(&opened, key, *requests, &mut of_key)?;
                tally.add(requests.key, requests.len(), &of_key);
                progress(requests.len());
            }
            Ok::<_, Error>(tally)
        };
        let tally = thread::scope(|scope| {
            let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
            let mut whole = LimitTally::new(limit.members().len(), timeline);
            for worker in workers {
                whole.merge(worker.join().unwrap_or_else(|panic| resume_unwind(panic))?);
            }
            Ok::<_, Error>(whole)
        })?;
        tallies.push(tally);
    }
    Ok(tallies)
}

fn play_key_now(
    opened: &impl OpenedLimit,
    key: &[u8],
    requests: OfKey<'_>,
    of_key: &mut KeyTally,
) -> Result<(), Error> {
    let mut last = Timestamp::EPOCH;
    of_key.clear();
    for Arrival { at, costs, .. } in requests.iter() {
        count(of_key, at_once(opened.ask(check(key, at, costs))), at)?;
        last = at;
    }
    let _ = at_once(opened.ask(reset(key, last)))?;
    Ok(())
}

/// Decides every request under each limit by itself, in any store: many keys at once, each in
/// order. Afterwards the store keeps nothing of them; when it fails on the way, what it
/// keeps expires.
async fn play<S: Store>(
    store: &S,
    limits: &[Limit],
    recording: &Recording,
    timeline: Timeline,
    progress: &(impl Fn(u64) + Sync),
) -> Result<Vec<LimitTally>, Error> {
    let run = fresh_run();
    let mut tallies = Vec::with_capacity(limits.len());
    for limit in limits {
        let opened = store.open(limit.clone(), OpenOptions::default().time(run.clone()));
        let mut tally = LimitTally::new(limit.members().len(), timeline);
        let mut keys = recording.by_key();
        let mut under_way = FuturesUnordered::new();
        loop {
            while under_way.len() < KEYS_AT_ONCE
                && let Some(requests) = keys.next()
            {
                let key = recording.keys.get(requests.key);
                let of_key = KeyTally::new(limit.members().len(), timeline);
                under_way.push(play_key(&opened, key, requests, of_key));
            }
            let Some(played) = under_way.next().await else { break };
            let (requests, of_key) = played?;
            tally.add(requests.key, requests.len(), &of_key);
            progress(requests.len());
        }
        tallies.push(tally);
    }
    Ok(tallies)
}

async fn play_key<'r>(
    opened: &impl OpenedLimit,
    key: &[u8],
    requests: OfKey<'r>,
    mut of_key: KeyTally,
) -> Result<(OfKey<'r>, KeyTally), Error> {
    let mut last = Timestamp::EPOCH;
    for Arrival { at, costs, .. } in requests.iter() {
        let answer = opened.ask(check(key, at, costs)).wait().await;
        count(&mut of_key, answer, at)?;
        last = at;
    }
    let _ = opened.ask(reset(key, last)).wait().await?;
    Ok((requests, of_key))
}

fn check<'a>(key: &'a [u8], at: Timestamp, costs: Costs<'a>) -> Request<'a> {
    Request::check(key).costs(costs).at(at)
}

/// Forgets a key whose requests are all decided: a store never holds more than the keys in work.
fn reset(key: &[u8], at: Timestamp) -> Request<'_> {
    Request::new(Operation::Reset, key).at(at)
}

/// The answer of a store that has to answer immediately.
fn at_once<F: Future<Output = Result<Decision, Error>>>(
    answer: Answer<F>,
) -> Result<Decision, Error> {
    answer.now().unwrap_or_else(|| {
        let message = "the store can't answer immediately: use `Plan::play`";
        Err(RequestError::new(RequestErrorKind::WouldBlock, message).into())
    })
}

fn count(
    of_key: &mut KeyTally,
    answer: Result<Decision, Error>,
    at: Timestamp,
) -> Result<(), Error> {
    match answer {
        Ok(decision) => of_key.add(&decision, at),
        // The cost is the line's, so one line is refused and the rest goes on.
        Err(Error::Request(error)) if error.kind() == RequestErrorKind::Overflow => {
            of_key.add_beyond(at);
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::{Arc, Mutex};

    use sluicegate::{MemoryLimit, MemoryStore, StoreId};

    use super::*;
    use crate::reader::LogReader;

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
        let limits: Vec<_> =
            [&["sliding_log 12/min"][..], &["gcra 15/min", "fixed_window 90/h aligned"][..]]
                .map(|specs| sluicegate::limit("l", specs).unwrap())
                .into();
        let (recording, told) = (recording(), |_| ());
        let timeline = recording.timeline();
        let at_once = MemoryStore::new();
        let expected = play_now(&at_once, &limits, &recording, timeline, &told).unwrap();
        assert!(expected.iter().all(|tally| tally.whole.denied > 500));
        assert_eq!(play(&late, &limits, &recording, timeline, &told).await.unwrap(), expected);
        assert!(late.most_waiting.load(Ordering::Relaxed) > 10);
    }

    #[test]
    fn a_replay_can_be_spawned() {
        fn is_send(_: &impl Send) {}
        let (recording, store) = (recording(), MemoryStore::new());
        let plan = Plan::side_by_side(["gcra 1/s".parse().unwrap()]);
        is_send(&plan.play(&store, &recording, &|_| ()));
    }
}
