//! A code by SMS: once a minute for each phone number, and five an hour. The attribute is on the
//! function that costs money, so it limits every caller.
//!
//! ```sh
//! cargo run -p sluicegate-examples --bin sms -- 127.0.0.1:3000
//! curl -i -X POST http://127.0.0.1:3000/code/+15550100
//! ```

#![allow(clippy::print_stdout, reason = "it says where it listens")]

use std::error::Error;

use axum::Router;
use axum::extract::Path;
use axum::routing::post;
use sluicegate::limit;
use sluicegate_tower::Denied;
use tokio::net::TcpListener;

/// Sends a code. The limit prevents repeated messages to a stranger.
#[limit(policies = ["fixed_window 1/min as again", "fixed_window 5/h as hour"], name = "sms", key = "{phone}")]
async fn send_code(phone: &str) -> Result<String, sluicegate::Denied> {
    Ok(format!("sent a code to {phone}\n"))
}

/// Sends a code to the phone in the path. A denial becomes the response that a middleware would send.
async fn code(Path(phone): Path<String>) -> Result<String, Denied> {
    // Use one spelling for one phone: +1 (555) 0100 is +15550100.
    let phone: String = phone.chars().filter(|c| c.is_ascii_digit() || *c == '+').collect();
    Ok(send_code(&phone).await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let router = Router::new().route("/code/{phone}", post(code));
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    Ok(axum::serve(listener, router).await?)
}
