//! The README's code does what the README says.

#![allow(
    unused_qualifications,
    reason = "the README's code has full paths, so it needs no imports"
)]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use sluicegate::{Config, Registry};

#[sluicegate::limit("token_bucket 1/min burst 3", key = "{phone}")]
fn send_code(phone: &str) -> Result<String, sluicegate::Denied> {
    Ok(format!("sent to {phone}"))
}

fn router(registry: &sluicegate::Registry) -> axum::Router {
    axum::Router::new()
        .route("/", axum::routing::get(|| async { "hello" }))
        .layer(sluicegate_tower::LimitLayer::new(registry.gate("api")))
}

#[test]
fn the_readme_shows_the_code_of_this_file() {
    let readme = include_str!("../../../README.md");
    let blocks: Vec<&str> =
        readme.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), 2);
    for block in blocks {
        assert!(include_str!("readme.rs").contains(block), "{block}");
    }
}

#[test]
fn a_function_of_the_readme_is_limited_by_its_argument() {
    for _ in 0..3 {
        assert_eq!(send_code("+15550100").unwrap(), "sent to +15550100");
    }
    let denied = send_code("+15550100").unwrap_err();
    assert!(denied.to_string().contains("retry in"), "{denied}");
    assert!(send_code("+15550101").is_ok());
}

#[tokio::test]
async fn a_router_of_the_readme_is_limited_by_address() {
    let config = Config::parse("limits: {api: {policies: [gcra 1/min burst 2]}}", "c.yaml");
    let registry = Registry::open(&config.unwrap()).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = router(&registry).into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async { axum::serve(listener, service).await });
    let get = move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    };
    let responses = tokio::task::spawn_blocking(move || [get(), get(), get()]).await.unwrap();
    for response in &responses[..2] {
        assert!(response.starts_with("HTTP/1.1 200 ") && response.ends_with("hello"), "{response}");
    }
    assert!(responses[2].starts_with("HTTP/1.1 429 "), "{}", responses[2]);
    assert!(responses[2].contains("\r\nretry-after: "), "{}", responses[2]);
}
