//! Asking a running service instead of a store.

mod exchange;
mod tls;
mod url;

use std::time::Duration;

use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sluicegate::Span;
use sluicegate_core::printable;

use self::exchange::{Problem, Reply};
use super::ask::exit;
use super::lines;
use super::verb::Verb;
use crate::answer::Answer;
use crate::cli::AskArgs;
use crate::cost::AskedCost;
use crate::output::{Exit, Failure, say};

pub(crate) use url::ServiceUrl;

/// How long the service may take unless told, besides the wait that was asked for.
const PATIENCE: Span = match Span::from_millis(5_000) {
    Ok(span) => span,
    Err(_) => Span::SECOND,
};

/// Asks a service once and prints its answer.
///
/// # Errors
/// When it can't be asked, doesn't answer, or answers with an error.
pub(super) async fn ask(
    verb: Verb,
    args: &AskArgs,
    service: &ServiceUrl,
    cost: &AskedCost,
) -> Result<Exit, Failure> {
    let body = body(verb, args, cost)?;
    let token = args.admin_token.as_deref().filter(|_| verb.needs_token()).map(str::trim);
    let patience = Duration::from(args.deadline.unwrap_or(PATIENCE)) + Duration::from(verb.wait());
    let asking = exchange::post(service, verb.path(), token, body);
    let reply = match tokio::time::timeout(patience, asking).await {
        Ok(Ok(reply)) => reply,
        Ok(Err(Problem::Usage(message))) => return Err(Failure::usage(message)),
        Ok(Err(Problem::Service(message))) => {
            return Err(Failure::store(format_args!("the service at {service} {message}")));
        }
        Err(_) => {
            return Err(Failure::store(format_args!(
                "the service at {service} did not answer within {} ms, and may have charged: give \
                 it longer with --deadline",
                patience.as_millis()
            )));
        }
    };
    let Ok(answer) = serde_json::from_slice::<Answer<'_>>(&reply.body) else {
        return Err(failure(service, &reply));
    };
    if args.json {
        say(String::from_utf8_lossy(&reply.body));
    } else {
        lines::print(verb, &answer, cost);
    }
    Ok(exit(&answer))
}

/// The body of the request.
fn body(verb: Verb, args: &AskArgs, cost: &AskedCost) -> Result<Vec<u8>, Failure> {
    let key = args.key.to_str().ok_or_else(|| {
        Failure::usage("--key is not UTF-8, and a service takes text: ask the store itself")
    })?;
    let mut body = Map::from_iter([
        ("limit".to_owned(), Value::from(&*args.limit)),
        ("key".to_owned(), Value::from(key)),
    ]);
    let cost = match (cost.rest, &*cost.each) {
        (None, []) => None,
        (Some(units), []) => Some(json!(units)),
        (None, each) => {
            let each = each.iter().map(|(policy, units)| (policy.clone(), Value::from(*units)));
            Some(Map::from_iter(each).into())
        }
        (Some(_), _) => {
            return Err(Failure::usage(
                "--cost N and --cost POLICY=N don't go together with --server: write POLICY=N for \
                 each policy",
            ));
        }
    };
    body.extend(cost.map(|cost| ("cost".to_owned(), cost)));
    let id = args.request_id.as_deref().map(Value::from);
    body.extend(id.map(|id| ("request_id".to_owned(), id)));
    match verb {
        Verb::Acquire { within } => {
            body.insert("within".to_owned(), within.to_string().into());
        }
        Verb::Ban { lasts } => {
            body.insert("for".to_owned(), lasts.to_string().into());
        }
        _ => {}
    }
    Ok(Value::from(body).to_string().into_bytes())
}

/// An error as the service writes it.
#[derive(Deserialize)]
struct ErrorBody {
    error: ErrorAnswer,
}

#[derive(Deserialize)]
struct ErrorAnswer {
    message: String,
}

/// What a reply without a decision means: what is to be corrected, or that the service failed.
fn failure(service: &ServiceUrl, reply: &Reply) -> Failure {
    let message = match serde_json::from_slice::<ErrorBody>(&reply.body) {
        Ok(body) => body.error.message,
        Err(_) => "its answer is none of a Sluicegate service: look whether this is its URL".into(),
    };
    let token = match reply.status {
        StatusCode::UNAUTHORIZED => " (--admin-token or SLUICEGATE_ADMIN_TOKEN)",
        _ => "",
    };
    let message = format!(
        "the service at {service} answered {}: {}{token}",
        reply.status.as_u16(),
        printable(&message)
    );
    let is_ours = reply.status.is_client_error() && reply.status != StatusCode::REQUEST_TIMEOUT;
    if is_ours { Failure::usage(message) } else { Failure::store(message) }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};
    use crate::commands::CostArg;

    fn written(args: &[&str]) -> Result<String, Failure> {
        let args = ["sluicegate", "check", "--limit", "l", "--key", "k"].iter().chain(args);
        let Command::Check(args) = Cli::parse_from(args).command else { panic!("a check") };
        let cost = CostArg::together(&args.cost).unwrap();
        let written = body(Verb::Check, &args, &cost)?;
        Ok(String::from_utf8(written).unwrap())
    }

    #[test]
    fn costs_are_written_as_the_service_reads_them() {
        assert_eq!(written(&[]).unwrap(), r#"{"key":"k","limit":"l"}"#);
        assert_eq!(written(&["--cost", "3"]).unwrap(), r#"{"cost":3,"key":"k","limit":"l"}"#);
        let each = written(&["--cost", "a=0", "--cost", "b=2"]).unwrap();
        assert_eq!(each, r#"{"cost":{"a":0,"b":2},"key":"k","limit":"l"}"#);
        assert!(written(&["--cost", "a=0", "--cost", "2"]).is_err());
        let once = written(&["--request-id", "order-1"]).unwrap();
        assert_eq!(once, r#"{"key":"k","limit":"l","request_id":"order-1"}"#);
    }
}
