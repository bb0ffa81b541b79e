//! Remaining work for a request until the body of its response has ended.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use http::HeaderMap;

use super::charge::Charge;
use super::in_flight::InFlight;
use super::response_view::ResponseView;
use super::rules::Rules;
use super::served::{BodyEnd, Served};
use crate::usage::Usage;

/// Remaining work for a request until the body of its response has ended. An adapter keeps it next to the body, and
/// reports the body's progress to it. If it is dropped, the body counts as dropped.
///
/// ```
/// use sluicegate::middleware::Tail;
///
/// /// A body of some framework.
/// struct Limited<B> {
///     // Before the tail, so that what it says when it is dropped still counts.
///     body: B,
///     tail: Tail,
/// }
///
/// impl<B: Iterator<Item = Vec<u8>>> Iterator for Limited<B> {
///     type Item = Vec<u8>;
///
///     fn next(&mut self) -> Option<Vec<u8>> {
///         let chunk = self.body.next();
///         match &chunk {
///             Some(chunk) => self.tail.data(chunk.len()),
///             None => self.tail.end(),
///         }
///         chunk
///     }
/// }
/// # assert_eq!(Limited { body: std::iter::empty(), tail: Tail::default() }.next(), None);
/// ```
#[derive(Default)]
#[must_use = "when it is dropped, the body counts as dropped"]
pub struct Tail(Option<Box<Open>>);

struct Open {
    in_flight: InFlight,
    rules: Arc<Rules>,
    served: Served,
    /// The usage that the head of the response reports.
    told: Option<Charge>,
}

impl Tail {
    pub(super) fn new(in_flight: InFlight, rules: Arc<Rules>) -> Self {
        let served = Served { status: None, bytes: 0, trailers: None, end: BodyEnd::NoResponse };
        Self(Some(Box::new(Open { in_flight, rules, served, told: None })))
    }

    /// Returns whether no work remains: the adapter doesn't need to report anything.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.0.is_none()
    }

    /// Notes this many bytes of the body.
    pub fn data(&mut self, bytes: usize) {
        if let Some(open) = &mut self.0 {
            open.served.bytes = open.served.bytes.saturating_add(bytes as u64);
        }
    }

    /// Notes the trailers.
    pub fn trailers(&mut self, trailers: &HeaderMap) {
        if let Some(open) = &mut self.0
            && open.rules.settle_at_end.is_some()
        {
            open.served.trailers = Some(Box::new(trailers.clone()));
        }
    }

    /// Notes that the body has ended.
    pub fn end(&mut self) {
        self.finish(BodyEnd::Complete);
    }

    /// Notes that the body has failed.
    pub fn failed(&mut self) {
        self.finish(BodyEnd::Failed);
    }

    pub(super) fn in_flight(&self) -> Option<&InFlight> {
        self.0.as_ref().map(|open| &open.in_flight)
    }

    /// Notes that there is a response.
    pub(super) fn answered(&mut self, response: &dyn ResponseView) {
        if let Some(open) = &mut self.0 {
            let settle = open.rules.settle.as_ref();
            open.told = settle.and_then(|settle| settle(response));
            open.served.status = Some(response.status());
            open.served.end = BodyEnd::Dropped;
        }
    }

    fn finish(&mut self, end: BodyEnd) {
        if let Some(mut open) = self.0.take() {
            open.served.end = end;
            open.settle();
        }
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        if let Some(open) = self.0.take() {
            open.settle();
        }
    }
}

impl Open {
    fn settle(self) {
        let Self { in_flight, rules, served, told } = self;
        // The handler may have taken the permit.
        let Some((permit, said)) = in_flight.close() else { return };
        let at_end = || {
            let settle = rules.settle_at_end.as_ref()?;
            // It may be called while a panic unwinds.
            catch_unwind(AssertUnwindSafe(|| settle(&served))).unwrap_or_else(|_| {
                let limit = rules.gate.name();
                tracing::error!(limit, "`settle_at_end` panicked; the estimate stays charged");
                None
            })
        };
        let used = said.or(told).or_else(at_end);
        let usage = used.map_or_else(Usage::as_charged, Charge::into_usage);
        permit.settle_in_background(usage);
    }
}

impl fmt::Debug for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = self.0.as_ref().map(|open| (&open.in_flight, &open.served));
        f.debug_tuple("Tail").field(&open).finish()
    }
}
