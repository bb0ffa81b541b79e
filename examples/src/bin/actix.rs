//! A text generator with actix-web. The number of words of an answer is unknown beforehand. So a
//! request passes while any of the budget remains, and the answer is charged afterwards.
//!
//! ```sh
//! cargo run -p sluicegate-examples --bin actix -- 127.0.0.1:3000
//! curl -i http://127.0.0.1:3000/words/12 -H 'x-api-key: alice'
//! ```

#![allow(clippy::print_stdout, reason = "it says where it listens")]

use std::error::Error;

use actix_web::{App, HttpResponse, HttpServer, get, web};
use sluicegate::{Config, Registry};
use sluicegate_actix::{Charge, LimitMiddleware};

const LIMITS: &str = r#"
limits:
  words:
    key: header:x-api-key
    missing_key: refuse
    policies: ["token_bucket 100/h burst 20"]
"#;

#[get("/words/{count}")]
async fn words(count: web::Path<u16>) -> HttpResponse {
    let count = (*count).min(1_000);
    let mut response = HttpResponse::Ok().body("word ".repeat(count.into()));
    response.extensions_mut().insert(Charge::from(u64::from(count)));
    response
}

#[actix_web::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let registry = Registry::open(&Config::parse(LIMITS, "limits.yaml")?)?;
    let limit =
        LimitMiddleware::new(registry.gate("words")).charge_after(|response| response.charge());

    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    // The factory runs once for each worker, so all workers have clones of one limit.
    let server = HttpServer::new(move || App::new().wrap(limit.clone()).service(words));
    let server = server.bind(address)?;
    for address in server.addrs() {
        println!("listening on http://{address}");
    }
    Ok(server.run().await?)
}
