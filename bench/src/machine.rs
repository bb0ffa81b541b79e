//! The machine: clocks, processors, and its name in the report.

use std::fs;
use std::io;
use std::process::{Child, Command};
use std::sync::OnceLock;

use anyhow::{Context as _, Result};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// Returns the processor time of this thread, in ns. Unlike wall time, it doesn't include the time of
/// other programs.
pub fn thread_nanos() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Keeps a thread on one processor, if there are several.
pub fn pin_thread(processor: usize) {
    pin(None, processor);
}

/// Keeps another process on one processor, if there are several.
pub fn pin_process(id: u32, processor: usize) {
    if let Some(id) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        pin(Some(id), processor);
    }
}

/// Starts a program whose threads all stay on one processor. They are as many as a program starts on a machine that has
/// only this one.
pub fn spawn_on(command: &mut Command, processor: usize) -> io::Result<Child> {
    let own = sched_getaffinity(None)?;
    // A process has the processors of the thread that starts it.
    pin_thread(processor);
    let child = command.spawn();
    sched_setaffinity(None, &own)?;
    child
}

/// Lets this thread run anywhere again.
pub fn unpin_thread() {
    let mut all = CpuSet::new();
    (0..processors()).for_each(|processor| all.set(processor));
    let _ = sched_setaffinity(None, &all);
}

fn pin(process: Option<Pid>, processor: usize) {
    let mut set = CpuSet::new();
    set.set(processor % processors());
    // Where pinning isn't allowed, the measurement is only noisier.
    let _ = sched_setaffinity(process, &set);
}

/// Returns the processor time of the first thread of a process, in ns, at the last time it slept.
pub fn process_nanos(id: u32) -> Result<f64> {
    nanos_in(&format!("/proc/{id}/schedstat"))
}

/// Returns the processor time of all running threads of a process, in ns, at their last switches.
pub fn all_nanos(id: u32) -> Result<f64> {
    let threads = fs::read_dir(format!("/proc/{id}/task")).context("the process has ended")?;
    let nanos = threads.map(|thread| match thread?.path().join("schedstat").to_str() {
        Some(path) => nanos_in(path),
        None => Ok(0.0),
    });
    nanos.sum()
}

fn nanos_in(path: &str) -> Result<f64> {
    let text = fs::read_to_string(path).with_context(|| format!("can't read {path}"))?;
    let nanos = text.split(' ').next().unwrap_or_default();
    nanos.parse().with_context(|| format!("{path} has no processor time"))
}

/// Returns the id of this thread in the system.
pub fn this_thread() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Returns the processor time of another thread of this process, in ns, at its last switch.
pub fn thread_nanos_of(thread: i32) -> Result<f64> {
    nanos_in(&format!("/proc/self/task/{thread}/schedstat"))
}

/// Returns the description of the machine for the report.
pub fn description() -> String {
    let model =
        first_value("/proc/cpuinfo", "model name").unwrap_or("unknown processor".to_owned());
    let memory = first_value("/proc/meminfo", "MemTotal")
        .and_then(|text| text.split(' ').next().and_then(|kib| kib.parse::<f64>().ok()))
        .map_or(String::new(), |kib| format!(", {:.0} GiB", kib / 1024.0 / 1024.0));
    format!("{} × {model}{memory}, {}", processors(), std::env::consts::OS)
}

/// Returns the number of processors before the first thread was pinned to one.
fn processors() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

fn first_value(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_once(':').map(|(_, value)| value.trim().to_owned())
}
