//! Spans of decisions, for programs whose `tracing` subscriber collects them.
//!
//! All spans of the project have the target `sluicegate::trace` and the level DEBUG. So a subscriber that exports them
//! to OpenTelemetry selects them by the target. Attributes never have a key, because keys may be personal data.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use sluicegate_core::{Decision, Error, Limit, Operation};
use tracing::field::{Empty, debug};
use tracing::instrument::Instrumented;
use tracing::level_filters::LevelFilter;
use tracing::{Instrument as _, Span};

/// Awaits the answer of a store in a span, which gets the outcome.
pub(crate) fn traced<F>(limit: &Limit, operation: Operation<'_>, later: F) -> Traced<F>
where
    F: Future<Output = Result<Decision, Error>>,
{
    Traced { later: later.instrument(span(limit, operation)) }
}

/// Makes the span of an answer that the store had immediately. It begins and ends now.
#[inline]
pub(crate) fn answered_now(
    limit: &Limit,
    operation: Operation<'_>,
    answer: &Result<Decision, Error>,
) {
    // One load of an atomic number, if no subscriber wants spans.
    if LevelFilter::current() >= LevelFilter::DEBUG {
        record(&span(limit, operation), answer);
    }
}

pin_project! {
    /// The answer of a store, in a span.
    pub(crate) struct Traced<F> {
        #[pin]
        later: Instrumented<F>,
    }
}

impl<F: Future<Output = Result<Decision, Error>>> Future for Traced<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut later = self.project().later;
        let answer = ready!(later.as_mut().poll(context));
        record(later.span(), &answer);
        Poll::Ready(answer)
    }
}

fn span(limit: &Limit, operation: Operation<'_>) -> Span {
    tracing::debug_span!(
        target: "sluicegate::trace",
        "sluicegate.decision",
        sluicegate.limit = limit.name().as_str(),
        sluicegate.operation = operation.name(),
        sluicegate.allowed = Empty,
        sluicegate.source = Empty,
        sluicegate.binding_limit = Empty,
        sluicegate.binding_policy = Empty,
        error.type = Empty,
        otel.status_code = Empty,
    )
}

fn record(span: &Span, answer: &Result<Decision, Error>) {
    if span.is_disabled() {
        return;
    }
    match answer {
        Ok(decision) => {
            span.record("sluicegate.allowed", decision.is_allowed());
            span.record("sluicegate.source", decision.source().as_str());
            if let Some(limit) = decision.binding_limit() {
                span.record("sluicegate.binding_limit", limit.as_str());
            }
            if let Some(policy) = decision.binding() {
                span.record("sluicegate.binding_policy", policy.name().as_str());
            }
        }
        Err(error) => {
            span.record("otel.status_code", "ERROR");
            match error {
                Error::Store(error) => span.record("error.type", debug(error.kind())),
                Error::Request(error) => span.record("error.type", debug(error.kind())),
                _ => span,
            };
        }
    }
}
