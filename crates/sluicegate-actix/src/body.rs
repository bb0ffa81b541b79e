//! The body of a response behind limits.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use actix_web::body::{BodySize, MessageBody};
use actix_web::web::Bytes;
use pin_project_lite::pin_project;
use sluicegate::middleware::Tail;

pin_project! {
    /// The body of a response behind limits. Its request holds what it took until this has ended or is
    /// dropped, if it [holds](crate::LimitMiddleware::hold) anything.
    ///
    /// To those who read it, it is the body inside.
    #[derive(Debug)]
    pub struct LimitBody<B> {
        // Before the tail, so that what a handler says when it is dropped still counts.
        #[pin]
        body: B,
        tail: Tail,
    }
}

impl<B> LimitBody<B> {
    /// A body whose end is told to `tail`.
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
