//! A login form with axum that locks accounts. A guess takes from the account and from the address,
//! in one decision, before the password is checked. The sixth guess at an account within 15 min locks
//! it for 15 min, and the next time for twice as long. A right password gives its units back, and
//! removes all earlier guesses of the account.
//!
//! ```sh
//! cargo run -p sluicegate-examples --bin login -- 127.0.0.1:3000
//! curl -i http://127.0.0.1:3000/login -d 'account=alice&password=guess'      # six times
//! curl -i http://127.0.0.1:3000/login -d 'account=alice&password=swordfish'
//! ```
//!
//! Five guesses return 401. The sixth returns 429 with `Retry-After: 900`, and then the right
//! password does too. An account that doesn't exist gets the same answers. With
//! `STORE=redis://127.0.0.1:6379` all instances lock accounts together, and keep them locked after a
//! restart.

#![allow(clippy::print_stdout, reason = "it says where it listens")]

use std::error::Error;
use std::net::SocketAddr;

use axum::extract::{ConnectInfo, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Form, Router};
use serde::Deserialize;
use sluicegate::{Caller, Config, Denied, Registry, limit};
use tokio::net::TcpListener;

pub(crate) const LIMITS: &str = include_str!("../../limits/login.yaml");

const PASSWORDS: [(&str, &str); 2] = [("alice", "swordfish"), ("bob", "tuna")];

#[derive(Deserialize)]
struct Attempt {
    account: String,
    password: String,
}

enum Rejected {
    Wrong,
    Denied(Denied),
}

impl From<Denied> for Rejected {
    fn from(denied: Denied) -> Self {
        Self::Denied(denied)
    }
}

impl IntoResponse for Rejected {
    fn into_response(self) -> Response {
        match self {
            Self::Wrong => {
                (StatusCode::UNAUTHORIZED, "wrong account or password\n").into_response()
            }
            Self::Denied(denied) => sluicegate_tower::Denied::from(denied).into_response(),
        }
    }
}

/// Checks a password. The key is the name that the client sends, even if there is no such account, so
/// answers never reveal which accounts exist. The duration must not reveal it either: compute the
/// hash in both cases.
#[limit("account", key = "{account}", refund_if = Result::is_ok, registry = limits)]
#[limit("address", key = ip, missing = refuse)]
async fn verify(limits: &Registry, account: &str, password: &str) -> Result<(), Rejected> {
    let known = PASSWORDS.iter().find(|(name, _)| *name == account);
    if known.is_some_and(|(_, right)| *right == password) { Ok(()) } else { Err(Rejected::Wrong) }
}

async fn login(
    State(limits): State<Registry>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Form(attempt): Form<Attempt>,
) -> Result<&'static str, Rejected> {
    let account = attempt.account.to_lowercase();
    // For IPv6 addresses the network counts, because a client has billions of addresses in it.
    let client = Caller::new().with_ip(peer.ip());
    client.scope(verify(&limits, &account, &attempt.password)).await?;
    // Don't reset the address: the owner of one account could then guess at others without limit. If
    // this call fails, the log reports it, and the guesses count until their window ends.
    let _ = limits.gate("account").reset(&account).await;
    Ok("welcome\n")
}

pub(crate) fn app(limits: Registry) -> Router {
    Router::new().route("/login", post(login)).with_state(limits)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut config = Config::parse(LIMITS, "login.yaml")?;
    if let Ok(url) = std::env::var("STORE") {
        config.store = url.parse()?;
    }
    let router = app(Registry::open_for(&config, ["account", "address"])?);

    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    Ok(axum::serve(listener, service).await?)
}
