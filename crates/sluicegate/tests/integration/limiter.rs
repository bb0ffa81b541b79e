//! A limiter on real servers: its answers, their maximum time, and the fate of abandoned requests.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use sluicegate::error::StoreErrorKind;
use sluicegate::store::{KeyPrefix, Store as _};
use sluicegate::{Ask, Limiter, RedisStore};
use sluicegate_testkit::servers::{self, Server, available};
use sluicegate_testkit::wait::until_async;

fn limiter(server: &Server, deadline: Duration) -> Limiter<RedisStore> {
    let prefix: KeyPrefix = servers::fresh_prefix("limiter").parse().unwrap();
    // Another deadline than the limit's.
    let store = RedisStore::builder(&server.url()).unwrap().prefix(prefix);
    let store = store.deadline(Duration::from_secs(30)).build();
    let limit = sluicegate::Limit::new("api", ["token_bucket 1/h burst 10"]).unwrap();
    Limiter::builder(store, limit).deadline(deadline).build()
}

/// Seed 2.1: admitted, refused and failed, within the deadline of the limit.
#[tokio::test]
async fn a_check_is_a_decision_or_an_error_of_the_store() {
    for binary in available().unwrap() {
        let mut server = Server::start_with(&binary, &[]).unwrap();
        let limiter = limiter(&server, Duration::from_secs(5));
        let admitted = limiter.check(Ask::new("alice").cost(9)).await.unwrap();
        assert!(admitted.is_allowed() && admitted.remaining() == Some(1));
        let refused = limiter.check(Ask::new("alice").cost(2)).await.unwrap();
        assert!(refused.is_denied() && refused.remaining() == Some(1));

        let hasty = self::limiter(&server, Duration::from_millis(40));
        until_async("an answer in 40 ms", async || hasty.store().ping().await).await;
        server.pause().unwrap();
        let late = hasty.check("alice").await.unwrap_err();
        assert_eq!(late.as_store().unwrap().kind(), StoreErrorKind::Timeout, "{late}");
        assert!(late.to_string().contains("within 40 ms"), "{late}");
        server.resume().unwrap();

        server.kill().unwrap();
        let gone = limiter.check("alice").await.unwrap_err();
        assert!(gone.is_store_failure(), "{gone}");
    }
}

/// Seed 2.1: a check that wasn't polled has done nothing. Afterwards it is charged once or not at all. No other request
/// gets its answer.
#[tokio::test]
async fn a_check_may_be_dropped_at_any_time() {
    for binary in available().unwrap() {
        let mut server = Server::start_with(&binary, &[]).unwrap();
        let limiter = limiter(&server, Duration::from_secs(5));
        let left = async |key| limiter.peek(key).await.unwrap().remaining().unwrap();
        assert!(limiter.check(Ask::new("bob").cost(7)).await.unwrap().is_allowed());

        drop(limiter.check("alice"));
        // Again, because effects of the first request would be visible by the second.
        assert_eq!([left("alice").await, left("alice").await], [10, 10]);

        for polls in 1..20 {
            let before = left("alice").await;
            server.pause().unwrap();
            {
                let mut check = pin!(limiter.check("alice"));
                for _ in 0..polls {
                    let poll = poll_fn(|context| Poll::Ready(check.as_mut().poll(context))).await;
                    assert!(poll.is_pending(), "the server answers nobody");
                    tokio::task::yield_now().await;
                }
            }
            let mut asks = pin!(limiter.check(Ask::new("bob").cost(4)));
            let poll = poll_fn(|context| Poll::Ready(asks.as_mut().poll(context))).await;
            assert!(poll.is_pending());
            server.resume().unwrap();
            let bob = asks.await.unwrap();
            assert!(bob.is_denied() && bob.remaining() == Some(3), "{bob:?}");
            let after = left("alice").await;
            assert!(after == before || after + 1 == before, "{before} and then {after}");
            if after == 0 {
                assert!(limiter.reset("alice").await.unwrap().is_allowed());
            }
        }
    }
}
