//! Commands that redis-benchmark sends.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

/// The number of different keys.
const KEYS: usize = 100_000;
const CONNECTIONS: usize = 50;

/// A number of commands, some of them in a pipeline.
#[derive(Clone, Copy)]
pub struct Load {
    pub commands: usize,
    pipeline: usize,
}

impl Load {
    /// Twelve commands for each key on average, so that fewer than one key of 100,000 has none.
    pub const ALL_KEYS: Self = Self { commands: 12 * KEYS, pipeline: 64 };

    /// Returns the load of a segment. A command of a longer pipeline takes less time.
    pub const fn of(pipeline: usize) -> Self {
        let commands = if pipeline == 1 { 60_000 } else { 400_000 };
        Self { commands, pipeline }
    }

    /// Sends a command about random keys, on 50 connections.
    pub fn send(self, address: SocketAddr, command: &[&str]) -> Result<()> {
        let number = |number: usize| number.to_string();
        let output = Command::new("redis-benchmark")
            .args(["-h", &address.ip().to_string(), "-p", &address.port().to_string(), "-q"])
            .args(["-c", &number(CONNECTIONS), "-n", &number(self.commands)])
            .args(["-P", &number(self.pipeline), "-r", &number(KEYS)])
            .args(command)
            .output()
            .context("there is no load generator: install Redis' tools with redis-benchmark")?;
        let [said, complained] = [&output.stdout, &output.stderr].map(|it| {
            // A line that is overwritten ends with a carriage return.
            String::from_utf8_lossy(it).replace('\r', "\n")
        });
        ensure!(output.status.success(), "redis-benchmark ended with {}", output.status);
        let mut lines = said.lines().chain(complained.lines());
        if let Some(line) = lines.find(|line| line.contains("Error")) {
            bail!("redis-benchmark reports {}", line.trim());
        }
        Ok(())
    }
}

/// Sends one command, and returns its answer.
pub fn answer(address: SocketAddr, command: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut words = String::new();
    for word in command.split(' ') {
        words.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    write!(stream, "*{}\r\n{words}", command.split(' ').count())?;
    let mut answer = [0; 1_024];
    let length = stream.read(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
}
