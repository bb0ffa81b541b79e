//! An axum handler behind the middleware, under a real load generator. It is compared with the bare
//! handler, and with the handler behind a minimal layer.

mod least;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use axum::Router;
use axum::routing::get;
use sluicegate::{Limiter, MemoryStore};
use sluicegate_tower::LimitLayer;
use tokio::net::TcpListener;

use crate::machine::{this_thread, thread_nanos_of};
use crate::measure::{Effort, Measured, Pairs, Session, digits, median};
use least::Least;

/// A limit that denies no request: all requests have one key.
const ROOMY: &str = "token_bucket 1000000/s burst 1000000";
const PAIRS: usize = 11;
const CONNECTIONS: u32 = 64;
/// The shortest duration that the load generator supports.
const SECONDS: u32 = 1;

/// Measures the goals of the middleware.
pub fn measure(session: &mut Session) {
    session.goal("layer-throughput", |effort| {
        let least = serve("least", |router| {
            let router = router.layer(Least::new("demo"));
            router.into_make_service_with_connect_info::<SocketAddr>()
        })?;
        ensure!(head(least.address)?.contains("ratelimit: "), "the least layer adds no fields");
        against(effort, least)
    });
    session.goal("layer-throughput-bare", |effort| {
        let bare = serve("bare", |router| router.into_make_service())?;
        ensure!(!head(bare.address)?.contains("ratelimit"), "the bare handler is limited");
        against(effort, bare)
    });
}

fn against(effort: Effort, floor: Served) -> Result<Measured> {
    let limiter = Limiter::new(MemoryStore::new(), sluicegate::Limit::new("demo", [ROOMY])?);
    let ours = serve("ours", move |router| {
        // The keys are the clients' addresses, the default.
        let router = router.layer(LimitLayer::new(limiter));
        router.into_make_service_with_connect_info::<SocketAddr>()
    })?;
    ensure!(
        head(ours.address)?.contains("ratelimit: "),
        "the handler behind the layer isn't limited"
    );
    load(floor)?;
    load(ours)?;
    let mut pairs = Pairs::default();
    let (mut our_nanos, mut floor_nanos) = (Vec::new(), Vec::new());
    for _ in 0..effort.count(PAIRS) {
        let floor = load(floor)?;
        let ours = load(ours)?;
        pairs.add(ours.per_second / 1e3, floor.per_second / 1e3);
        our_nanos.push(ours.nanos);
        floor_nanos.push(floor.nanos);
    }
    let (ours, floor) = (median(&mut our_nanos) / 1e3, median(&mut floor_nanos) / 1e3);
    Ok(pairs.ratio("thousand requests/s").part(format!(
        "The serving thread took {} µs of processor time for a request, and {} on the other side",
        digits(ours),
        digits(floor)
    )))
}

/// A handler that is served.
#[derive(Clone, Copy)]
struct Served {
    address: SocketAddr,
    thread: i32,
}

/// Serves a handler on a thread of its own, which runs until the process ends.
fn serve<M>(name: &str, make: impl FnOnce(Router) -> M + Send + 'static) -> Result<Served>
where
    M: MakeService,
{
    let listener = std::net::TcpListener::bind("127.0.0.1:0").context("can't listen")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("can't start a runtime")?;
    let (tell, told) = mpsc::channel();
    let serve = move || {
        // The caller waits for the id.
        let _ = tell.send(this_thread());
        let router = Router::new().route("/", get(|| async { "hello" }));
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener)?;
            make(router).serve(listener).await
        })
    };
    // The name is for profiles.
    thread::Builder::new().name(name.to_owned()).spawn(serve).context("can't start a thread")?;
    Ok(Served { address, thread: told.recv()? })
}

/// A service made of a router: one of two types without a common trait of short name.
trait MakeService: 'static {
    fn serve(self, listener: TcpListener) -> impl Future<Output = std::io::Result<()>>;
}

impl MakeService for axum::routing::IntoMakeService<Router> {
    async fn serve(self, listener: TcpListener) -> std::io::Result<()> {
        axum::serve(listener, self).await
    }
}

impl MakeService
    for axum::extract::connect_info::IntoMakeServiceWithConnectInfo<Router, SocketAddr>
{
    async fn serve(self, listener: TcpListener) -> std::io::Result<()> {
        axum::serve(listener, self).await
    }
}

/// Returns the head of one response.
fn head(address: SocketAddr) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n\r\n")?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    ensure!(response.starts_with("HTTP/1.1 200 "), "the handler answers {response:?}");
    Ok(response)
}

/// The result of the load generator.
struct Loaded {
    per_second: f64,
    /// Processor time of the serving thread, for each request.
    nanos: f64,
}

fn load(served: Served) -> Result<Loaded> {
    let before = thread_nanos_of(served.thread)?;
    let output = Command::new("wrk")
        .args(["--threads", "1", "--connections", &CONNECTIONS.to_string()])
        .args(["--duration", &format!("{SECONDS}s"), &format!("http://{}/", served.address)])
        .output()
        .context("there is no load generator: install wrk")?;
    let report = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "wrk ended with {}: {report}", output.status);
    for trouble in ["Non-2xx", "Socket errors"] {
        if let Some(line) = report.lines().find(|line| line.contains(trouble)) {
            bail!("wrk reports {}", line.trim());
        }
    }
    let per_second = report.lines().find_map(|line| line.strip_prefix("Requests/sec:"));
    let total = report.lines().find_map(|line| line.split_once(" requests in ")).map(|it| it.0);
    let number = |text: Option<&str>| text.and_then(|text| text.trim().parse::<f64>().ok());
    match (number(per_second), number(total)) {
        (Some(per_second), Some(total)) => {
            let nanos = (thread_nanos_of(served.thread)? - before) / total;
            Ok(Loaded { per_second, nanos })
        }
        _ => bail!("wrk says {report}"),
    }
}
