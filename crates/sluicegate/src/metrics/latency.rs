//! Durations on a metrics page, each bucket with the trace of a request in it.

use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use sluicegate_core::{Clock as _, Histogram, HistogramCounts, Timestamp};
use sluicegate_memory::SystemClock;

/// A histogram of durations. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Latency {
    /// The name without the program's prefix and without its unit.
    name: &'static str,
    help: &'static str,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    histogram: Histogram,
    /// The latest traced request of each bucket.
    exemplars: Box<[Mutex<Option<Exemplar>>]>,
}

/// A request whose caller knows its trace.
#[derive(Clone, Copy, Debug)]
struct Exemplar {
    trace_id: [u8; 16],
    took: Duration,
    at: Timestamp,
}

impl Latency {
    pub(super) fn new(name: &'static str, help: &'static str) -> Self {
        let histogram = Histogram::new();
        let exemplars = histogram.counts().buckets().map(|_| Mutex::default()).collect();
        Self { name, help, shared: Arc::new(Shared { histogram, exemplars }) }
    }

    /// Counts a duration. `trace_id` is the trace of the request, if there is one.
    #[inline]
    pub(super) fn observe(&self, took: Duration, trace_id: Option<[u8; 16]>) {
        let bucket = self.shared.histogram.observe(took);
        if let Some(trace_id) = trace_id {
            self.keep(bucket, Exemplar { trace_id, took, at: SystemClock::new().now() });
        }
    }

    pub(super) fn counts(&self) -> HistogramCounts {
        self.shared.histogram.counts()
    }

    /// Adds the traces to the lines of its buckets, in the text format OpenMetrics.
    pub(super) fn add_exemplars(&self, page: &str) -> Result<String, fmt::Error> {
        let prefix = format!("sluicegate_{}_seconds_bucket{{", self.name);
        let mut with = String::with_capacity(page.len());
        let mut exemplars = self.shared.exemplars.iter();
        for line in page.split_inclusive('\n') {
            let exemplar = if line.starts_with(&prefix) { exemplars.next() } else { None };
            let exemplar =
                exemplar.and_then(|it| *it.lock().unwrap_or_else(PoisonError::into_inner));
            match exemplar {
                Some(Exemplar { trace_id, took, at }) => {
                    let trace_id = u128::from_be_bytes(trace_id);
                    let (seconds, millis) =
                        (at.as_micros() / 1_000_000, at.as_micros() / 1_000 % 1_000);
                    writeln!(
                        with,
                        "{} # {{trace_id=\"{trace_id:032x}\"}} {} {seconds}.{millis:03}",
                        line.trim_end(),
                        took.as_secs_f64(),
                    )?;
                }
                None => with.push_str(line),
            }
        }
        Ok(with)
    }

    #[cold]
    fn keep(&self, bucket: usize, exemplar: Exemplar) {
        // Any recent request will do, so no request waits for another one.
        if let Ok(mut kept) = self.shared.exemplars[bucket].try_lock() {
            *kept = Some(exemplar);
        }
    }
}

impl Collector for Latency {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (unit, kind) = (Unit::Seconds, MetricType::Histogram);
        let encoder = encoder.encode_descriptor(self.name, self.help, Some(&unit), kind)?;
        encode_durations(&self.counts(), encoder)
    }
}

/// Writes durations as a histogram in seconds.
pub(super) fn encode_durations(
    durations: &HistogramCounts,
    mut encoder: MetricEncoder<'_>,
) -> fmt::Result {
    let buckets: Vec<(f64, u64)> = durations
        .buckets()
        .map(|(bound, count)| (bound.map_or(f64::INFINITY, |bound| bound.as_secs_f64()), count))
        .collect();
    let (sum, total) = (durations.sum().as_secs_f64(), durations.total());
    encoder.encode_histogram::<NoLabelSet>(sum, total, &buckets, None)
}
