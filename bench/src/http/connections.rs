//! The service under many connections, each of which sends its next request when it gets an answer.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use sluicegate_testkit::servers::Server;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::measure::{Effort, Measured, Pairs, Session, median};
use crate::program::build;
use crate::served::Served;

/// The number of connections whose throughput is the reference for many connections.
const FEW: usize = 32;
const ROUNDS: usize = 5;
const SPAN: Duration = Duration::from_secs(2);

/// Measures both goals for each number of connections.
pub fn measure(session: &mut Session) {
    for (many, goodput, errors) in [
        (512, "http-512-connections", "http-512-errors"),
        (3_000, "http-3000-connections", "http-3000-errors"),
    ] {
        let mut failed = None;
        session.goal(goodput, |effort| {
            let (ratio, share) = compare(effort, many)?;
            failed = Some(share);
            Ok(ratio)
        });
        session.goal(errors, |effort| match failed.take() {
            Some(share) => Ok(share),
            None => compare(effort, many).map(|(_, share)| share),
        });
    }
}

fn compare(effort: Effort, many: usize) -> Result<(Measured, Measured)> {
    let server = Server::start()?;
    let service = start(&server)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("can't start a runtime")?;
    let load = |connections| runtime.block_on(load(service.address, connections));
    // Warm up the first connection, the script and the states.
    let _ = load(FEW)?;
    let (mut pairs, mut shares) = (Pairs::default(), Vec::new());
    let mut few_failed = 0;
    for _ in 0..effort.count(ROUNDS) {
        let few = load(FEW)?;
        let came = load(many)?;
        few_failed += few.failed;
        pairs.add(came.per_second() / 1e3, few.per_second() / 1e3);
        shares.push(100.0 * came.failed as f64 / (came.failed + came.decided) as f64);
    }
    let note =
        format!("Median of {} rounds. {few_failed} undecided on {FEW} connections", shares.len());
    Ok((pairs.ratio("thousand decisions/s"), Measured::new(median(&mut shares), note)))
}

/// Starts `sluicegate serve` on all processors. No request is denied, so every decision writes.
fn start(server: &Server) -> Result<Served> {
    let program = build(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))?;
    Served::start_anywhere(|address, folder| {
        let config = folder.join("limits.yaml");
        let limits = "{demo: {policies: [token_bucket 1000/s burst 1000000]}}";
        fs::write(&config, format!("store: \"{}\"\nlimits: {limits}\n", server.url()))?;
        let mut command = Command::new(program);
        command.args(["serve", "--listen", &address.to_string(), "--config"]).arg(config);
        Ok(command)
    })
}

/// The result of sending requests for a while.
struct Came {
    decided: u64,
    failed: u64,
    seconds: f64,
}

impl Came {
    fn per_second(&self) -> f64 {
        self.decided as f64 / self.seconds
    }
}

#[derive(Default)]
struct Counts {
    decided: AtomicU64,
    failed: AtomicU64,
    is_over: AtomicBool,
}

async fn load(address: SocketAddr, connections: usize) -> Result<Came> {
    let mut streams = Vec::new();
    for _ in 0..connections {
        let stream = TcpStream::connect(address).await.context("can't connect to the service")?;
        stream.set_nodelay(true)?;
        streams.push(stream);
    }
    let counts = Arc::new(Counts::default());
    let start = Instant::now();
    let asking: Vec<_> = streams
        .into_iter()
        .enumerate()
        .map(|(number, stream)| tokio::spawn(ask(stream, number, Arc::clone(&counts))))
        .collect();
    tokio::time::sleep(SPAN).await;
    let came = Came {
        decided: counts.decided.load(Ordering::Relaxed),
        failed: counts.failed.load(Ordering::Relaxed),
        seconds: start.elapsed().as_secs_f64(),
    };
    counts.is_over.store(true, Ordering::Relaxed);
    for asking in asking {
        asking.await?;
    }
    ensure!(came.decided > 0, "nothing was decided on {connections} connections");
    Ok(came)
}

/// Sends requests on one connection until the time has passed or the connection breaks.
async fn ask(mut stream: TcpStream, number: usize, counts: Arc<Counts>) {
    let body = format!(r#"{{"limit":"demo","key":"tenant:42:user:{number:09}"}}"#);
    let length = body.len();
    let request =
        format!("POST /v1/check HTTP/1.1\r\nHost: bench\r\nContent-Length: {length}\r\n\r\n{body}");
    let mut buffer = Vec::with_capacity(4096);
    while !counts.is_over.load(Ordering::Relaxed) {
        match ask_once(&mut stream, request.as_bytes(), &mut buffer).await {
            Some(true) => drop(counts.decided.fetch_add(1, Ordering::Relaxed)),
            Some(false) => drop(counts.failed.fetch_add(1, Ordering::Relaxed)),
            None => {
                counts.failed.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
    }
}

/// Returns whether the request was decided; `None` if the connection broke.
async fn ask_once(stream: &mut TcpStream, request: &[u8], buffer: &mut Vec<u8>) -> Option<bool> {
    stream.write_all(request).await.ok()?;
    buffer.clear();
    loop {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(buffer);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
        if body.len() >= length.parse().ok()? {
            return Some(head.starts_with("HTTP/1.1 200"));
        }
    }
}
