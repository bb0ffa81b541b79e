//! The hits that a request's counters get.

use super::matching::{Limited, Matches};
use super::request::Request;
use super::settings::Settings;

/// The change of a counter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Charge {
    /// Adds hits, maybe 0, also beyond the limit. A sum above the counter's range is its maximum.
    Add(u64),
    /// Subtracts hits, at most to 0.
    Refund(u64),
    /// Leaves the counter alone: it is known to be over its limit.
    Skip,
}

/// The knowledge about a counter before its charge.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Look {
    /// Whether a local cache has it as over its limit, in the current window.
    pub is_known_over: bool,
    /// Its value in the current window; read only if [`Matches::needs_looks`].
    pub count: u64,
}

impl Matches {
    /// Returns whether [`charges`](Self::charges) needs the counters' values.
    #[must_use]
    pub fn needs_looks(&self, settings: &Settings) -> bool {
        settings.stop_increment_when_over
            && self.descriptors.iter().any(|found| found.limited().is_some())
    }

    /// Returns the charge of each descriptor's counter; `None` for a descriptor without a limit.
    ///
    /// Descriptors may have the same counter: the charges apply one after the other. `looks` has an entry for each descriptor;
    /// a missing one is the default.
    #[must_use]
    pub fn charges(
        &self,
        request: &Request<'_>,
        settings: &Settings,
        looks: &[Look],
    ) -> Vec<Option<Charge>> {
        let look = |index: usize| looks.get(index).copied().unwrap_or_default();
        let counted: Vec<Option<Counted<'_>>> = self.counted(request).collect();
        let stop = settings.stop_increment_when_over;
        let known_over = stop
            && counted
                .iter()
                .enumerate()
                .any(|(index, one)| one.is_some() && look(index).is_known_over);
        // Without the local cache, these counters would go over their limit by this request.
        let goes_over = |index: usize, one: &Counted<'_>| {
            let after = u128::from(look(index).count) + u128::from(one.hits);
            stop && !known_over && !one.is_refund && after > u128::from(one.limit.requests_per_unit)
        };
        let one_goes_over = counted
            .iter()
            .enumerate()
            .any(|(index, one)| one.as_ref().is_some_and(|one| goes_over(index, one)));
        let charge = |(index, one): (usize, &Option<Counted<'_>>)| {
            let one = one.as_ref()?;
            Some(if one.is_refund {
                Charge::Refund(one.hits)
            } else if look(index).is_known_over {
                Charge::Skip
            } else if known_over || one_goes_over && !goes_over(index, one) {
                Charge::Add(0)
            } else {
                Charge::Add(one.hits)
            })
        };
        counted.iter().enumerate().map(charge).collect()
    }

    /// Returns each descriptor's limit and hits.
    pub(crate) fn counted<'a>(
        &'a self,
        request: &'a Request<'_>,
    ) -> impl Iterator<Item = Option<Counted<'a>>> {
        self.descriptors.iter().zip(&request.descriptors).map(|(found, descriptor)| {
            Some(Counted {
                limit: found.limited()?,
                hits: request.hits(descriptor),
                is_refund: descriptor.is_negative_hits,
            })
        })
    }
}

/// A limit and the hits of its descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted<'a> {
    pub(crate) limit: &'a Limited,
    pub(crate) hits: u64,
    pub(crate) is_refund: bool,
}
