//! Requests from threads outside of a tokio runtime, and from the only thread of one.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use pollster::block_on;
use sluicegate::error::RequestErrorKind;
use sluicegate::{Error, Limit, Limiter, MemoryStore};
use sluicegate_client::RemoteStore;
use sluicegate_client::json::Answer;
use sluicegate_core::Store as _;
use tokio::runtime::Builder;

/// A service that checks one key for every request.
struct Service {
    url: String,
    connections: Arc<AtomicUsize>,
}

impl Service {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        let limiter = Limiter::new(MemoryStore::new(), limit());
        thread::spawn(move || {
            for stream in listener.incoming() {
                counted.fetch_add(1, Ordering::SeqCst);
                let limiter = limiter.clone();
                thread::spawn(move || serve(stream.unwrap(), &limiter));
            }
        });
        Self { url, connections }
    }

    fn limiter(&self) -> Limiter<RemoteStore> {
        let store = RemoteStore::builder(&self.url).unwrap().deadline(Duration::from_secs(5));
        Limiter::new(store.build(), limit())
    }
}

fn limit() -> Limit {
    Limit::new("jobs", ["token_bucket 1/h burst 1000"]).unwrap()
}

/// Answers the requests of a connection until it is closed.
fn serve(stream: TcpStream, limiter: &Limiter<MemoryStore>) {
    let mut lines = BufReader::new(stream);
    loop {
        let (mut line, mut length) = (String::new(), 0);
        while line != "\r\n" {
            line.clear();
            if lines.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        lines.read_exact(&mut vec![0; length]).unwrap();
        let decision = limiter.check("alice").now().unwrap();
        let body = serde_json::to_string(&Answer::new("jobs", &decision)).unwrap();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
        lines.get_mut().write_all(format!("{head}{body}").as_bytes()).unwrap();
    }
}

#[test]
fn a_service_answers_a_blocked_thread() {
    let service = Service::start();
    let limiter = service.limiter();
    let blocks = || assert!(limiter.check("alice").blocking().unwrap().is_allowed());
    blocks();
    let single = Builder::new_current_thread().enable_all().build().unwrap();
    let several = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    for runtime in [single, several] {
        runtime.block_on(async {
            blocks();
            assert!(limiter.check("alice").await.unwrap().is_allowed());
            // The connection may have been made for the request before.
            blocks();
            let limiter = limiter.clone();
            let task = async move { limiter.check("alice").blocking().unwrap().is_allowed() };
            assert!(tokio::spawn(task).await.unwrap());
        });
    }
    blocks();
}

#[test]
fn a_connection_that_the_only_thread_of_a_runtime_made_serves_it_while_it_is_blocked() {
    let service = Service::start();
    let limiter = service.limiter();
    Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        assert!(limiter.check("alice").await.unwrap().is_allowed());
        for _ in 0..3 {
            assert!(limiter.check("alice").blocking().unwrap().is_allowed());
        }
    });
    assert_eq!(service.connections.load(Ordering::SeqCst), 1);
}

#[test]
fn a_service_is_not_asked_outside_of_a_runtime_and_the_error_says_what_to_do() {
    let service = Service::start();
    let limiter = service.limiter();
    let second = Duration::from_secs(1);
    let errors = [
        block_on(limiter.check("alice")).unwrap_err(),
        block_on(limiter.check("alice").within(second)).unwrap_err(),
        block_on(limiter.permit("alice")).unwrap_err(),
        block_on(limiter.permit("alice").within(second)).unwrap_err(),
    ];
    for error in errors {
        assert_would_block(&error);
        assert_eq!(
            error.to_string(),
            "a service can't be awaited outside of a tokio runtime: await it in one, or end the request by `blocking()`; nothing was sent"
        );
    }
    let error = block_on(limiter.store().ping()).unwrap_err();
    assert!(error.to_string().contains("outside of a tokio runtime"), "{error}");
    assert_eq!(service.connections.load(Ordering::SeqCst), 0);
}

#[test]
fn a_service_is_not_asked_by_a_caller_that_does_not_wait() {
    let service = Service::start();
    let limiter = service.limiter();
    assert_would_block(&limiter.check("alice").now().unwrap_err());
    assert_would_block(&limiter.permit("alice").now().unwrap_err());
    assert_eq!(service.connections.load(Ordering::SeqCst), 0);
}

fn assert_would_block(error: &Error) {
    assert_eq!(error.as_request().unwrap().kind(), RequestErrorKind::WouldBlock);
}
