//! Requests with an id on real servers.

use std::time::Duration;

use sluicegate::error::RequestErrorKind;
use sluicegate::store::DecisionForStores as _;
use sluicegate::{Ask, Limit, Limiter, RedisStore, Usage};
use sluicegate_testkit::servers::{Cluster, Server, available, fresh_prefix};
use tokio::task::JoinSet;

pub(crate) fn store(url: &str) -> RedisStore {
    let store = RedisStore::builder(url).unwrap().prefix(fresh_prefix("ids").parse().unwrap());
    store.deadline(Duration::from_secs(5)).build()
}

#[tokio::test]
async fn another_process_is_told_what_the_first_one_was() {
    for binary in available().unwrap() {
        let server = Server::start_with(&binary, &[]).unwrap();
        let store = store(&server.url());
        for specs in [
            &["token_bucket 1/h burst 1000"][..],
            &["sliding_log 1000/h", "sliding_window 1000/h slices 10 as ring"],
            &["concurrency 1000 hold 1h"],
        ] {
            let limit = Limit::new("jobs", specs.iter().copied()).unwrap();
            let [one, other] = [(); 2].map(|()| Limiter::new(store.clone(), limit.clone()));
            // The same id for other policies would be another request.
            let ask = || Ask::new(specs[0]).cost(400).request_id("job-1");
            let first = one.check(ask()).hold(Duration::from_secs(60)).await.unwrap();
            assert!(first.is_allowed() && !first.is_repeat());
            let _ = one.settle(first.token().unwrap(), Usage::nothing()).await.unwrap();
            let _ = one.reset(specs[0]).await.unwrap();
            let repeat = other.check(ask()).hold(Duration::from_secs(60)).await.unwrap();
            assert!(repeat.is_repeat());
            assert_eq!(repeat.token(), first.token());
            assert_eq!(repeat.decision().clone().without_repeat(), *first.decision());
            assert_eq!(other.peek(specs[0]).await.unwrap().remaining(), Some(1_000));
            let error = other.check(ask().cost(1)).hold(Duration::from_secs(60)).await.unwrap_err();
            assert_eq!(error.as_request().unwrap().kind(), RequestErrorKind::Conflict);
        }
    }
}

/// The server's own bound, reached by calls that are batched.
#[tokio::test]
async fn a_key_that_is_full_of_ids_refuses_new_ones_and_answers_repeats() {
    let server = Server::start().unwrap();
    let limit = Limit::new("mail", ["token_bucket 1/h burst 1000000"]).unwrap();
    let limiter = Limiter::new(store(&server.url()), limit);
    let ask = |number: u32| {
        let limiter = limiter.clone();
        async move {
            let ask = Ask::new("k")
                .request_id(number.to_be_bytes())
                .known_for(Duration::from_secs(3_600));
            limiter.check(ask).await
        }
    };
    let (mut allowed, mut full) = (0, 0);
    for first in (0..70_000).step_by(500) {
        let answers: JoinSet<_> = (first..first + 500).map(ask).collect();
        for answer in answers.join_all().await {
            match answer {
                Ok(decision) => {
                    assert!(decision.is_allowed() && !decision.is_repeat());
                    allowed += 1;
                }
                Err(error) => {
                    assert_eq!(error.as_request().unwrap().kind(), RequestErrorKind::Full);
                    full += 1;
                }
            }
        }
    }
    assert_eq!((allowed, full), (65_536, 70_000 - 65_536));
    assert!(ask(7).await.unwrap().is_repeat());
    let left = limiter.peek("k").await.unwrap().remaining();
    assert_eq!(left, Some(1_000_000 - 65_536));
}

#[tokio::test]
async fn in_several_slots_of_a_cluster_no_request_has_an_id() {
    let cluster = Cluster::start().unwrap();
    let url = cluster.urls()[0].replace("redis://", "redis+cluster://");
    let [user, team] = ["user", "team"].map(|name| Limit::new(name, ["gcra 1/h burst 9"]));
    let both = Limit::together([user.unwrap(), team.unwrap()]).unwrap();
    let limiter = Limiter::new(store(&url), both);
    let ask = |team: &'static str| Ask::new("alice").and(Ask::new(team)).request_id("one");
    let error = limiter.check(ask("red")).await.unwrap_err();
    assert_eq!(error.as_request().unwrap().kind(), RequestErrorKind::Unsupported);
    assert!(error.to_string().contains("a request with an id"), "{error}");
    // One subject is in one slot.
    assert!(!limiter.check(ask("alice")).await.unwrap().is_repeat());
    let repeat = limiter.check(ask("alice")).await.unwrap();
    assert!(repeat.is_repeat());
    assert_eq!(repeat.remaining(), Some(8));
}
