//! The connection to a control plane, for metrics.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use sluicegate::testing::{Clock as _, SystemClock};
use sluicegate_envoy::service::XdsEvent;

use super::loads::Loads;

/// Whether a control plane has accepted a stream, and its pushes so far.
#[derive(Debug)]
pub(super) struct Plane {
    is_up: AtomicBool,
    /// The time of the last change, in ms since the epoch.
    changed: AtomicU64,
    loads: Arc<Loads>,
}

impl Plane {
    /// Makes the state at the start: there is no stream.
    pub(super) fn new(loads: Arc<Loads>) -> Arc<Self> {
        let (is_up, changed) = (AtomicBool::new(false), AtomicU64::new(now()));
        Arc::new(Self { is_up, changed, loads })
    }

    /// Notes an event.
    pub(super) fn note(&self, event: &XdsEvent) {
        match event {
            XdsEvent::Connected => self.change(true),
            XdsEvent::Disconnected { .. } => self.change(false),
            XdsEvent::Applied { .. } => self.loads.succeeded(),
            XdsEvent::Refused { .. } => self.loads.failed(),
            _ => {}
        }
    }

    fn change(&self, is_up: bool) {
        if self.is_up.swap(is_up, Ordering::Relaxed) != is_up {
            self.changed.store(now(), Ordering::Relaxed);
        }
    }
}

/// Reads the state at each scrape.
#[derive(Debug)]
pub(super) struct PlaneCollector(pub(super) Arc<Plane>);

impl Collector for PlaneCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Plane { is_up, changed, loads } = &*self.0;
        let gauge = MetricType::Gauge;
        let help = "1 while the control plane has accepted a stream";
        let up = encoder.encode_descriptor("control_plane_up", help, None, gauge)?;
        ConstGauge::new(u64::from(is_up.load(Ordering::Relaxed))).encode(up)?;
        let name = "control_plane_changed_timestamp_seconds";
        let help = "Unix time since which the control plane is up, or isn't";
        let since = encoder.encode_descriptor(name, help, None, gauge)?;
        let seconds = Duration::from_millis(changed.load(Ordering::Relaxed)).as_secs_f64();
        ConstGauge::new(seconds).encode(since)?;
        let help = "Pushes of the control plane, by what came of it";
        let counter = MetricType::Counter;
        let mut pushes = encoder.encode_descriptor("control_plane_pushes", help, None, counter)?;
        let (applied, refused) = loads.counts();
        for (outcome, count) in [("applied", applied), ("refused", refused)] {
            ConstCounter::new(count).encode(pushes.encode_family(&[("outcome", outcome)])?)?;
        }
        Ok(())
    }
}

fn now() -> u64 {
    SystemClock::default().now().as_micros() / 1_000
}
