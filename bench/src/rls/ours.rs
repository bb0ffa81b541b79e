//! Our services, and the empty one.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use prost::Message as _;
use sluicegate_envoy::service::protos::RateLimitResponse;

use super::message::{DOMAIN, ENTRIES};
use crate::program::{build, build_own};
use crate::served::{Served, free_address};

/// Starts `sluicegate serve` with a limit for each key of a descriptor, in the embedded store.
pub fn native() -> Result<Served> {
    let (mut limits, mut lines) = (String::new(), String::new());
    for (key, _) in ENTRIES {
        writeln!(limits, "  {key}: {{policies: [token_bucket 1000000/s burst 1000000]}}")?;
        writeln!(lines, "      - {{match: {{{key}: \"*\"}}, limit: {key}}}")?;
    }
    serve(&format!("limits:\n{limits}envoy:\n  domains:\n    {DOMAIN}:\n{lines}"))
}

/// Starts `sluicegate serve` with this configuration for its services over gRPC, in the embedded store.
pub fn serve(config: &str) -> Result<Served> {
    let program = build(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))?;
    Served::start(|address, folder| {
        let file = folder.join("limits.yaml");
        fs::write(&file, format!("store: \"memory:\"\n{config}"))?;
        let mut command = Command::new(program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--grpc", &address.to_string()]);
        command.arg("--config").arg(file);
        Ok(command)
    })
}

/// Starts `sluicegate envoy` with the file of [`write_rules`] and the variables of the incumbent.
pub fn envoy(redis: Option<SocketAddr>) -> Result<Served> {
    let program = build(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))?;
    Served::start(|address, folder| {
        let mut command = Command::new(program);
        command.arg("envoy");
        with_variables(&mut command, address, folder, redis)?;
        Ok(command)
    })
}

/// Starts a service that reads requests and decides nothing.
pub fn empty(answer: &RateLimitResponse) -> Result<Served> {
    let program = build_own("empty-rls")?;
    let answer: String = answer.encode_to_vec().iter().map(|byte| format!("{byte:02x}")).collect();
    Served::start(|address, _| {
        let mut command = Command::new(program);
        command.args([address.to_string(), answer]);
        Ok(command)
    })
}

/// Sets the variables of envoyproxy/ratelimit, and writes a file with a rule for each key of a descriptor.
pub fn with_variables(
    command: &mut Command,
    address: SocketAddr,
    folder: &Path,
    redis: Option<SocketAddr>,
) -> Result<()> {
    let mut rules = format!("domain: {DOMAIN}\ndescriptors:\n");
    for (key, _) in ENTRIES {
        let limit = "{unit: hour, requests_per_unit: 1000000000}";
        writeln!(rules, "  - {{key: {key}, rate_limit: {limit}}}")?;
    }
    let files = folder.join("ratelimit/config");
    fs::create_dir_all(&files)?;
    fs::write(files.join("bench.yaml"), rules)?;
    command
        .env("RUNTIME_ROOT", folder)
        .env("RUNTIME_SUBDIRECTORY", "ratelimit")
        .env("RUNTIME_WATCH_ROOT", "false")
        .env("GRPC_HOST", address.ip().to_string())
        .env("GRPC_PORT", address.port().to_string())
        .env("USE_STATSD", "false")
        .env("USE_PROMETHEUS", "true");
    for [host, port] in [["HOST", "PORT"], ["DEBUG_HOST", "DEBUG_PORT"]] {
        let other = free_address()?;
        command.env(host, other.ip().to_string()).env(port, other.port().to_string());
    }
    command.env("PROMETHEUS_ADDR", free_address()?.to_string());
    if let Some(redis) = redis {
        command
            .env("REDIS_SOCKET_TYPE", "tcp")
            .env("REDIS_TYPE", "single")
            .env("REDIS_URL", redis.to_string());
    }
    Ok(())
}
