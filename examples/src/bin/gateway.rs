//! A gateway to a language model with axum. A call counts as a request and in tokens, for its user,
//! its team and all users, in one decision. It takes an estimate of its tokens before the model is
//! called. After the answer has been streamed, the actual usage replaces the estimate. A client that
//! hangs up pays for the tokens streamed until then.
//!
//! ```sh
//! cargo run -p sluicegate-examples --bin gateway -- 127.0.0.1:3000
//! curl -iN http://127.0.0.1:3000/complete -H 'authorization: Bearer k1' -d 'Tell me a story.'
//! ```
//!
//! The words arrive one by one. `RateLimit` reports the remaining units after the estimate. On the
//! next call, the estimate has come back, except for the used tokens. A client that continues without
//! a pause gets a 429 soon after the twentieth call, with a `Retry-After` of at most 3. With
//! `STORE=redis://127.0.0.1:6379` all gateways share the limits.

#![allow(clippy::print_stdout, reason = "it says where it listens")]

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Extension, Router};
use futures_util::stream;
use sluicegate::config::Uses;
use sluicegate::http::{self, Key, RequestView, User};
use sluicegate::{Config, Registry};
use sluicegate_tower::{InFlight, LimitLayer};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

pub(crate) const LIMITS: &str = include_str!("../../limits/gateway.yaml");

/// The maximum number of tokens of an answer, which the gateway allows the model.
const LONGEST_ANSWER: u64 = 500;

/// API keys, and the users that they belong to.
const USERS: [(&str, &str); 3] =
    [("Bearer k1", "blue/eve"), ("Bearer k2", "blue/bob"), ("Bearer k3", "red/ann")];

/// The model behind the gateway, which streams the tokens of an answer.
pub(crate) type Model = Arc<dyn Fn(String) -> mpsc::Receiver<String> + Send + Sync>;

pub(crate) fn app(registry: &Registry, model: Model) -> Result<Router, Box<dyn Error>> {
    let limit = LimitLayer::new(registry.gate("user").and(registry.gate("everybody"))?)
        .cost(estimate)
        .and(registry.gate("team"), http::from_fn(team))?
        .cost(estimate);
    Ok(Router::new()
        .route("/complete", post(complete))
        .with_state(model)
        .layer(limit.hold(Duration::from_secs(30)))
        .layer(from_fn(authenticate)))
}

/// Estimates the prompt at four bytes a token, and adds the longest answer.
fn estimate(request: &dyn RequestView) -> [(&'static str, u64); 2] {
    let prompt = request.content_length().unwrap_or(8_000) / 4;
    [("requests", 1), ("tokens", prompt + LONGEST_ANSWER)]
}

fn team(request: &dyn RequestView) -> Option<Key> {
    let user = request.user()?.as_bytes();
    Some(Key::new(user.split(|byte| *byte == b'/').next()?))
}

async fn complete(
    State(model): State<Model>,
    Extension(in_flight): Extension<InFlight>,
    prompt: String,
) -> Body {
    let asked = prompt.split_whitespace().count() as u64;
    in_flight.used("tokens", asked);
    // The last reported usage counts, whether the stream ends or its reader hangs up.
    Body::from_stream(stream::unfold((model(prompt), asked), move |(mut tokens, used)| {
        let in_flight = in_flight.clone();
        async move {
            let token = tokens.recv().await?;
            in_flight.used("tokens", used + 1);
            Some((Ok::<_, Infallible>(token), (tokens, used + 1)))
        }
    }))
}

async fn authenticate(mut request: Request, next: Next) -> Response {
    let key = request.headers().get("authorization");
    let Some((_, user)) = USERS.iter().find(|(known, _)| key.is_some_and(|key| key == known))
    else {
        return StatusCode::UNAUTHORIZED.into_response();
    };
    request.extensions_mut().insert(User::new(user));
    next.run(request).await
}

/// Repeats every word of the prompt, as slowly as a large model.
fn parrot(prompt: String) -> mpsc::Receiver<String> {
    let (sender, tokens) = mpsc::channel(1);
    tokio::spawn(async move {
        for (word, _) in prompt.split_whitespace().zip(0..LONGEST_ANSWER) {
            tokio::time::sleep(Duration::from_millis(50)).await;
            // The receiver is gone.
            if sender.send(format!("{word} ")).await.is_err() {
                break;
            }
        }
    });
    tokens
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut config = Config::parse(LIMITS, "gateway.yaml")?;
    if let Ok(url) = std::env::var("STORE") {
        config.store = url.parse()?;
    }
    let uses = ["user", "team", "everybody"];
    let uses = uses.map(|limit| Uses::limit(limit).policies(["requests", "tokens"]));
    let router = app(&Registry::open_for(&config, uses)?, Arc::new(parrot))?;

    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    Ok(axum::serve(listener, router).await?)
}
