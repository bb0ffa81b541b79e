//! The store on real servers, every one that is installed, against the reference model.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::{KeyPrefix, Limit, Policy, Request, Store, TimeSource, Timestamp};
use sluicegate_redis::RedisStore;
use sluicegate_testkit::reference::differences;
use sluicegate_testkit::schedules::{Plan, Schedule, Step, each};
use sluicegate_testkit::servers::{self, Server};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn store(server: &Server) -> RedisStore {
    let prefix: KeyPrefix = servers::fresh_prefix("store").parse().unwrap();
    RedisStore::builder(&server.url())
        .unwrap()
        .prefix(prefix)
        .deadline(Duration::from_secs(5))
        .build()
}

fn limit(policies: Vec<Policy>) -> Arc<Limit> {
    Arc::new(Limit::new("test".parse().unwrap(), policies).unwrap())
}

async fn assert_store_answers_like_the_model(store: &RedisStore, schedule: &Schedule) {
    let run = TimeSource::Injected { run: schedule.seed.to_string() };
    let mut handle = store.open(limit(schedule.policies.clone()), run.clone());
    for (index, step) in schedule.steps.iter().enumerate() {
        match step {
            Step::SetPolicies(policies) => {
                handle = store.open(limit(policies.clone()), run.clone());
            }
            Step::Request(request) => {
                let (operation, costs) = request.operation.for_store();
                let at = Some(Timestamp::from_micros(request.now_us).unwrap());
                let got = store
                    .decide(&handle, Request { key: &request.key, also: &[], operation, costs, at })
                    .await;
                let differences = differences(&request.expected, &got);
                assert!(differences.is_empty(), "step {index}: {differences:#?}\n{schedule}");
            }
        }
    }
}

#[test]
fn random_schedules_on_every_server() {
    for server in servers::shared_each().unwrap() {
        let store = store(server);
        let runtime = runtime();
        each("servers", 60, |seed| {
            runtime.block_on(assert_store_answers_like_the_model(
                &store,
                &Plan::default().schedule(seed),
            ));
        });
    }
}
