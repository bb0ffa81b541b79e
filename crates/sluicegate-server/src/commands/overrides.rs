//! `override`: sets, prints, ends and lists overrides at run time, in the store or at a service.

use std::ffi::OsStr;

use serde::Serialize;
use serde_json::{Value, json};
use sluicegate::admin::{NewOverride, OverrideTo, Overrides, OverridesError};
use sluicegate_client::json::{self as form, AuditList, OverrideEntry, OverrideList};
use sluicegate_client::{Method, ServiceUrl};
use sluicegate_core::printable;

use super::lines;
use super::remote::{Call, key_text};
use super::setup::{OnFreshStore, open};
use crate::cli::{
    AuditArgs, OverrideCommand, OverrideListArgs, OverrideOfArgs, OverrideSetArgs, PageArgs,
    SaidArgs, ToArgs,
};
use crate::http::override_json::{audit_entry, entry, page_of};
use crate::http::percent::{bytes_of, percent_encoded};
use crate::output::{Exit, Failure, say};

/// Runs a command for overrides.
///
/// # Errors
/// Returns an error if the arguments are invalid, the store failed, or there is no such override.
pub(crate) async fn overrides(command: OverrideCommand) -> Result<Exit, Failure> {
    match command {
        OverrideCommand::Audit(args) => audit(args).await,
        OverrideCommand::Clear(args) => clear(args).await,
        OverrideCommand::Get(args) => get(args).await,
        OverrideCommand::List(args) => list(args).await,
        OverrideCommand::Set(args) => set(args).await,
    }
}

async fn set(args: OverrideSetArgs) -> Result<Exit, Failure> {
    let OverrideSetArgs { of, said, lasts, note } = args;
    let OverrideOfArgs { limit, key, to, admin_token } = of;
    if let Some(service) = &to.server {
        let mut body = match said {
            SaidArgs { times: Some(times), .. } => json!({"times": number(&times.to_string())}),
            SaidArgs { allow: true, .. } => json!({"allow": true}),
            SaidArgs { block: true, .. } => json!({"block": true}),
            SaidArgs { policies, .. } => {
                let specs = policies.iter().map(ToString::to_string);
                json!({"policies": specs.collect::<Vec<_>>()})
            }
        };
        if let Some(lasts) = lasts {
            body["for"] = lasts.to_string().into();
        }
        if let Some(note) = note {
            body["note"] = note.into();
        }
        let token = admin_token.read()?;
        let call = call(Method::PUT, service, (&limit, key.as_deref()), token.as_deref())?;
        return call.body(body).list(&to, |set: &OverrideEntry<'_>| say(line_of(set))).await;
    }
    let said = match said {
        SaidArgs { times: Some(times), .. } => OverrideTo::Times(times),
        SaidArgs { allow: true, .. } => OverrideTo::Allow,
        SaidArgs { block: true, .. } => OverrideTo::Block,
        SaidArgs { policies, .. } => OverrideTo::Policies(policies),
    };
    let mut new = NewOverride::new(said);
    if let Some(lasts) = lasts {
        new = new.lasts(lasts.into());
    }
    if let Some(note) = note {
        new = new.note(note);
    }
    let overrides = opened(&to)?;
    let set = overrides.set(&limit, bytes(key.as_deref()), &new).await.map_err(|it| failed(&it))?;
    tell(&to, &entry(&limit, &set, is_durable(&overrides)), |set| vec![line_of(set)])
}

async fn get(args: OverrideOfArgs) -> Result<Exit, Failure> {
    let OverrideOfArgs { limit, key, to, admin_token } = args;
    if let Some(service) = &to.server {
        let token = admin_token.read()?;
        let call = call(Method::GET, service, (&limit, key.as_deref()), token.as_deref())?;
        return call.list(&to, |found: &OverrideEntry<'_>| say(line_of(found))).await;
    }
    let overrides = opened(&to)?;
    let found = overrides.get(&limit, bytes(key.as_deref())).await.map_err(|it| failed(&it))?;
    let found = found.ok_or_else(none)?;
    tell(&to, &entry(&limit, &found, is_durable(&overrides)), |found| vec![line_of(found)])
}

async fn clear(args: OverrideOfArgs) -> Result<Exit, Failure> {
    let OverrideOfArgs { limit, key, to, admin_token } = args;
    if let Some(service) = &to.server {
        let token = admin_token.read()?;
        let call = call(Method::DELETE, service, (&limit, key.as_deref()), token.as_deref())?;
        call.done(&to).await?;
    } else {
        let cleared = opened(&to)?.clear(&limit, bytes(key.as_deref()), None).await;
        if !cleared.map_err(|it| failed(&it))? {
            return Err(none());
        }
    }
    tell(&to, &json!({"cleared": true}), |_| vec!["cleared".to_owned()])
}

async fn list(args: OverrideListArgs) -> Result<Exit, Failure> {
    let OverrideListArgs { limit, page: PageArgs { after, count }, to, admin_token } = args;
    if let Some(service) = &to.server {
        let token = admin_token.read()?;
        let limit = percent_encoded(limit.as_bytes());
        let path = format!("/v1/limits/{limit}/overrides?{}", query(after.as_deref(), count));
        let call = Call::get(service, path, token.as_deref());
        return call
            .list(&to, |list: &OverrideList<'_>| list_lines(list).into_iter().for_each(say))
            .await;
    }
    let overrides = opened(&to)?;
    let after = after.as_deref().map(bytes_of).transpose();
    let after = after.map_err(|why| Failure::usage(format_args!("--after: {why}")))?;
    let count = usize::from(count);
    let mut found =
        overrides.list(&limit, after.as_deref(), count + 1).await.map_err(|it| failed(&it))?;
    let whole = overrides.known_of(&limit, None);
    let list = page_of(&limit, whole.as_ref(), &mut found, count, is_durable(&overrides));
    tell(&to, &list, list_lines)
}

async fn audit(args: AuditArgs) -> Result<Exit, Failure> {
    let AuditArgs { page: PageArgs { after, count }, to, admin_token } = args;
    if let Some(service) = &to.server {
        let token = admin_token.read()?;
        let path = format!("/v1/audit?{}", query(after.as_deref(), count));
        let call = Call::get(service, path, token.as_deref());
        return call
            .list(&to, |list: &AuditList<'_>| audit_lines(list).into_iter().for_each(say))
            .await;
    }
    let overrides = opened(&to)?;
    let changes =
        overrides.audit(after.as_deref(), count.into()).await.map_err(|it| failed(&it))?;
    let next = changes.last().filter(|_| changes.len() == usize::from(count));
    let list = AuditList {
        audit: changes.iter().map(audit_entry).collect(),
        next: next.map(|last| last.place.as_str().into()),
    };
    tell(&to, &list, audit_lines)
}

fn opened(to: &ToArgs) -> Result<Overrides, Failure> {
    let (registry, _) = open(to, OnFreshStore::Refuses)?;
    Ok(registry.overrides())
}

/// Returns a call about the override of a key, or of a whole limit.
fn call<'a>(
    method: Method,
    service: &'a ServiceUrl,
    (limit, key): (&str, Option<&OsStr>),
    token: Option<&'a str>,
) -> Result<Call<'a>, Failure> {
    let limit = percent_encoded(limit.as_bytes());
    let path = match key.map(key_text).transpose()? {
        Some(key) => format!("/v1/limits/{limit}/overrides/{}", percent_encoded(key.as_bytes())),
        None => format!("/v1/limits/{limit}/override"),
    };
    Ok(Call::new(method, service, path, token))
}

fn query(after: Option<&str>, count: u16) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(after.map(|after| ("after", after)));
    query.append_pair("count", &count.to_string());
    query.finish()
}

fn bytes(key: Option<&OsStr>) -> Option<&[u8]> {
    key.map(OsStr::as_encoded_bytes)
}

/// Returns a decimal number as JSON has it.
fn number(digits: &str) -> Value {
    digits.parse::<serde_json::Number>().map_or(Value::Null, Value::Number)
}

fn is_durable(overrides: &Overrides) -> bool {
    overrides.outlast_the_process() == Some(true)
}

fn none() -> Failure {
    Failure::denied("there is no such override: it ended, was cleared, or was never set")
}

fn failed(error: &OverridesError) -> Failure {
    match error {
        OverridesError::Store(error) => Failure::store(error),
        error => Failure::usage(error),
    }
}

fn tell<T: Serialize>(
    to: &ToArgs,
    answer: &T,
    lines: impl FnOnce(&T) -> Vec<String>,
) -> Result<Exit, Failure> {
    if to.json {
        say(serde_json::to_string(answer).map_err(Failure::usage)?);
    } else {
        lines(answer).into_iter().for_each(say);
    }
    Ok(Exit::Allowed)
}

fn list_lines(list: &OverrideList<'_>) -> Vec<String> {
    let mut lines: Vec<String> = list.whole.iter().chain(&list.overrides).map(line_of).collect();
    if lines.is_empty() {
        lines.push("neither the limit nor a key has an override".to_owned());
    }
    lines.extend(more(list.next.as_deref()));
    lines
}

fn audit_lines(list: &AuditList<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for change in &list.audit {
        let or_none = |to: &Option<form::OverrideTo>| {
            to.as_ref().map_or_else(|| "no override".to_owned(), words)
        };
        let subject = subject(&change.limit, change.key.as_deref(), change.key_bytes.as_deref());
        let by = change.by.as_deref().unwrap_or("somebody without credentials");
        let mut line = format!(
            "{}  {}  {subject}  {} -> {}",
            printable(&change.at),
            printable(by),
            or_none(&change.from),
            or_none(&change.to)
        );
        if let Some(lasts) = change.lasts_ms {
            line.push_str(&format!(" for {}", lines::words(lasts.saturating_mul(1_000))));
        }
        if let Some(note) = &change.note {
            line.push_str(&format!("  {}", printable(note)));
        }
        lines.push(line);
    }
    if list.audit.is_empty() && list.next.is_none() {
        lines.push("no override was changed".to_owned());
    }
    lines.extend(more(list.next.as_deref()));
    lines
}

fn line_of(entry: &OverrideEntry<'_>) -> String {
    let subject = subject(&entry.limit, entry.key.as_deref(), entry.key_bytes.as_deref());
    let mut line = format!("{subject}  {}", words(&entry.to));
    match entry.ends_in_us {
        Some(ends_in) => line.push_str(&format!("  ends in {}", lines::words(ends_in))),
        None if entry.durable => line.push_str("  without an end"),
        None => line.push_str("  until the process ends"),
    }
    if let Some(by) = &entry.by {
        line.push_str(&format!("  by {}", printable(by)));
    }
    if let Some(note) = &entry.note {
        line.push_str(&format!("  {}", printable(note)));
    }
    if let Some(problem) = &entry.problem {
        line.push_str(&format!("  not in force: {}", printable(problem)));
    }
    line
}

fn subject(limit: &str, key: Option<&str>, key_bytes: Option<&str>) -> String {
    let of = match (key, key_bytes) {
        (None, None) => "the whole limit".to_owned(),
        _ => lines::key(key, key_bytes),
    };
    format!("{}  {of}", printable(limit))
}

fn words(to: &form::OverrideTo) -> String {
    match to {
        form::OverrideTo { policies: Some(policies), .. } => {
            let specs = policies.iter().map(|spec| printable(spec).to_string());
            specs.collect::<Vec<_>>().join(", ")
        }
        form::OverrideTo { times: Some(times), .. } => format!("times {times}"),
        form::OverrideTo { allow: true, .. } => "allow".to_owned(),
        _ => "block".to_owned(),
    }
}

fn more(next: Option<&str>) -> Option<String> {
    Some(format!("more     --after {}", printable(next?)))
}
