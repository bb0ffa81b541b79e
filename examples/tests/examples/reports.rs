//! Reports, two at a time, with people before batches.

#[path = "../../src/bin/reports.rs"]
#[allow(dead_code, reason = "its `main` is run by the test of the program")]
mod program;

use std::time::Duration;

use sluicegate::admin::Page;

use super::site::{Connection, Limits, Server, Site};

/// A report that is larger than the buffers between a server and a client that doesn't read.
const LONG: &str = "GET /reports/90000000";

/// Waits until that many requests wait.
async fn until_waiting(limits: &Limits, expected: u64) {
    let reports = limits.registry.gate("reports");
    sluicegate_testkit::wait::until_async("places in the line", async || {
        let waiting = reports.holders("all", Page::first()).await.unwrap().waiting();
        if waiting == expected { Ok(()) } else { Err(waiting) }
    })
    .await;
}

/// Starts two reports that run until they are dropped.
async fn two_that_run(sites: [&Site; 2]) -> [Connection; 2] {
    let mut running = [sites[0].open(LONG, b"").await, sites[1].open(LONG, b"").await];
    for report in &mut running {
        report.read_until("\r\n0\n1\n").await;
    }
    running
}

#[tokio::test]
async fn a_report_that_a_person_waits_for_comes_before_a_batch() {
    let limits = Limits::of(program::LIMITS);
    let site = Site::of(program::app(&limits.registry, Duration::from_secs(60))).await;
    let [first, second] = two_that_run([&site, &site]).await;
    let batch = site.open("GET /batch/reports/2", b"").await;
    until_waiting(&limits, 1).await;
    let mut person = site.open("GET /reports/90000000", b"").await;
    until_waiting(&limits, 2).await;
    drop(first);
    // The last request is served first.
    person.read_until("\r\n0\n1\n").await;
    until_waiting(&limits, 1).await;
    drop(second);
    let mut batch = batch;
    batch.read_until("0\n1\n").await;
}

#[tokio::test]
async fn a_full_line_and_one_that_takes_too_long_are_told() {
    let limits = Limits::of(program::LIMITS);
    let site = Site::of(program::app(&limits.registry, Duration::from_secs(60))).await;
    let _running = two_that_run([&site, &site]).await;
    let mut waiting = Vec::new();
    for ahead in 1..=4 {
        waiting.push(site.open("GET /batch/reports/2", b"").await);
        until_waiting(&limits, ahead).await;
    }
    let full = site.get("/reports/2", &[]).await;
    assert_eq!(full.status, 429);
    assert!(full.retry.is_some());
    drop(waiting);
    until_waiting(&limits, 0).await;
    let hasty = Site::of(program::app(&limits.registry, Duration::ZERO)).await;
    assert_eq!(hasty.get("/reports/2", &[]).await.status, 429);
}

#[tokio::test]
async fn instances_have_one_line() {
    let redis = sluicegate_testkit::servers::shared().unwrap();
    let start = || Server::start_on(env!("CARGO_BIN_EXE_reports"), &redis.url());
    let (one, two) = (start(), start());
    let limits = Limits::on(&redis.url(), program::LIMITS);
    let [first, _second] = two_that_run([&one, &two]).await;
    let mut batch = one.open("GET /batch/reports/2", b"").await;
    until_waiting(&limits, 1).await;
    let mut person = two.open("GET /reports/2", b"").await;
    until_waiting(&limits, 2).await;
    drop(first);
    person.read_until("0\n1\n").await;
    batch.read_until("0\n1\n").await;
}
