//! Servers that are slow, down, misbehaving or protected by a password. A call fails with a typed error
//! within the deadline, and never hangs. Calls succeed again when the server has recovered.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use sluicegate_core::{
    Error, KeyPrefix, Limit, OpenOptions, OpenedLimit as _, Request, RequestErrorKind, Store as _,
    StoreError, StoreErrorKind, TimeSource, Timestamp,
};
use sluicegate_redis::{RedisLimit, RedisStore};
use sluicegate_testkit::servers::{self, GarbageServer, Misbehaviour, Server};
use sluicegate_testkit::wait::until_async;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

fn limit(specs: &[&str]) -> Limit {
    Limit::new("test", specs).unwrap()
}

fn store(url: &str, deadline_ms: u64) -> RedisStore {
    let prefix: KeyPrefix = servers::fresh_prefix("fail").parse().unwrap();
    RedisStore::builder(url)
        .unwrap()
        .prefix(prefix)
        .deadline(Duration::from_millis(deadline_ms))
        .build()
}

fn open(store: &RedisStore, specs: &[&str]) -> RedisLimit {
    store.open(limit(specs), OpenOptions::default())
}

/// Returns whether a request is admitted, or the store's error. A request error panics.
async fn check(opened: &RedisLimit, key: &str) -> Result<bool, StoreError> {
    match opened.ask(Request::check(key.as_bytes())).wait().await {
        Ok(decision) => Ok(decision.is_allowed()),
        Err(Error::Store(error)) => Err(error),
        Err(error) => panic!("{error}"),
    }
}

/// Checks until the store answers. Without a listener, an attempt to connect fails immediately.
async fn check_until_answered(opened: &RedisLimit, key: &str) -> bool {
    until_async("an answer of the store", async || check(opened, key).await).await
}

#[tokio::test]
async fn a_paused_server_costs_one_deadline_and_is_used_again_when_it_resumes() {
    let mut server = Server::start().unwrap();
    let store = store(&server.url(), 50);
    // On a busy machine a check may be charged and answered too late.
    let opened = open(&store, &["token_bucket 1/h burst 1000"]);
    assert!(check_until_answered(&opened, "a").await);
    server.pause().unwrap();
    let error = check(&opened, "b").await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Timeout, "{error}");
    assert!(error.to_string().contains("50 ms"), "{error}");
    server.resume().unwrap();
    assert!(check_until_answered(&opened, "a").await);
}

#[tokio::test]
async fn a_killed_server_fails_at_once_and_a_restarted_one_answers() {
    let mut server = Server::start().unwrap();
    let store = store(&server.url(), 5_000);
    let opened = open(&store, &["token_bucket 1/h burst 2"]);
    assert!(check(&opened, "a").await.unwrap());
    server.kill().unwrap();
    for _ in 0..3 {
        let error = check(&opened, "a").await.unwrap_err();
        assert_ne!(
            error.kind(),
            StoreErrorKind::Timeout,
            "a dead server must not cost a deadline: {error}"
        );
    }
    server.restart().unwrap();
    // The restarted server knows no scripts and no states.
    assert!(check_until_answered(&opened, "a").await);
}

#[tokio::test]
async fn a_server_that_is_absent_at_the_start_is_found_later() {
    let mut server = Server::start().unwrap();
    server.kill().unwrap();
    let store = store(&server.url(), 5_000);
    let opened = open(&store, &["fixed_window 1/h"]);
    let error = check(&opened, "a").await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("nothing was charged"), "{error}");
    server.restart().unwrap();
    assert!(check_until_answered(&opened, "a").await);
}

#[tokio::test]
async fn servers_that_are_no_redis_are_told_apart() {
    for (misbehaviour, why) in [
        (
            Misbehaviour::Answer(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
            "does not speak the Redis protocol",
        ),
        (Misbehaviour::Silence, "has not answered the connection within 200 ms"),
        (Misbehaviour::Close, "took a connection and broke it"),
    ] {
        let server = GarbageServer::start(misbehaviour.clone()).unwrap();
        // Long enough that a server that answers does so in time, even on a busy machine.
        let deadline_ms = if matches!(misbehaviour, Misbehaviour::Silence) { 200 } else { 5_000 };
        let store = store(&server.url(), deadline_ms);
        let opened = open(&store, &["gcra 1/h"]);
        for _ in 0..2 {
            let error = check(&opened, "a").await.unwrap_err();
            assert!(error.to_string().contains(why), "{misbehaviour:?}: {error}");
        }
    }
}

#[tokio::test]
async fn a_missing_or_wrong_password_is_said_and_never_shown() {
    let binary = servers::available().unwrap().remove(0);
    let server = Server::start_with(&binary, &["--requirepass", "open-sesame"]).unwrap();
    let port = server.port();
    for (url, secret) in [
        (format!("redis://127.0.0.1:{port}"), "open-sesame"),
        (format!("redis://:hunter2@127.0.0.1:{port}"), "hunter2"),
    ] {
        let store = store(&url, 5_000);
        let error = store.ping().await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unexpected, "{error}");
        assert!(error.to_string().contains("password"), "{error}");
        assert!(!format!("{error} {error:?} {store:?}").contains(secret), "{error:?}");
    }
    let url = format!("redis://:open-sesame@127.0.0.1:{port}");
    let right = store(&url, 5_000);
    right.ping().await.unwrap();
    let builder = RedisStore::builder(&url).unwrap();
    assert!(!format!("{right:?} {builder:?}").contains("open-sesame"), "{builder:?}");
}

#[tokio::test]
async fn a_server_that_answers_and_can_t_decide_is_not_ready_and_says_why() {
    let binary = servers::available().unwrap().remove(0);
    let start = |options: &[&str]| Server::start_with(&binary, options).unwrap();
    let primary = start(&[]);
    let replica = start(&["--replicaof", "127.0.0.1", &primary.port().to_string()]);
    let full = start(&["--maxmemory", "100kb", "--maxmemory-policy", "noeviction"]);
    let lonely = start(&["--min-replicas-to-write", "1"]);
    let alone = start(&["--cluster-enabled", "yes"]);
    let number = GarbageServer::start(Misbehaviour::Answer(b":42\r\n".to_vec())).unwrap();
    for (url, why) in [
        (replica.url(), "read-only replica"),
        (full.url(), "has no memory left and may evict nothing (OOM)"),
        (lonely.url(), "too few replicas keep up (NOREPLICAS)"),
        (alone.url(), "is a node of a cluster"),
        (number.url(), ""),
        (format!("{}/16", primary.url()), "refused the connection: ERR DB index is out of range"),
    ] {
        let store = store(&url, 5_000);
        let opened = open(&store, &["gcra 1/h"]);
        for error in [store.ping().await, check(&opened, "a").await.map(drop)] {
            let error = error.unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
    }
    let store = store(&primary.url(), 5_000);
    store.ping().await.unwrap();
    let keys = primary.cli(&["KEYS", "*:ready"]).unwrap();
    let life: i64 = primary.cli(&["PTTL", keys.trim()]).unwrap().trim().parse().unwrap();
    assert!(life <= 1_000 && life != -1, "{keys}: {life}");
}

#[test]
fn malformed_urls_are_refused_with_what_to_write() {
    for (url, hint) in [
        ("http://localhost:6379", "redis://"),
        ("localhost:6379", "redis://"),
        ("redis+cluster://:secret@localhost/1", "a cluster has only the first"),
        ("redis+sentinel://:secret@localhost", "redis+sentinel://HOST:PORT,HOST:PORT/NAME"),
        ("redis://:secret@", "redis://127.0.0.1:6379"),
        ("redis://host:port", "redis://127.0.0.1:6379"),
        ("redis://host:6379/notanumber", "redis://127.0.0.1:6379"),
        ("", "redis://"),
    ] {
        let error = RedisStore::builder(url).unwrap_err().to_string();
        assert!(error.contains(hint), "{url}: {error}");
        assert!(!error.contains("secret"), "{url}: {error}");
    }
}

#[tokio::test]
async fn a_server_that_forgets_its_scripts_is_taught_again() {
    let server = Server::start().unwrap();
    let store = store(&server.url(), 5_000);
    let opened = open(&store, &["token_bucket 1/h burst 3", "sliding_log 2/h"]);
    assert!(check(&opened, "a").await.unwrap());
    server.cli(&["SCRIPT", "FLUSH"]).unwrap();
    assert!(check(&opened, "a").await.unwrap());
    server.cli(&["SCRIPT", "FLUSH"]).unwrap();
    assert!(!check(&opened, "a").await.unwrap());
}

/// Limits of the same kernels share a script, regardless of their numbers and count. The script is sent once
/// to a server, by its text, and then called by its hash.
#[tokio::test]
async fn the_script_is_sent_once_and_once_more_when_it_is_forgotten() {
    const LIMITS: [&[&str]; 5] = [
        &["token_bucket 1/h burst 99"],
        &["leaky_bucket 5/d", "gcra 9/h"],
        &["fixed_window 99/d aligned"],
        &["sliding_log 9/h", "sliding_log 99/d"],
        &["gcra 1/h burst 99", "warmup 1/d over 1s", "sliding_window 99/h slices 60"],
    ];
    for binary in servers::available().unwrap() {
        let server = Server::start_with(&binary, &[]).unwrap();
        let told = |section: &str, before: &str| {
            let told = server.cli(&["INFO", section]).unwrap();
            let number = told.split_once(before).map(|(_, rest)| rest);
            number.map_or(0, |rest| rest.split(['\r', ',']).next().unwrap().parse().unwrap())
        };
        let store = store(&server.url(), 5_000);
        store.ping().await.unwrap();
        let opened: Vec<_> = LIMITS.iter().map(|specs| open(&store, specs)).collect();
        for times in 1..=2 {
            for (key, opened) in opened.iter().enumerate().chain(opened.iter().enumerate()) {
                check(opened, &key.to_string()).await.unwrap();
            }
            assert_eq!(told("commandstats", "cmdstat_eval:calls="), times, "{binary}");
            assert_eq!(told("memory", "number_of_cached_scripts:"), 1, "{binary}");
            server.cli(&["SCRIPT", "FLUSH"]).unwrap();
        }
    }
}

/// Before, each call got the error, and each was repeated with the whole text: 40 kB a call.
#[tokio::test]
async fn calls_that_wait_when_the_script_is_forgotten_are_answered_after_one_more_sending() {
    for binary in servers::available().unwrap() {
        let server = Server::start_with(&binary, &[]).unwrap();
        let store = store(&server.url(), 5_000);
        let opened = Arc::new(open(&store, &["token_bucket 1/h burst 999"]));
        check(&opened, "key").await.unwrap();
        for _ in 0..3 {
            server.cli(&["SCRIPT", "FLUSH"]).unwrap();
            let mut checks = JoinSet::new();
            for key in 0..300 {
                let opened = Arc::clone(&opened);
                checks
                    .spawn(async move { check(&opened, &(key % 200).to_string()).await.unwrap() });
            }
            assert!(checks.join_all().await.into_iter().all(|allowed| allowed));
        }
        let told = server.cli(&["INFO", "commandstats"]).unwrap();
        let evals = told.split_once("cmdstat_eval:calls=").unwrap().1;
        assert!(evals.starts_with("4,"), "{binary}: {told}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_tasks_on_one_connection_are_admitted_exactly() {
    for server in servers::shared_each().unwrap() {
        let store = store(&server.url(), 5_000);
        let opened = Arc::new(open(
            &store,
            &["token_bucket 1/d burst 137", "sliding_log 150/d", "fixed_window 200/d"],
        ));
        let mut tasks = JoinSet::new();
        for _ in 0..1_000 {
            let opened = Arc::clone(&opened);
            tasks.spawn(async move { check(&opened, "hot").await.unwrap() });
        }
        let allowed = tasks.join_all().await.into_iter().filter(|&allowed| allowed).count();
        assert_eq!(allowed, 137);
    }
}

#[tokio::test]
async fn the_keys_of_a_run_are_deleted_and_no_others() {
    let server = Server::start().unwrap();
    let store =
        RedisStore::builder(&server.url()).unwrap().deadline(Duration::from_secs(5)).build();
    let limit = limit(&["token_bucket 1/h", "sliding_log 5/h"]);
    let at = Timestamp::from_micros(1_700_000_000_000_000).unwrap();
    for run in ["one", "one*", "two"] {
        let time = TimeSource::Injected { run: run.to_owned() };
        let opened = store.open(limit.clone(), OpenOptions::default().time(time));
        for key in 0..50_u32 {
            let key = key.to_le_bytes();
            let decision = opened.ask(Request::check(&key).at(at)).wait().await.unwrap();
            assert!(decision.is_allowed());
        }
    }
    let live = store.open(limit.clone(), OpenOptions::default());
    assert!(check(&live, "a").await.unwrap());
    assert_eq!(store.delete_run(&limit, "one").await.unwrap(), 100);
    assert_eq!(store.delete_run(&limit, "one*").await.unwrap(), 100);
    assert_eq!(server.cli(&["DBSIZE"]).unwrap().trim(), "102");
}

#[tokio::test]
async fn a_request_has_a_time_only_where_time_is_injected() {
    let server = servers::shared().unwrap();
    let store = store(&server.url(), 5_000);
    let live = open(&store, &["gcra 1/s"]);
    let request = Request::check(b"a").at(Timestamp::EPOCH);
    let error = live.ask(request).wait().await.unwrap_err();
    assert_eq!(error.as_request().unwrap().kind(), RequestErrorKind::Invalid);
    let options = OpenOptions::default().time(TimeSource::Injected { run: "x".into() });
    let run = store.open(limit(&["gcra 1/s"]), options);
    let error = run.ask(Request::check(b"a")).wait().await.unwrap_err();
    assert_eq!(error.as_request().unwrap().kind(), RequestErrorKind::Invalid);
}

/// A limit may be opened with its own deadline.
#[tokio::test]
async fn a_limit_has_the_deadline_that_it_was_opened_with() {
    let mut server = Server::start().unwrap();
    let store = store(&server.url(), 5_000);
    let options = OpenOptions::default().deadline(Duration::from_millis(40));
    // On a busy machine a check may be charged and answered too late.
    let opened = store.open(limit(&["gcra 1/h burst 1000"]), options);
    assert!(check_until_answered(&opened, "a").await);
    server.pause().unwrap();
    let error = check(&opened, "a").await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Timeout, "{error}");
    assert!(error.to_string().contains("40 ms"), "{error}");
    server.resume().unwrap();
}

#[test]
fn a_store_outlives_the_runtime_it_was_first_used_in() {
    let server = Server::start().unwrap();
    let store = store(&server.url(), 5_000);
    let opened = open(&store, &["token_bucket 1/h burst 3"]);
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert!(runtime().block_on(check(&opened, "a")).unwrap());
    // Its connection has ended with the runtime.
    assert!(runtime().block_on(check_until_answered(&opened, "a")));
}

#[test]
fn a_runtime_that_ends_in_the_middle_of_connecting_ends_that_attempt() {
    let mut server = Server::start().unwrap();
    let store = store(&server.url(), 5_000);
    let opened = open(&store, &["gcra 1/h"]);
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    server.pause().unwrap();
    runtime().block_on(async {
        let deadline = Duration::from_millis(1);
        drop(tokio::time::timeout(deadline, check(&opened, "a")).await);
    });
    server.resume().unwrap();
    assert!(runtime().block_on(check(&opened, "a")).unwrap());
}

/// A failed attempt to connect has ended, and the next one is another attempt. Here the next one begins at
/// the instant at which the first one's end is reported.
#[tokio::test]
async fn an_attempt_that_has_ended_does_not_end_the_next_one() {
    let mut server = Server::start().unwrap();
    server.kill().unwrap();
    let store = store(&server.url(), 5_000);
    let (told, mut tells) = mpsc::unbounded_channel();
    let second = Arc::new(Call::new(&store, told.clone(), None));
    let first = Arc::new(Call::new(&store, told, Some(second)));
    Waker::from(first).wake();
    for _ in 0..2 {
        let error = tells.recv().await.unwrap().unwrap_err();
        assert!(error.to_string().contains("can't be reached"), "{error}");
    }
}

type Ping = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>>;

/// A call to a store that continues immediately, on the thread that wakes it.
struct Call {
    ping: Mutex<Option<Ping>>,
    told: mpsc::UnboundedSender<Result<(), StoreError>>,
    /// The call to begin before this one learns its outcome.
    next: Option<Arc<Call>>,
    is_begun: AtomicBool,
}

impl Call {
    fn new(
        store: &RedisStore,
        told: mpsc::UnboundedSender<Result<(), StoreError>>,
        next: Option<Arc<Self>>,
    ) -> Self {
        let store = store.clone();
        let ping: Ping = Box::pin(async move { store.ping().await });
        Self { ping: Mutex::new(Some(ping)), told, next, is_begun: AtomicBool::new(false) }
    }
}

impl Wake for Call {
    fn wake(self: Arc<Self>) {
        let was_begun = self.is_begun.swap(true, Ordering::SeqCst);
        if let Some(next) = self.next.as_ref().filter(|_| was_begun)
            && !next.is_begun.load(Ordering::SeqCst)
        {
            Arc::clone(next).wake();
        }
        let mut ping = self.ping.lock().unwrap();
        let Some(pending) = ping.as_mut() else { return };
        match pending.as_mut().poll(&mut Context::from_waker(&Arc::clone(&self).into())) {
            Poll::Ready(end) => {
                *ping = None;
                self.told.send(end).unwrap();
            }
            Poll::Pending => {}
        }
    }
}
