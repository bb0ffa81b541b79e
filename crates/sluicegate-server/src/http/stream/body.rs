//! The body of a stream, made while its reader takes it.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use hyper::body::Frame;
use tokio::sync::watch;

use super::feed::Feed;
use crate::serving::Client;

/// The events of a feed. The next one is made when the last one was taken, so nothing is queued.
pub(super) struct Events {
    feed: Option<Feed>,
    making: Option<Making>,
    /// Whether the reader has an event that it hasn't taken as a whole.
    is_given: watch::Sender<bool>,
}

type Making = Pin<Box<dyn Future<Output = (Feed, Option<Vec<u8>>)> + Send>>;

impl Events {
    /// Maximum time for which a reader may take nothing.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// Starts the events. A client that takes nothing for 30 s is disconnected.
    pub(super) fn new(feed: Feed, client: Option<Client>) -> Self {
        let (is_given, given) = watch::channel(false);
        if let Some(client) = client {
            client.bound_unsent(Self::PATIENCE);
            tokio::spawn(async move {
                if is_stuck(given).await {
                    client.disconnect();
                }
            });
        }
        Self { feed: Some(feed), making: None, is_given }
    }
}

/// Waits until a reader has taken nothing for too long. Returns `false` if the stream ends first.
async fn is_stuck(mut given: watch::Receiver<bool>) -> bool {
    loop {
        let has_event = *given.borrow_and_update();
        let changed = if has_event {
            match tokio::time::timeout(Events::PATIENCE, given.changed()).await {
                Ok(changed) => changed,
                Err(_) => return true,
            }
        } else {
            given.changed().await
        };
        if changed.is_err() {
            return false;
        }
    }
}

impl HttpBody for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        this.is_given.send_if_modified(std::mem::take);
        let making = match (&mut this.making, this.feed.take()) {
            (Some(making), _) => making,
            (making, Some(mut feed)) => making.insert(Box::pin(async move {
                let events = feed.next().await;
                (feed, events)
            })),
            (None, None) => return Poll::Ready(None),
        };
        let (feed, events) = ready!(making.as_mut().poll(context));
        this.making = None;
        let Some(events) = events else { return Poll::Ready(None) };
        this.feed = Some(feed);
        this.is_given.send_replace(true);
        Poll::Ready(Some(Ok(Frame::data(events.into()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_reader_is_stuck_once_it_has_taken_nothing_for_30_seconds() {
        let (is_given, given) = watch::channel(false);
        let stuck = tokio::spawn(is_stuck(given));
        tokio::time::sleep(Duration::from_secs(1_000)).await;
        for _ in 0..3 {
            is_given.send_replace(true);
            tokio::time::sleep(Duration::from_secs(29)).await;
            assert!(!stuck.is_finished());
            is_given.send_replace(false);
            tokio::time::sleep(Duration::from_secs(1_000)).await;
        }
        is_given.send_replace(true);
        tokio::time::sleep(Duration::from_secs(31)).await;
        assert!(stuck.is_finished() && stuck.await.unwrap());
        let (is_given, given) = watch::channel(true);
        drop(is_given);
        assert!(!is_stuck(given).await, "the stream has ended");
    }
}
