//! A cluster compared with one server, and a primary that crashes.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use sluicegate_core::{Limit, OpenOptions, OpenedLimit, Request, Store};
use sluicegate_redis::{RedisLimit, RedisStore, RedisStoreBuilder};
use sluicegate_testkit::servers::{Cluster, Sentinels, Server};
use tokio::task::JoinSet;

use crate::embedded::next;
use crate::machine::process_nanos;
use crate::measure::{Effort, Measured, Pairs, Session, digits, median};
use crate::redis::{KEYS, ROOMY};

/// Tasks per server.
const DEPTH: usize = 16;
const PRIMARIES: usize = 3;
const PAIRS: usize = 16;

/// Measures the goals about several servers.
pub fn measure(session: &mut Session) {
    session.goal("cluster-cpu", |effort| compare(effort, Calls::Together));
    session.goal("cluster-cpu-one-by-one", |effort| compare(effort, Calls::OneByOne));
    session.goal("recovery-sentinel", recovery);
}

/// Whether calls are batched where possible.
#[derive(Clone, Copy)]
enum Calls {
    Together,
    OneByOne,
}

/// Compares the servers' processor time for a decision of three primaries and of one alone. Each
/// server has the same number of tasks.
fn compare(effort: Effort, calls: Calls) -> Result<Measured> {
    let runtime = runtime()?;
    let one = Server::start()?;
    let cluster = Cluster::builder(one.binary()).primaries(PRIMARIES).replicas(0).start()?;
    let alone = open_for(calls, &one.url())?;
    let urls: Vec<String> = cluster.nodes().iter().map(|node| host(node.server())).collect();
    let together = open_for(calls, &format!("redis+cluster://{}", urls.join(",")))?;
    let nodes: Vec<&Server> = cluster.nodes().iter().map(|node| node.server()).collect();
    let span = Duration::from_millis(400);
    let all: Arc<[usize]> = (0..KEYS).collect();
    let run = |opened: &Arc<RedisLimit>,
               servers: &[&Server],
               tasks: usize,
               keys: &Arc<[usize]>|
     -> Result<Ran> {
        let used =
            || -> Result<f64> { servers.iter().map(|server| process_nanos(server.pid()?)).sum() };
        let (used_before, reads_before) = (used()?, reads(servers)?);
        let asked = runtime.block_on(load(opened, tasks, span, keys))? as f64;
        Ok(Ran {
            micros: (used()? - used_before) / asked / 1e3,
            rate: asked / span.as_secs_f64() / 1e3,
            a_read: asked / (reads(servers)? - reads_before),
        })
    };
    let mut pairs = Pairs::default();
    let mut rates = [Vec::new(), Vec::new()];
    let mut a_read = [Vec::new(), Vec::new()];
    let mut one_node = Vec::new();
    // The first run writes all states, and the store learns which node has which keys.
    run(&together, &nodes, DEPTH * PRIMARIES, &all)?;
    run(&alone, &[&one], DEPTH, &all)?;
    let neighbours = on_one_node(&together);
    for _ in 0..effort.count(PAIRS) {
        let ours = run(&together, &nodes, DEPTH * PRIMARIES, &all)?;
        let other = run(&alone, &[&one], DEPTH, &all)?;
        pairs.add(ours.micros, other.micros);
        for (side, ran) in [ours, other].iter().enumerate() {
            rates[side].push(ran.rate);
            a_read[side].push(ran.a_read);
        }
        one_node.push(run(&together, &nodes, DEPTH, &neighbours)?.micros);
    }
    let middle = |figures: &mut Vec<f64>| digits(median(figures));
    let [ours, other] = rates.each_mut().map(middle);
    let note = format!(
        "{DEPTH} tasks for each primary, without replicas. {ours} against {other} thousand \
         decisions/s"
    );
    let [ours, other] = a_read.each_mut().map(middle);
    let one_node = middle(&mut one_node);
    let part = format!(
        "One node alone, with the load of the single server, takes {one_node} µs. All three nodes \
         share the processors with each other and with the client. A node then finds {ours} \
         decisions when it reads its socket, and the single server {other}"
    );
    let part = match calls {
        Calls::Together => format!(
            "{part}. The single server gets these in one call; a cluster can't batch calls for \
             different slots. `cluster-cpu-one-by-one` shows the cost of a cluster itself"
        ),
        Calls::OneByOne => part,
    };
    Ok(pairs.ratio("µs of server CPU for a decision").noting(note).part(part))
}

/// The result of sending requests for a while.
struct Ran {
    /// Processor time of the servers for a decision, in µs.
    micros: f64,
    /// Thousand decisions/s.
    rate: f64,
    /// Decisions for each time that a server read from its connections.
    a_read: f64,
}

/// Returns how often servers have read from their connections.
fn reads(servers: &[&Server]) -> Result<f64> {
    let of = |server: &&Server| -> Result<f64> {
        let stats = server.cli(&["INFO", "stats"])?;
        let reads = stats.lines().find_map(|line| line.strip_prefix("total_reads_processed:"));
        Ok(reads.context("no total_reads_processed in INFO")?.trim().parse()?)
    };
    servers.iter().map(of).sum()
}

/// Measures the time from a replica's promotion until 100 decisions in a row succeed, after its
/// primary was killed.
fn recovery(effort: Effort) -> Result<Measured> {
    let runtime = runtime()?;
    let mut millis = Vec::new();
    for _ in 0..effort.count(4) {
        let mut sentinels = Sentinels::start()?;
        let hosts: Vec<String> = sentinels.sentinels().iter().map(host).collect();
        let url = format!("redis+sentinel://{}/{}", hosts.join(","), sentinels.name());
        let opened = open(&url, "token_bucket 1000000/s")?;
        let stop = Arc::new(AtomicBool::new(false));
        let good_since = Arc::new(AtomicU64::new(0));
        let start = Instant::now();
        let asking = {
            let (stop, good_since) = (Arc::clone(&stop), Arc::clone(&good_since));
            runtime.spawn(async move {
                let (mut first, mut good) = (0, 0);
                while !stop.load(Ordering::Relaxed) {
                    if opened.ask(Request::check(b"hot")).wait().await.is_ok() {
                        if good == 0 {
                            first = start.elapsed().as_micros() as u64;
                        }
                        good += 1;
                        if good == 100 {
                            good_since.store(first, Ordering::Relaxed);
                        }
                    } else {
                        good = 0;
                        good_since.store(0, Ordering::Relaxed);
                    }
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            })
        };
        wait_for("decisions", || Ok(good_since.load(Ordering::Relaxed) > 0))?;
        let old = sentinels.lose_primary()?;
        let new = sentinels.server(1 - old);
        wait_for("an outage", || Ok(good_since.load(Ordering::Relaxed) == 0))?;
        wait_for("a promotion", || Ok(new.cli(&["ROLE"])?.contains("master")))?;
        let promoted = start.elapsed().as_micros() as u64;
        wait_for("decisions again", || Ok(good_since.load(Ordering::Relaxed) > 0))?;
        stop.store(true, Ordering::Relaxed);
        runtime.block_on(asking)?;
        let recovered = good_since.load(Ordering::Relaxed);
        millis.push(recovered.saturating_sub(promoted) as f64 / 1e3);
    }
    let worst = millis.iter().copied().fold(0.0, f64::max);
    let note = format!(
        "The worst of {}. Half of them take at most {} ms",
        millis.len(),
        digits(median(&mut millis))
    );
    Ok(Measured::new(worst, note))
}

fn wait_for(what: &str, mut is_there: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !is_there()? {
        ensure!(start.elapsed() < Duration::from_secs(60), "waited a minute for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn key(number: usize) -> String {
    format!("tenant:42:user:{number:05}")
}

/// Returns the keys that are on the node of the first key.
fn on_one_node(opened: &RedisLimit) -> Arc<[usize]> {
    let node = |number: usize| opened.nodes(&Request::check(key(number).as_bytes()));
    let first = node(0);
    (0..KEYS).filter(|number| node(*number) == first).collect()
}

/// Returns the number of decisions that `tasks` tasks get during `span`.
async fn load(
    opened: &Arc<RedisLimit>,
    tasks: usize,
    span: Duration,
    keys: &Arc<[usize]>,
) -> Result<u64> {
    let start = Instant::now();
    let mut running = JoinSet::new();
    for task in 0..tasks as u64 {
        let (opened, keys) = (Arc::clone(opened), Arc::clone(keys));
        running.spawn(async move {
            let (mut state, mut asked) = ((task + 1) * 0x9e37_79b9_7f4a_7c15, 0);
            while start.elapsed() < span {
                let key = key(keys[next(&mut state) as usize % keys.len()]);
                let decision = opened.ask(Request::check(key.as_bytes())).wait().await?;
                ensure!(decision.is_allowed(), "a request was denied");
                asked += 1;
            }
            Ok(asked)
        });
    }
    let mut asked = 0;
    while let Some(ended) = running.join_next().await {
        asked += ended??;
    }
    Ok(asked)
}

fn store(url: &str) -> Result<RedisStoreBuilder> {
    Ok(RedisStore::builder(url)?.deadline(Duration::from_secs(2)))
}

fn open_for(calls: Calls, url: &str) -> Result<Arc<RedisLimit>> {
    let store = store(url)?;
    let store = match calls {
        Calls::Together => store,
        Calls::OneByOne => store.batch(NonZeroUsize::MIN),
    };
    open_on(&store.build(), ROOMY)
}

fn open(url: &str, policy: &str) -> Result<Arc<RedisLimit>> {
    open_on(&store(url)?.build(), policy)
}

fn open_on(store: &RedisStore, policy: &str) -> Result<Arc<RedisLimit>> {
    let limit = Limit::new("demo", vec![policy])?;
    Ok(Arc::new(store.open(limit, OpenOptions::default())))
}

fn host(server: &Server) -> String {
    format!("127.0.0.1:{}", server.port())
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("can't start a runtime")
}
