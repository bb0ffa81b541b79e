//! Calls a running service instead of a store.

use std::borrow::Cow;
use std::ffi::OsStr;

use axum::http::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sluicegate::error::StoreErrorKind;
use sluicegate::store::{Operation, Span};
use sluicegate_client::{Method, RemoteStore, Reply, ServiceUrl};
use sluicegate_core::printable;

use super::terms::Terms;
use super::verb::Verb;
use super::{AskedLimit, AskedLimits, interrupt};
use crate::cli::ToArgs;
use crate::output::{Exit, Failure, say};
use sluicegate_client::json::{Answer, Explanation};

/// Default deadline of a call to the service, in addition to the requested wait.
const PATIENCE: Span = match Span::from_millis(5_000) {
    Ok(span) => span,
    Err(_) => Span::SECOND,
};

/// A call to a service.
pub(super) struct Call<'a> {
    pub(super) service: &'a ServiceUrl,
    pub(super) method: Method,
    pub(super) path: Cow<'static, str>,
    pub(super) token: Option<&'a str>,
    pub(super) body: Option<Value>,
    /// Maximum time that the service may wait before it answers.
    pub(super) wait: Span,
}

impl<'a> Call<'a> {
    /// Returns a call that reads a list.
    pub(super) fn get(service: &'a ServiceUrl, path: String, token: Option<&'a str>) -> Self {
        Self::new(Method::GET, service, path, token)
    }

    /// Returns a call without a body that doesn't wait.
    pub(super) fn new(
        method: Method,
        service: &'a ServiceUrl,
        path: impl Into<Cow<'static, str>>,
        token: Option<&'a str>,
    ) -> Self {
        Self { service, method, path: path.into(), token, body: None, wait: Span::ZERO }
    }

    /// Sets the body.
    pub(super) fn body(self, body: Value) -> Self {
        Self { body: Some(body), ..self }
    }

    /// Returns a call that doesn't wait.
    pub(super) fn post(
        service: &'a ServiceUrl,
        path: impl Into<Cow<'static, str>>,
        token: Option<&'a str>,
        body: Value,
    ) -> Self {
        Self::new(Method::POST, service, path, token).body(body)
    }

    /// Sends the call and prints the answer: as the service wrote it, or with `print`.
    ///
    /// # Errors
    /// Returns an error if the service can't be reached, doesn't answer, or answers with an error.
    pub(super) async fn tell(
        self,
        to: &ToArgs,
        print: impl FnOnce(&Answer<'_>),
    ) -> Result<Exit, Failure> {
        let service = self.service;
        let reply = self.ask(to).await?;
        show(service, &reply, to.json, print).map(|answer| Exit::of(&answer))
    }

    /// Sends a call that takes a turn, and prints the answer. If a signal interrupts the command,
    /// the turn is returned.
    ///
    /// # Errors
    /// See [`Call::tell`].
    pub(super) async fn tell_turn(
        self,
        verb: Verb,
        to: &ToArgs,
        print: impl FnOnce(&Answer<'_>),
    ) -> Result<Exit, Failure> {
        let Self { service, token, .. } = self;
        match interrupt::or_signal(verb, self.ask(to)).await? {
            Ok(reply) => show(service, &reply?, to.json, print).map(|answer| Exit::of(&answer)),
            Err(mut interrupted) => {
                let reserved = interrupted.reserved.take();
                let giving = async {
                    match reserved {
                        Some(reply) => is_cancelled(service, token, reply, to).await,
                        // The service detects that an acquire's caller has gone.
                        None => !matches!(verb, Verb::Decide(Operation::Reserve { .. })),
                    }
                };
                Ok(interrupted.give_back(giving).await)
            }
        }
    }

    /// Sends a call that explains a decision, and prints the answer.
    ///
    /// # Errors
    /// See [`Call::tell`].
    pub(super) async fn explain(
        self,
        to: &ToArgs,
        print: impl FnOnce(&Explanation<'_>),
    ) -> Result<Exit, Failure> {
        let service = self.service;
        let reply = self.ask(to).await?;
        let explanation: Explanation<'_> = show(service, &reply, to.json, print)?;
        Ok(Exit::of(&explanation.decision))
    }

    /// Sends a call for a list and prints it.
    ///
    /// # Errors
    /// See [`Call::tell`].
    pub(super) async fn list<L: DeserializeOwned>(
        self,
        to: &ToArgs,
        print: impl FnOnce(&L),
    ) -> Result<Exit, Failure> {
        let service = self.service;
        show(service, &self.ask(to).await?, to.json, print)?;
        Ok(Exit::Allowed)
    }

    /// Sends a call whose answer has no content.
    ///
    /// # Errors
    /// See [`Call::tell`].
    pub(super) async fn done(self, to: &ToArgs) -> Result<(), Failure> {
        let service = self.service;
        let reply = self.ask(to).await?;
        if reply.status.is_success() { Ok(()) } else { Err(failure(service, &reply)) }
    }

    /// Sends the call and returns the body of the answer.
    ///
    /// # Errors
    /// See [`Call::tell`].
    pub(super) async fn read(self, deadline: Option<Span>) -> Result<Vec<u8>, Failure> {
        let service = self.service;
        let reply = self.send(deadline.unwrap_or(PATIENCE)).await?;
        if reply.status == StatusCode::OK {
            Ok(reply.body.into())
        } else {
            Err(failure(service, &reply))
        }
    }

    async fn ask(self, to: &ToArgs) -> Result<Reply, Failure> {
        self.send(to.deadline.unwrap_or(PATIENCE)).await
    }

    async fn send(self, deadline: Span) -> Result<Reply, Failure> {
        let Self { service, method, path, token, body, wait } = self;
        let store = RemoteStore::at(service.clone()).deadline(deadline.into());
        let store = token.map_or(store.clone(), |token| store.token(token)).build();
        let body = body.map(|body| body.to_string().into_bytes());
        // A call that only reads charges nothing.
        let may_charge = if method == Method::GET { "" } else { ", and may have charged" };
        store.exchange(method, &path, body, wait.into()).await.map_err(|error| match error.kind() {
            StoreErrorKind::Timeout => Failure::store(format_args!(
                "the service at {service} did not answer within {} ms{may_charge}: give it longer with --deadline",
                deadline.as_millis_ceil() + wait.as_millis_ceil(),
            )),
            _ => Failure::store(error),
        })
    }
}

/// Prints a service's answer and returns it.
fn show<'a, T: Deserialize<'a>>(
    service: &ServiceUrl,
    reply: &'a Reply,
    is_json: bool,
    print: impl FnOnce(&T),
) -> Result<T, Failure> {
    let said = serde_json::from_slice(&reply.body).map_err(|_| failure(service, reply))?;
    if is_json {
        say(String::from_utf8_lossy(&reply.body));
    } else {
        print(&said);
    }
    Ok(said)
}

/// Cancels a reservation at a service. Returns whether no units remain reserved.
async fn is_cancelled(
    service: &ServiceUrl,
    token: Option<&str>,
    reply: Result<Reply, Failure>,
    to: &ToArgs,
) -> bool {
    let Ok(reply) = reply else { return false };
    let Ok(answer) = serde_json::from_slice::<Answer<'_>>(&reply.body) else {
        return reply.status.is_client_error();
    };
    let Some(held) = answer.hold else { return true };
    let cancel = Call::post(service, "/v1/cancel", token, json!({"hold": held.token}));
    cancel.ask(to).await.is_ok_and(|reply| reply.status.is_success())
}

/// Returns the body of a request to limits.
pub(super) fn body(verb: Verb, terms: &Terms, asked: &AskedLimits) -> Result<Value, Failure> {
    let mut body = match &*asked.entries {
        [one] => entry(one)?,
        several => {
            let entries: Result<Value, Failure> = several.iter().map(entry).collect();
            json!({"limits": entries?})
        }
    };
    if let Some(within) = verb.within() {
        body["within"] = within.to_string().into();
    }
    if let Some(priority) = verb.priority() {
        body["priority"] = priority.into();
    }
    if let Verb::Decide(Operation::Ban { lasts } | Operation::Pause { lasts, .. }) = verb {
        body["for"] = lasts.to_string().into();
    }
    if let Some(policy) = &terms.policy {
        body["policy"] = policy.as_str().into();
    }
    if let Some(hold) = terms.hold {
        body["hold"] = hold.to_string().into();
    }
    if let Some(id) = &terms.request_id {
        body["request_id"] = id.as_str().into();
    }
    Ok(body)
}

/// Encodes one limit with its key and cost.
fn entry(AskedLimit { limit, key, cost }: &AskedLimit) -> Result<Value, Failure> {
    let mut entry = json!({"limit": limit, "key": key_text(key)?});
    match (cost.rest, &*cost.each) {
        (None, []) => {}
        (Some(units), []) => entry["cost"] = units.into(),
        (None, each) => entry["cost"] = each.iter().cloned().collect(),
        (Some(_), _) => {
            return Err(Failure::usage(
                "--cost N and --cost POLICY=N don't go together with --server: write POLICY=N for \
                 each policy",
            ));
        }
    }
    Ok(entry)
}

/// Returns the failure of an answer that can't be read.
pub(super) fn foreign(service: &ServiceUrl) -> Failure {
    Failure::store(format_args!(
        "the service at {service} doesn't answer as a Sluicegate service does: check the URL"
    ))
}

/// Returns a key as text, which a service requires.
pub(super) fn key_text(key: &OsStr) -> Result<&str, Failure> {
    key.to_str().ok_or_else(|| {
        Failure::usage("--key is not UTF-8, but a service takes only text: use --store or --config instead of --server")
    })
}

/// Converts a reply without a decision to an error of the user or of the service.
fn failure(service: &ServiceUrl, reply: &Reply) -> Failure {
    let error = reply.error();
    if let Some(error) = &error
        && ["hold_expired", "no_override"].contains(&&*error.code)
    {
        return Failure::denied(printable(&error.message));
    }
    let message = error
        .as_ref()
        .map_or("it doesn't answer as a Sluicegate service does: check the URL", |error| {
            &error.message
        });
    let token = match reply.status {
        StatusCode::UNAUTHORIZED => {
            " (SLUICEGATE_ADMIN_TOKEN, --admin-token-file or --admin-token)"
        }
        _ => "",
    };
    let message = format!(
        "the service at {service} answered {}: {}{token}",
        reply.status.as_u16(),
        // A message may show the place in a text.
        message.lines().map(printable).collect::<Vec<_>>().join("\n")
    );
    let is_ours = reply.status.is_client_error() && reply.status != StatusCode::REQUEST_TIMEOUT;
    if is_ours { Failure::usage(message) } else { Failure::store(message) }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command, HeldArgs, TakeArgs};

    fn written(args: &[&str]) -> Result<String, Failure> {
        let args = ["sluicegate", "check", "--limit", "l", "--key", "k"].iter().chain(args);
        let Command::Check(args) = Cli::parse_from(args).command else { panic!("a check") };
        let TakeArgs { held: HeldArgs { ask, hold }, request_id } = args;
        Ok(body(
            Verb::Decide(Operation::Check),
            &Terms { hold, request_id, ..Terms::default() },
            &ask.asked,
        )?
        .to_string())
    }

    #[test]
    fn costs_are_written_as_the_service_reads_them() {
        assert_eq!(written(&[]).unwrap(), r#"{"key":"k","limit":"l"}"#);
        assert_eq!(written(&["--cost", "3"]).unwrap(), r#"{"cost":3,"key":"k","limit":"l"}"#);
        let each = written(&["--cost", "a=0", "--cost", "b=2"]).unwrap();
        assert_eq!(each, r#"{"cost":{"a":0,"b":2},"key":"k","limit":"l"}"#);
        assert!(written(&["--cost", "a=0", "--cost", "2"]).is_err());
        let held = written(&["--hold", "30s"]).unwrap();
        assert_eq!(held, r#"{"hold":"30s","key":"k","limit":"l"}"#);
        let once = written(&["--request-id", "order-1"]).unwrap();
        assert_eq!(once, r#"{"key":"k","limit":"l","request_id":"order-1"}"#);
        let two = ["--limit", "m", "--key", "j", "--cost", "2", "--request-id", "a"];
        assert_eq!(
            written(&two).unwrap(),
            r#"{"limits":[{"key":"k","limit":"l"},{"cost":2,"key":"j","limit":"m"}],"request_id":"a"}"#
        );
    }
}
