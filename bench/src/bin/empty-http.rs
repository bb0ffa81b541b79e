//! An HTTP server that decides nothing: it reads each request, and gives all the same answer.
//!
//! It is the floor of the service. Its arguments are the address, the path, the body of the answer, and the names and
//! values of its fields. It is a program of its own, because the benchmark's allocator counts.

use anyhow::{Context as _, Result, bail};
use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::IntoResponse;
use axum::routing::post;
use axum::serve::ListenerExt as _;
use tokio::net::TcpListener;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().context("an address is missing")?;
    let path = arguments.next().context("a path is missing")?;
    let body: Bytes = arguments.next().context("a body is missing")?.into();
    let mut fields = HeaderMap::new();
    while let Some(name) = arguments.next() {
        let Some(value) = arguments.next() else { bail!("the field {name} has no value") };
        fields.insert(HeaderName::try_from(name)?, HeaderValue::try_from(value)?);
    }
    let answer = async move |_: Bytes| (fields.clone(), body.clone()).into_response();
    // The runtime of our service.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address).await?;
        let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
        axum::serve(listener, Router::new().route(&path, post(answer))).await?;
        Ok(())
    })
}
