//! The error of an unusable server says at first contact what it is, and what to write instead. No error
//! repeats a key, regardless of the server's answers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::error::Error as StdError;
use std::num::NonZeroU8;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sluicegate_core::for_stores::{Mark, SettingChange};
use sluicegate_core::{
    Acknowledgement, Costs, Hold, HoldId, KeyPrefix, Limit, OpenOptions, OpenedLimit as _,
    Operation, Request, Span, Store as _, StoreError, StoreErrorKind, TimeSource, Timestamp,
};
use sluicegate_redis::RedisStore;
use sluicegate_testkit::servers::{self, GarbageServer, Misbehaviour, Server};
use sluicegate_testkit::wait::until_async;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::rights;

/// Personal data of a subject, which no error may show.
const SUBJECT: &str = "alice@example.com";

fn store(url: &str) -> RedisStore {
    let prefix: KeyPrefix = servers::fresh_prefix("contact").parse().unwrap();
    RedisStore::builder(url).unwrap().prefix(prefix).deadline(Duration::from_secs(5)).build()
}

fn limit() -> Limit {
    let specs = ["gcra 1/h burst 9", "sliding_log 9/h", "sliding_window 9/h slices 6"];
    Limit::new("test", specs).unwrap()
}

fn run() -> OpenOptions {
    OpenOptions::default().time(TimeSource::Injected { run: "run".to_owned() })
}

/// Returns the error of a request about the subject.
async fn failure(store: &RedisStore, operation: Operation<'_>) -> StoreError {
    let opened = store.open(limit(), OpenOptions::default());
    let asked = opened.ask(Request::new(operation, SUBJECT.as_bytes())).wait().await;
    asked.unwrap_err().as_store().unwrap().clone()
}

/// Asserts that a check and a ping fail with the same error; `why` are words of both.
async fn assert_says(url: &str, kind: StoreErrorKind, why: &[&str]) {
    let store = store(url);
    for error in [failure(&store, Operation::Check).await, store.ping().await.unwrap_err()] {
        assert_eq!(error.kind(), kind, "{error}");
        for why in why {
            assert!(error.to_string().contains(why), "no `{why}` in: {error}");
        }
        assert_shows_no_key(&error);
    }
}

fn assert_shows_no_key(error: &StoreError) {
    let mut shown = format!("{error} {error:?}");
    let mut cause: Option<&dyn StdError> = error.cause().map(|cause| cause as _);
    while let Some(error) = cause {
        shown.push_str(&format!(" {error} {error:?}"));
        cause = error.source();
    }
    assert!(!shown.contains("alice"), "{shown}");
}

/// Pings until the server answers. Until then nothing is charged.
async fn ping_until_answered(store: &RedisStore) {
    until_async("an answer of the store", async || {
        store.ping().await.inspect_err(|error| {
            assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        })
    })
    .await;
}

fn each(options: &[&str]) -> Vec<Server> {
    let binaries = servers::available().unwrap();
    binaries.iter().map(|binary| Server::start_with(binary, options).unwrap()).collect()
}

#[tokio::test]
async fn a_full_server_says_that_it_is_full_and_is_used_when_there_is_room() {
    for server in each(&["--maxclients", "4"]) {
        let held: Vec<_> = (0..8)
            .map_while(|_| {
                let mut connection = server.connect(Duration::from_secs(5)).unwrap();
                let reply = connection.command(&[b"PING"]);
                reply.is_ok_and(|reply| reply.to_string() == "PONG").then_some(connection)
            })
            .collect();
        assert!(held.len() < 8, "it is full with 4");
        let why =
            ["is full (ERR max number of clients reached)", "`maxclients`", "nothing was charged"];
        assert_says(&server.url(), StoreErrorKind::Unavailable, &why).await;
        drop(held);
        let store = store(&server.url());
        ping_until_answered(&store).await;
    }
}

/// A folder that is removed when this value is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let name = servers::fresh_prefix("sluicegate-contact").replace(':', "");
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// A proxy in front of a server may send a TLS record even to a client without TLS.
#[tokio::test]
async fn a_tls_alert_in_place_of_an_answer_is_no_other_protocol() {
    let alert = Misbehaviour::Answer(b"\x15\x03\x03\x00\x02\x02\x46".to_vec());
    let server = GarbageServer::start(alert).unwrap();
    assert_says(
        &server.url(),
        StoreErrorKind::Unavailable,
        &["TLS port", "write its URL as rediss://"],
    )
    .await;
}

#[tokio::test]
async fn a_sentinel_says_that_it_is_one() {
    for server in each(&["--sentinel"]) {
        let url = format!("redis+sentinel://127.0.0.1:{}/NAME", server.port());
        for database in ["", "/2"] {
            let why = ["is a sentinel", &url, "nothing was charged"];
            let asked = format!("{}{database}", server.url());
            assert_says(&asked, StoreErrorKind::Unavailable, &why).await;
        }
    }
}

#[tokio::test]
async fn a_node_of_a_cluster_says_that_it_is_one_unless_it_has_all_the_keys() {
    for server in each(&["--cluster-enabled", "yes"]) {
        let url = format!("redis+cluster://127.0.0.1:{}", server.port());
        let why = ["is a node of a cluster", &url, "nothing was charged"];
        for database in ["", "/2"] {
            let asked = format!("{}{database}", server.url());
            assert_says(&asked, StoreErrorKind::Unavailable, &why).await;
        }
        server.cli(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).unwrap();
        let store = store(&server.url());
        // The node needs some time to report that the cluster is up.
        ping_until_answered(&store).await;
        // If its slots are removed, the calls for their keys report it.
        server.cli(&["CLUSTER", "DELSLOTSRANGE", "0", "16383"]).unwrap();
        let error = failure(&store, Operation::Check).await;
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains(&url), "{error}");
    }
}

/// All slots have a node, as in every working cluster, and half of them have another node.
#[tokio::test]
async fn a_node_of_a_cluster_that_shares_its_keys_with_another_says_that_it_is_one() {
    let folder = Folder::new();
    let (own, other) = ("a".repeat(40), "b".repeat(40));
    let nodes = format!(
        "{own} 127.0.0.1:0@0 myself,master - 0 0 1 connected 0-8191\n\
         {other} 127.0.0.1:1@1 master - 0 0 2 disconnected 8192-16383\n\
         vars currentEpoch 2 lastVoteEpoch 0\n"
    );
    for (index, binary) in servers::available().unwrap().iter().enumerate() {
        let nodes = folder.write(&format!("nodes-{index}.conf"), &nodes);
        // Long enough that the missing other node isn't noticed.
        let timeout = ["--cluster-node-timeout", "600000"];
        let options = [["--cluster-enabled", "yes"], ["--cluster-config-file", &nodes], timeout];
        let server = Server::start_with(binary, options.as_flattened()).unwrap();
        // A starting node needs some seconds until it counts the others.
        let counts = || server.cli(&["CLUSTER", "INFO"]).unwrap().contains("cluster_size:2");
        assert!((0..1_000_000).any(|_| counts()), "{binary} never counted two nodes");
        let url = format!("redis+cluster://127.0.0.1:{}", server.port());
        let why = ["is a node of a cluster", &url, "nothing was charged"];
        // The error doesn't depend on the keys: the node itself has the slots of many of these.
        for _ in 0..8 {
            assert_says(&server.url(), StoreErrorKind::Unavailable, &why).await;
        }
    }
}

#[tokio::test]
async fn words_of_a_cluster_are_understood_from_what_stands_before_it_too() {
    for words in
        ["MOVED 1 10.0.0.7:6379", "CROSSSLOT no", "CLUSTERDOWN no", "ASK 1 h:1", "TRYAGAIN no"]
    {
        let answer = Misbehaviour::Answer(format!("-{words}\r\n").repeat(3).into_bytes());
        let server = GarbageServer::start(answer).unwrap();
        let why = ["is a node of a cluster", "redis+cluster://"];
        assert_says(&server.url(), StoreErrorKind::Unavailable, &why).await;
    }
}

#[tokio::test]
async fn a_replica_names_its_primary() {
    for primary in each(&[]) {
        let of = ["--replicaof", "127.0.0.1", &primary.port().to_string()];
        let replica = Server::start_with(primary.binary(), &of).unwrap();
        let why = ["is a read-only replica", &primary.url(), "nothing was charged"];
        assert_says(&replica.url(), StoreErrorKind::Unavailable, &why).await;
        // A user without the right to ask for the address gets the rest of the error.
        let rule = ["ACL", "SETUSER", "limited", "on", ">pw", "~*", "+@all", "-role"];
        replica.cli(&rule).unwrap();
        let url = format!("redis://limited:pw@127.0.0.1:{}", replica.port());
        let why = ["is a read-only replica", "redis://HOST:PORT"];
        assert_says(&url, StoreErrorKind::Unavailable, &why).await;
    }
}

/// A user without any rights learns from the errors, one by one, which rights to grant, until everything
/// works. No other rights than those in the errors are granted.
#[tokio::test]
async fn the_permissions_that_the_errors_ask_for_are_enough() {
    for server in each(&[]) {
        let prefix: KeyPrefix = "team-a*[1]:sg".parse().unwrap();
        server.cli(&["ACL", "SETUSER", "limited", "on", ">pw"]).unwrap();
        let url = format!("redis://limited:pw@127.0.0.1:{}/1", server.port());
        let store = RedisStore::builder(&url)
            .unwrap()
            .prefix(prefix)
            .deadline(Duration::from_secs(5))
            .build();
        let mut told = Vec::new();
        while let Err(error) = everything(&store).await {
            let text = error.to_string();
            let expected = match text.contains("to wait for replicas") {
                true => StoreErrorKind::Unacknowledged,
                false => StoreErrorKind::Unexpected,
            };
            assert_eq!(error.kind(), expected, "{error}");
            assert!(!told.contains(&text), "it is granted, and asked for again: {text}");
            let quoted = text.split('`').skip(1).step_by(2).flat_map(str::split_whitespace);
            let rules: Vec<&str> = quoted.filter(|word| word.starts_with(['+', '~'])).collect();
            assert!(!rules.is_empty(), "{text}");
            server.cli(&[&["ACL", "SETUSER", "limited"], rules.as_slice()].concat()).unwrap();
            told.push(text);
        }
        let keys = "our keys: grant it `~team-a\\*\\[1]:sg:*`";
        for part in ["the command select: grant it `+select`", keys, "to wait for replicas"] {
            assert_eq!(told.iter().filter(|text| text.contains(part)).count(), 1, "{told:?}");
        }
    }
}

/// Before, the log counted as lost, as if nothing had been taken.
#[tokio::test]
async fn a_log_whose_length_may_not_be_read_is_an_error_and_no_empty_log() {
    for server in each(&[]) {
        server.set_user("limiter", &["on", "nopass", "~*", "+@all", "-strlen"]).unwrap();
        let store = store(&format!("redis://limiter@127.0.0.1:{}", server.port()));
        let opened = store.open(limit(), OpenOptions::default());
        let _ = opened.ask(Request::check(SUBJECT.as_bytes())).wait().await;
        for operation in [Operation::Peek, Operation::Take] {
            let error = failure(&store, operation).await;
            assert!(error.to_string().contains("+strlen"), "{operation:?}: {error}");
        }
    }
}

/// Every right in the documentation is necessary. The error of a user without it names it.
#[tokio::test]
async fn each_right_that_is_documented_is_needed_and_named_by_the_error_without_it() {
    for server in each(&[]) {
        let all = rights::documented("needed");
        let url = format!("redis://limiter:pw@127.0.0.1:{}/1", server.port());
        let store = || {
            let builder = RedisStore::builder(&url).unwrap().prefix("needed".parse().unwrap());
            builder.deadline(Duration::from_secs(5)).build()
        };
        rights::set_user(&server, "limiter", &all);
        everything(&store()).await.unwrap();
        // Without the rights to publish and subscribe, everything works, but later.
        let is_needed = |rule: &String| {
            rule.starts_with(['+', '~']) && !["+publish", "+subscribe"].contains(&rule.as_str())
        };
        for lacking in all.iter().filter(|rule| is_needed(rule)) {
            let rest: Vec<String> = all.iter().filter(|rule| *rule != lacking).cloned().collect();
            rights::set_user(&server, "limiter", &rest);
            // The script's text is only sent to a server that doesn't know it.
            server.cli(&["SCRIPT", "FLUSH"]).unwrap();
            let error = everything(&store()).await.expect_err(lacking);
            let text = error.to_string();
            let expected = match lacking.as_str() {
                "+wait" => StoreErrorKind::Unacknowledged,
                _ => StoreErrorKind::Unexpected,
            };
            assert_eq!(error.kind(), expected, "{lacking}: {text}");
            assert!(text.contains("does not permit this user"), "{lacking}: {text}");
            let granted = text.split(['`', ' ']).any(|word| word == lacking);
            assert!(granted, "{lacking}: {text}");
        }
    }
}

/// Returns an id that no other hold of this program has.
fn new_id() -> HoldId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    HoldId::from_bytes(u128::from(NEXT.fetch_add(1, Ordering::Relaxed)).to_be_bytes())
}

/// Calls every operation of settings, with and without an end.
async fn settings(store: &RedisStore) -> Result<(), sluicegate_core::Error> {
    let settings = store.settings().unwrap();
    let set = |name, value, lasts| SettingChange { name, value, lasts, remark: b"" };
    settings.change(set(b"a", Some(b"1"), Some(Span::HOUR))).await?;
    settings.change(set(b"b", Some(b"1"), None)).await?;
    let known = settings.news(&Mark::default()).await?.mark;
    settings.news(&known).await?;
    settings.log(None, 1).await?;
    settings.change(set(b"b", None, None)).await?;
    settings.change(set(b"a", None, None)).await?;
    Ok(())
}

/// Calls every operation of a store.
async fn everything(store: &RedisStore) -> Result<(), StoreError> {
    let failure = |error: sluicegate_core::Error| error.as_store().unwrap().clone();
    let at = Timestamp::from_micros(1_700_000_000_000_000).unwrap();
    store.ping().await?;
    settings(store).await.map_err(failure)?;
    for (options, at) in [(OpenOptions::default(), None), (run(), Some(at))] {
        let flight = Limit::new("flight", ["concurrency 1000 hold 1min"]).unwrap();
        let opened = store.open(flight, options.clone());
        let hold = Hold { id: new_id(), lasts: Duration::from_secs(1) };
        let key = SUBJECT.as_bytes();
        for request in [
            Request::check(key).hold(&hold),
            Request::renew(key, hold.id, Span::MINUTE),
            Request::settle(key, hold.id, &[Some(0)]),
        ] {
            let decision = opened.ask(request.at(at)).wait().await.map_err(failure)?;
            assert!(decision.is_allowed(), "{decision:?}");
        }
        let line = Limit::new("line", ["gcra 1/h burst 9", "token_bucket 9/h"]).unwrap();
        for limit in [limit(), line] {
            let may_reserve = limit.name().as_str() == "line";
            let opened = store.open(limit, options.clone());
            for operation in [
                Operation::Check,
                Operation::Check,
                Operation::Peek,
                Operation::Take,
                Operation::Charge,
                Operation::Refund,
                Operation::Reset,
                // Check again, so that there is a state to delete with its run.
                Operation::Check,
            ] {
                let request = Request::new(operation, SUBJECT.as_bytes()).at(at);
                let _ = opened.ask(request).wait().await.map_err(failure)?;
            }
            if may_reserve {
                let reserve = Operation::Reserve { within: Span::DAY };
                for _ in 0..2 {
                    // Reserve all units, so that the next reservation waits.
                    let id = new_id();
                    let reserve = Request::new(reserve, SUBJECT.as_bytes()).at(at).in_line_as(&id);
                    let reserve = reserve.costs(Costs::Each(&[9, 9]));
                    let decision = opened.ask(reserve).wait().await.map_err(failure)?;
                    let receipt = decision.receipt().unwrap();
                    let cancel = Request::cancel(receipt).at(at);
                    let _ = opened.ask(cancel).wait().await.map_err(failure)?;
                    let check = Request::check(SUBJECT.as_bytes()).at(at);
                    let _ = opened.ask(check).wait().await.map_err(failure)?;
                }
            }
        }
    }
    let within = Duration::from_millis(1);
    let options =
        OpenOptions::default().acknowledged(Acknowledgement { replicas: NonZeroU8::MIN, within });
    let opened = store.open(limit(), options);
    let error = opened.ask(Request::check(SUBJECT.as_bytes())).wait().await.map_err(failure);
    // There is no replica, so a permitted user gets this error.
    match error.unwrap_err() {
        error if error.to_string().contains("0 of its replicas") => {}
        error => return Err(error),
    }
    store.delete_run(&limit(), "run").await.map(drop)
}

#[tokio::test]
async fn a_command_that_the_server_lacks_is_named_without_its_arguments() {
    for binary in servers::available().unwrap() {
        for (missing, operation) in [
            ("EVALSHA", Operation::Check),
            ("DEL", Operation::Reset),
            ("GETRANGE", Operation::Peek),
        ] {
            let server = Server::start_with(&binary, &["--rename-command", missing, ""]).unwrap();
            let store = store(&server.url());
            let opened = store.open(limit(), OpenOptions::default());
            if missing == "GETRANGE" {
                // Without an entry nothing would be read.
                let _ = opened.ask(Request::check(SUBJECT.as_bytes())).wait().await.unwrap();
            }
            let error = failure(&store, operation).await;
            assert_eq!(error.kind(), StoreErrorKind::Unexpected, "{error}");
            let text = error.to_string().to_lowercase();
            assert!(text.contains("unknown"), "{error}");
            assert!(text.contains("command"), "{error}");
            assert_shows_no_key(&error);
        }
    }
}

/// A proxy in front of the server may embed the call's words in any text.
#[tokio::test]
async fn an_error_that_repeats_a_key_is_shown_up_to_the_subject() {
    for server in each(&[]) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(repeat_commands(listener, server.port()));
        let store = store(&format!("redis://127.0.0.1:{port}"));
        for operation in [Operation::Check, Operation::Reset] {
            let error = failure(&store, operation).await;
            assert_eq!(error.kind(), StoreErrorKind::Unexpected, "{error}");
            assert!(error.to_string().contains("refused the command: ERR no: "), "{error}");
            assert_shows_no_key(&error);
        }
    }
}

/// Forwards a connection to a server, but answers commands with a key by an error that repeats the key.
async fn repeat_commands(listener: TcpListener, to: u16) {
    let (mut client, _) = listener.accept().await.unwrap();
    let mut server = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
    let (mut words, mut answer) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            length = client.read(&mut words) => {
                let words = &words[..length.unwrap()];
                // Numbers in it may look like line ends.
                let text = String::from_utf8_lossy(words).replace(['\r', '\n'], " ");
                if words.is_empty() {
                    return;
                } else if text.contains("alice") {
                    client.write_all(format!("-ERR no: {text}\r\n").as_bytes()).await.unwrap();
                } else {
                    server.write_all(words).await.unwrap();
                }
            }
            length = server.read(&mut answer) => {
                client.write_all(&answer[..length.unwrap()]).await.unwrap();
            }
        }
    }
}
