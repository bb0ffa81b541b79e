//! `refund_if` over a network: calls that give back their units, and servers that fail in the meantime.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sluicegate::admin::{Answered, Observer};
use sluicegate::config::StoreUrl;
use sluicegate::store::{Operation, SharedStore, StoreOptions};
use sluicegate::{Denied, Registry, limit};
use sluicegate_testkit::servers::{Server, fresh_prefix};

use crate::attribute::support::{Error, all, config};
use crate::log;

#[limit("login", key = "{user}", refund_if = Result::is_ok, registry = limits)]
fn log_in(limits: &Registry, user: &str, password: &str) -> Result<(), Error> {
    if password == "right" { Ok(()) } else { Err(Error::Own) }
}

#[limit("login", key = "{user}", refund_if = Result::is_ok, registry = limits)]
async fn log_in_later(limits: &Registry, user: &str, password: &str) -> Result<(), Error> {
    tokio::task::yield_now().await;
    if password == "right" { Ok(()) } else { Err(Error::Own) }
}

/// The number of times the store failed to take and to give back.
#[derive(Default)]
struct Failures(Mutex<[u32; 2]>);

impl Observer for Failures {
    fn answered(&self, answered: &Answered<'_>) {
        let index = match answered.operation {
            Operation::Check => 0,
            Operation::GiveBack { .. } => 1,
            _ => return,
        };
        self.0.lock().unwrap()[index] += u32::from(answered.failure.is_some());
    }
}

fn on_server(server: &Server, limits: &str) -> (Registry, Arc<Failures>) {
    let mut options = StoreOptions::default();
    options.prefix = fresh_prefix("attribute").parse().unwrap();
    options.deadline = Duration::from_secs(5);
    let store: SharedStore = server.url().parse::<StoreUrl>().unwrap().open(&options).unwrap();
    let failures = Arc::new(Failures::default());
    let registry = Registry::builder(store).config(&config(limits)).observer(failures.clone());
    (registry.build(), failures)
}

const LOGIN: &str = "{login: {deadline: 5s, policies: [fixed_window 3/h, sliding_log 5/h]}}";

async fn left(limits: &Registry) -> Option<u64> {
    limits.gate("login").peek("alice").await.unwrap().remaining()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_over_a_network_gives_back_alike() {
    let server = Server::start().unwrap();
    let (limits, failures) = on_server(&server, LOGIN);
    for _ in 0..9 {
        assert!(log_in_later(&limits, "alice", "right").await.is_ok());
        assert!(log_in(&limits, "alice", "right").is_ok(), "blocking this thread");
    }
    assert!(log_in_later(&limits, "alice", "wrong").await.is_err());
    assert!(log_in(&limits, "alice", "right").is_ok());
    assert_eq!(left(&limits).await, Some(2));
    let guesses = (0..40).map(|_| log_in_later(&limits, "alice", "wrong"));
    let guesses = all(guesses, || ()).await;
    let let_in = guesses.iter().filter(|(guess, ())| matches!(guess, Err(Error::Own)));
    assert_eq!(let_in.count(), 2);
    assert_eq!(*failures.0.lock().unwrap(), [0, 0]);
}

/// Makes the server refuse scripts, or accept them again: it fails and loses nothing.
fn scripts(server: &Server, allowed: bool) {
    let scripts = if allowed { "+@scripting" } else { "-@scripting" };
    server.cli(&["ACL", "SETUSER", "default", scripts]).unwrap();
}

/// On one thread, which captures the log: blocking functions would also block its connection.
#[tokio::test]
async fn a_store_that_fails_between_taking_and_giving_back_keeps_what_was_taken() {
    #[limit("login", key = "alice", refund_if = Result::is_ok, registry = limits)]
    async fn outlives(limits: &Registry, server: &Server) -> Result<u8, Denied> {
        scripts(server, false);
        Ok(7)
    }
    let server = Server::start().unwrap();
    for limits in [
        "{login: {deadline: 5s, policies: [fixed_window 3/h]}}",
        "{login: {deadline: 5s, policies: [fixed_window 3/h], on_store_failure: allow}}",
    ] {
        let (limits, failures) = on_server(&server, limits);
        let told = log::warnings_of(async {
            assert_eq!(outlives(&limits, &server).await.unwrap(), 7);
        });
        let told = told.await;
        assert!(matches!(&told[..], [line] if line.starts_with("the store fails: ")), "{told:?}");
        assert_eq!(*failures.0.lock().unwrap(), [0, 1]);
        scripts(&server, true);
        assert_eq!(left(&limits).await, Some(2), "it stays taken");
        assert!(log_in_later(&limits, "alice", "right").await.is_ok());
        assert_eq!(left(&limits).await, Some(2));
    }
}

#[test]
fn a_blocking_call_outlives_a_server_that_dies() {
    #[limit("login", key = "alice", refund_if = Result::is_ok, registry = limits)]
    fn outlives(limits: &Registry, server: &mut Server) -> Result<u8, Denied> {
        server.kill().unwrap();
        Ok(7)
    }
    let mut server = Server::start().unwrap();
    let (limits, failures) = on_server(&server, LOGIN);
    assert_eq!(outlives(&limits, &mut server).unwrap(), 7);
    assert_eq!(*failures.0.lock().unwrap(), [0, 1]);
}

/// The answer was the limit's own, so there is nothing to give back, and units of others stay taken.
#[tokio::test]
async fn a_call_that_passed_because_the_store_failed_gives_nothing_back() {
    #[limit("login", key = "alice", refund_if = Result::is_ok, registry = limits)]
    async fn heals(limits: &Registry, server: &Server) -> Result<u8, Denied> {
        scripts(server, true);
        Ok(7)
    }
    let server = Server::start().unwrap();
    let limits = "{login: {deadline: 5s, policies: [fixed_window 3/h], on_store_failure: allow}}";
    let (limits, failures) = on_server(&server, limits);
    assert!(log_in_later(&limits, "alice", "wrong").await.is_err());
    scripts(&server, false);
    assert_eq!(heals(&limits, &server).await.unwrap(), 7);
    assert_eq!(left(&limits).await, Some(2));
    assert_eq!(*failures.0.lock().unwrap(), [1, 0]);
}
