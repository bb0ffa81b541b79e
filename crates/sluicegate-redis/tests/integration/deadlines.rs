//! A call has one deadline for all its steps: connecting and sending, naming a script and sending it whole.
//! Time is paused and advanced by the tests. Each piece that a call sends is held back until a test lets it
//! pass.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::mpsc;
use std::time::Duration;

use sluicegate_core::{
    Decision, Error, Limit, OpenOptions, OpenedLimit as _, Request, Store as _, StoreErrorKind,
};
use sluicegate_redis::RedisStore;
use sluicegate_testkit::servers::{self, Server};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

const DEADLINE: Duration = Duration::from_millis(50);

/// A proxy that lets the client's data pass piece by piece.
struct Turnstile {
    port: u16,
    held: UnboundedReceiver<String>,
    passes: UnboundedSender<()>,
    /// While a task blocks, paused time doesn't advance automatically.
    _blocked: mpsc::Sender<()>,
}

impl Turnstile {
    async fn before(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (holds, held) = unbounded_channel();
        let (passes, passed) = unbounded_channel();
        tokio::spawn(carry(listener, server.port(), holds, passed));
        let (blocked, ends) = mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || ends.recv());
        Self { port, held, passes, _blocked: blocked }
    }

    /// Lets everything pass up to the piece with these words.
    async fn hold(&mut self, words: &str) {
        while !self.held.recv().await.unwrap().contains(words) {
            self.passes.send(()).unwrap();
        }
    }

    fn pass(&self) {
        self.passes.send(()).unwrap();
    }

    /// Lets all pieces of a call pass.
    async fn let_through(&mut self, mut asked: Asked) -> Result<Decision, Error> {
        loop {
            tokio::select! {
                piece = self.held.recv() => {
                    piece.unwrap();
                    self.pass();
                }
                answer = &mut asked => return answer.unwrap(),
            }
        }
    }
}

async fn carry(
    listener: TcpListener,
    to: u16,
    holds: UnboundedSender<String>,
    mut passed: UnboundedReceiver<()>,
) {
    let (client, _) = listener.accept().await.unwrap();
    // Accept no second connection.
    drop(listener);
    let server = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
    let ((mut said, mut hears), (mut answers, mut asks)) =
        (client.into_split(), server.into_split());
    tokio::spawn(async move { tokio::io::copy(&mut answers, &mut hears).await });
    let mut piece = vec![0; 1 << 20];
    while let Ok(length @ 1..) = said.read(&mut piece).await {
        holds.send(String::from_utf8_lossy(&piece[..length]).into_owned()).unwrap();
        if passed.recv().await.is_none() {
            return;
        }
        asks.write_all(&piece[..length]).await.unwrap();
    }
}

/// Returns a store behind the turnstile.
fn store(turnstile: &Turnstile) -> RedisStore {
    RedisStore::builder(&format!("redis://127.0.0.1:{}", turnstile.port))
        .unwrap()
        .prefix(servers::fresh_prefix("deadline").parse().unwrap())
        .deadline(DEADLINE)
        .build()
}

/// A check in flight.
type Asked = JoinHandle<Result<Decision, Error>>;

fn asked(store: &RedisStore) -> Asked {
    let limit = Limit::new("test", vec!["gcra 1/h"]).unwrap();
    let opened = store.open(limit, OpenOptions::default());
    tokio::spawn(async move { opened.ask(Request::check(b"alice")).wait().await })
}

async fn advance(millis: u64) {
    tokio::time::advance(Duration::from_millis(millis)).await;
    // Woken tasks run now.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// Asserts that the call ends in 20 ms. Its last piece has been held since 30 ms after it began.
async fn assert_ends_at_its_deadline(asked: Asked) {
    advance(19).await;
    assert!(!asked.is_finished(), "before its deadline: {:?}", asked.await);
    assert_ends_within(2, asked).await;
}

async fn assert_ends_within(millis: u64, asked: Asked) {
    advance(millis).await;
    assert!(asked.is_finished(), "it has more than its deadline");
    let error = asked.await.unwrap().unwrap_err();
    let error = error.as_store().unwrap();
    assert_eq!(error.kind(), StoreErrorKind::Timeout, "{error}");
    assert!(error.to_string().contains("within 50 ms"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn connecting_and_sending_share_one_deadline() {
    let server = servers::shared().unwrap();
    let mut turnstile = Turnstile::before(server).await;
    let asked = asked(&store(&turnstile));
    turnstile.hold("HELLO").await;
    advance(30).await;
    turnstile.pass();
    turnstile.hold("EVALSHA").await;
    assert_ends_at_its_deadline(asked).await;
}

#[tokio::test(start_paused = true)]
async fn naming_a_script_and_sending_it_share_one_deadline() {
    let server = Server::start().unwrap();
    let mut turnstile = Turnstile::before(&server).await;
    let asked = asked(&store(&turnstile));
    turnstile.hold("EVALSHA").await;
    advance(30).await;
    turnstile.pass();
    turnstile.hold("$4\r\nEVAL\r\n").await;
    assert_ends_at_its_deadline(asked).await;
}

/// Two calls without an answer, a second apart, and an answered one between them. The connection is sometimes
/// late, but works.
#[tokio::test(start_paused = true)]
async fn a_connection_that_answers_now_and_then_is_kept() {
    let server = servers::shared().unwrap();
    let mut turnstile = Turnstile::before(server).await;
    let store = store(&turnstile);
    let _ = turnstile.let_through(asked(&store)).await.unwrap();
    for _ in 0..3 {
        let late = asked(&store);
        turnstile.hold("EVALSHA").await;
        assert_ends_within(51, late).await;
        turnstile.pass();
        let _ = turnstile.let_through(asked(&store)).await.unwrap();
        advance(1_000).await;
    }
}
