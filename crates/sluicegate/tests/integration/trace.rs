//! Spans of decisions, as a program's subscriber collects them.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::sync::{Arc, Mutex};

use sluicegate::{Limiter, MemoryStore, RedisStore};
use sluicegate_testkit::servers::{fresh_prefix, shared};
use tracing::Instrument as _;
use tracing::span::{Attributes, Id};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

use crate::log::have_second_subscriber;

/// Keeps the name of each span of the project, and that of its parent.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<[String; 2]>>>);

impl<S: tracing::Subscriber + for<'s> LookupSpan<'s>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if attributes.metadata().target() == "sluicegate::trace" {
            let parent = context.span(id).unwrap().parent();
            let names = [attributes.metadata().name(), parent.map_or("", |it| it.name())];
            self.0.lock().unwrap().push(names.map(str::to_owned));
        }
    }
}

/// Returns the spans that are made while `future` runs in a span of the program.
async fn spans_of(future: impl Future<Output = ()>) -> Vec<[String; 2]> {
    have_second_subscriber();
    let spans = Spans::default();
    let _guard =
        tracing::subscriber::set_default(tracing_subscriber::registry().with(spans.clone()));
    future.instrument(tracing::info_span!("program")).await;
    spans.0.lock().unwrap().clone()
}

#[tokio::test]
async fn a_decision_is_a_child_of_the_programs_span_however_a_request_ends() {
    let limit = || sluicegate::Limit::new("api", ["gcra 100/s burst 100"]).unwrap();
    let url = shared().unwrap().url();
    let prefix = fresh_prefix("trace").parse().unwrap();
    let store = RedisStore::builder(&url).unwrap().prefix(prefix).build();
    let (embedded, on_server) =
        (Limiter::new(MemoryStore::new(), limit()), Limiter::new(store, limit()));
    // The first call also loads the script.
    let _ = on_server.check("alice").await.unwrap();
    let decision = || ["sluicegate.decision", "program"].map(str::to_owned);
    let call = || ["sluicegate.store_call", "sluicegate.decision"].map(str::to_owned);
    let asked = spans_of(async {
        let _ = embedded.check("alice").await.unwrap();
        let _ = embedded.check("alice").now().unwrap();
        let _ = embedded.check("alice").blocking().unwrap();
    });
    assert_eq!(asked.await, [decision(), decision(), decision()]);
    let asked = spans_of(async {
        let _ = on_server.check("alice").await.unwrap();
        let _ = on_server.check("alice").blocking().unwrap();
    });
    assert_eq!(asked.await, [decision(), call(), decision(), call()]);
}
