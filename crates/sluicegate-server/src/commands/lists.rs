//! `holders`, `revoke`, `bans` and `keys`: lists holds, ends them manually, and lists keys.

use serde::Serialize;
use serde_json::json;
use sluicegate::Gate;
use sluicegate::admin::{Cursor, Page};
use sluicegate::decision::HoldFound;
use sluicegate_core::printable;

use super::ask::{failure, note, unknown};
use super::remote::key_text;
use super::setup::{OnFreshStore, open};
use super::{lines, remote};
use crate::cli::{HoldersArgs, KeysArgs, ListArgs, RevokeArgs, ToArgs};
use crate::output::{Exit, Failure, counted, say};
use sluicegate_client::json::Answer;
use sluicegate_client::json::{BanList, HolderList, KeyEntry, KeyList};

/// Lists the holders of a key, in the store or at a service.
///
/// # Errors
/// Returns an error if the arguments are invalid or the store failed.
pub(crate) async fn holders(args: HoldersArgs) -> Result<Exit, Failure> {
    let HoldersArgs { of: ListArgs { limit, after, count, to, admin_token }, key } = args;
    let text = key.to_string_lossy();
    if let Some(service) = &to.server {
        let path = format!("/v1/holders?{}", query(&limit, Some(key_text(&key)?), &after, count));
        let token = admin_token.read()?;
        let call = remote::Call::get(service, path, token.as_deref());
        return call.list(&to, |list: &HolderList<'_>| say_all(holder_lines(list))).await;
    }
    let gate = gate(&limit, &to)?;
    let page = page(count, after.as_ref())?;
    let holders = gate.holders(key.as_encoded_bytes(), page).await.map_err(|it| failure(&it))?;
    tell(&to, &HolderList::new(&limit, text, &holders), holder_lines)
}

/// Ends a request's hold, in the store or at a service.
///
/// # Errors
/// Returns an error if the arguments are invalid, the store failed, or there is no such hold.
pub(crate) async fn revoke(args: RevokeArgs) -> Result<Exit, Failure> {
    let RevokeArgs { limit, key, hold, to, admin_token } = args;
    if let Some(service) = &to.server {
        let token = admin_token.read()?;
        let body = json!({"limit": limit, "key": key_text(&key)?, "hold": hold.to_string()});
        let call = remote::Call::post(service, "/v1/revoke", token.as_deref(), body);
        return call.tell(&to, lines::print_ended).await;
    }
    let gate = gate(&limit, &to)?;
    let decision = gate.revoke(key.as_encoded_bytes(), hold).await.map_err(|it| failure(&it))?;
    note(&decision);
    if decision.hold_found() == Some(HoldFound::Unknown) {
        return Err(Failure::denied(
            "the key has no hold with this id: it expired, was released, or the key was reset",
        ));
    }
    let answer = Answer::new(&limit, &decision);
    if to.json {
        say(serde_json::to_string(&answer).map_err(Failure::usage)?);
    } else {
        lines::print_ended(&answer);
    }
    Ok(Exit::of(&answer))
}

/// Lists the keys that a limit bans, in the store or at a service.
///
/// # Errors
/// Returns an error if the arguments are invalid or the store failed.
pub(crate) async fn bans(args: ListArgs) -> Result<Exit, Failure> {
    let ListArgs { limit, after, count, to, admin_token } = args;
    if let Some(service) = &to.server {
        let path = format!("/v1/bans?{}", query(&limit, None, &after, count));
        let token = admin_token.read()?;
        let call = remote::Call::get(service, path, token.as_deref());
        return call.list(&to, |list: &BanList<'_>| say_all(ban_lines(list))).await;
    }
    let gate = gate(&limit, &to)?;
    let banned = gate.bans(page(count, after.as_ref())?).await.map_err(|it| failure(&it))?;
    tell(&to, &BanList::new(&limit, &banned), ban_lines)
}

/// Lists the keys that have a stored state under a limit, in the store or at a service.
///
/// # Errors
/// Returns an error if the arguments are invalid, the store failed, or it has no such list.
pub(crate) async fn keys(args: KeysArgs) -> Result<Exit, Failure> {
    let KeysArgs { of: ListArgs { limit, after, count, to, admin_token }, prefix } = args;
    if let Some(service) = &to.server {
        let mut path = format!("/v1/keys?{}", query(&limit, None, &after, count));
        if let Some(prefix) = &prefix {
            let mut query = form_urlencoded::Serializer::new(String::new());
            query.append_pair("prefix", key_text(prefix)?);
            path = format!("{path}&{}", query.finish());
        }
        let token = admin_token.read()?;
        let call = remote::Call::get(service, path, token.as_deref());
        return call.list(&to, |list: &KeyList<'_>| say_all(key_lines(list))).await;
    }
    let gate = gate(&limit, &to)?;
    let prefix = prefix.unwrap_or_default();
    let page = page(count, after.as_ref())?;
    let keys =
        gate.stored_keys(prefix.as_encoded_bytes(), page).await.map_err(|it| failure(&it))?;
    tell(&to, &KeyList::new(&limit, &keys), key_lines)
}

fn gate(limit: &str, to: &ToArgs) -> Result<Gate, Failure> {
    let (registry, config) = open(to, OnFreshStore::Refuses)?;
    registry.find(limit).ok_or_else(|| unknown(limit, &config))
}

fn page(count: Option<u64>, after: Option<&Cursor>) -> Result<Page<'_>, Failure> {
    let page = count.map_or_else(|| Ok(Page::first()), Page::of).map_err(Failure::usage)?;
    Ok(after.map_or(page, |after| page.after(after)))
}

/// Returns the query for a page of a service's list.
fn query(limit: &str, key: Option<&str>, after: &Option<Cursor>, count: Option<u64>) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("limit", limit);
    query.extend_pairs(key.map(|key| ("key", key)));
    query.extend_pairs(after.as_ref().map(|after| ("after", after.to_string())));
    query.extend_pairs(count.map(|count| ("count", count.to_string())));
    query.finish()
}

fn tell<L: Serialize>(
    to: &ToArgs,
    list: &L,
    lines: impl FnOnce(&L) -> Vec<String>,
) -> Result<Exit, Failure> {
    if to.json {
        say(serde_json::to_string(list).map_err(Failure::usage)?);
    } else {
        say_all(lines(list));
    }
    Ok(Exit::Allowed)
}

fn say_all(lines: Vec<String>) {
    lines.into_iter().for_each(say);
}

fn holder_lines(list: &HolderList<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for holder in &list.holders {
        let units = holder.units.iter();
        let units: Vec<String> =
            units.map(|(policy, units)| format!("{} {units}", printable(policy))).collect();
        let ends = lines::words(holder.ends_in_us);
        let id = holder.hold.as_deref().unwrap_or("a hold without its id");
        lines.push(format!("{}  ends in {ends}  {}", printable(id), units.join(", ")));
    }
    if list.holders.is_empty() {
        lines.push("nothing in flight".to_owned());
    }
    if list.waiting > 0 {
        lines.push(format!("{} waiting", counted(list.waiting, "request")));
    }
    lines.extend(more(list.next.as_deref()));
    lines
}

fn ban_lines(list: &BanList<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for ban in &list.bans {
        lines.push(format!(
            "banned   {}  for {}, since {}",
            key_words(&ban.key),
            lines::words(ban.ends_in_us),
            lines::words(ban.since_us)
        ));
    }
    if list.bans.is_empty() && list.next.is_none() {
        lines.push("nobody is banned".to_owned());
    }
    lines.extend(more(list.next.as_deref()));
    lines
}

fn key_lines(list: &KeyList<'_>) -> Vec<String> {
    let mut lines: Vec<_> = list.keys.iter().map(key_words).collect();
    if list.keys.is_empty() && list.next.is_none() {
        lines.push("no key has a state".to_owned());
    }
    lines.extend(more(list.next.as_deref()));
    lines
}

/// Describes a key for people.
fn key_words(entry: &KeyEntry<'_>) -> String {
    match &entry.key_hash {
        Some(hash) => format!("a long key with the hash {}", printable(hash)),
        None => lines::key(entry.key.as_deref(), entry.key_bytes.as_deref()),
    }
}

/// Describes how to get the next page.
fn more(next: Option<&str>) -> Option<String> {
    Some(format!("more     --after {}", printable(next?)))
}
