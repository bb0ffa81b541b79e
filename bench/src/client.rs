//! The Redis store's client against bare calls through the same library.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use redis::Value;
use redis::aio::MultiplexedConnection;
use sluicegate_core::{Limit, OpenOptions, OpenedLimit as _, Request, Store};
use sluicegate_redis::{RedisLimit, RedisStore};
use sluicegate_testkit::servers::Server;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::embedded::next;
use crate::machine::{pin_process, pin_thread, process_nanos, thread_nanos, unpin_thread};
use crate::measure::{Effort, Measured, Pairs, Session, digits, median};
use crate::redis::subject::Subject;
use crate::redis::{KEYS, ROOMY};

/// So few that the server waits for them now and then: what they get through is then up to the
/// client.
const TASKS: u64 = 8;
const PAIRS: usize = 25;
/// The part of the time above which a server counts as saturated.
const SATURATED: f64 = 0.9;

/// Measures the goal of the client.
pub fn measure(session: &mut Session) {
    session.goal("client-throughput", throughput);
}

fn throughput(effort: Effort) -> Result<Measured> {
    let server = Server::start()?;
    // A processor for each.
    pin_process(server.pid()?, 0);
    pin_thread(1);
    let measured = compare(effort, &server);
    unpin_thread();
    measured
}

fn compare(effort: Effort, server: &Server) -> Result<Measured> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("can't start a runtime")?;
    let bare = Bare::open(server, &runtime)?;
    let ours = Ours::open(server)?;
    let span = match effort {
        Effort::Quick => Duration::from_millis(700),
        Effort::Full => Duration::from_secs(1),
    };
    // Both write all their states first.
    runtime.block_on(run(span, &ours))?;
    runtime.block_on(run(span, &bare))?;
    let (mut pairs, mut busiest) = (Pairs::default(), 0.0_f64);
    let (mut our_nanos, mut bare_nanos) = (Vec::new(), Vec::new());
    for _ in 0..effort.count(PAIRS) {
        let (start, used) = (Instant::now(), process_nanos(server.pid()?)?);
        let bare = runtime.block_on(run(span, &bare))?;
        let ours = runtime.block_on(run(span, &ours))?;
        let used = process_nanos(server.pid()?)? - used;
        busiest = busiest.max(used / start.elapsed().as_nanos() as f64);
        pairs.add(ours.per_second / 1e3, bare.per_second / 1e3);
        our_nanos.push(ours.nanos);
        bare_nanos.push(bare.nanos);
    }
    ensure!(busiest < SATURATED, "the server was busy {:.0} % of the time", busiest * 100.0);
    let busy = format!("the server was busy {:.0} % of the time at most", busiest * 100.0);
    let (ours, bare) = (median(&mut our_nanos) / 1e3, median(&mut bare_nanos) / 1e3);
    let part = format!(
        "the client's thread took {} µs of processor time for a decision, and {} for a bare call",
        digits(ours),
        digits(bare)
    );
    Ok(pairs.ratio("thousand decisions/s").noting(busy).part(part))
}

/// What came of asking for a while.
struct Run {
    per_second: f64,
    /// Processor time of the client for each decision.
    nanos: f64,
}

/// A way to ask.
trait Ask: Clone + Send + Sync + 'static {
    /// Whether the subject of a number is admitted.
    fn ask(&self, number: usize) -> impl Future<Output = Result<bool>> + Send;
}

/// Lets all tasks ask for so long. All of them run on this thread.
async fn run(span: Duration, ask: &impl Ask) -> Result<Run> {
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    let (start, used) = (Instant::now(), thread_nanos());
    for task in 0..TASKS {
        let (ask, stop, asked) = (ask.clone(), Arc::clone(&stop), Arc::clone(&asked));
        tasks.spawn(async move {
            let mut state = (task + 1) * 0x9e37_79b9_7f4a_7c15;
            let mut count = 0;
            while !stop.load(Ordering::Relaxed) {
                let number = (next(&mut state) % KEYS as u64) as usize;
                ensure!(ask.ask(number).await?, "a request was denied: none should be");
                count += 1;
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

/// Sluicegate's store.
#[derive(Clone)]
struct Ours {
    opened: Arc<RedisLimit>,
}

impl Ours {
    fn open(server: &Server) -> Result<Self> {
        // Nobody gives up over a slow moment.
        let store = RedisStore::builder(&server.url())?.deadline(Duration::from_secs(5)).build();
        let limit = Limit::new("demo".parse()?, vec![ROOMY.parse()?])?;
        Ok(Self { opened: Arc::new(store.open(limit, OpenOptions::default())) })
    }
}

impl Ask for Ours {
    async fn ask(&self, number: usize) -> Result<bool> {
        let subject = name(number);
        let decision = self.opened.ask(Request::check(subject.as_bytes())).wait().await?;
        Ok(decision.is_allowed())
    }
}

/// The same script with the same arguments, and no more.
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
        // The express lane hands back the states it wrote.
        Ok(matches!(answer, Value::BulkString(_)))
    }
}
