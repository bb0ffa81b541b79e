//! Finds missing rights of a user before a request needs them: [`rehearse`] sends each command that limits
//! need once, with arguments that change nothing.

use sluicegate_core::StoreErrorKind;

use super::problem::{Problem, Right, no_permission};
use super::rights::{Need, Needs};
use super::server::Server;
use crate::hold::CHANNEL;
use crate::resp::{Command, Value};

/// Checks a server on a separate connection. Returns what could not be checked.
pub(crate) async fn rehearse(
    server: &Server,
    mut needs: Needs,
    key: &str,
) -> Result<Option<String>, Problem> {
    let broken = |_| Problem::disconnected();
    let endpoint = &server.endpoint;
    if endpoint.database != 0 {
        needs.add(Need::Database);
    }
    if endpoint.is_node() {
        needs.add(Need::Cluster);
    }
    // Use the first database, so that a user without the right to another one learns of all missing rights.
    let mut in_first_database = server.clone();
    in_first_database.endpoint.database = 0;
    let mut talk = in_first_database.connect().await?;
    let info = talk.ask(&Command::of(&[b"INFO", b"memory"])).await.map_err(broken)?;
    let mut policy = policy_of(&info);
    if policy.is_none() {
        // A server may have renamed one of both commands, or permit only the other.
        let get = Command::of(&[b"CONFIG", b"GET", b"maxmemory-policy"]);
        policy = match talk.ask(&get).await.map_err(broken)? {
            Value::Array(items) => items.get(1).and_then(text).map(str::to_owned),
            _ => None,
        };
    }
    let channel = format!("{CHANNEL}config-check");
    let commands = needs.commands(key, &channel, &endpoint.database.to_string());
    let (commands, rules): (Vec<Command>, Vec<String>) = commands.into_iter().unzip();
    let replies = talk.ask_all(&commands).await.map_err(broken)?;
    let mut lacking: Vec<String> = Vec::new();
    for (reply, rule) in replies.iter().zip(rules) {
        let Value::Error(words) = reply else { continue };
        // Other errors aren't about rights: a decision will report them.
        if let Some(right) = no_permission(words) {
            let right = match right {
                // Without access to the store's keys no other right is useful.
                Right::Keys => return Err(Problem::of_command(words, endpoint)),
                Right::Channel => format!("&{CHANNEL}*"),
                Right::Command(_) => rule,
            };
            if !lacking.contains(&right) {
                lacking.push(right);
            }
        }
    }
    if !lacking.is_empty() {
        return Err(Problem::new(
            StoreErrorKind::Unexpected,
            format!(
                "does not permit this user what the limits need: grant it `{}`",
                lacking.join(" ")
            ),
        ));
    }
    match policy {
        Some(policy) if policy == "noeviction" => Ok(None),
        Some(policy) => Err(Problem::new(
            StoreErrorKind::Unexpected,
            format!(
                "forgets used units when its memory is full (`maxmemory-policy` is {}): set it to \
                 noeviction, or use a server for the limits alone",
                sluicegate_core::printable(&policy)
            ),
        )),
        None => Ok(Some(
            "its `maxmemory-policy` can't be read, because this user lacks INFO and CONFIG GET: \
             check that it is noeviction, or grant `+info` for this check"
                .to_owned(),
        )),
    }
}

/// Returns the eviction policy in the answer to INFO.
fn policy_of(info: &Value) -> Option<String> {
    let policy = text(info)?.lines().find_map(|line| line.strip_prefix("maxmemory_policy:"))?;
    Some(policy.trim().to_owned())
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::Bytes(text) | Value::Status(text) => std::str::from_utf8(text).ok(),
        _ => None,
    }
}
