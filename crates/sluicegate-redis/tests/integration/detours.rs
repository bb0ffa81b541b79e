//! Connections to no server, or to a former primary, are closed.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use sluicegate_core::for_stores::DecisionForStores as _;
use sluicegate_core::{
    Limit, OpenOptions, OpenedLimit as _, Operation, Request, Span, Store as _, StoreErrorKind,
    TimeSource, Timestamp,
};
use sluicegate_redis::{RedisLimit, RedisStore};
use sluicegate_testkit::servers::{self, Server};
use sluicegate_testkit::wait::until_async;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A hop between client and server, such as a firewall, a proxy or a name.
struct Detour {
    port: u16,
    /// The server of new connections.
    target: Arc<AtomicU16>,
    /// Connections with an earlier number carry no data any longer, and stay open.
    forgotten: watch::Sender<u32>,
}

impl Detour {
    async fn to(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let target = Arc::new(AtomicU16::new(server.port()));
        let (forgotten, _) = watch::channel(0);
        let (leads_to, forgets) = (Arc::clone(&target), forgotten.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let to = leads_to.load(Ordering::Relaxed);
                tokio::spawn(carry(client, to, forgets.subscribe()));
            }
        });
        Self { port, target, forgotten }
    }

    fn store(&self) -> RedisStore {
        RedisStore::builder(&format!("redis://127.0.0.1:{}", self.port))
            .unwrap()
            .prefix(servers::fresh_prefix("detour").parse().unwrap())
            .deadline(Duration::from_millis(100))
            .build()
    }
}

async fn carry(mut client: TcpStream, to: u16, mut forgets: watch::Receiver<u32>) {
    let mut server = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
        _ = forgets.changed() => std::future::pending().await,
    }
}

fn limit(spec: &str) -> Limit {
    Limit::new("test", vec![spec]).unwrap()
}

/// Checks until there is an answer, and returns the kinds of the failures.
async fn check_until_answered(opened: &RedisLimit) -> Vec<StoreErrorKind> {
    let (mut failures, mut silences) = (Vec::new(), 0);
    until_async("an answer of the store", async || {
        match opened.ask(Request::check(b"a")).wait().await {
            Ok(decision) => {
                assert!(decision.is_allowed());
                Ok(())
            }
            Err(error) => {
                let kind = error.as_store().unwrap().kind();
                silences += u32::from(kind == StoreErrorKind::Timeout);
                // 30 s of deadlines, where 1 s is enough.
                assert!(silences < 300, "a silent connection is not replaced");
                if failures.last() != Some(&kind) {
                    failures.push(kind);
                }
                Err(error)
            }
        }
    })
    .await;
    failures
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_goes_silent_is_replaced() {
    let server = Server::start().unwrap();
    let detour = Detour::to(&server).await;
    let store = detour.store();
    let opened = store.open(limit("gcra 9/h burst 9"), OpenOptions::default());
    check_until_answered(&opened).await;
    detour.forgotten.send_replace(1);
    // The proxy may notice the change a moment later.
    let first = until_async("a failure", async || {
        match opened.ask(Request::new(Operation::Peek, b"a")).wait().await {
            Ok(decision) => Err(decision),
            Err(error) => Ok(error.as_store().unwrap().kind()),
        }
    })
    .await;
    assert_eq!(first, StoreErrorKind::Timeout);
    check_until_answered(&opened).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_became_a_replica_is_left_for_where_its_name_leads() {
    let (old, new) = (Server::start().unwrap(), Server::start().unwrap());
    let detour = Detour::to(&old).await;
    let store = detour.store();
    let opened = store.open(limit("gcra 9/h burst 9"), OpenOptions::default());
    check_until_answered(&opened).await;
    old.cli(&["REPLICAOF", "127.0.0.1", &new.port().to_string()]).unwrap();
    detour.target.store(new.port(), Ordering::Relaxed);
    let failures = check_until_answered(&opened).await;
    assert_eq!(failures.first(), Some(&StoreErrorKind::Unavailable));
}

#[tokio::test]
async fn a_reservation_that_changed_nothing_has_nothing_to_give_back() {
    let server = servers::shared().unwrap();
    let store = RedisStore::builder(&server.url())
        .unwrap()
        .prefix(servers::fresh_prefix("detour").parse().unwrap())
        .deadline(Duration::from_secs(5))
        .build();
    let run = TimeSource::Injected { run: "run".to_owned() };
    let options = OpenOptions::default().time(run);
    let opened = store.open(limit("gcra 1/h burst 1 charge_denied shadow"), options);
    let at = Timestamp::from_micros(1_700_000_000_000_000).unwrap();
    let reserve = Operation::Reserve { within: Span::HOUR };
    let reserve = Request::new(reserve, b"a").at(at).with_receipt();
    assert!(opened.ask(reserve).wait().await.unwrap().receipt().is_some());
    // The shadow policy denies, and is full already.
    let mut last = None;
    for _ in 0..3 {
        last = opened.ask(reserve).wait().await.unwrap().take_receipt();
    }
    let last = last.unwrap();
    assert!(opened.ask(Request::cancel(&last).at(at)).wait().await.unwrap().is_denied());
}
