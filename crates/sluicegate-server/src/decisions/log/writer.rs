//! The thread that writes the decision log.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::{Duration, Instant};

use super::file::{LogFile, Written};
use super::left_out::{Counts, Why};
use super::queue::Queue;

/// Starts the thread. It sends to `done` once the queue has ended and its last line is written.
pub(super) fn start(
    file: LogFile,
    queue: Arc<Queue>,
    counts: Arc<Counts>,
    done: SyncSender<()>,
) -> io::Result<()> {
    let writer = Writer { file, counts, warned: None, is_failing: false };
    let run = move || {
        writer.run(&queue);
        // The log may have given up waiting.
        let _ = done.try_send(());
    };
    thread::Builder::new().name("decision-log".to_owned()).spawn(run).map(drop)
}

struct Writer {
    file: LogFile,
    counts: Arc<Counts>,
    /// The time of the last warning.
    warned: Option<Instant>,
    is_failing: bool,
}

impl Writer {
    /// Time between two looks at the file while there are no lines.
    const LOOK: Duration = Duration::from_secs(1);
    /// Time between two warnings.
    const QUIET: Duration = Duration::from_secs(60);

    fn run(mut self, queue: &Queue) {
        let mut batch = Vec::new();
        loop {
            let taken = queue.take(&mut batch, Self::LOOK);
            let now = tokio::time::Instant::now().into_std();
            let opened = if taken.reopens { self.file.reopen() } else { self.file.follow(now) };
            if !batch.is_empty() {
                let Written { lines, lost, error } = self.file.write(&batch);
                self.counts.write(lines);
                if lost > 0 {
                    self.counts.leave_out(Why::WriteFailed, lost);
                }
                match opened.err().or(error) {
                    Some(error) => self.fails(&error, now),
                    None => self.works(),
                }
            }
            if taken.ends {
                return;
            }
        }
    }

    fn fails(&mut self, error: &io::Error, now: Instant) {
        self.is_failing = true;
        let is_due =
            self.warned.is_none_or(|last| now.saturating_duration_since(last) >= Self::QUIET);
        if is_due {
            self.warned = Some(now);
            tracing::warn!(
                "the decision log can't be written, so it lacks lines until it can: {error}"
            );
        }
    }

    fn works(&mut self) {
        if self.is_failing {
            self.is_failing = false;
            tracing::info!("the decision log is written again");
        }
    }
}
