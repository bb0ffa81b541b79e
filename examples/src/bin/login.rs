//! A login form with axum. A guess takes from the budget of the address and from that of the account,
//! in one decision, before the password is looked at: whoever is refused by one of them takes nothing
//! from the other. A right password gives both back, so only wrong ones count, however many guesses
//! are made at once.
//!
//! ```sh
//! cargo run -p sluicegate-examples --bin login -- 127.0.0.1:3000
//! curl -i http://127.0.0.1:3000/login -d 'account=alice&password=swordfish'
//! ```

#![allow(clippy::print_stdout, reason = "it says where it listens")]

use std::error::Error;
use std::net::SocketAddr;

use axum::extract::ConnectInfo;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Form, Router};
use serde::Deserialize;
use sluicegate::{Caller, Config, Denied, Registry, limit};
use tokio::net::TcpListener;

const LIMITS: &str = r#"
limits:
  address:
    policies: ["token_bucket 60/h burst 5"]
  account:
    policies: ["sliding_log 3/5min and 8/d"]
"#;

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

#[limit("address", key = ip, refund_if = Result::is_ok)]
#[limit("account", key = "{account}")]
async fn verify(account: &str, password: &str) -> Result<(), Rejected> {
    if password == "swordfish" { Ok(()) } else { Err(Rejected::Wrong) }
}

async fn login(
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Form(attempt): Form<Attempt>,
) -> Result<&'static str, Rejected> {
    let account = attempt.account.to_lowercase();
    // Of an IPv6 address the network counts: a client has billions of addresses in it.
    let client = Caller::new().with_ip(peer.ip());
    client.scope(verify(&account, &attempt.password)).await?;
    Ok("welcome\n")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    sluicegate::install(Registry::open(&Config::parse(LIMITS, "limits.yaml")?)?);
    let router = Router::new().route("/login", post(login));

    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    Ok(axum::serve(listener, service).await?)
}
