//! `sluicegate replay`, compared with a script that a person would write in Python.

use std::env;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use crate::measure::{Effort, Measured, Pairs, Session, median};
use crate::program::build;

/// The replayed log.
const LOG: &str = "data/apache_access.log";
/// The number of copies of the log that are replayed.
const COPIES: usize = 50;
const PAIRS: usize = 3;
const JSON_PAIRS: usize = 15;
/// Runs of ours for each run of the script.
const OURS: usize = 5;
/// A rate that denies some hosts, because each request occurs once per copy.
const LIMIT: u32 = 500;
const SECONDS: u32 = 600;

/// Measures the goals of the replay.
pub fn measure(session: &mut Session) {
    session.goal("replay-speed", speed);
    session.goal("replay-json", json);
}

fn speed(effort: Effort) -> Result<Measured> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let program = build(&root)?;
    let log = LongLog::write("plain", &fs::read(root.join(LOG))?)?;
    let path = log.path.to_str().context("the temporary folder's name is no text")?;
    let policy = format!("sliding_log {LIMIT}/{SECONDS}s");
    let ours = || {
        let mut command = Command::new(&program);
        command.args(["replay", "--log", path, "--policy", &policy, "--format", "json"]);
        timed(&mut command)
    };
    let script = root.join("bench/replay_baseline.py");
    let python = || {
        let mut command = Command::new("python3");
        command.arg(&script).args([path, &LIMIT.to_string(), &SECONDS.to_string()]);
        timed(&mut command)
    };
    let mut pairs = Pairs::default();
    // The log is in the page cache for both sides.
    ours()?;
    for _ in 0..effort.count(PAIRS) {
        let (python_seconds, expected) = python()?;
        let mut seconds = Vec::new();
        // Our run is so short that other work of the machine shows: take the median of several.
        for _ in 0..OURS {
            let (our_seconds, found) = ours()?;
            ensure_same(&expected, &found)?;
            seconds.push(our_seconds);
        }
        let our_seconds = median(&mut seconds);
        let thousands = log.lines as f64 / 1e3;
        pairs.add(thousands / our_seconds, thousands / python_seconds);
    }
    Ok(pairs.ratio("thousand lines/s"))
}

fn json(effort: Effort) -> Result<Measured> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let program = build(&root)?;
    let combined = fs::read_to_string(root.join(LOG))?;
    let lines: Vec<_> = combined.lines().filter_map(|line| Some((line, as_json(line)?))).collect();
    let logs = [
        ("json", lines.iter().map(|(_, json)| format!("{json}\n")).collect::<String>()),
        ("combined", lines.iter().map(|(line, _)| format!("{line}\n")).collect()),
    ];
    let logs = logs.map(|(name, text)| LongLog::write(name, text.as_bytes()));
    let [json, combined] = logs;
    let (json, combined) = (json?, combined?);
    let speed = |log: &LongLog| {
        let mut command = Command::new(&program);
        command.args(["replay", "--key", "ip", "--format", "json"]);
        command.args(["--policy", "token_bucket 10/s burst 20", "--log"]).arg(&log.path);
        let (seconds, report) = timed(&mut command)?;
        let requests = report["policies"][0]["requests"].as_u64();
        ensure!(requests == Some(log.lines as u64), "{requests:?} of {} lines", log.lines);
        Ok(log.lines as f64 / 1e3 / seconds)
    };
    let mut pairs = Pairs::default();
    // Read the logs into the page cache.
    speed(&json)?;
    speed(&combined)?;
    for _ in 0..effort.count(JSON_PAIRS) {
        pairs.add(speed(&json)?, speed(&combined)?);
    }
    Ok(pairs.ratio("thousand lines/s"))
}

/// Converts a line of the combined format into JSON as nginx writes it, in about 330 bytes. `None` if
/// the line is torn or has quotes inside.
fn as_json(line: &str) -> Option<Value> {
    let [before, request, numbers, _, _, agent, ""] = line.split('"').collect::<Vec<_>>()[..]
    else {
        return None;
    };
    let (address, rest) = before.split_once(' ')?;
    let (_, time) = rest.split_once('[')?;
    let [method, path, _] = request.split(' ').collect::<Vec<_>>()[..] else { return None };
    let (status, bytes) = numbers.trim().split_once(' ')?;
    Some(json!({
        "time_local": time.strip_suffix("] ")?,
        "remote_addr": address,
        "request_method": method,
        "request_uri": path,
        "status": status.parse::<u16>().ok()?,
        "body_bytes_sent": bytes.parse::<u64>().unwrap_or(0),
        "request_time": 0.125,
        "http_user_agent": agent,
    }))
}

/// Returns the seconds, and the output.
fn timed(command: &mut Command) -> Result<(f64, Value)> {
    let start = Instant::now();
    let output = command
        .stderr(Stdio::piped())
        .output()
        .with_context(|| format!("can't run {command:?}"))?;
    let seconds = start.elapsed().as_secs_f64();
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?} ended with {}: {}", output.status, error.trim());
    }
    let value = serde_json::from_slice(&output.stdout).context("the output is no JSON")?;
    Ok((seconds, value))
}

fn ensure_same(expected: &Value, found: &Value) -> Result<()> {
    let policy = &found["policies"][0];
    let pairs = [("malformed", found), ("requests", policy), ("denied", policy), ("keys", policy)];
    for (name, place) in pairs.into_iter().chain([("keys_denied", policy)]) {
        let (expected, found) = (expected[name].as_u64(), place[name].as_u64());
        ensure!(
            expected.is_some() && expected == found,
            "`{name}` is {found:?} by sluicegate and {expected:?} by the script"
        );
    }
    ensure!(expected["denied"].as_u64() > Some(0), "nobody is denied: that is no test");
    Ok(())
}

/// Copies of the log in a file that is removed when this value is dropped.
struct LongLog {
    path: PathBuf,
    lines: usize,
}

impl LongLog {
    fn write(name: &str, text: &[u8]) -> Result<Self> {
        let lines = COPIES * text.iter().filter(|&&byte| byte == b'\n').count();
        let path =
            env::temp_dir().join(format!("sluicegate-bench-{}-{name}.log", std::process::id()));
        let written = Self { path, lines };
        let file = File::create(&written.path);
        let mut file = BufWriter::new(file.context("can't write the long log")?);
        for _ in 0..COPIES {
            file.write_all(text)?;
        }
        file.flush()?;
        Ok(written)
    }
}

impl Drop for LongLog {
    fn drop(&mut self) {
        // Best effort: the file is in the folder for temporary files.
        let _ = fs::remove_file(&self.path);
    }
}
