//! The Redis store's client, compared with bare calls through the same library.

mod breaker;
mod leases;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use redis::Value;
use redis::aio::MultiplexedConnection;
use sluicegate::layers::{Breaker, DenyCache, Leases};
use sluicegate_core::{Limit, OpenOptions, OpenedLimit, Request, Store};
use sluicegate_redis::{RedisLimit, RedisStore};
use sluicegate_testkit::servers::Server;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::embedded::next;
use crate::machine::{pin_process, pin_thread, process_nanos, thread_nanos, unpin_thread};
use crate::measure::{Effort, Measured, Pairs, Session, digits, median};
use crate::redis::subject::Subject;
use crate::redis::{KEYS, ROOMY};

/// The number of tasks. With so few, the server sometimes waits for them, and the client determines
/// the throughput.
const TASKS: u64 = 8;
const PAIRS: usize = 25;
/// A limit above the throughput of any client.
const INEXHAUSTIBLE: &str = "token_bucket 10000000/s burst 100000000";
/// The share of the time above which a server counts as saturated.
const SATURATED: f64 = 0.9;

/// Measures the goals of the client.
pub fn measure(session: &mut Session) {
    session.goal("client-throughput", |effort| beside_a_server(|server| compare(effort, server)));
    session.goal("deny-cache-16-tasks", |effort| {
        beside_a_server(|server| compare_denials(effort, server))
    });
    session
        .goal("layers-16-tasks", |effort| beside_a_server(|server| compare_layers(effort, server)));
    session
        .goal("lease-16-tasks", |effort| beside_a_server(|server| leases::compare(effort, server)));
    session.goal("lease-local-p50", |effort| {
        beside_a_server(|server| leases::local_decisions(effort, server))
    });
    session.goal("lease-over-admission", |effort| {
        beside_a_server(|server| leases::over_admission(effort, server))
    });
    session.goal("breaker-open-p50", breaker::refusals);
    for (goal, tasks, keys) in [
        ("batch-1-task", 1, KEYS),
        ("batch-16-tasks", 16, KEYS),
        ("batch-128-tasks", 128, KEYS),
        ("batch-1024-tasks", 1_024, KEYS),
        ("coalescing-1024-tasks", 1_024, 1),
    ] {
        let compare =
            |effort| beside_a_server(|server| compare_batches(effort, server, tasks, keys));
        let mut processor = None;
        session.goal(goal, |effort| {
            let Compared { rate, server } = compare(effort)?;
            processor = Some(server);
            Ok(rate)
        });
        if goal == "batch-1024-tasks" {
            session.goal("batch-1024-server-cpu", |effort| match processor.take() {
                Some(server) => Ok(server),
                None => compare(effort).map(|compared| compared.server),
            });
        }
    }
}

/// Runs a measurement with one processor for the client's thread, and one for the server.
fn beside_a_server<T>(measure: impl Fn(&Server) -> Result<T>) -> Result<T> {
    let server = Server::start()?;
    pin_process(server.pid()?, 0);
    pin_thread(1);
    let measured = measure(&server);
    unpin_thread();
    measured
}

/// Compares batched calls with the same calls one by one.
fn compare_batches(effort: Effort, server: &Server, tasks: u64, keys: usize) -> Result<Compared> {
    // A single key needs units for all calls together.
    let policy = if keys == 1 { INEXHAUSTIBLE } else { ROOMY };
    let open = |together| Ours::open(server, policy, together);
    let (together, alone) = (open(Together::AsTheyCome)?, open(Together::Never)?);
    compare_two(effort.count(PAIRS), server, tasks, keys, &together, &alone)
}

fn compare(effort: Effort, server: &Server) -> Result<Measured> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("can't start a runtime")?;
    let bare = Bare::open(server, &runtime)?;
    let ours = Ours::open(server, ROOMY, Together::AsTheyCome)?;
    let span = match effort {
        Effort::Quick => Duration::from_millis(700),
        Effort::Full => Duration::from_secs(1),
    };
    // Both sides write all their states first.
    runtime.block_on(run(span, TASKS, KEYS, &ours))?;
    runtime.block_on(run(span, TASKS, KEYS, &bare))?;
    let (mut pairs, mut busiest) = (Pairs::default(), 0.0_f64);
    let (mut our_nanos, mut bare_nanos) = (Vec::new(), Vec::new());
    for _ in 0..effort.count(PAIRS) {
        let (start, used) = (Instant::now(), process_nanos(server.pid()?)?);
        let bare = runtime.block_on(run(span, TASKS, KEYS, &bare))?;
        let ours = runtime.block_on(run(span, TASKS, KEYS, &ours))?;
        let used = process_nanos(server.pid()?)? - used;
        busiest = busiest.max(used / start.elapsed().as_nanos() as f64);
        pairs.add(ours.per_second / 1e3, bare.per_second / 1e3);
        our_nanos.push(ours.nanos);
        bare_nanos.push(bare.nanos);
    }
    ensure!(busiest < SATURATED, "the server was busy {:.0} % of the time", busiest * 100.0);
    let busy = format!("The server was busy at most {:.0} % of the time", busiest * 100.0);
    let (ours, bare) = (median(&mut our_nanos) / 1e3, median(&mut bare_nanos) / 1e3);
    let part = format!(
        "The client's thread took {} µs of processor time for a decision, and {} for a bare call",
        digits(ours),
        digits(bare)
    );
    Ok(pairs.ratio("thousand decisions/s").noting(busy).part(part))
}

/// Compares a cache of denials with the same store without one, when nine of ten requests are denied.
fn compare_denials(effort: Effort, server: &Server) -> Result<Measured> {
    let store = RedisStore::builder(&server.url())?.deadline(Duration::from_secs(5)).build();
    let fresh = Arc::new(AtomicU64::new(0));
    let cached = Ours::of(&DenyCache::new(store.clone()), ONCE)?;
    let cached = MostlyDenied { ask: cached, fresh: Arc::clone(&fresh) };
    let plain = MostlyDenied { ask: Ours::of(&store, ONCE)?, fresh };
    Ok(compare_two(effort.count(PAIRS), server, 16, 10 * EXHAUSTED, &cached, &plain)?.rate)
}

/// Compares all layers with the store alone, on keys that are never denied.
fn compare_layers(effort: Effort, server: &Server) -> Result<Measured> {
    let store = RedisStore::builder(&server.url())?.deadline(Duration::from_secs(5)).build();
    let layered = Leases::new(DenyCache::new(Breaker::new(store.clone())));
    let layered = Ours::of(&layered, ROOMY)?;
    let plain = Ours::of(&store, ROOMY)?;
    // More pairs than for other goals, because the difference is smaller than the noise of one pair.
    Ok(compare_two(effort.count(3 * PAIRS), server, 16, KEYS, &layered, &plain)?.rate)
}

/// A limit that every key passes once.
const ONCE: &str = "fixed_window 1/w";
/// The number of keys that are exhausted.
const EXHAUSTED: usize = 100;

/// Checks exhausted keys, and in every tenth request a key that was never used.
#[derive(Clone)]
struct MostlyDenied<A> {
    ask: A,
    fresh: Arc<AtomicU64>,
}

impl<A: Ask> Ask for MostlyDenied<A> {
    async fn ask(&self, number: usize) -> Result<bool> {
        if number < EXHAUSTED {
            let fresh = self.fresh.fetch_add(1, Ordering::Relaxed) as usize;
            return self.ask.ask(10 * EXHAUSTED + fresh).await;
        }
        // The first request for a key passes.
        let used_up = number % EXHAUSTED;
        while self.ask.ask(used_up).await? {}
        Ok(true)
    }
}

/// Compares two ways to send requests.
fn compare_two(
    rounds: usize,
    server: &Server,
    tasks: u64,
    keys: usize,
    ours: &impl Ask,
    other: &impl Ask,
) -> Result<Compared> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("can't start a runtime")?;
    let span = Duration::from_millis(300);
    let pid = server.pid()?;
    runtime.block_on(run(span, tasks, keys, ours))?;
    runtime.block_on(run(span, tasks, keys, other))?;
    let (mut rates, mut of_server, mut of_client) =
        (Pairs::default(), Pairs::default(), Pairs::default());
    for _ in 0..rounds {
        let before = process_nanos(pid)?;
        let ours = runtime.block_on(run(span, tasks, keys, ours))?;
        let between = process_nanos(pid)?;
        let other = runtime.block_on(run(span, tasks, keys, other))?;
        let after = process_nanos(pid)?;
        let micros = |nanos: f64, ran: &Run| nanos / (ran.per_second * span.as_secs_f64()) / 1e3;
        rates.add(ours.per_second / 1e3, other.per_second / 1e3);
        of_server.add(micros(between - before, &ours), micros(after - between, &other));
        of_client.add(ours.nanos / 1e3, other.nanos / 1e3);
    }
    let part = format!(
        "Processor time of a decision: the server {} µs, the client {} µs",
        of_server.sides(),
        of_client.sides()
    );
    Ok(Compared {
        rate: rates.ratio("thousand decisions/s").noting(&part).part(part),
        server: of_server.ratio("µs of server CPU for a decision"),
    })
}

/// The result of comparing two ways to send requests.
struct Compared {
    /// The ratio of the decisions/s.
    rate: Measured,
    /// The ratio of the server's processor time for a decision.
    server: Measured,
}

/// The result of sending requests for a while.
struct Run {
    per_second: f64,
    /// Processor time of the client for each decision.
    nanos: f64,
}

/// A way to send requests.
trait Ask: Clone + Send + Sync + 'static {
    /// Returns whether the subject of a number is admitted.
    fn ask(&self, number: usize) -> impl Future<Output = Result<bool>> + Send;
}

/// Runs `count` tasks that send requests for `keys` keys during `span`. All of them run on this
/// thread.
async fn run(span: Duration, count: u64, keys: usize, ask: &impl Ask) -> Result<Run> {
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    let (start, used) = (Instant::now(), thread_nanos());
    for task in 0..count {
        let (ask, stop, asked) = (ask.clone(), Arc::clone(&stop), Arc::clone(&asked));
        tasks.spawn(async move {
            let mut state = (task + 1) * 0x9e37_79b9_7f4a_7c15;
            let mut count = 0;
            while !stop.load(Ordering::Relaxed) {
                let number = (next(&mut state) % keys as u64) as usize;
                ensure!(
                    ask.ask(number).await?,
                    "a request was denied, or allowed, that should not be"
                );
                count += 1;
                if count % 64 == 0 {
                    // A request that is answered immediately doesn't yield to other tasks.
                    tokio::task::yield_now().await;
                }
            }
            asked.fetch_add(count, Ordering::Relaxed);
            Ok(())
        });
    }
    tokio::time::sleep(span).await;
    stop.store(true, Ordering::Relaxed);
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    let asked = asked.load(Ordering::Relaxed) as f64;
    let per_second = asked / start.elapsed().as_secs_f64();
    Ok(Run { per_second, nanos: (thread_nanos() - used) / asked })
}

fn name(number: usize) -> String {
    format!("tenant:42:user:{number:05}")
}

/// Whether calls are batched.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Together {
    AsTheyCome,
    Never,
}

/// Sluicegate's store, or a stack of layers around it.
struct Ours<L> {
    opened: Arc<L>,
}

impl<L> Clone for Ours<L> {
    fn clone(&self) -> Self {
        Self { opened: Arc::clone(&self.opened) }
    }
}

impl Ours<RedisLimit> {
    fn open(server: &Server, policy: &str, together: Together) -> Result<Self> {
        // No call may fail because of a slow moment.
        let mut store = RedisStore::builder(&server.url())?.deadline(Duration::from_secs(5));
        if together == Together::Never {
            store = store.batch(NonZeroUsize::MIN);
        }
        Ours::of(&store.build(), policy)
    }
}

impl<L: OpenedLimit> Ours<L> {
    fn of<S: Store<Opened = L>>(store: &S, policy: &str) -> Result<Self> {
        let limit = Limit::new("demo", vec![policy])?;
        Ok(Self { opened: Arc::new(store.open(limit, OpenOptions::default())) })
    }
}

impl<L: OpenedLimit> Ask for Ours<L> {
    async fn ask(&self, number: usize) -> Result<bool> {
        let subject = name(number);
        let decision = self.opened.ask(Request::check(subject.as_bytes())).wait().await?;
        Ok(decision.is_allowed())
    }
}

/// A call of the store's script with its arguments, without the store's client.
#[derive(Clone)]
struct Bare {
    connection: MultiplexedConnection,
    digest: Arc<str>,
    program: Arc<[u8]>,
}

impl Bare {
    fn open(server: &Server, runtime: &Runtime) -> Result<Self> {
        let subject = Subject::load(server, "demo", &[ROOMY])?;
        let client = redis::Client::open(server.url())?;
        let connection = runtime.block_on(client.get_multiplexed_async_connection())?;
        Ok(Self { connection, digest: subject.digest().into(), program: subject.program().into() })
    }
}

impl Ask for Bare {
    async fn ask(&self, number: usize) -> Result<bool> {
        let mut connection = self.connection.clone();
        let mut command = redis::cmd("EVALSHA");
        command.arg(&*self.digest).arg(1).arg(format!("sg:demo:{{{}}}", name(number)));
        command.arg(&*self.program);
        let answer: Value = command.query_async(&mut connection).await?;
        // The fast path returns the states that it wrote.
        Ok(matches!(answer, Value::BulkString(_)))
    }
}
