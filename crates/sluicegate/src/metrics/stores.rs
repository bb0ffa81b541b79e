//! The numbers of stores and their layers.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use sluicegate_core::{HistogramCounts, Measure, MeasureKind, SharedStore, Store};

use super::latency::encode_durations;

/// The stores whose own numbers are written too. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Stores(Arc<RwLock<Vec<SharedStore>>>);

impl Stores {
    pub(super) fn add(&self, store: SharedStore) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).push(store);
    }

    /// Returns the durations of the calls of all stores; `None` if none of them calls a server.
    pub(super) fn call_durations(&self) -> Option<HistogramCounts> {
        let measures = self.measures().into_iter();
        let calls = measures.filter(|measure| measure.name() == "store_call_seconds");
        let durations = calls.filter_map(|measure| measure.durations().cloned());
        durations.reduce(|sum, more| sum.plus(&more))
    }

    fn measures(&self) -> Vec<Measure> {
        let stores = self.0.read().unwrap_or_else(PoisonError::into_inner);
        stores.iter().flat_map(Store::measures).collect()
    }
}

impl Collector for Stores {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut measures = self.measures();
        // All measures with one name are one family, even those of several stores.
        measures.sort_by(|one, other| {
            one.name().cmp(other.name()).then_with(|| one.labels().cmp(other.labels()))
        });
        for family in measures.chunk_by(|one, other| one.name() == other.name()) {
            let (name, help, kind) = (family[0].name(), family[0].help(), family[0].kind());
            let metric_type = match kind {
                MeasureKind::Counter => MetricType::Counter,
                MeasureKind::Gauge => MetricType::Gauge,
                MeasureKind::Histogram => MetricType::Histogram,
            };
            let mut family_encoder = encoder.encode_descriptor(name, help, None, metric_type)?;
            if family[0].labels().len() == 0 {
                encode(kind, family, family_encoder)?;
                continue;
            }
            for same in family.chunk_by(|one, other| one.labels().eq(other.labels())) {
                let labels: Vec<_> = same[0].labels().collect();
                encode(kind, same, family_encoder.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

/// Writes the sum of the measures with equal labels.
fn encode(kind: MeasureKind, same: &[Measure], encoder: MetricEncoder<'_>) -> fmt::Result {
    let sum = same.iter().map(Measure::value).fold(0, u64::saturating_add);
    match kind {
        MeasureKind::Counter => ConstCounter::new(sum).encode(encoder),
        MeasureKind::Gauge => ConstGauge::new(sum).encode(encoder),
        MeasureKind::Histogram => {
            let durations = same.iter().filter_map(Measure::durations);
            let sum = durations.fold(HistogramCounts::default(), |sum, more| sum.plus(more));
            encode_durations(&sum, encoder)
        }
    }
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stores").finish_non_exhaustive()
    }
}
