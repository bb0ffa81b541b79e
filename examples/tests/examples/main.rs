//! Starts every example as a user would, and talks to it with a real client.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "the helpers of tests may do what tests may"
)]

mod gateway;
mod jobs;
mod login;
mod pages;
mod partners;
mod reports;
mod site;
mod uploads;

use std::process::Command;
use std::time::Duration;

use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt as _;

use site::Server;

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
    // The debt of 492 words, and one more word: 36 s each.
    assert_eq!(denied.status, 429);
    assert!(denied.retry.unwrap() > 17_600, "{:?}", denied.retry);
    assert_eq!(words(1, "bob").await.status, 200);
}

#[tokio::test]
async fn tonic_tells_a_client_when_to_come_back() {
    let server = Server::start(env!("CARGO_BIN_EXE_tonic"));
    let channel = Channel::from_shared(server.url.clone()).unwrap().connect().await.unwrap();
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
