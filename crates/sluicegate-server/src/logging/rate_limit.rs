//! A rate limit for each message of the log.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata};

use super::DECISIONS;

/// Admits the first events of each message in a window of time, and counts the others.
///
/// A message is a place in a program. So there are at most as many windows as places that log.
#[derive(Debug, Default)]
pub(super) struct RateLimit {
    windows: Mutex<HashMap<Identifier, Window>>,
    left_out: AtomicU64,
}

/// The events of a message since the window began.
#[derive(Debug)]
struct Window {
    began: Instant,
    admitted: u32,
    /// The number of events that were left out and not reported yet.
    left_out: u64,
    target: &'static str,
    /// The beginning of the last message that was admitted.
    message: String,
}

/// Events that were left out.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct LeftOut {
    pub(super) count: u64,
    pub(super) target: &'static str,
    /// The beginning of a message that was admitted before.
    pub(super) message: String,
}

impl RateLimit {
    /// Log target of the reports about events that were left out.
    pub(super) const TARGET: &str = "sluicegate::log";
    /// Number of events of a message in each window.
    const MOST: u32 = 10;
    const WIDTH: Duration = Duration::from_secs(10);
    /// Maximum number of characters of a message that are kept.
    const MOST_OF_MESSAGE: usize = 200;

    /// Returns the number of events that were left out so far.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }

    /// Returns the events that were left out in windows that have ended. Each is returned once.
    pub(super) fn ended(&self, now: Instant) -> Vec<LeftOut> {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let ended =
            windows.values_mut().filter(|window| window.left_out > 0 && window.is_over(now));
        ended
            .map(|window| LeftOut {
                count: std::mem::take(&mut window.left_out),
                target: window.target,
                message: window.message.clone(),
            })
            .collect()
    }

    /// Returns whether an event is logged. Otherwise it is counted.
    pub(super) fn admits(&self, event: &Event<'_>, now: Instant) -> bool {
        let metadata = event.metadata();
        if [DECISIONS, Self::TARGET].contains(&metadata.target()) {
            return true;
        }
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let window =
            windows.entry(metadata.callsite()).or_insert_with(|| Window::new(metadata, now));
        if window.is_over(now) {
            (window.began, window.admitted) = (now, 0);
        }
        if window.admitted == Self::MOST {
            window.left_out += 1;
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        window.admitted += 1;
        if window.admitted == Self::MOST {
            let mut message = Message(String::new());
            event.record(&mut message);
            window.message = message.0.chars().take(Self::MOST_OF_MESSAGE).collect();
        }
        true
    }
}

impl Window {
    fn new(metadata: &'static Metadata<'static>, now: Instant) -> Self {
        Self {
            began: now,
            admitted: 0,
            left_out: 0,
            target: metadata.target(),
            message: String::new(),
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.began) >= RateLimit::WIDTH
    }
}

/// The text of an event.
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::super::{LogFormat, lines};
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_window_admits_ten_events_and_reports_the_others_once() {
        let limit: &'static RateLimit = Box::leak(Box::default());
        let layer = lines(LogFormat::Text, limit, std::io::sink);
        let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
        let log = |times: u32| {
            for number in 0..times {
                tracing::warn!("number {number}");
            }
        };
        log(15);
        assert_eq!(limit.left_out(), 5);
        assert_eq!(limit.ended(Instant::now()), [], "the window hasn't ended");
        tokio::time::advance(Duration::from_millis(9_999)).await;
        log(1);
        assert_eq!(limit.left_out(), 6);
        tokio::time::advance(Duration::from_millis(1)).await;
        let told = LeftOut { count: 6, target: module_path!(), message: "number 9".to_owned() };
        assert_eq!(limit.ended(Instant::now()), [told]);
        assert_eq!(limit.ended(Instant::now()), [], "it is reported once");
        log(10);
        assert_eq!(limit.left_out(), 6, "a new window has begun");
        log(1);
        tokio::time::advance(Duration::from_secs(10)).await;
        // A new window, before the former one is reported.
        log(11);
        assert_eq!(limit.left_out(), 8);
        tokio::time::advance(Duration::from_secs(10)).await;
        let told = LeftOut { count: 2, target: module_path!(), message: "number 9".to_owned() };
        assert_eq!(limit.ended(Instant::now()), [told]);
    }
}
