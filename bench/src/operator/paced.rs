//! The processor time of the page's stream, next to checks at a steady pace.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::measure::{Effort, Measured, digits, median};
use crate::program::build;
use crate::served::{Served, free_address};

const LIMITS: usize = 10_000;
const KEYS: usize = 10;
/// The pause between two pipelines, and the commands of one: 100,000 checks/s.
const TICK: Duration = Duration::from_millis(10);
const COMMANDS: usize = 1_000;
/// The duration of a segment.
const SEGMENT: Duration = Duration::from_secs(4);
const PAIRS: usize = 15;
/// Length of the answer to a check: four numbers.
const LINES: usize = 5;

/// Measures the share of the service's processor time that a reader of the stream takes.
pub fn stream(effort: Effort) -> Result<Measured> {
    let program = build(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))?;
    let resp = free_address()?;
    let served = Served::start(|address, folder| {
        let config = folder.join("limits.yaml");
        let mut text = "store: \"memory:\"\nlimits:\n".to_owned();
        for number in 0..LIMITS {
            writeln!(text, "  limit-{number}: {{policies: [token_bucket 1000/s burst 1000]}}")?;
        }
        fs::write(&config, text)?;
        let mut command = Command::new(program);
        command.args(["serve", "--listen", &address.to_string(), "--resp", &resp.to_string()]);
        command.arg("--config").arg(config);
        Ok(command)
    })?;
    let mut load = Load::connect(resp)?;
    // Every limit gets traffic, as in a busy service.
    load.run(SEGMENT)?;
    let (mut shares, mut costs, mut bytes) = (Vec::new(), Vec::new(), 0);
    for _ in 0..effort.count(PAIRS) {
        let without = of_segment(&served, &mut load)?;
        let reader = Reader::open(served.address)?;
        let with = of_segment(&served, &mut load)?;
        bytes = reader.close()?;
        shares.push((with - without) / with * 100.0);
        costs.push(with / SEGMENT.as_secs_f64() / 1e9);
    }
    let note = format!(
        "{} processors in use with it. The reader gets {} kB/s",
        digits(median(&mut costs)),
        bytes / 1_000 / SEGMENT.as_secs()
    );
    Ok(Measured::new(median(&mut shares), note))
}

/// Returns the processor time of a segment, in ns.
fn of_segment(served: &Served, load: &mut Load) -> Result<f64> {
    let before = served.nanos()?;
    load.run(SEGMENT)?;
    Ok(served.nanos()? - before)
}

/// Pipelines at a steady pace.
struct Load {
    stream: TcpStream,
    /// The pipelines, which are sent in turn.
    pipelines: Vec<Vec<u8>>,
    sent: usize,
}

impl Load {
    fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let commands: Vec<_> = (0..LIMITS * KEYS).collect();
        let pipeline = |commands: &[usize]| {
            let mut bytes = Vec::new();
            for number in commands {
                let limit = format!("limit-{}", number % LIMITS);
                let key = format!("key-{}", number / LIMITS);
                for part in ["*3".to_owned(), bulk("SG.CHECK"), bulk(&limit), bulk(&key)] {
                    bytes.extend_from_slice(part.as_bytes());
                    bytes.extend_from_slice(b"\r\n");
                }
            }
            bytes
        };
        let pipelines = commands.chunks(COMMANDS).map(pipeline).collect();
        Ok(Self { stream, pipelines, sent: 0 })
    }

    /// Sends pipelines for a time. After a late one, the next ones follow immediately, so that the pace holds on average:
    /// another program may have had the processor.
    fn run(&mut self, lasts: Duration) -> Result<()> {
        let start = Instant::now();
        for tick in 0..(lasts.as_nanos() / TICK.as_nanos()) as u32 {
            let due = start + TICK * tick;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let pipeline = &self.pipelines[self.sent % self.pipelines.len()];
            self.stream.write_all(pipeline)?;
            self.receive()?;
            self.sent += 1;
        }
        let behind = start.elapsed().saturating_sub(lasts);
        ensure!(
            behind < lasts / 50,
            "the service doesn't do 100,000 checks/s: it is {behind:?} behind"
        );
        Ok(())
    }

    fn receive(&mut self) -> Result<()> {
        let mut missing = COMMANDS * LINES;
        let mut part = [0; 1 << 16];
        while missing > 0 {
            let length = self.stream.read(&mut part)?;
            ensure!(length > 0, "the service closed a connection");
            ensure!(!part[..length].starts_with(b"-"), "the service answers with an error");
            missing =
                missing.saturating_sub(part[..length].iter().filter(|it| **it == b'\n').count());
        }
        Ok(())
    }
}

fn bulk(word: &str) -> String {
    format!("${}\r\n{word}", word.len())
}

/// A reader of the stream.
struct Reader {
    stream: TcpStream,
    read: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Reader {
    fn open(address: SocketAddr) -> Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        write!(stream, "GET /v1/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")?;
        let read = Arc::new(AtomicU64::new(0));
        let (mut own, count) = (stream.try_clone()?, Arc::clone(&read));
        let thread = thread::spawn(move || {
            let mut part = [0; 1 << 16];
            while let Ok(length @ 1..) = own.read(&mut part) {
                count.fetch_add(length as u64, Ordering::Relaxed);
            }
        });
        Ok(Self { stream, read, thread })
    }

    /// Ends the stream, and returns the number of bytes that it had.
    fn close(self) -> Result<u64> {
        self.stream.shutdown(std::net::Shutdown::Both)?;
        self.thread.join().ok().context("the reader panicked")?;
        let read = self.read.load(Ordering::Relaxed);
        ensure!(read > 5_000, "the stream had only {read} bytes");
        Ok(read)
    }
}
