//! The body of a response behind limits.

use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use sluicegate::middleware::Tail;

pin_project! {
    /// The body of a response behind limits. If its request [holds](crate::LimitLayer::hold)
    /// anything, the hold lasts until this body has ended or is dropped.
    ///
    /// Readers see the inner body unchanged. Dereferences to it.
    #[derive(Debug)]
    pub struct LimitBody<B> {
        // Dropped before the tail, so that usage and charges that the handler reports on drop still
        // count.
        #[pin]
        body: B,
        tail: Tail,
    }
}

impl<B> LimitBody<B> {
    /// Returns a body that notifies `tail` of its end.
    pub(super) const fn new(body: B, tail: Tail) -> Self {
        Self { body, tail }
    }

    /// Returns the body of a request that holds nothing.
    pub(super) fn of_nothing(body: B) -> Self {
        Self { body, tail: Tail::default() }
    }

    /// Returns the inner body. The request's hold is settled now.
    pub fn into_inner(self) -> B {
        self.body
    }
}

/// For outer layers that answer with an empty body.
impl<B: Default> Default for LimitBody<B> {
    fn default() -> Self {
        Self::of_nothing(B::default())
    }
}

/// For outer layers that answer with a text, such as another [`LimitLayer`](crate::LimitLayer).
impl<B: From<String>> From<String> for LimitBody<B> {
    fn from(text: String) -> Self {
        Self::of_nothing(B::from(text))
    }
}

impl<B> Deref for LimitBody<B> {
    type Target = B;

    fn deref(&self) -> &B {
        &self.body
    }
}

impl<B: Body> Body for LimitBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let mut this = self.project();
        let frame = ready!(this.body.as_mut().poll_frame(context));
        if !this.tail.is_over() {
            note(this.tail, frame.as_ref(), this.body.is_end_stream());
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn note<D: bytes::Buf, E>(tail: &mut Tail, frame: Option<&Result<Frame<D>, E>>, is_last: bool) {
    match frame {
        Some(Ok(frame)) => {
            if let Some(data) = frame.data_ref() {
                tail.data(data.remaining());
            }
            if let Some(trailers) = frame.trailers_ref() {
                tail.trailers(trailers);
            }
            // Such a body is never polled again.
            if is_last || frame.is_trailers() {
                tail.end();
            }
        }
        Some(Err(_)) => tail.failed(),
        None => tail.end(),
    }
}
