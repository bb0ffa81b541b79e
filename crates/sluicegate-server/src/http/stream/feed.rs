//! The events of one stream.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use axum::http::request::Parts;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Instant;

use super::super::guard;
use super::super::service::Service;
use super::history::History;
use super::limits::Limits;
use super::now::Now;
use super::window::Window;
use crate::access::{Call, Caller};
use crate::decisions::Filter;
use crate::printable_json::printable_json;

/// The events of one stream.
pub(super) struct Feed {
    service: Arc<Service>,
    /// The request, whose rights may end before the stream does.
    head: Parts,
    caller: Caller,
    window: Window,
    /// `None` without decisions.
    filter: Option<Filter>,
    seconds: watch::Receiver<u64>,
    /// The last step that the reader has; `None` before the first event.
    step: Option<u64>,
    is_first: bool,
    /// Whether more events follow the first ones.
    follows: bool,
    has_ended: bool,
    /// The limits that the reader has the history of.
    known: HashSet<String>,
    ends: Instant,
    _place: OwnedSemaphorePermit,
}

#[derive(Serialize)]
struct Bye {
    reason: &'static str,
}

impl Feed {
    /// Maximum length of a stream.
    const MOST: Duration = Duration::from_secs(60 * 60);
    /// Maximum number of decisions in an event.
    const ROWS: usize = 100;

    pub(super) fn new(
        service: Arc<Service>,
        head: Parts,
        caller: Caller,
        window: Window,
        filter: Option<Filter>,
        resume: Option<&str>,
        place: OwnedSemaphorePermit,
    ) -> Self {
        let own = resume.and_then(|id| id.split_once('-'));
        let own = own.filter(|(process, _)| *process == service.fleet.id());
        let latest = service.activity.totals(|totals| totals.step);
        let step = own.and_then(|(_, step)| step.parse().ok()).filter(|step| *step <= latest);
        let seconds = service.overview.seconds.subscribe();
        Self {
            service,
            head,
            caller,
            window,
            filter,
            seconds,
            step,
            is_first: true,
            follows: true,
            has_ended: false,
            known: HashSet::new(),
            ends: Instant::now() + Self::MOST,
            _place: place,
        }
    }

    /// Ends after the first events.
    pub(super) fn only_first(self) -> Self {
        Self { follows: false, ..self }
    }

    /// Returns the events of the next second; `None` after the last ones.
    pub(super) async fn next(&mut self) -> Option<Vec<u8>> {
        if self.has_ended || !(self.is_first || self.follows) {
            return None;
        }
        if !self.is_first {
            tokio::select! {
                biased;
                () = self.service.stages.clone().draining() => return Some(self.bye("stopping")),
                changed = self.seconds.changed() => changed.ok()?,
            }
        }
        if self.service.stages.is_draining() {
            return Some(self.bye("stopping"));
        }
        if Instant::now() >= self.ends {
            return Some(self.bye("too long"));
        }
        self.seconds.mark_unchanged();
        self.events()
    }

    fn events(&mut self) -> Option<Vec<u8>> {
        let mut events = Vec::with_capacity(4 << 10);
        let latest = self.service.activity.totals(|totals| totals.step);
        let ends_step = !self.is_first && self.step != Some(latest);
        if ends_step {
            // The rights of the caller may have changed. The reader learns why when it connects again.
            self.caller = guard::admit(&self.service.access, &self.head, Call::Inspect).ok()?;
        }
        if self.is_first || ends_step {
            let (history, last) = History::after(self.step, &self.service, &self.caller);
            let id = format!("{}-{last}", self.service.fleet.id());
            self.step = Some(last);
            event(&mut events, "history", Some(&id), &history);
        }
        event(&mut events, "now", None, &Now::of(&self.service, &self.caller));
        let limits =
            Limits::of(&self.service, &self.caller, &self.window, &mut self.known, ends_step);
        event(&mut events, "limits", None, &limits);
        if let Some(filter) = &mut self.filter {
            let page =
                self.service.recent.newest(filter, Self::ROWS, |limit| self.caller.covers(limit));
            if self.is_first || !page.is_empty() {
                events.extend_from_slice(b"event: recent\ndata: ");
                events.extend_from_slice(&page.json_as("rows"));
                events.extend_from_slice(b"\n\n");
            }
            filter.since = Some(page.next());
        }
        self.is_first = false;
        Some(events)
    }

    fn bye(&mut self, reason: &'static str) -> Vec<u8> {
        self.has_ended = true;
        let mut events = Vec::new();
        event(&mut events, "bye", None, &Bye { reason });
        events
    }
}

/// Writes an event.
fn event(events: &mut Vec<u8>, name: &str, id: Option<&str>, data: &impl Serialize) {
    events.extend_from_slice(b"event: ");
    events.extend_from_slice(name.as_bytes());
    if let Some(id) = id {
        events.extend_from_slice(b"\nid: ");
        events.extend_from_slice(id.as_bytes());
    }
    events.extend_from_slice(b"\ndata: ");
    // JSON has no line breaks outside of strings, and escapes those within. Clients choose keys, so control characters
    // and bidirectional marks are escaped too. These types can't fail to serialize.
    let text = serde_json::to_string(data).unwrap_or_default();
    events.extend_from_slice(printable_json(&text).as_bytes());
    events.extend_from_slice(b"\n\n");
}
