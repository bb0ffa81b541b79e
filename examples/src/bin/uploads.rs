//! Uploads with actix-web, limited by their bytes. An upload takes the bytes that it announces
//! (`Content-Length`), or the maximum if it announces none. It is settled for the bytes that were
//! read, when it is complete, too long, or its client has disconnected.
//!
//! ```sh
//! cargo run -p sluicegate-examples --bin uploads -- 127.0.0.1:3000
//! head -c 1500000 /dev/zero | curl -i http://127.0.0.1:3000/files/a -H 'x-api-key: alice' -T -
//! ```
//!
//! The length of a pipe is unknown to curl: 2 MB are held, and 0.5 MB come back at the end. After
//! three of these, 0.5 MB of 5 MB are left. The fourth gets a 429, and `Retry-After: 90` is the time
//! until there are 2 MB. A small file still passes: `curl -i http://127.0.0.1:3000/files/a -H
//! 'x-api-key: alice' -T Cargo.toml`. With `STORE=redis://127.0.0.1:6379` all instances share the
//! limits.

#![allow(clippy::print_stdout, reason = "it says where it listens")]

use std::error::Error as StdError;

use actix_web::error::{Error, ErrorPayloadTooLarge};
use actix_web::{App, HttpServer, web};
use futures_util::StreamExt as _;
use sluicegate::config::Uses;
use sluicegate::{Config, Registry};
use sluicegate_actix::{InFlight, LimitMiddleware};

pub(crate) const LIMITS: &str = include_str!("../../limits/uploads.yaml");

/// The maximum length of an upload, in bytes.
pub(crate) const LONGEST: u64 = 2_000_000;

/// Makes the limit outside of the factory, which runs once for each worker: all workers have clones
/// of one limit.
pub(crate) fn limit(registry: &Registry) -> LimitMiddleware {
    LimitMiddleware::new(registry.gate("uploads")).cost(|request| {
        let announced = request.content_length().unwrap_or(LONGEST);
        [("files", 1), ("bytes", announced.min(LONGEST))]
    })
}

pub(crate) fn routes(config: &mut web::ServiceConfig) {
    config.route("/files/{name}", web::put().to(upload));
}

async fn upload(
    name: web::Path<String>,
    mut body: web::Payload,
    in_flight: web::ReqData<InFlight>,
) -> Result<String, Error> {
    let mut read = 0;
    in_flight.used("bytes", read);
    while let Some(chunk) = body.next().await {
        // Write the chunk to a disk or a bucket here. An error means that the client has disconnected.
        read += chunk?.len() as u64;
        in_flight.used("bytes", read);
        if read > LONGEST {
            return Err(ErrorPayloadTooLarge("at most 2 MB\n"));
        }
    }
    Ok(format!("{name}: {read} bytes\n"))
}

#[actix_web::main]
async fn main() -> Result<(), Box<dyn StdError>> {
    let mut config = Config::parse(LIMITS, "uploads.yaml")?;
    if let Ok(url) = std::env::var("STORE") {
        config.store = url.parse()?;
    }
    let uses = [Uses::limit("uploads").policies(["files", "bytes"])];
    let limit = limit(&Registry::open_for(&config, uses)?);

    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let server = HttpServer::new(move || App::new().wrap(limit.clone()).configure(routes));
    let server = server.bind(address)?;
    for address in server.addrs() {
        println!("listening on http://{address}");
    }
    Ok(server.run().await?)
}
