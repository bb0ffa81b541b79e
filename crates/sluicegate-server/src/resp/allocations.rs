//! Checks that commands about known keys allocate nothing.

use std::sync::Arc;
use std::time::Duration;

use allocation_counter::measure;
use sluicegate::{Config, MemoryStore, Registry};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

use super::Resp;
use crate::in_process::InProcess;
use crate::serving::Answering;

const CONFIG: &str = "
limits:
  one: {policies: [token_bucket 1/s burst 900000]}
  two: {policies: [gcra 9/s burst 900000, fixed_window 900000/d]}
  least: {policies: [gcra 1/h]}
  listed:
    policies: [gcra 1/s]
    allow: [alice]
    block: [mallory]
    overrides: [{key: bob, times: 2}]
";

/// A service and its client, on the only thread of a runtime.
struct Pipelines {
    runtime: Runtime,
    client: TcpStream,
    answers: Vec<u8>,
}

impl Pipelines {
    fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let config = Config::parse(CONFIG, "limits.yaml").unwrap();
        let client = runtime.block_on(async {
            let deployed = InProcess::new(Registry::builder(MemoryStore::new()).config(&config));
            let resp = Resp::new(Arc::clone(&deployed.service));
            let address = deployed.listen(Answering::Other(Arc::new(resp))).await;
            TcpStream::connect(address).await.unwrap()
        });
        Self { runtime, client, answers: vec![0; 256 * 1_024] }
    }

    /// Returns the number of allocations for a pipeline, whose answers begin with `first` and have `lines` lines.
    fn allocations(&mut self, pipeline: &[u8], first: &str, lines: usize) -> u64 {
        let Self { runtime, client, answers } = self;
        let mut length = 0;
        let allocated = measure(|| {
            runtime.block_on(async {
                client.write_all(pipeline).await.unwrap();
                let mut left = lines;
                while left > 0 {
                    let count = client.read(&mut answers[length..]).await.unwrap();
                    assert!(count > 0, "the service has closed the connection");
                    let new = &answers[length..length + count];
                    left -= new.iter().filter(|byte| **byte == b'\n').count();
                    length += count;
                }
            });
        });
        assert!(answers.starts_with(first.as_bytes()), "{}", answers[..40].escape_ascii());
        allocated.count_total
    }
}

#[test]
fn commands_about_known_keys_allocate_nothing() {
    let mut pipelines = Pipelines::new();
    // The rings of the newest decisions grow to their size first. They take a thousand of each kind in a second.
    for command in ["SG.CHECK one alice\r\n", "SG.CHECK least alice\r\n"] {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(1_100) {
            pipelines.allocations(command.repeat(250).as_bytes(), "*", 250 * 5);
        }
    }
    for (command, first, lines) in [
        ("SG.CHECK one alice", "*4\r\n:1\r\n", 5),
        ("SG.CHECK two alice 2", "*4\r\n:1\r\n", 5),
        ("SG.CHECK least alice", "*4\r\n:0\r\n", 5),
        ("SG.CHECK listed alice", "*4\r\n:1\r\n", 5),
        ("SG.CHECK listed bob", "*4\r\n:", 5),
        ("SG.CHECK listed mallory", "*4\r\n:0\r\n", 5),
        ("SG.PEEK one alice", "*4\r\n:1\r\n", 5),
        ("CL.THROTTLE alice 90000 30 60", "*5\r\n:0\r\n", 6),
        ("CL.THROTTLE bob 0 1 3600", "*5\r\n:1\r\n", 6),
        ("THROTTLE alice 90000 30 60 2", "*5\r\n:1\r\n", 6),
    ] {
        // A connection keeps the memory of longer pipelines only while it answers them.
        for length in [1, 250] {
            let pipeline = format!("{command}\r\n").repeat(length);
            let mut thousand = |first: &str| -> u64 {
                let each = |_| pipelines.allocations(pipeline.as_bytes(), first, length * lines);
                (0..1_000 / length).map(each).sum()
            };
            // The first commands allocate memory that the next ones use again.
            thousand("*");
            assert_eq!(thousand(first), 0, "{command}, {length} at a time");
        }
    }
}
