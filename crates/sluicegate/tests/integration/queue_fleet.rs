//! Many waiters in one queue, in several processes. An auditor reads all their requests.

use std::sync::Arc;
use std::time::Duration;

use sluicegate::decision::HoldId;
use sluicegate::store::{OpenOptions, OpenedLimit as _, Store as _};
use sluicegate::{Ask, Limiter, Usage};
use sluicegate_redis::RedisStore;
use sluicegate_testkit::processes::{Process, say, told};
use sluicegate_testkit::queue_log::{Audit, Call, Logged};
use sluicegate_testkit::servers::{Server, available};
use sluicegate_testkit::wait::until_async;

const PROCESSES: usize = 2;
const WAITERS: usize = 100;
const PERMITS: usize = 4;

#[test]
#[ignore = "a process of the test below"]
fn process_that_waits() {
    let [url, priorities, index] = told();
    let (priorities, index): (usize, usize) = (priorities.parse().unwrap(), index.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let spec = format!("concurrency {PERMITS} hold 1min queue {WAITERS} priorities {priorities}");
    let limit = sluicegate::Limit::new("jobs", [spec.as_str()]).unwrap();
    runtime.block_on(async {
        let store = RedisStore::builder(&url).unwrap().deadline(Duration::from_secs(30)).build();
        let store = Logged::new(store);
        let opened = store.open(limit.clone(), OpenOptions::default());
        let id = HoldId::from_bytes([0; 16]);
        until_async("it listens", async || opened.bell(id).ok_or("deaf")).await;
        let limiter = Arc::new(Limiter::new(store.clone(), limit));
        let waiters: Vec<_> = (index..WAITERS)
            .step_by(PROCESSES)
            .map(|number| {
                let limiter = Arc::clone(&limiter);
                tokio::spawn(async move {
                    let priority = u8::try_from(number / PROCESSES % priorities).unwrap();
                    let ask = Ask::new("acme").priority(priority);
                    let waiting = limiter
                        .check(ask)
                        .hold(Duration::from_secs(60))
                        .within(Duration::from_secs(60));
                    let grant = waiting.await.unwrap();
                    // The work takes some time.
                    for _ in 0..20 {
                        tokio::task::yield_now().await;
                    }
                    let token = grant.token().unwrap_or_else(|| panic!("{grant:?}"));
                    let _ = limiter.settle(token, Usage::as_charged()).await.unwrap();
                })
            })
            .collect();
        for waiter in waiters {
            waiter.await.unwrap();
        }
        for call in store.take() {
            say(call);
        }
    });
}

/// Waiters enter, take and release; some get one extra notification.
#[test]
fn waiters_of_several_processes_are_served_in_order_and_seldom_ask() {
    for binary in available().unwrap() {
        for priorities in ["1", "3"] {
            let server = Server::builder(&binary).start().unwrap();
            let processes: Vec<Process> = (0..PROCESSES)
                .map(|index| {
                    let words = [&*server.url(), priorities, &index.to_string()];
                    Process::start("queue_fleet::process_that_waits", &words)
                })
                .collect();
            let lines = processes.into_iter().flat_map(Process::finish);
            let calls: Vec<Call> = lines.map(|line| line.parse().unwrap()).collect();
            let audit = Audit::of(PERMITS, &calls);
            assert_eq!(audit.served, WAITERS, "{audit:?}");
            assert_eq!(audit.out_of_order, 0, "{audit:?}");
            assert!((1..=PERMITS).contains(&audit.most_in_flight), "{audit:?}");
            assert!(audit.median_calls() <= 3, "{audit:?}");
            assert!(audit.in_vain <= WAITERS / 4, "{audit:?}");
        }
    }
}
