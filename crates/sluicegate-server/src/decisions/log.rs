//! The decision log: a line of JSON for every operation that decides or charges.
//!
//! An observer makes a line and adds it to a bounded queue. A thread of its own writes the lines, so a decision never
//! waits for the disk.

mod arg;
mod file;
mod left_out;
mod queue;
mod writer;

use std::cell::RefCell;
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::collector::Collector;
use ring::hmac;
use serde_json::value::RawValue;
use sluicegate::admin::{Answered, Observer, Settled};
use sluicegate::config::{DecisionLogConfig, LoggedKeys, Sample};
use sluicegate::store::Operation;
use sluicegate_core::Purpose;
use tokio::signal::unix::{SignalKind, signal};

use super::budget::Budget;
use super::key_form::KeyForm;
use super::line::{self, LineTerms};
use super::row::Seen;
use crate::access::Caller;
use crate::output::{Failure, complain};
use crate::trace_context::TraceContext;
use file::LogFile;
use left_out::{Counts, CountsCollector, Why};
use queue::Queue;

pub(crate) use arg::DecisionLogArg;

/// The log of decisions.
pub(crate) struct DecisionLog {
    keys: KeyForm,
    sample: Sample,
    /// The sample as lines have it.
    sample_field: Option<Box<RawValue>>,
    denials: Budget,
    started: Instant,
    queue: Arc<Queue>,
    counts: Arc<Counts>,
    /// Receives once everything is written.
    written: Mutex<Receiver<()>>,
}

thread_local! {
    /// The memory in which a thread makes its lines.
    static LINES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl DecisionLog {
    /// Opens the log of a configuration and starts its thread; `None` if the configuration has no file. `secret` is the
    /// key of hashed keys.
    ///
    /// # Errors
    /// Returns an error if the file can't be opened, or the thread can't be started.
    pub(crate) fn open(
        config: &DecisionLogConfig,
        secret: impl FnOnce() -> hmac::Key,
    ) -> Result<Option<Arc<Self>>, Failure> {
        let Some(path) = &config.file else { return Ok(None) };
        let failure = |error: std::io::Error| {
            Failure::usage(format_args!(
                "the decision log {} can't be opened ({error}): its folder must exist, and this user must be able to write there",
                path.display()
            ))
        };
        let file = LogFile::open(path).map_err(failure)?;
        let (queue, counts) = (Arc::new(Queue::new()), Arc::new(Counts::default()));
        let (done, written) = sync_channel(1);
        writer::start(file, Arc::clone(&queue), Arc::clone(&counts), done).map_err(failure)?;
        reopen_at_hangup(&queue).map_err(failure)?;
        Ok(Some(Arc::new(Self {
            keys: match config.keys {
                LoggedKeys::Hashed => KeyForm::Hashed(secret()),
                _ => KeyForm::Plain,
            },
            sample: config.sample,
            sample_field: line::sample_field(config.sample),
            denials: Budget::new(config.denials_at_most),
            started: tokio::time::Instant::now().into_std(),
            queue,
            counts,
            written: Mutex::new(written),
        })))
    }

    /// Returns the number of lines that the log lacks, apart from those outside of the sample.
    pub(crate) fn left_out(&self) -> u64 {
        self.counts.all_left_out()
    }

    /// Returns the log's metrics.
    pub(crate) fn collector(&self) -> Box<dyn Collector> {
        Box::new(CountsCollector(Arc::clone(&self.counts)))
    }

    /// Writes everything that was decided until now, and ends the log.
    pub(crate) async fn finish(self: Arc<Self>) {
        /// Time limit for a disk or a reader that doesn't take the rest.
        const PATIENCE: Duration = Duration::from_secs(5);
        let waiting = tokio::task::spawn_blocking(move || {
            self.queue.end();
            let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            written.recv_timeout(PATIENCE).is_ok()
        });
        if !waiting.await.unwrap_or(false) {
            complain("note: the decision log doesn't take its last lines, which are lost");
        }
    }

    /// Adds the lines of a decision, if they are in the sample.
    fn add(&self, seen: &Seen<'_>) {
        // Manual operations are rare, and always written.
        let is_manual = seen.operation.purpose() == Purpose::Forget;
        let is_denied = seen.decision.is_denied();
        if !is_manual && !is_denied && !self.is_sampled() {
            return;
        }
        if !is_manual && is_denied {
            let second = seen.at.saturating_duration_since(self.started).as_secs();
            if !self.denials.take(second) {
                return self.counts.leave_out(Why::DenialsAtMost, count(seen.rows().count()));
            }
        }
        let client = Caller::name_in_decision();
        let trace = TraceContext::current().map(|trace| trace.trace_id);
        LINES.with_borrow_mut(|lines| {
            for row in seen.rows() {
                lines.clear();
                let left_out = self.counts.unsaid();
                let terms = LineTerms {
                    key: &self.keys.write(row.key),
                    client: client.as_deref(),
                    trace,
                    sample: self.sample_field.as_deref(),
                    left_out,
                };
                line::append(&row, &terms, lines);
                lines.push(b'\n');
                if !self.queue.add(lines) {
                    self.counts.say_later(left_out);
                    self.counts.leave_out(Why::QueueFull, 1);
                }
            }
        });
    }

    fn is_sampled(&self) -> bool {
        self.sample == Sample::ALL
            || fastrand::u32(..Sample::ALL.millionths()) < self.sample.millionths()
    }
}

impl Observer for DecisionLog {
    fn answered(&self, answered: &Answered<'_>) {
        // The others neither decide nor charge.
        let is_logged = !matches!(answered.operation, Operation::Peek | Operation::Slices);
        if is_logged && let Some(seen) = Seen::of(answered) {
            self.add(&seen);
        }
    }

    fn settled(&self, settled: &Settled<'_>) {
        // To renew a hold neither decides nor charges, and a holder does it again and again.
        let is_logged = !matches!(settled.operation, Operation::Renew { .. });
        if is_logged && let Some(seen) = Seen::of_settled(settled) {
            self.add(&seen);
        }
    }
}

/// Opens the file again at every SIGHUP.
fn reopen_at_hangup(queue: &Arc<Queue>) -> std::io::Result<()> {
    let mut hangup = signal(SignalKind::hangup())?;
    let queue = Arc::clone(queue);
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            queue.reopen();
        }
    });
    Ok(())
}

/// Returns `true` if the log goes to standard output.
fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
