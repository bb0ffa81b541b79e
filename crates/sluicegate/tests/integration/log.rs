//! Captures log messages.

#![allow(clippy::unwrap_used, reason = "the helpers of tests may do what tests may")]
#![allow(dead_code, reason = "each test program uses some of it")]

use std::fmt::Write as _;
use std::future::Future;
use std::sync::{Arc, LazyLock, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

/// Returns the warnings and errors that are logged on this thread while `call` runs.
pub(crate) fn warnings(call: impl FnOnce()) -> Vec<String> {
    let log = Log::new(Level::WARN);
    tracing::subscriber::with_default(log.clone(), call);
    log.lines()
}

/// Returns the warnings and errors that are logged while `future` is polled.
pub(crate) async fn warnings_of(future: impl Future<Output = ()>) -> Vec<String> {
    logged(Level::WARN, future).await
}

/// Returns the messages of level `INFO` and above that are logged while `future` is polled.
pub(crate) async fn messages_of(future: impl Future<Output = ()>) -> Vec<String> {
    logged(Level::INFO, future).await
}

/// Returns the warnings and errors that are logged by all tasks of a runtime of one thread while `future` runs.
pub(crate) async fn warnings_on_this_thread(future: impl Future<Output = ()>) -> Vec<String> {
    let log = Log::new(Level::WARN);
    let logging = tracing::subscriber::set_default(log.clone());
    future.await;
    drop(logging);
    log.lines()
}

async fn logged(least: Level, future: impl Future<Output = ()>) -> Vec<String> {
    let log = Log::new(least);
    let logging = Dispatch::new(log.clone());
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|context| {
        tracing::dispatcher::with_default(&logging, || future.as_mut().poll(context))
    })
    .await;
    log.lines()
}

/// Makes a subscriber that collects nothing. A test whose own one is dropped later must call it first.
///
/// Each line's level of interest is decided once per process, when it is first reached. With a single subscriber,
/// `tracing` uses that of the current thread, which may belong to a test without one. Then nothing would be collected.
/// So there is always a second one.
pub(crate) fn have_second_subscriber() {
    static SECOND: LazyLock<Dispatch> =
        LazyLock::new(|| Dispatch::new(Log { lines: Arc::default(), least: Level::ERROR }));
    LazyLock::force(&SECOND);
}

#[derive(Clone)]
struct Log {
    lines: Arc<Mutex<Vec<String>>>,
    least: Level,
}

impl Log {
    fn new(least: Level) -> Self {
        have_second_subscriber();
        Self { lines: Arc::default(), least }
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }
}

/// The message, followed by the error if there is one.
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        match field.name() {
            "message" => self.0.insert_str(0, &format!("{value:?}")),
            "error" => write!(self.0, ": {value:?}").unwrap(),
            _ => {}
        }
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.least
    }

    fn event(&self, event: &Event<'_>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        self.lines.lock().unwrap().push(message.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
