//! Runs the program, and parses its output.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

pub(crate) const LOG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/apache_access.log");

pub(crate) fn sluicegate(arguments: &[&str]) -> Output {
    sluicegate_reading(arguments, b"")
}

/// Runs the program with `input` as its standard input.
pub(crate) fn sluicegate_reading(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sluicegate"))
        .arg("replay")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // A program that refuses its arguments doesn't read its input.
        scope.spawn(move || stdin.write_all(input));
        child.wait_with_output().unwrap()
    })
}

pub(crate) fn json(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said(output), "");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns a run's standard error, except for the formats that it recognized.
pub(crate) fn said(output: &Output) -> String {
    let said = std::str::from_utf8(&output.stderr).unwrap();
    let is_expected = |line: &&str| !line.starts_with("note: recognized the format of ");
    said.split_inclusive('\n').filter(is_expected).collect()
}

/// Returns the message of a run that was refused with exit status 2.
pub(crate) fn refusal(arguments: &[&str]) -> String {
    let output = sluicegate(arguments);
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(output.stdout, b"");
    said(&output)
}

pub(crate) fn replay(log: &Path, policies: &[&str]) -> Value {
    let mut arguments = vec!["--log", log.to_str().unwrap(), "--format", "json", "--policy"];
    arguments.extend(policies);
    json(&sluicegate(&arguments))
}

pub(crate) fn numbers(counts: &Value) -> [u64; 5] {
    ["requests", "allowed", "denied", "keys", "keys_denied"]
        .map(|name| counts[name].as_u64().unwrap())
}

pub(crate) struct Folder(pub(crate) tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}
