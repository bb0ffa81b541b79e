//! Every example is started as its user would start it, and talked to with a real client.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "the helpers of tests may do what tests may"
)]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt as _;

/// A server that runs until the test is over.
struct Server {
    process: Child,
    site: String,
}

impl Server {
    /// Starts a program, and reads from its output where it listens.
    fn start(program: &str) -> Self {
        let mut command = Command::new(program);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let site = line.trim().strip_prefix("listening on ");
        Self { site: site.unwrap_or_else(|| panic!("it said {line:?}")).to_owned(), process }
    }

    async fn get(&self, path: &str, fields: &[(&str, &str)]) -> Reply {
        self.send("GET", path, fields, "").await
    }

    async fn send(&self, method: &str, path: &str, fields: &[(&str, &str)], body: &str) -> Reply {
        let url = format!("{}{path}", self.site);
        let mut request = http::Request::builder().method(method).uri(url);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::from(body.as_bytes().to_vec())).unwrap();
        let client: Client<_, Full<axum::body::Bytes>> =
            Client::builder(TokioExecutor::new()).build_http();
        let (parts, body) = client.request(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        // Of several lines all: each limit may add one.
        let field = |name: &str| {
            let lines = parts.headers.get_all(name).iter().map(|line| line.to_str().unwrap());
            lines.map(str::to_owned).reduce(|all, line| all + ", " + &line)
        };
        Reply {
            status: parts.status.as_u16(),
            limits: field("ratelimit"),
            retry: field("retry-after").map(|seconds| seconds.parse().unwrap()),
            body: String::from_utf8(body.to_vec()).unwrap(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

struct Reply {
    status: u16,
    limits: Option<String>,
    retry: Option<u64>,
    body: String,
}

#[tokio::test]
async fn axum_limits_the_site_by_address_and_the_search_by_key() {
    let server = Server::start(env!("CARGO_BIN_EXE_axum"));
    assert_eq!(server.get("/", &[]).await.body, "hello\n");
    let search = async |key| server.get("/search", &[("x-api-key", key)]).await;
    for _ in 0..3 {
        let found = search("alice").await;
        assert_eq!((found.status, &*found.body), (200, "found\n"));
        let limits = found.limits.unwrap();
        assert!(limits.contains("\"burst\"") && limits.contains("\"token_bucket\""), "{limits}");
    }
    let denied = search("alice").await;
    assert_eq!(denied.status, 429);
    assert!((1..=6).contains(&denied.retry.unwrap()), "{:?}", denied.retry);
    assert!(denied.body.contains(r#""violated-policies":["burst"]"#), "{}", denied.body);
    assert_eq!(search("bob").await.status, 200);
    assert_eq!(server.get("/search", &[]).await.status, 400);
    assert_eq!(server.get("/health", &[]).await.limits, None);
}

#[tokio::test]
async fn actix_charges_for_the_words_that_were_sent() {
    let server = Server::start(env!("CARGO_BIN_EXE_actix"));
    let words =
        async |count: u16, key| server.get(&format!("/words/{count}"), &[("x-api-key", key)]).await;
    let first = words(12, "alice").await;
    assert_eq!((first.status, first.body.split_whitespace().count()), (200, 12));
    assert!(first.limits.unwrap().contains("r=8;"));
    assert_eq!(words(500, "alice").await.status, 200, "more than is left, and owed");
    let denied = words(1, "alice").await;
    // 492 words that were not there, and one: 36 s each.
    assert_eq!(denied.status, 429);
    assert!(denied.retry.unwrap() > 17_600, "{:?}", denied.retry);
    assert_eq!(words(1, "bob").await.status, 200);
}

#[tokio::test]
async fn the_gateway_takes_an_estimate_and_charges_what_was_used() {
    let server = Server::start(env!("CARGO_BIN_EXE_gateway"));
    let complete = async |key, prompt: &str| {
        let key = format!("Bearer {key}");
        server.send("POST", "/complete", &[("authorization", &*key)], prompt).await
    };
    assert_eq!(complete("k9", "a").await.status, 401);
    let first = complete("k1", "tell me more").await;
    assert_eq!((first.status, &*first.body), (200, "tell me more tell me more\n"));
    let limits = first.limits.unwrap();
    for left in ["\"requests\";r=59;", "\"tokens\";r=991;", "\"budget\";r=19991;"] {
        assert!(limits.contains(left), "{left}: {limits}");
    }
    assert_eq!(
        complete("k1", &"word ".repeat(300)).await.status,
        200,
        "more than estimated, and owed"
    );
    let denied = complete("k1", "a").await;
    assert_eq!(denied.status, 429);
    assert!(denied.body.contains(r#""violated-policies":["tokens"]"#), "{}", denied.body);
    let of_pro = complete("k2", "a").await.limits.unwrap();
    assert!(of_pro.contains("\"tokens\";r=9997;"), "{of_pro}");
}

#[tokio::test]
async fn tonic_tells_a_client_when_to_come_back() {
    let server = Server::start(env!("CARGO_BIN_EXE_tonic"));
    let channel = Channel::from_shared(server.site.clone()).unwrap().connect().await.unwrap();
    let client = HealthClient::new(channel);
    let check = async |tenant: &'static str| {
        let mut request = tonic::Request::new(HealthCheckRequest { service: "shop".into() });
        request.metadata_mut().insert("x-tenant", tenant.parse().unwrap());
        client.clone().check(request).await
    };
    assert_eq!(check("acme").await.unwrap().into_inner().status, 1);
    assert!(check("acme").await.is_ok());
    let status = check("acme").await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::ResourceExhausted);
    let delay = status.get_details_retry_info().unwrap().retry_delay.unwrap();
    assert!(delay > Duration::ZERO && delay <= Duration::from_secs(30), "{delay:?}");
    assert!(check("other").await.is_ok());
}

#[test]
fn the_worker_waits_for_its_turns() {
    let output = Command::new(env!("CARGO_BIN_EXE_worker")).arg("4").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let waited: Vec<u64> = text
        .lines()
        .enumerate()
        .map(|(index, line)| {
            let rest = line.strip_prefix(&format!("job {}: sent, ", index + 1)).unwrap();
            rest.split(' ').next().unwrap().parse().unwrap()
        })
        .collect();
    assert_eq!(waited.len(), 4, "{text}");
    assert_eq!(waited[0], 0);
    assert!(waited.iter().all(|&millis| millis <= 50), "{text}");
    assert!(waited.iter().any(|&millis| millis > 0), "{text}");
}

#[test]
fn workers_with_the_url_of_a_server_share_its_limit() {
    let server = sluicegate_testkit::servers::shared().unwrap();
    let worker = Command::new(env!("CARGO_BIN_EXE_worker")).args(["2", &server.url()]).output();
    let output = worker.unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 2);
    let keys = server.cli(&["KEYS", "*our-account*"]).unwrap();
    assert!(!keys.trim().is_empty(), "what it consumed is on the server");
}

#[tokio::test]
async fn a_login_is_limited_by_address_and_account_together() {
    let server = Server::start(env!("CARGO_BIN_EXE_login"));
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let attempt = async |account: &str, password: &str| {
        let body = format!("account={account}&password={password}");
        server.send("POST", "/login", &form, &body).await
    };
    // More than either of them would let in: a right password is free.
    for _ in 0..7 {
        assert_eq!(attempt("alice", "swordfish").await.body, "welcome\n");
    }
    for account in ["alice", "Alice", "ALICE"] {
        assert_eq!(attempt(account, "guess").await.status, 401);
    }
    let locked = attempt("alice", "swordfish").await;
    assert_eq!(locked.status, 429);
    let violated = r#""violated-policies":["sliding_log"]"#;
    assert!(locked.body.contains(violated), "{}", locked.body);
    assert!((200..=300).contains(&locked.retry.unwrap()), "{:?}", locked.retry);
    // What the account refused took nothing of the address, which has two guesses left.
    assert_eq!(attempt("bob", "guess").await.status, 401);
    assert_eq!(attempt("bob", "swordfish").await.status, 200);
    assert_eq!(attempt("bob", "guess").await.status, 401);
    let locked = attempt("carol", "swordfish").await;
    assert_eq!(locked.status, 429);
    assert!(locked.body.contains("token_bucket"), "{}", locked.body);
}

#[tokio::test]
async fn a_phone_gets_one_code_a_minute() {
    let server = Server::start(env!("CARGO_BIN_EXE_sms"));
    let code = async |phone: &str| server.send("POST", &format!("/code/{phone}"), &[], "").await;
    assert_eq!(code("+15550100").await.body, "sent a code to +15550100\n");
    let denied = code("+1(555)0100").await;
    assert_eq!(denied.status, 429);
    assert!((50..=60).contains(&denied.retry.unwrap()), "{:?}", denied.retry);
    assert!(denied.limits.unwrap().contains("\"again\";r=0"));
    assert_eq!(code("+15550101").await.status, 200);
}
