//! Keys that are used up while a primary is replaced, and never refill. Units that they admit beyond their burst were
//! lost with the primary.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use sluicegate::config::StoreUrl;
use sluicegate::decision::Source;
use sluicegate::layers::LeaseOptions;
use sluicegate::store::{
    OpenOptions, OpenedLimit as _, Request, SharedLimit, Store as _, StoreOptions,
};
use sluicegate_testkit::servers::fresh_prefix;
use sluicegate_testkit::wait::until_seldom;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::chaos::load::{DEADLINE, subject};

/// Units of each key: half of them are spent before the primary is lost, which takes a second.
const BURST: u64 = 1_000;
/// The number of tasks per limit. Each sends 125 requests a second: 500/s together.
const TASKS: u64 = 4;
const PACE: Duration = Duration::from_millis(8);
/// After this many denials in a row the key is spent.
const DENIALS: u64 = 100;

/// One limit of each kind: none refills within a day.
const SPECS: [(&str, &str); 3] = [
    ("bucket", "token_bucket 1/d burst 1000"),
    ("window", "fixed_window 1000/d"),
    ("leased", "token_bucket 1/d burst 1000"),
];

/// The load on a key under each limit, until it is spent.
pub(crate) struct Spending {
    counts: Arc<[Counts; SPECS.len()]>,
    tasks: JoinSet<()>,
    ends: Arc<AtomicBool>,
    /// The last, so that tasks end before it.
    runtime: Runtime,
}

#[derive(Debug, Default)]
struct Counts {
    admitted: AtomicU64,
    /// Denials since a unit was last admitted.
    denied: AtomicU64,
}

impl Spending {
    /// Begins, and waits until half of each key is spent.
    pub(crate) fn begin(url: &str) -> Self {
        let mut options = StoreOptions::default();
        options.prefix = fresh_prefix("spent").parse().unwrap();
        options.deadline = DEADLINE;
        let store = url.parse::<StoreUrl>().unwrap().open(&options).unwrap();
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let counts: Arc<[Counts; SPECS.len()]> = Arc::default();
        let (ends, mut tasks) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
        for (index, (name, spec)) in SPECS.into_iter().enumerate() {
            let limit = sluicegate::Limit::new(name, [spec]).unwrap();
            let options = match name {
                "leased" => OpenOptions::default()
                    .layer(LeaseOptions { most: 50, lasts: Duration::from_millis(300) }),
                _ => OpenOptions::default(),
            };
            let opened = Arc::new(store.open(limit, options));
            for _ in 0..TASKS {
                let (opened, counts, ends) =
                    (Arc::clone(&opened), Arc::clone(&counts), Arc::clone(&ends));
                tasks.spawn_on(
                    async move { spend(&opened, &counts[index], &ends).await },
                    runtime.handle(),
                );
            }
        }
        let spending = Self { counts, tasks, ends, runtime };
        spending.awaits("half of it spent", |counts| {
            counts.admitted.load(Ordering::Relaxed) >= BURST / 2
        });
        spending
    }

    /// Waits until all units are used up. Returns the units admitted beyond the burst: of the bucket, the window and
    /// the leased limit.
    pub(crate) fn end(mut self) -> [u64; SPECS.len()] {
        self.awaits("all of it spent", |counts| counts.denied.load(Ordering::Relaxed) >= DENIALS);
        self.ends.store(true, Ordering::Relaxed);
        self.runtime.block_on(async { while self.tasks.join_next().await.is_some() {} });
        let beyond =
            |counts: &Counts| counts.admitted.load(Ordering::Relaxed).saturating_sub(BURST);
        std::array::from_fn(|index| beyond(&self.counts[index]))
    }

    fn awaits(&self, what: &str, is_so: impl Fn(&Counts) -> bool) {
        until_seldom(
            what,
            || if self.counts.iter().all(&is_so) { Ok(()) } else { Err(&self.counts) },
        );
    }
}

async fn spend(opened: &SharedLimit, counts: &Counts, ends: &AtomicBool) {
    let mut ticks = interval(PACE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !ends.load(Ordering::Relaxed) {
        ticks.tick().await;
        // A failed request may have been charged, but admitted nothing.
        let Ok(decision) = opened.ask(Request::check(subject(0).as_bytes())).wait().await else {
            continue;
        };
        assert!(matches!(decision.source(), Source::Store | Source::Lease), "{decision:?}");
        if decision.is_allowed() {
            counts.admitted.fetch_add(1, Ordering::Relaxed);
            counts.denied.store(0, Ordering::Relaxed);
        } else {
            counts.denied.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Checks that a key admits at most its burst for each primary that was lost.
pub(crate) fn assert_at_most_one_burst(scenario: &str, beyond: [u64; SPECS.len()]) {
    let [bucket, window, leased] = beyond;
    println!(
        "chaos {scenario}: spent at 500/s, lost bucket {bucket}, window {window}, leased {leased} of {BURST}"
    );
    assert!(beyond.iter().all(|beyond| *beyond <= BURST), "{scenario}: {beyond:?} of {BURST}");
}
