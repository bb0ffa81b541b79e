//! An HTTP server that answers all requests by 204, for a proxy that asks it about requests.
//!
//! It is the floor of the service. Its argument is the address. It is a program of its own, because the benchmark's
//! allocator counts.

use std::convert::Infallible;

use anyhow::{Context as _, Result};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

fn main() -> Result<()> {
    let address = std::env::args().nth(1).context("an address is missing")?;
    // The runtime of our service.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let serving =
                http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer));
            tokio::spawn(serving);
        }
    })
}

async fn answer(_: Request<Incoming>) -> Result<Response<String>, Infallible> {
    let mut response = Response::new(String::new());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}
