//! A gateway to a language model with axum. Each tenant has so many requests a minute, tokens a minute and
//! tokens a day, by its tier. A call takes an estimate of its tokens before the model is asked; what the
//! model used then takes its place. Who hangs up has paid the estimate.
//!
//! ```sh
//! cargo run -p sluicegate-examples --bin gateway -- 127.0.0.1:3000
//! curl -i http://127.0.0.1:3000/complete -H 'authorization: Bearer k1' -d 'Tell me a story.'
//! ```

#![allow(clippy::print_stdout, reason = "it says where it listens")]

use std::error::Error;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Extension, Router};
use sluicegate::http::User;
use sluicegate::{Config, Registry, Uses};
use sluicegate_tower::{Charge, LimitLayer};
use tokio::net::TcpListener;

const LIMITS: &str = "
limits:
  llm:
    key: user
    missing_key: refuse
    policies:
      - token_bucket 60/h as requests
      - token_bucket 6000/h burst 1000 as tokens
      - fixed_window 20000/d calendar UTC as budget
    overrides:
      - key: pro/*
        times: 10
";
const ESTIMATE: u64 = 400;

/// API keys, and the tenants that they belong to.
const TENANTS: [(&str, &str); 2] = [("Bearer k1", "free/eve"), ("Bearer k2", "pro/acme")];

async fn authenticate(mut request: Request, next: Next) -> Response {
    let token = request.headers().get("authorization");
    let Some((_, tenant)) = TENANTS.iter().find(|(key, _)| token.is_some_and(|it| it == key))
    else {
        return StatusCode::UNAUTHORIZED.into_response();
    };
    request.extensions_mut().insert(User::new(tenant));
    next.run(request).await
}

/// The model: it says every word of the prompt twice.
async fn complete(prompt: String) -> (Extension<Charge>, String) {
    let used = 3 * prompt.split_whitespace().count() as u64;
    let charge = Charge::from([("requests", 1), ("tokens", used), ("budget", used)]);
    (Extension(charge), format!("{prompt} {prompt}\n"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let uses = [Uses::limit("llm").policies(["requests", "tokens", "budget"])];
    let registry = Registry::open_for(&Config::parse(LIMITS, "limits.yaml")?, uses)?;
    let limit = LimitLayer::new(registry.gate("llm"))
        .cost(|_| [("requests", 1), ("tokens", ESTIMATE), ("budget", ESTIMATE)])
        .refund_if(|response| response.charge().is_some())
        .charge_after(|response| response.charge());
    let router = Router::new().route("/complete", post(complete)).layer(limit);
    let router = router.layer(from_fn(authenticate));

    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    Ok(axum::serve(listener, router).await?)
}
