//! An API for partners, whose orders wait in a queue and are charged once.

#[path = "../../src/bin/partners.rs"]
#[allow(dead_code, reason = "its `main` is run by the test of the program")]
mod program;

use tokio::task::JoinSet;

use super::site::{Limits, Reply, Server, Site};

async fn order(site: &Site, key: &str, id: &str, items: &str) -> Reply {
    site.send("POST", "/orders", &[("x-api-key", key), ("idempotency-key", id)], items).await
}

#[tokio::test]
async fn an_order_that_is_sent_again_is_charged_once() {
    let limits = Limits::of(program::LIMITS);
    let site = Site::of(program::app(&limits.registry).unwrap()).await;
    let send = async |id: &str, items: &str| {
        // Advance the clock to the next turn of the rate.
        limits.pass("200ms");
        let reply = order(&site, "k1", id, items).await;
        (reply.status, reply.body)
    };
    assert_eq!(send("4711", "30").await, (200, "taken: 30 items\n".to_owned()));
    for _ in 0..3 {
        assert_eq!(send("4711", "30").await, (200, "taken before: 30 items\n".to_owned()));
    }
    assert_eq!(limits.left("orders", "initech").await, [70]);
    let (status, body) = send("4711", "31").await;
    assert_eq!(status, 409);
    assert!(body.contains("was used for another request"), "{body}");
    for (id, items) in [("", "1"), (&*"x".repeat(256), "1"), ("1", "101"), ("1", "0")] {
        assert_eq!(send(id, items).await.0, 400);
    }
    assert_eq!(send("1", "71").await.0, 429);
    assert_eq!(limits.left("orders", "initech").await, [70]);
    assert_eq!(send("1", "70").await.0, 200, "a denial isn't remembered");
    assert_eq!(order(&site, "k2", "4711", "1").await.body, "taken: 1 items\n", "another's id");
    limits.pass("1d");
    assert_eq!(send("4711", "30").await.1, "taken: 30 items\n", "after a day it is a new one");
    assert_eq!(order(&site, "k9", "1", "1").await.status, 401);
}

#[tokio::test]
async fn orders_wait_in_line_for_two_seconds_at_most() {
    // The clock stands still, so every turn is at its time in the queue.
    let limits = Limits::of(program::LIMITS);
    let site = Site::of(program::app(&limits.registry).unwrap()).await;
    let mut orders = JoinSet::new();
    for id in 0..14 {
        let site = site.clone();
        orders.spawn(async move { order(&site, "k1", &format!("order-{id}"), "1").await });
    }
    let replies = orders.join_all().await;
    let taken = replies.iter().filter(|reply| reply.status == 200).count();
    assert_eq!(taken, 10, "one at once, and nine that come 200 ms apart");
    for reply in replies.iter().filter(|reply| reply.status != 200) {
        assert_eq!((reply.status, reply.retry), (429, Some(1)), "and not after a wait in vain");
    }
    assert_eq!(limits.left("orders", "initech").await, [90], "who isn't let in isn't charged");
}

#[tokio::test]
async fn a_retry_at_another_instance_is_charged_once() {
    let redis = sluicegate_testkit::servers::shared().unwrap();
    let start = || Server::start_on(env!("CARGO_BIN_EXE_partners"), &redis.url());
    let limits = Limits::on(&redis.url(), program::LIMITS);
    assert_eq!(order(&start(), "k2", "4711", "30").await.body, "taken: 30 items\n");
    assert_eq!(order(&start(), "k2", "4711", "30").await.body, "taken before: 30 items\n");
    let left = limits.registry.gate("orders").peek("globex").await.unwrap().remaining();
    assert_eq!(left, Some(970));
}
