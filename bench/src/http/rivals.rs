//! Other services that check a limit over HTTP.

use std::process::Command;

use anyhow::Result;

use super::services::post;
use crate::limitador;
use crate::rivals::{self, THROTTLECRAB};
use crate::served::Served;

/// A service with its name, and the requests that it takes.
pub struct Rival {
    pub served: Served,
    pub name: String,
    /// Makes the request about a key with a cost.
    pub request: fn(&str, u64) -> Vec<u8>,
}

/// Starts throttlecrab. Requests have the numbers of the limit.
pub fn throttlecrab() -> Result<Rival> {
    let program = rivals::throttlecrab()?;
    let served = Served::start(|address, _| {
        let mut command = Command::new(program);
        command.args(["--http", "--http-host", &address.ip().to_string()]);
        command.args(["--http-port", &address.port().to_string(), "--log-level", "warn"]);
        Ok(command)
    })?;
    let request = |key: &str, cost: u64| {
        let limit = r#""max_burst":1000000,"count_per_period":1000000,"period":1"#;
        post("/throttle", &format!(r#"{{"key":"{key}",{limit},"quantity":{cost}}}"#))
    };
    Ok(Rival { served, name: format!("throttlecrab {THROTTLECRAB}"), request })
}

/// Starts the server of Limitador. Its answers have no numbers, which makes them cheaper.
pub fn limitador() -> Result<Rival> {
    let program = limitador::program()?;
    let served = Served::start(|address, folder| {
        limitador::command(&program, folder, &["user"], None, Some(address))
    })?;
    let request = |key: &str, cost: u64| {
        let namespace = limitador::NAMESPACE;
        let body =
            format!(r#"{{"namespace":"{namespace}","values":{{"user":"{key}"}},"delta":{cost}}}"#);
        post("/check_and_report", &body)
    };
    Ok(Rival { served, name: program.version, request })
}
