//! Tests HTTP/2 on the ports of HTTP/1.1.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use axum::body::Bytes;
use rustix::process::Signal;
use serde_json::{Value, json};
use sluicegate_testkit::wait::{until, until_async};

use crate::streams::{Streams, read};
use crate::support::{Client, File, Service};

const CHECK: &str = r#"{"limit":"demo","key":"a"}"#;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn one_port_speaks_both_versions_of_http() {
    let service = Service::start(&[]);
    let streams = Streams::connect(service.address()).await;
    let checks = (0..20).map(|_| streams.post("/v1/check", CHECK));
    let mut remaining: Vec<u64> = Vec::new();
    for check in checks {
        let answer = check.await.unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.head.headers().get("connection"), None);
        remaining.push(json(&answer.body)["policies"][0]["remaining"].as_u64().unwrap());
    }
    assert_eq!(remaining[0], 19);
    assert_eq!(service.post("/v1/peek", CHECK).status, 200);
    let page = streams.get("/").await.unwrap();
    assert!(
        page.status == 200 && page.body.to_lowercase().starts_with("<!doctype html>"),
        "{page:?}"
    );
    let admin = streams.get("/v1/recent").await.unwrap();
    assert_eq!(admin.status, 200, "its host is this machine: {admin:?}");
    assert_eq!(streams.post("/v1/check", "{").await.unwrap().status, 400);
    assert_eq!(streams.get("/nowhere").await.unwrap().status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_answered_while_others_wait() {
    let limits = "limits: {jobs: {policies: [\"concurrency 1 hold 1min queue 9\"]}}";
    let file = File::new("limits.yaml", limits);
    let service = Service::start(&["--config", file.path()]);
    let streams = Streams::connect(service.address()).await;
    let job = json!({"limit": "jobs", "key": "a"}).to_string();
    let first = json(&streams.post("/v1/check", &job).await.unwrap().body);
    let waits = json!({"limit": "jobs", "key": "a", "within": "1min"}).to_string();
    let (response, mut sending) = streams.begin("POST", "/v1/acquire", false).await.unwrap();
    sending.send_data(Bytes::from(waits.clone()), true).unwrap();
    let waiting = "sluicegate_waiting_requests";
    until("it waits", || if service.metric(waiting) == 1 { Ok(()) } else { Err(()) });
    let release = json!({"hold": first["hold"]["token"]}).to_string();
    assert_eq!(streams.post("/v1/release", &release).await.unwrap().status, 200);
    let second = json(&read(response).await.unwrap().body);
    assert_eq!(second["allowed"], true);
    // A stream that is reset gives up its turn.
    let (response, mut sending) = streams.begin("POST", "/v1/acquire", false).await.unwrap();
    sending.send_data(Bytes::from(waits), true).unwrap();
    until("it waits", || if service.metric(waiting) == 1 { Ok(()) } else { Err(()) });
    drop(response);
    sending.send_reset(h2::Reason::CANCEL);
    until("it is given up", || if service.metric(waiting) == 0 { Ok(()) } else { Err(()) });
    assert_eq!(streams.get("/healthz").await.unwrap().status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_with_a_stream_in_progress_is_not_closed_for_others() {
    let limits = "limits: {jobs: {policies: [\"concurrency 1 hold 1min queue 9\"]}}";
    let file = File::new("limits.yaml", &format!("service: {{max_connections: 3}}\n{limits}"));
    let service = Service::start(&["--config", file.path(), "--metrics", "127.0.0.1:0"]);
    let busy = Streams::connect(service.address()).await;
    let job = json!({"limit": "jobs", "key": "a"}).to_string();
    let held = json(&busy.post("/v1/check", &job).await.unwrap().body);
    let waits = json!({"limit": "jobs", "key": "a", "within": "1min"}).to_string();
    let (response, mut sending) = busy.begin("POST", "/v1/acquire", false).await.unwrap();
    sending.send_data(Bytes::from(waits), true).unwrap();
    let mut metrics = Client::connect(service.address_of("metrics")).unwrap();
    until("it waits", || {
        let body = metrics.get("/metrics").unwrap().body;
        if body.contains("sluicegate_waiting_requests 1\n") { Ok(()) } else { Err(body) }
    });
    let idle = Streams::connect(service.address()).await;
    assert_eq!(idle.get("/healthz").await.unwrap().status, 200);
    let mut others: Vec<_> = (0..20).map(|_| Client::connect(service.address()).unwrap()).collect();
    assert_eq!(others.last_mut().unwrap().get("/healthz").unwrap().status, 200);
    until_async("the idle one is closed", async || {
        if idle.has_ended() { Ok(()) } else { Err("it is open") }
    })
    .await;
    assert!(!busy.has_ended());
    let release = json!({"hold": held["hold"]["token"]}).to_string();
    assert_eq!(busy.post("/v1/release", &release).await.unwrap().status, 200);
    assert_eq!(read(response).await.unwrap().status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_tells_clients_and_answers_streams_in_progress() {
    let mut service = Service::start(&["--admin-token", "s3cret", "--drain", "60s"]);
    let known = Streams::connect(service.address()).await;
    assert_eq!(known.get("/healthz").await.unwrap().status, 200);
    let (response, mut sending) = known.begin("POST", "/v1/check", false).await.unwrap();
    // The service has begun with that stream once it answers a later one.
    assert_eq!(known.get("/healthz").await.unwrap().status, 200);
    service.signal(Signal::TERM);
    until("it drains", || match service.get("/readyz").status {
        503 => Ok(()),
        status => Err(status),
    });
    until_async("the client is told", async || match known.get("/healthz").await {
        Ok(answer) => Err(answer.status),
        Err(error) if error.is_go_away() => Ok(()),
        Err(error) => panic!("{error}"),
    })
    .await;
    sending.send_data(Bytes::from(CHECK), true).unwrap();
    assert_eq!(read(response).await.unwrap().status, 200);
    known.closed().await.unwrap();
    // One that connects now gets its first request answered.
    let late = Streams::connect(service.address()).await;
    assert_eq!(late.get("/healthz").await.unwrap().status, 200);
    late.closed().await.unwrap();
    service.signal(Signal::TERM);
    assert!(service.wait().1.contains("a second signal"));
}

/// A failed request counts as lost, unless the service had told the client to go away, or that it
/// refused the request. A failed connection attempt is retried.
#[tokio::test(flavor = "multi_thread")]
async fn no_stream_of_busy_connections_is_lost_when_the_service_restarts() {
    const CONNECTIONS: usize = 8;
    let args = ["--admin-token", "s3cret", "--drain", "150ms"];
    let mut service = Service::start(&args);
    let address = service.address();
    let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let asking: Vec<_> = (0..CONNECTIONS)
        .map(|_| tokio::spawn(ask_until(address, Arc::clone(&stop), Arc::clone(&answered))))
        .collect();
    let more_are_answered = || {
        let before = answered.load(Ordering::Relaxed);
        until("more are answered", || match answered.load(Ordering::Relaxed) - before {
            more if more > 16 * CONNECTIONS => Ok(()),
            more => Err(more),
        });
    };
    for _ in 0..2 {
        more_are_answered();
        service.signal(Signal::TERM);
        let (status, stderr) = service.wait();
        assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
        service = Service::start_on(&address.to_string(), &args);
    }
    more_are_answered();
    stop.store(true, Ordering::Relaxed);
    for asking in asking {
        assert_eq!(asking.await.unwrap(), [""; 0]);
    }
}

/// Sends requests on four streams at a time. Returns the errors of lost ones.
async fn ask_until(
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
) -> Vec<String> {
    let mut lost = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let Ok(streams) = Streams::try_to_connect(address).await else {
            tokio::task::yield_now().await;
            continue;
        };
        loop {
            let ask = || streams.post("/v1/peek", CHECK);
            let (a, b, c, d) = tokio::join!(ask(), ask(), ask(), ask());
            let mut is_over = stop.load(Ordering::Relaxed);
            for answer in [a, b, c, d] {
                match answer {
                    Ok(answer) => {
                        assert_eq!(answer.status, 200);
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(error) => {
                        is_over = true;
                        let is_refused = error.reason() == Some(h2::Reason::REFUSED_STREAM);
                        if !error.is_go_away() && !is_refused {
                            lost.push(format!("{error:?}"));
                        }
                    }
                }
            }
            if is_over {
                break;
            }
        }
    }
    lost
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_and_silent_connections_do_not_delay_a_stop() {
    let mut service =
        Service::start(&["--admin-token", "s3cret", "--drain", "0s", "--shutdown-timeout", "60s"]);
    let idle = Streams::connect(service.address()).await;
    assert_eq!(idle.get("/healthz").await.unwrap().status, 200);
    // It acknowledges nothing, or hasn't said which protocol it speaks.
    let mut silent = service.connect();
    silent.write_all(PREFACE).unwrap();
    silent.write_all(SETTINGS).unwrap();
    let undecided = service.connect();
    let mut half = service.connect();
    half.write_all(&PREFACE[..10]).unwrap();
    assert!(silent.read(&mut [0; 9]).is_ok());
    service.signal(Signal::TERM);
    let (status, stderr) = service.wait();
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
    idle.closed().await.unwrap();
    drop((undecided, half));
}

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// A SETTINGS frame without settings.
pub(crate) const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
