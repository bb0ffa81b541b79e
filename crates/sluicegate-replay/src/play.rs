//! Decides the requests of a recording.

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use sluicegate_core::{Error, Limit, OpenedLimit, Store};

use crate::decide::{at_once, decide, fresh_run, on_every_core};
use crate::listed::{needs, needs_now};
use crate::plan::{Plan, played};
use crate::recording::Recording;
use crate::report::Report;
use crate::requests::OfKey;
use crate::rules::KeyRule;
use crate::tally::{KeyTally, LimitTally};
use crate::timeline::Timeline;

impl Plan {
    /// Decides every request of a recording, on every core, in a store that answers immediately.
    ///
    /// The run uses its own states, and deletes a key's states once the key is done.
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
        let timeline = self.timeline(recording);
        let tallies = play_now(store, self, recording, timeline, progress)?;
        let needs = needs_now(store, self, &tallies, recording)?;
        Report::of(self, &tallies, &needs, recording, timeline)
    }

    /// Decides every request of a recording in any store: many keys at the same time, each key in
    /// order.
    ///
    /// Progress and states are as in [`Plan::play_now`]. If the store fails midway, the remaining
    /// states expire.
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
        let timeline = self.timeline(recording);
        let tallies = play(store, self, recording, timeline, progress).await?;
        let needs = needs(store, self, &tallies, recording).await?;
        Report::of(self, &tallies, &needs, recording, timeline)
    }
}

impl Plan {
    /// Opens each limit with states of its own run, and with its own tally.
    fn opened<S: Store>(&self, store: &S, timeline: Timeline) -> Vec<(S::Opened, LimitTally)> {
        let options = fresh_run();
        let opened = |limit: &Limit| {
            let tally = LimitTally::new(limit.members().len(), self, timeline);
            (store.open(played(limit), options.clone()), tally)
        };
        self.limits.iter().map(opened).collect()
    }
}

/// Number of keys decided concurrently in a remote store: enough to hide the round trips.
const KEYS_AT_ONCE: usize = 256;

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
                    // Open per core: concurrent keys would share the few locks of a small table.
                    let opened = store.open(opened.limit().clone(), fresh_run());
                    let tally = LimitTally::new(policies, plan, timeline);
                    (opened, tally, KeyTally::new(policies, timeline))
                },
                |(opened, tally, of_key), requests| {
                    let key = recording.keys.get(requests.key);
                    if at_once(play_by_rule(store, plan, opened, key, *requests, of_key))? {
                        tally.add(requests.key, requests.len(), of_key);
                    } else {
                        tally.skip(requests.len());
                    }
                    progress(requests.len());
                    Ok(())
                },
            )?;
            tallies.into_iter().for_each(|(_, tally, _)| whole.merge(tally));
        }
    }
    Ok(played.into_iter().map(|(_, tally)| tally).collect())
}

/// Decides every request under each limit separately, in any store: many keys concurrently, each in
/// order. Deletes all their states at the end. If it fails before, the remaining states expire.
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
                        let played =
                            play_by_rule(store, plan, opened, key, requests, &mut of_key).await?;
                        Ok::<_, Error>((requests, played.then_some(of_key)))
                    });
                }
                let Some(played) = under_way.next().await else { break };
                let (requests, of_key) = played?;
                match of_key {
                    Some(of_key) => tally.add(requests.key, requests.len(), &of_key),
                    None => tally.skip(requests.len()),
                }
                progress(requests.len());
            }
        }
    }
    Ok(played.into_iter().map(|(_, tally)| tally).collect())
}

/// Plays a key by its rule. Returns `false` if the key isn't played.
async fn play_by_rule<S: Store>(
    store: &S,
    plan: &Plan,
    opened: &S::Opened,
    key: &[u8],
    requests: OfKey<'_>,
    of_key: &mut KeyTally,
) -> Result<bool, Error> {
    let mut without_store = |is_denied| {
        of_key.clear();
        requests.iter().for_each(|arrival| of_key.add_listed(is_denied, &arrival));
    };
    match plan.rules.as_ref().map_or(KeyRule::Plan, |rules| rules.rule(key)) {
        KeyRule::Plan => play_key(opened, key, requests, of_key).await?,
        KeyRule::Limit(limit) => {
            let opened = store.open(played(&limit), fresh_run());
            play_key(&opened, key, requests, of_key).await?;
        }
        KeyRule::Allow => without_store(false),
        KeyRule::Block => without_store(true),
        KeyRule::Skip => return Ok(false),
    }
    Ok(true)
}

async fn play_key(
    opened: &impl OpenedLimit,
    key: &[u8],
    requests: OfKey<'_>,
    of_key: &mut KeyTally,
) -> Result<(), Error> {
    of_key.clear();
    decide(opened, key, requests, |answer, arrival| match answer {
        Ok(decision) => of_key.add(decision, arrival),
        Err(error) => of_key.add_error(error, arrival),
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use sluicegate::MemoryStore;
    use sluicegate::store::MemoryLimit;
    use sluicegate_core::{Answer, BoxFuture, Decision, OpenOptions, Request, StoreError, StoreId};

    use super::*;
    use crate::reader::LogReader;
    use crate::record::{Moment, Record};

    /// A store that answers late, some requests later than others, and records the waiting calls.
    #[derive(Clone, Default)]
    struct Late {
        inner: MemoryStore,
        waiting: Arc<Mutex<HashSet<Vec<u8>>>>,
        most_waiting: Arc<AtomicUsize>,
    }

    struct LateLimit(MemoryLimit, Late);

    impl Store for Late {
        type Opened = LateLimit;

        fn inner(&self) -> Option<&dyn Store> {
            Some(&self.inner)
        }

        fn id(&self) -> StoreId {
            self.inner.id()
        }

        fn open(&self, limit: Limit, options: OpenOptions) -> LateLimit {
            LateLimit(self.inner.open(limit, options), self.clone())
        }

        fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
            self.inner.ping()
        }
    }

    impl OpenedLimit for LateLimit {
        fn inner(&self) -> Option<&dyn OpenedLimit> {
            Some(&self.0)
        }

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
            let key = "k".repeat(usize::try_from(number * number % 61 + 1).unwrap());
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
                .map(|specs| Limit::new("l", specs).unwrap());
        let plan = |limit: &Limit| Plan::together(limit.clone());
        let (recording, told) = (recording(), |_| ());
        let timeline = recording.timeline();
        let at_once = MemoryStore::new();
        for plan in limits.iter().map(plan) {
            let expected = play_now(&at_once, &plan, &recording, timeline, &told).unwrap();
            assert!(expected.iter().all(|tally| tally.whole.denied > 500));
            assert_eq!(play(&late, &plan, &recording, timeline, &told).await.unwrap(), expected);
        }
        assert!(late.most_waiting.load(Ordering::Relaxed) > 4, "each of the 4 files has 8 keys");
    }

    /// Returns a recording of one key's requests, each with its time and duration in seconds.
    fn lasting(requests: &[(u64, u64)], moment: Moment) -> Recording {
        let mut recording = Recording::new(None, Default::default());
        for (time, duration) in requests {
            let mut record = Record { time: time * 1_000_000, ..Record::default() };
            record.duration = Some(duration * 1_000_000);
            recording.add(b"k", record.stated(moment)).unwrap();
        }
        recording.finish().unwrap()
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
