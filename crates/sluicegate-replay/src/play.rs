//! The requests of a recording, decided.

use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use sluicegate_core::{
    Costs, Decision, EmbeddedStore, Limit, Operation, Request, Store, StoreError, StoreErrorKind,
    TimeSource, Timestamp,
};

use crate::plan::Plan;
use crate::recording::{OfKey, Recording};
use crate::report::Report;
use crate::tally::{KeyTally, LimitTally};
use crate::timeline::Timeline;

impl Plan {
    /// Decides every request of a recording in a store that answers at once, on every core. The
    /// states are apart from all others, and are deleted when their key is done.
    ///
    /// `progress` is told now and then how many more decisions were made: in the end,
    /// [`Plan::decisions`].
    ///
    /// # Errors
    /// When the store fails. A cost that no state can hold is no failure: that request is denied.
    pub fn play_now<S: EmbeddedStore>(
        &self,
        store: &S,
        recording: &Recording,
        progress: &(impl Fn(u64) + Sync),
    ) -> Result<Report, StoreError> {
        let timeline = recording.timeline();
        let tallies = play_now(store, &self.limits, recording, timeline, progress)?;
        Ok(self.report(&tallies, recording, timeline))
    }

    /// As [`Plan::play_now`], in any store: many keys at once, each in order. When the store fails
    /// on the way, what it keeps expires.
    ///
    /// # Errors
    /// When the store fails. A cost that no state can hold is no failure: that request is denied.
    pub async fn play<S: Store>(
        &self,
        store: &S,
        recording: &Recording,
        progress: &(impl Fn(u64) + Sync),
    ) -> Result<Report, StoreError> {
        let timeline = recording.timeline();
        let tallies = play(store, &self.limits, recording, timeline, progress).await?;
        Ok(self.report(&tallies, recording, timeline))
    }
}

/// How many keys a remote store works on at once: enough to hide the way there and back.
const KEYS_AT_ONCE: usize = 256;

/// A time source that shares no state with any other run.
fn fresh_run() -> TimeSource {
    let random = || RandomState::new().hash_one(std::process::id());
    TimeSource::Injected { run: format!("replay-{:016x}{:016x}", random(), random()) }
}

/// Decides every request under each limit by itself, in a store that answers at once: each core
/// takes one key after the other.
fn play_now<S: EmbeddedStore>(
    store: &S,
    limits: &[Arc<Limit>],
    recording: &Recording,
    timeline: Timeline,
    progress: &(impl Fn(u64) + Sync),
) -> Result<Vec<LimitTally>, StoreError> {
    let run = fresh_run();
    let keys: Vec<_> = recording.by_key().collect();
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(keys.len());
    let mut tallies = Vec::with_capacity(limits.len());
    for limit in limits {
        let handle = store.open(Arc::clone(limit), run.clone());
        let next = AtomicUsize::new(0);
        let work = || {
            let mut tally = LimitTally::new(limit.members().len(), timeline);
            let mut of_key = KeyTally::new(limit.members().len(), timeline);
            while let Some(requests) = keys.get(next.fetch_add(1, Ordering::Relaxed)) {
                play_key_now(
                    store,
                    &handle,
                    recording.keys.get(requests.key),
                    *requests,
                    &mut of_key,
                )?;
                tally.add(requests.key, requests.len(), &of_key);
                progress(requests.len());
            }
            Ok::<_, StoreError>(tally)
        };
        let tally = thread::scope(|scope| {
            let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
            let mut whole = LimitTally::new(limit.members().len(), timeline);
            for worker in workers {
                whole.merge(worker.join().unwrap_or_else(|panic| resume_unwind(panic))?);
            }
            Ok::<_, StoreError>(whole)
        })?;
        tallies.push(tally);
    }
    Ok(tallies)
}

fn play_key_now<S: EmbeddedStore>(
    store: &S,
    handle: &S::Handle,
    key: &[u8],
    requests: OfKey<'_>,
    of_key: &mut KeyTally,
) -> Result<(), StoreError> {
    let mut last = Timestamp::EPOCH;
    of_key.clear();
    for (at, costs) in requests.iter() {
        let answer = store.decide_now(handle, check(key, at, costs));
        count(of_key, &answer, at)?;
        last = at;
    }
    let _ = store.decide_now(handle, reset(key, last))?;
    Ok(())
}

/// Decides every request under each limit by itself, in any store: many keys at once, each in
/// order. Afterwards the store keeps nothing of them; when it fails on the way, what it
/// keeps expires.
async fn play<S: Store>(
    store: &S,
    limits: &[Arc<Limit>],
    recording: &Recording,
    timeline: Timeline,
    progress: &(impl Fn(u64) + Sync),
) -> Result<Vec<LimitTally>, StoreError> {
    let run = fresh_run();
    let mut tallies = Vec::with_capacity(limits.len());
    for limit in limits {
        let handle = store.open(Arc::clone(limit), run.clone());
        let mut tally = LimitTally::new(limit.members().len(), timeline);
        let mut keys = recording.by_key();
        let mut under_way = FuturesUnordered::new();
        loop {
            while under_way.len() < KEYS_AT_ONCE
                && let Some(requests) = keys.next()
            {
                let key = recording.keys.get(requests.key);
                let of_key = KeyTally::new(limit.members().len(), timeline);
                under_way.push(play_key(store, &handle, key, requests, of_key));
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

async fn play_key<'r, S: Store>(
    store: &S,
    handle: &S::Handle,
    key: &[u8],
    requests: OfKey<'r>,
    mut of_key: KeyTally,
) -> Result<(OfKey<'r>, KeyTally), StoreError> {
    let mut last = Timestamp::EPOCH;
    for (at, costs) in requests.iter() {
        let answer = store.decide(handle, check(key, at, costs)).await;
        count(&mut of_key, &answer, at)?;
        last = at;
    }
    let _ = store.decide(handle, reset(key, last)).await?;
    Ok((requests, of_key))
}

const fn check<'a>(key: &'a [u8], at: Timestamp, costs: Costs<'a>) -> Request<'a> {
    Request { key, also: &[], operation: Operation::Check, costs, at: Some(at) }
}

/// Forgets a key whose requests are all decided: a store never holds more than the keys in work.
const fn reset(key: &[u8], at: Timestamp) -> Request<'_> {
    Request { key, also: &[], operation: Operation::Reset, costs: Costs::Own, at: Some(at) }
}

/// By reference: a decision has room for many policies, and moving it would be a good part of the
/// work.
fn count(
    of_key: &mut KeyTally,
    answer: &Result<Decision, StoreError>,
    at: Timestamp,
) -> Result<(), StoreError> {
    match answer {
        Ok(decision) => of_key.add(decision, at),
        // The cost is the line's, so one line is refused and the rest goes on.
        Err(error) if error.kind() == StoreErrorKind::Overflow => of_key.add_beyond(at),
        Err(error) => return Err(error.clone()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Mutex;

    use sluicegate::{MemoryStore, SliceCounts};

    use super::*;
    use crate::reader::LogReader;

    /// A store that answers late, some requests later than others, and notes who is waiting.
    struct Late {
        inner: MemoryStore,
        waiting: Mutex<HashSet<Vec<u8>>>,
        most_waiting: AtomicUsize,
    }

    impl Store for Late {
        type Handle = <MemoryStore as Store>::Handle;
        type Receipt = <MemoryStore as Store>::Receipt;

        fn open(&self, limit: Arc<Limit>, time: TimeSource) -> Self::Handle {
            self.inner.open(limit, time)
        }

        async fn decide<'a>(
            &'a self,
            handle: &'a Self::Handle,
            request: Request<'a>,
        ) -> Result<Decision, StoreError> {
            let is_alone = self.waiting.lock().unwrap().insert(request.key.to_vec());
            assert!(is_alone, "two requests of one key are under way");
            let turns = request.at.unwrap().as_micros() / 1_000_000 * request.key.len() as u64 % 7;
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
            let waiting = self.waiting.lock().unwrap().len();
            self.most_waiting.fetch_max(waiting, Ordering::Relaxed);
            let answer = self.inner.decide(handle, request).await;
            self.waiting.lock().unwrap().remove(request.key);
            answer
        }

        async fn reserve<'a>(
            &'a self,
            handle: &'a Self::Handle,
            request: Request<'a>,
        ) -> Result<(Decision, Option<Self::Receipt>), StoreError> {
            self.inner.reserve(handle, request).await
        }

        async fn cancel<'a>(
            &'a self,
            handle: &'a Self::Handle,
            receipt: &'a Self::Receipt,
        ) -> Result<bool, StoreError> {
            self.inner.cancel(handle, receipt).await
        }

        async fn slices<'a>(
            &'a self,
            handle: &'a Self::Handle,
            request: Request<'a>,
        ) -> Result<SliceCounts, StoreError> {
            self.inner.slices(handle, request).await
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
        let late = Late {
            inner: MemoryStore::builder().build(),
            waiting: Mutex::default(),
            most_waiting: AtomicUsize::default(),
        };
        let limits: Vec<_> =
            [&["sliding_log 12/min"][..], &["gcra 15/min", "fixed_window 90/h aligned"][..]]
                .map(|specs| Arc::new(sluicegate::limit("l", specs).unwrap()))
                .into();
        let (recording, told) = (recording(), |_| ());
        let timeline = recording.timeline();
        let at_once = MemoryStore::builder().build();
        let expected = play_now(&at_once, &limits, &recording, timeline, &told).unwrap();
        assert!(expected.iter().all(|tally| tally.whole.denied > 500));
        assert_eq!(play(&late, &limits, &recording, timeline, &told).await.unwrap(), expected);
        assert!(late.most_waiting.into_inner() > 10);
    }

    #[test]
    fn a_replay_can_be_spawned() {
        fn is_send(_: &impl Send) {}
        let (recording, store) = (recording(), MemoryStore::builder().build());
        let plan = Plan::side_by_side(["gcra 1/s".parse().unwrap()]);
        is_send(&plan.play(&store, &recording, &|_| ()));
    }
}
