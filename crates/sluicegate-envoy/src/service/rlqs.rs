//! The rate limit quota service over gRPC.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use sluicegate::testing::Clock;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};

use super::quotas::{Outgoing, QuotaStream, Quotas};
use super::rights::Rights;
use crate::protos::envoy::service::rate_limit_quota::v3::rate_limit_quota_service_server::RateLimitQuotaService;
use crate::protos::envoy::service::rate_limit_quota::v3::{
    RateLimitQuotaResponse, RateLimitQuotaUsageReports,
};

/// The longest time in which an answer waits for an earlier one to be written. Later it is no longer fresh.
const PATIENCE: Duration = Duration::from_micros(QuotaStream::FRESH_FOR);
/// The messages that a stream may send in a second. Then the service reads no further ones until the next second.
const MESSAGES: u32 = 100;
/// The longest time between two looks for buckets to abandon.
const LOOK: Duration = Duration::from_secs(30);

/// The service of some quotas.
pub(super) struct QuotaService(pub(super) Quotas);

/// The answers of a stream. An answer that waited too long ends it.
pub(super) struct Answers {
    answers: mpsc::Receiver<Result<Outgoing, Status>>,
    quotas: Quotas,
    clock: Arc<dyn Clock>,
    has_ended: bool,
}

#[tonic::async_trait]
impl RateLimitQuotaService for QuotaService {
    type StreamRateLimitQuotasStream = Answers;

    async fn stream_rate_limit_quotas(
        &self,
        request: Request<Streaming<RateLimitQuotaUsageReports>>,
    ) -> Result<Response<Answers>, Status> {
        let (_, extensions, reports) = request.into_parts();
        let stream = self.0.open(Rights::of(&extensions));
        // One message waits at most: older ones would be stale.
        let (sender, answers) = mpsc::channel(1);
        tokio::spawn(converse(self.0.clone(), stream, reports, sender));
        let (quotas, clock) = (self.0.clone(), self.0.clock());
        Ok(Response::new(Answers { answers, quotas, clock, has_ended: false }))
    }
}

/// Answers reports until either side ends the stream.
async fn converse(
    quotas: Quotas,
    mut stream: QuotaStream,
    mut reports: Streaming<RateLimitQuotaUsageReports>,
    sender: mpsc::Sender<Result<Outgoing, Status>>,
) {
    let clock = quotas.clock();
    let (mut second, mut messages) = (0, 0);
    loop {
        let now = clock.now().as_micros();
        let due = stream.expires_at().map(|at| Duration::from_micros(at.saturating_sub(now)));
        let message = tokio::select! {
            biased;
            () = sender.closed() => return,
            () = quotas.closing() => return,
            message = reports.message() => match message {
                Ok(Some(message)) => Some(message),
                _ => return,
            },
            () = sleep(due.map_or(LOOK, |due| due.min(LOOK))) => None,
        };
        let Some(message) = message else {
            if let Some(answer) = stream.expire()
                && send(&sender, Ok(answer)).await.is_err()
            {
                return;
            }
            continue;
        };
        if let Err(status) = stream.take(message) {
            let _ = send(&sender, Err(status)).await;
            return;
        }
        while let Some(answer) = stream.answer().await.transpose() {
            let is_last = answer.is_err();
            if send(&sender, answer).await.is_err() || is_last {
                return;
            }
        }
        let now = clock.now().as_micros() / 1_000_000;
        messages = if now == second { messages + 1 } else { 1 };
        second = now;
        if messages >= MESSAGES {
            tokio::select! {
                () = sender.closed() => return,
                () = sleep(Duration::from_secs(1)) => {}
            }
        }
    }
}

/// Sends an answer. If the client doesn't read, what waits is stale and ends the stream.
async fn send(
    sender: &mpsc::Sender<Result<Outgoing, Status>>,
    answer: Result<Outgoing, Status>,
) -> Result<(), ()> {
    let sent = timeout(PATIENCE, sender.send(answer)).await;
    sent.map_err(|_| ())?.map_err(|_| ())
}

impl Stream for Answers {
    type Item = Result<RateLimitQuotaResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        let answer = match ready!(self.answers.poll_recv(context)) {
            None => None,
            Some(Err(status)) => Some(Err(status)),
            Some(Ok(Outgoing { fresh_until, .. }))
                if self.clock.now().as_micros() > fresh_until =>
            {
                self.quotas.was_late();
                Some(Err(Status::aborted(
                    "the client reads too slowly: an assignment would arrive too late",
                )))
            }
            Some(Ok(Outgoing { message, .. })) => Some(Ok(message)),
        };
        self.has_ended = !matches!(answer, Some(Ok(_)));
        Poll::Ready(answer)
    }
}

#[cfg(test)]
mod tests {
    use sluicegate::testing::{ManualClock, Timestamp};
    use sluicegate::{MemoryStore, Registry};
    use tokio_stream::StreamExt as _;
    use tonic::Code;

    use super::*;

    #[tokio::test]
    async fn an_answer_that_waited_too_long_ends_its_stream() {
        let clock = Arc::new(ManualClock::new(Timestamp::from_micros_clamped(1_000_000)));
        let registry = Registry::builder(MemoryStore::new()).build();
        let quotas = Quotas::with_clock(registry, clock.clone());
        let (sender, answers) = mpsc::channel(2);
        let mut answers =
            Answers { answers, quotas: quotas.clone(), clock: clock.clone(), has_ended: false };
        let message = RateLimitQuotaResponse::default();
        for _ in 0..2 {
            let outgoing = Outgoing { message: message.clone(), fresh_until: 1_400_000 };
            sender.send(Ok(outgoing)).await.unwrap();
        }
        clock.advance(Duration::from_millis(400));
        assert_eq!(answers.next().await.unwrap().unwrap(), message);
        clock.advance(Duration::from_micros(1));
        assert_eq!(answers.next().await.unwrap().unwrap_err().code(), Code::Aborted);
        assert!(answers.next().await.is_none());
        assert_eq!(quotas.counts().late, 1);
    }
}
