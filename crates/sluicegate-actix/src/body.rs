//! The body of a response behind limits.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use actix_web::body::{BodySize, MessageBody};
use actix_web::web::Bytes;
use pin_project_lite::pin_project;
use sluicegate::middleware::Tail;

pin_project! {
    /// The body of a response behind limits. If its request [holds](crate::LimitMiddleware::hold)
    /// anything, the hold lasts until this body has ended or is dropped.
    ///
    /// Readers see the inner body unchanged.
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
}

impl<B: MessageBody> MessageBody for LimitBody<B> {
    type Error = B::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, B::Error>>> {
        let this = self.project();
        let chunk = ready!(this.body.poll_next(context));
        match &chunk {
            Some(Ok(bytes)) => this.tail.data(bytes.len()),
            Some(Err(_)) => this.tail.failed(),
            None => this.tail.end(),
        }
        Poll::Ready(chunk)
    }

    fn try_into_bytes(self) -> Result<Bytes, Self> {
        let Self { body, mut tail } = self;
        match body.try_into_bytes() {
            Ok(bytes) => {
                tail.data(bytes.len());
                tail.end();
                Ok(bytes)
            }
            Err(body) => Err(Self { body, tail }),
        }
    }
}
