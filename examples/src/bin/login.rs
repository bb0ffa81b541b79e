//! A login form with axum. An attempt takes from the budget of the address and from that of the
//! account, in one decision: whoever is refused by one of them takes nothing from the other. So an
//! address that has used up its own attempts can't use up those of further accounts.
//!
//! ```sh
//! cargo run -p sluicegate-examples --bin login -- 127.0.0.1:3000
//! curl -i http://127.0.0.1:3000/login -d 'account=alice&password=swordfish'
//! ```

#![allow(clippy::print_stdout, reason = "it says where it listens")]

use std::error::Error;
use std::net::SocketAddr;

use axum::extract::{ConnectInfo, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Form, Router};
use serde::Deserialize;
use sluicegate::http::Key;
use sluicegate::{Ask, Caller, Config, Denied, Gate, Registry};
use tokio::net::TcpListener;

const LIMITS: &str = r#"
limits:
  address:
    policies: ["token_bucket 30/min burst 4"]
  account:
    policies: ["fixed_window 3/h"]
"#;

#[derive(Deserialize)]
struct Attempt {
    account: String,
    password: String,
}

async fn login(
    State(limits): State<Gate>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Form(attempt): Form<Attempt>,
) -> Result<Response, sluicegate_tower::Denied> {
    // Of an IPv6 address the network counts: a client has billions of addresses in it.
    let client = Caller::new().with_ip(peer.ip()).ip();
    let address = client.as_ref().map_or_else(Ask::nothing, Ask::from_key);
    let account = Key::new(attempt.account.to_lowercase());
    let ask = address.and(Ask::from_key(&account));

    let answer = limits.check(ask).await;
    let answer = answer.map_err(|error| Denied::failed(limits.name(), error));
    let _ = answer.and_then(Denied::unless_allowed)?;
    if attempt.password == "swordfish" {
        Ok("welcome\n".into_response())
    } else {
        Ok((StatusCode::UNAUTHORIZED, "wrong account or password\n").into_response())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let registry = Registry::open(&Config::parse(LIMITS, "limits.yaml")?)?;
    let limits = registry.gate("address").and(registry.gate("account"))?;
    let router = Router::new().route("/login", post(login)).with_state(limits);

    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    Ok(axum::serve(listener, service).await?)
}
