//! The numbers of lines that were written, and of those that were left out.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

/// The reason that a line was left out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Why {
    /// The thread that writes was too slow.
    QueueFull,
    /// The second had as many denials as are written.
    DenialsAtMost,
    /// The file couldn't be written.
    WriteFailed,
}

/// The counts of lines.
#[derive(Debug, Default)]
pub(super) struct Counts {
    written: AtomicU64,
    left_out: [AtomicU64; Why::ALL.len()],
    /// The lines left out that no line has told yet.
    unsaid: AtomicU64,
}

impl Why {
    const ALL: [(Self, &str); 3] = [
        (Self::QueueFull, "queue_full"),
        (Self::DenialsAtMost, "denials_at_most"),
        (Self::WriteFailed, "write_failed"),
    ];
}

impl Counts {
    pub(super) fn write(&self, lines: u64) {
        self.written.fetch_add(lines, Ordering::Relaxed);
    }

    pub(super) fn leave_out(&self, why: Why, lines: u64) {
        if let Some(count) = self.left_out.get(why as usize) {
            count.fetch_add(lines, Ordering::Relaxed);
        }
        self.say_later(lines);
    }

    pub(super) fn all_left_out(&self) -> u64 {
        self.left_out.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Takes the number of lines left out that no line has told yet.
    pub(super) fn unsaid(&self) -> u64 {
        // Nearly always there are none, and a swap would make threads wait for each other.
        match self.unsaid.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.unsaid.swap(0, Ordering::Relaxed),
        }
    }

    /// Lets a later line tell that lines were left out.
    pub(super) fn say_later(&self, lines: u64) {
        if lines > 0 {
            self.unsaid.fetch_add(lines, Ordering::Relaxed);
        }
    }
}

/// Reads the counts at each scrape.
#[derive(Debug)]
pub(super) struct CountsCollector(pub(super) Arc<Counts>);

impl Collector for CountsCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Lines written to the decision log";
        let written = ConstCounter::new(self.0.written.load(Ordering::Relaxed));
        let name = "decision_log_lines";
        written.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
        let help =
            "Lines that the decision log lacks, apart from those outside of the sample, by reason";
        let name = "decision_log_left_out";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for ((_, reason), count) in Why::ALL.iter().zip(&self.0.left_out) {
            let count = ConstCounter::new(count.load(Ordering::Relaxed));
            count.encode(family.encode_family(&[("reason", *reason)])?)?;
        }
        Ok(())
    }
}
