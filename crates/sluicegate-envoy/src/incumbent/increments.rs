//! Counters on a metrics page.

use super::charge::Counted;
use super::metric_key::MetricKey;
use super::near_limit::NearLimitRatio;

/// Additions to a rule's counters on a metrics page.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Increments {
    /// Name of the rule's metrics.
    pub metric: MetricKey,
    /// Hits.
    pub total_hits: u64,
    /// Hits above the limit.
    pub over_limit: u64,
    /// Hits above the limit that a local cache answered.
    pub over_limit_with_local_cache: u64,
    /// Hits within the limit, but above the part that `NEAR_LIMIT_RATIO` says.
    pub near_limit: u64,
    /// Hits of descriptors that are within the limit.
    pub within_limit: u64,
    /// Hits above the limit of a rule in shadow mode.
    pub shadow_mode: u64,
}

/// The place of a counter's value after its charge.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Level {
    /// A local cache has the counter as over its limit.
    KnownOver,
    Over(u64),
    Within(u64),
}

impl Increments {
    /// Returns the additions under the incumbent's names, as its page for Prometheus has them.
    ///
    /// For keys of two and more levels, the page counts the hits that a local cache answered twice in `over_limit`.
    #[must_use]
    pub fn on_page(&self) -> [(&'static str, u64); 5] {
        let twice = self.metric.labels().2.map_or(0, |_| self.over_limit_with_local_cache);
        [
            ("total_hits", self.total_hits),
            ("over_limit", self.over_limit.saturating_add(twice)),
            ("near_limit", self.near_limit),
            ("within_limit", self.within_limit),
            ("shadow_mode", self.shadow_mode),
        ]
    }

    /// Counts the hits of a descriptor whose counter has a value after the charge.
    pub(crate) fn new(counted: Counted<'_>, level: Level, ratio: NearLimitRatio) -> Self {
        let Counted { limit, hits, .. } = counted;
        let mut increments = Self { total_hits: hits, ..Self::none(limit.metric.clone()) };
        let most = u64::from(limit.requests_per_unit);
        let near = ratio.threshold(limit.requests_per_unit);
        match level {
            Level::KnownOver => {
                increments.over_limit = hits;
                increments.over_limit_with_local_cache = hits;
            }
            Level::Over(after) => {
                let before = before(after, hits);
                if before >= most {
                    increments.over_limit = hits;
                } else {
                    increments.over_limit = after - most;
                    increments.near_limit = most.saturating_sub(near.max(before));
                }
            }
            Level::Within(after) => {
                if after > near {
                    increments.near_limit =
                        if before(after, hits) >= near { hits } else { after - near };
                }
                increments.within_limit = hits;
            }
        }
        if limit.is_shadow() && !matches!(level, Level::Within(_)) {
            increments.shadow_mode = increments.over_limit;
        }
        increments
    }

    /// Counts the hits of a descriptor whose rule has a block. None of them are near the limit.
    pub(crate) fn of_decision(
        metric: MetricKey,
        hits: u64,
        is_over: bool,
        is_shadow: bool,
    ) -> Self {
        let (within, over) = if is_over { (0, hits) } else { (hits, 0) };
        Self {
            total_hits: hits,
            over_limit: over,
            within_limit: within,
            shadow_mode: if is_shadow { over } else { 0 },
            ..Self::none(metric)
        }
    }

    /// Makes the increments of a refund, which counts no hits.
    pub(crate) const fn none(metric: MetricKey) -> Self {
        Self {
            metric,
            total_hits: 0,
            over_limit: 0,
            over_limit_with_local_cache: 0,
            near_limit: 0,
            within_limit: 0,
            shadow_mode: 0,
        }
    }
}

/// Returns the value before the charge, as the incumbent computes it.
///
/// Hits that weren't added, because another counter is over its limit, are subtracted all the same. A result below 0 is a
/// very large number there.
const fn before(after: u64, hits: u64) -> u64 {
    after.wrapping_sub(hits)
}
