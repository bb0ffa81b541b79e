//! Two programs, from a server's point of view, that send requests about the same keys at a fixed pace.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, SystemTime};

use sluicegate::config::FallbackConfig;
use sluicegate::config::StoreUrl;
use sluicegate::layers::{FallsBack, LeaseOptions, Processes, RemembersDenials};
use sluicegate::store::{
    Measure, OpenOptions, OpenedLimit as _, Request, SharedLimit, SharedStore, Store as _,
    StoreOptions,
};
use sluicegate_testkit::servers::fresh_prefix;
use sluicegate_testkit::wait::until_seldom;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use crate::chaos::auditor::Promise;
use crate::chaos::tally::{Findings, Tally};

/// Maximum duration of a call.
pub(crate) const DEADLINE: Duration = Duration::from_millis(250);
/// Additional time after which a call is too late. The time during which the runtime ran no task doesn't count
/// (see [`Stalls`]), so the load of the machine makes no call late.
const ALLOWANCE: Duration = Duration::from_millis(50);
/// Pause between the requests of a task.
const PACE: Duration = Duration::from_millis(8);
/// The cycle in which leased units are requested, in ms. First fewer than are leased, so that some are left. Then none,
/// until their leases have expired and the bucket is fresh: now they must not be spent. Then all.
const PULSES: [(u64, bool); 4] = [(60, true), (1_000, false), (600, true), (1_000, false)];
/// The number of concurrent requests per task.
const LEASED_AT_ONCE: usize = 4;

/// A limit that is asked about each key.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    pub(crate) promise: Promise,
    by: By,
}

/// The layer that answers in addition to the store.
#[derive(Clone, Copy, Debug)]
enum By {
    Nobody,
    /// Programs take units ahead.
    Leases(LeaseOptions),
    /// Recent denials are repeated.
    DenyCache,
    /// While the store fails, each program by its share.
    Fallback,
}

pub(crate) const BUCKET: usize = 0;
pub(crate) const LEASED: usize = 2;
pub(crate) const CACHED: usize = 3;
pub(crate) const LOCAL: usize = 4;
/// All rules with a bucket's promise.
pub(crate) const BUCKETS: [usize; 4] = [BUCKET, LEASED, CACHED, LOCAL];

const A_MOMENT: Duration = Duration::from_millis(300);

/// The rates are far below the load, even on a busy machine. The first two fill in half a minute and in ten seconds. So
/// most units that a server loses are still in excess after its recovery.
pub(crate) static RULES: [Rule; 5] = [
    Rule { name: "bucket", promise: Promise::Bucket { per_second: 2, burst: 60 }, by: By::Nobody },
    Rule {
        name: "window",
        promise: Promise::Window { limit: 60, length_ms: 10_000 },
        by: By::Nobody,
    },
    Rule {
        name: "leased",
        promise: Promise::Bucket { per_second: 120, burst: 100 },
        by: By::Leases(LeaseOptions { most: 50, lasts: A_MOMENT }),
    },
    Rule {
        name: "cached",
        promise: Promise::Bucket { per_second: 2, burst: 20 },
        by: By::DenyCache,
    },
    Rule { name: "local", promise: Promise::Bucket { per_second: 4, burst: 40 }, by: By::Fallback },
];

impl Rule {
    /// Returns whether programs take units of it ahead.
    const fn is_leased(&self) -> bool {
        matches!(self.by, By::Leases(_))
    }

    fn options(&self) -> OpenOptions {
        let options = OpenOptions::default();
        match self.by {
            By::Nobody => options,
            By::Leases(leases) => options.layer(leases),
            By::DenyCache => options.layer(RemembersDenials(true)),
            By::Fallback => options.layer(FallsBack(true)),
        }
    }

    /// Returns the maximum duration of a call. Before the first answer about a key with a pending charge, the store is
    /// read and then charged, each within the deadline.
    fn patience(&self) -> Duration {
        match self.by {
            By::Fallback => 3 * DEADLINE,
            _ => DEADLINE,
        }
    }
}

/// `subject-0` and so on.
pub(crate) const KEYS: usize = 2;
pub(crate) const PROGRAMS: usize = 2;

/// The load of a scenario, until it ends.
#[derive(Debug)]
pub(crate) struct Load {
    name: &'static str,
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
    /// The name of the runtime's threads, which no other load has. Other tests may panic meanwhile.
    threads: String,
    /// The last, so that tasks end before it.
    runtime: Runtime,
}

/// The kind of load.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Manner {
    /// Every answer is waited for.
    Patient,
    /// Two of three calls are dropped after some time.
    Cancelling,
}

#[derive(Debug)]
struct Shared {
    /// One for each program.
    stores: Vec<SharedStore>,
    /// For each program, one for each rule.
    opened: Vec<Vec<SharedLimit>>,
    tally: Mutex<Tally>,
    stalls: Stalls,
    ends: AtomicBool,
}

/// The time that this runtime's tasks have waited to run, because the machine was busy. A task that wakes at a fixed
/// pace measures it: its own delay.
#[derive(Debug)]
struct Stalls {
    begin: Instant,
    micros: AtomicU64,
    /// When the next tick is due, in µs since the begin.
    due: AtomicU64,
}

impl Stalls {
    const TICK: Duration = Duration::from_millis(5);

    fn new() -> Self {
        Self { begin: Instant::now(), micros: AtomicU64::new(0), due: AtomicU64::new(u64::MAX) }
    }

    async fn measure(&self, ends: &AtomicBool) {
        while !ends.load(Ordering::Relaxed) {
            let due = Instant::now() + Self::TICK;
            self.due.store(micros(due - self.begin), Ordering::Relaxed);
            sleep_until(due).await;
            self.micros.fetch_add(self.current(), Ordering::Relaxed);
        }
    }

    /// Returns the stall that has not ended, in µs: the measuring task may be the last that runs again.
    fn current(&self) -> u64 {
        let late = micros(self.begin.elapsed()).saturating_sub(self.due.load(Ordering::Relaxed));
        // A timer is late by up to a tick on an idle machine too.
        if late > micros(Self::TICK) { late } else { 0 }
    }

    /// Returns the time of all stalls so far, in µs.
    fn total(&self) -> u64 {
        self.micros.load(Ordering::Relaxed) + self.current()
    }

    /// Waits until a call that begins now has taken `longest`, without the stalls in the meantime.
    async fn sleep(&self, longest: Duration) {
        // Without the stall that has not ended: its time is counted when it ends.
        let (begin, before) = (Instant::now(), self.micros.load(Ordering::Relaxed));
        let mut end = begin + longest;
        loop {
            sleep_until(end).await;
            let stalled = Duration::from_micros(self.total() - before);
            let with_stalls = begin + longest + stalled;
            if with_stalls <= end {
                return;
            }
            end = with_stalls;
        }
    }
}

/// Returns the repetitions of each fault: one, or the value of `SLUICEGATE_SOAK`, up to ten.
pub(crate) fn rounds() -> u64 {
    let times = std::env::var("SLUICEGATE_SOAK").map_or(1, |times| times.parse().unwrap());
    times.clamp(1, 10)
}

/// Returns the key of this number.
pub(crate) fn subject(key: usize) -> String {
    format!("subject-{key}")
}

impl Load {
    /// Starts to send requests to the store at a URL, and waits until it has denied every rule and key.
    pub(crate) fn begin(name: &'static str, url: &str) -> Self {
        Self::begin_with(name, url, &fresh_prefix("chaos"), Manner::Patient, |_| ())
    }

    pub(crate) fn begin_with(
        name: &'static str,
        url: &str,
        prefix: &str,
        manner: Manner,
        set: impl Fn(&mut StoreOptions),
    ) -> Self {
        let stores = (0..PROGRAMS).map(|_| {
            let mut options = StoreOptions::default();
            options.prefix = prefix.parse().unwrap();
            options.deadline = DEADLINE;
            options.fallback = Some(processes(PROGRAMS));
            set(&mut options);
            url.parse::<StoreUrl>().unwrap().open(&options).unwrap()
        });
        let stores: Vec<_> = stores.collect();
        let opened = stores.iter().map(|store| {
            let open = |rule: &Rule| {
                let limit =
                    sluicegate::Limit::new(rule.name, [rule.promise.spec().as_str()]).unwrap();
                store.open(limit, rule.options())
            };
            RULES.iter().map(open).collect()
        });
        let shared = Arc::new(Shared {
            opened: opened.collect(),
            stores,
            tally: Mutex::default(),
            stalls: Stalls::new(),
            ends: AtomicBool::new(false),
        });
        count_panics();
        let threads = fresh_prefix("chaos-threads");
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).thread_name(&threads).enable_all().build().unwrap();
        let mut tasks = JoinSet::new();
        let measured = Arc::clone(&shared);
        let measure = async move { measured.stalls.measure(&measured.ends).await };
        tasks.spawn_on(measure, runtime.handle());
        for program in 0..PROGRAMS {
            for rule in 0..RULES.len() {
                for key in 0..KEYS {
                    let asks = Arc::clone(&shared).ask_on(program, rule, key, manner);
                    tasks.spawn_on(asks, runtime.handle());
                }
            }
        }
        let load = Self { name, shared, tasks, threads, runtime };
        until_seldom("all are denied", || load.tally(|tally| tally.has_denied_all(1)));
        load
    }

    /// Calls `look` with the outcomes of the calls so far.
    pub(crate) fn tally<T>(&self, look: impl FnOnce(&mut Tally) -> T) -> T {
        look(&mut self.shared.tally.lock().unwrap())
    }

    /// Waits until calls fail, again and again, and the shares of all programs are used up.
    pub(crate) fn awaits_errors(&self) {
        self.tally(Tally::forget_denials);
        let before = self.tally(|tally| tally.errors());
        until_seldom("errors", || match self.tally(|tally| tally.errors()) {
            now if now >= before + 20 => Ok(()),
            now => Err(now),
        });
        until_seldom("shares that are used up", || self.tally(|tally| tally.has_used_its_shares()));
    }

    /// Waits until the fault, which has ended, has no effect any more.
    pub(crate) fn recovers(&self) {
        self.fault_ends();
        self.awaits_recovery();
    }

    /// Marks the end of the fault.
    pub(crate) fn fault_ends(&self) {
        self.tally(|tally| tally.fault_ends(Instant::now()));
    }

    /// Waits until the fault that has ended has no effect any more.
    pub(crate) fn awaits_recovery(&self) {
        until_seldom("decisions again", || self.tally(|tally| tally.has_recovered()));
    }

    /// Waits until each rule has denied all keys again, which means that their limits are reached.
    pub(crate) fn reaches_its_limits(&self) {
        self.tally(Tally::forget_denials);
        until_seldom("all are denied again", || self.tally(|tally| tally.has_denied_all(2)));
    }

    /// Runs `tasks` concurrent tasks, each with a key of its own and all rules, and waits for them.
    pub(crate) fn crowd(&mut self, tasks: usize) {
        let mut crowd = JoinSet::new();
        for number in 0..tasks {
            let shared = Arc::clone(&self.shared);
            let asks = async move {
                shared.ask(number % PROGRAMS, BUCKET, KEYS + number).await;
                for rule in 0..RULES.len() {
                    shared.ask(number % PROGRAMS, rule, number % KEYS).await;
                }
            };
            crowd.spawn_on(asks, self.runtime.handle());
        }
        self.runtime.block_on(crowd.join_all());
    }

    /// Ends it.
    pub(crate) fn end(self) -> Findings {
        let Self { name, shared, tasks, threads, runtime } = self;
        shared.ends.store(true, Ordering::Relaxed);
        runtime.block_on(tasks.join_all());
        drop(runtime);
        let tally = std::mem::take(&mut *shared.tally.lock().unwrap());
        let unheard = shared.stores.iter().map(charges_unheard_of).sum();
        Findings { name, tally, unheard, panics: panics_in(&threads) }
    }
}

impl Shared {
    async fn ask_on(self: Arc<Self>, program: usize, rule: usize, key: usize, manner: Manner) {
        let begin = Instant::now();
        let mut ticks = interval(PACE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !self.ends.load(Ordering::Relaxed) {
            ticks.tick().await;
            if RULES[rule].is_leased() && !asks_at(begin.elapsed()) {
                continue;
            }
            if RULES[rule].is_leased() {
                for _ in 1..LEASED_AT_ONCE {
                    self.ask(program, rule, key).await;
                }
            }
            if manner == Manner::Cancelling && fastrand::u8(..3) > 0 {
                let patience = Duration::from_micros(fastrand::u64(..3_000));
                drop(timeout(patience, self.ask(program, rule, key)).await);
            } else {
                self.ask(program, rule, key).await;
            }
        }
    }

    async fn ask(&self, program: usize, rule: usize, key: usize) {
        let subject = subject(key);
        let (asked, begin) = (wall_clock(), Instant::now());
        let ask = self.opened[program][rule].ask(Request::check(subject.as_bytes())).wait();
        let answer = tokio::select! {
            biased;
            answer = ask => Some(answer),
            () = self.stalls.sleep(RULES[rule].patience() + ALLOWANCE) => None,
        };
        let answered = wall_clock();
        let mut tally = self.tally.lock().unwrap();
        if RULES[rule].patience() == DEADLINE {
            tally.took(begin.elapsed());
        }
        match answer {
            Some(answer) => tally.answered(program, (rule, key), (asked, answered), answer),
            None => tally.was_overdue(RULES[rule].name),
        }
    }
}

/// Returns a fallback in which `count` processes share the limits.
pub(crate) fn processes(count: usize) -> FallbackConfig {
    let count = NonZeroU16::new(u16::try_from(count).unwrap()).unwrap();
    FallbackConfig::new(Processes::Number(count))
}

/// Returns the number of charges without an answer for units that a share had admitted.
fn charges_unheard_of(store: &SharedStore) -> u64 {
    let measures = store.measures();
    let charges = measures.iter().filter(|measure| measure.name() == "fallback_charges");
    let unknown =
        charges.filter(|measure| measure.labels().any(|(_, outcome)| outcome == "unknown"));
    unknown.map(Measure::value).sum()
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap()
}

/// Returns whether leased units are requested at this time.
fn asks_at(time: Duration) -> bool {
    let mut rest =
        time.as_millis() % u128::from(PULSES.map(|(length, _)| length).iter().sum::<u64>());
    for (length, asks) in PULSES {
        match rest.checked_sub(u128::from(length)) {
            Some(later) => rest = later,
            None => return asks,
        }
    }
    false
}

/// Returns the time in µs, as the servers of this machine see it.
#[expect(clippy::disallowed_methods, reason = "it is compared with what servers say")]
pub(crate) fn wall_clock() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    micros(since)
}

/// Returns the number of panics so far in the threads of this name, also in detached tasks.
fn panics_in(threads: &str) -> u64 {
    PANICS.lock().unwrap().get(threads).copied().unwrap_or(0)
}

/// By the name of a thread: the number of its panics, once [`count_panics`] was called.
static PANICS: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

fn count_panics() {
    static COUNTS: Once = Once::new();
    COUNTS.call_once(|| {
        let shown = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let thread = std::thread::current().name().unwrap_or_default().to_owned();
            *PANICS.lock().unwrap().entry(thread).or_default() += 1;
            shown(panic);
        }));
    });
}
