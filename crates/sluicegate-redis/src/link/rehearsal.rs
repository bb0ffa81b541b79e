//! Finds out what a user lacks before a request needs it: each command that limits need is sent once,
//! with arguments that change nothing.

use sluicegate_core::{Limit, Member, StoreErrorKind};

use super::contact;
use super::endpoint::Endpoint;
use super::listener::CHANNEL;
use super::problem::{Problem, Right, no_permission};
use crate::resp::{Command, Value};

/// What the limits of a store need of its server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Needs {
    /// Units in flight.
    holds: bool,
    /// Queues of permits.
    queues: bool,
    /// Bans that a limit makes by itself, of which there are lists.
    bans: bool,
}

impl Needs {
    pub(crate) fn of(limits: &[Limit]) -> Self {
        Self {
            holds: limits.iter().any(Limit::has_permits),
            queues: limits.iter().flat_map(Limit::members).any(Member::has_queue),
            bans: limits.iter().any(Limit::has_bans),
        }
    }

    /// Each command with arguments that change nothing, and the right to it.
    fn commands(self, key: &str) -> Vec<(Command, String)> {
        let mut commands: Vec<&[&str]> = vec![
            // A script that no server has: that it is unknown shows that it may be called.
            &["evalsha", "0000000000000000000000000000000000000000", "0"],
            &["eval", "return 1", "0"],
            &["time"],
            &["get", KEY],
            &["set", KEY, "", "XX"],
            &["getrange", KEY, "0", "0"],
            &["setrange", KEY, "0", ""],
            &["strlen", KEY],
            &["pexpire", KEY, "1"],
            &["del", KEY],
        ];
        if self.holds {
            commands.extend([
                &["zadd", KEY, "XX", "0", "a"][..],
                &["zrem", KEY, "a"],
                &["zrangebylex", KEY, "-", "-"],
                &["zrevrangebylex", KEY, "-", "-"],
                &["pttl", KEY],
            ]);
        }
        if self.queues {
            commands.push(&["zlexcount", KEY, "-", "-"]);
        }
        if self.queues || self.bans {
            commands.push(&["scan", "0", "COUNT", "1"]);
        }
        let mut commands: Vec<(Command, String)> = commands
            .into_iter()
            .map(|words| {
                let name = words.first().copied().unwrap_or_default();
                let words = words.iter().map(|word| if *word == KEY { key } else { *word });
                let words: Vec<&[u8]> = words.map(str::as_bytes).collect();
                (Command::of(&words), name.to_owned())
            })
            .collect();
        if self.queues {
            let channel = format!("{CHANNEL}config-check");
            let publish = Command::of(&[b"publish", channel.as_bytes(), b""]);
            commands.push((publish, "publish".to_owned()));
            // The last one: a connection that listens takes no other commands.
            let subscribe = Command::of(&[b"subscribe", channel.as_bytes()]);
            commands.push((subscribe, "subscribe".to_owned()));
        }
        commands
    }
}

/// The place of a key among the words of a command.
const KEY: &str = "KEY";

/// Asks a server for all of it, on a connection of its own. Returns what could not be found out.
pub(crate) async fn rehearse(
    endpoint: &Endpoint,
    needs: Needs,
    key: &str,
) -> Result<Option<String>, Problem> {
    let broken = |_| Problem::disconnected();
    let mut talk = contact::connect(endpoint).await?;
    let info = talk.ask(&Command::of(&[b"INFO", b"memory"])).await.map_err(broken)?;
    let mut policy = policy_of(&info);
    if policy.is_none() {
        // A server may have another name for one of both, or permit only the other.
        let get = Command::of(&[b"CONFIG", b"GET", b"maxmemory-policy"]);
        policy = match talk.ask(&get).await.map_err(broken)? {
            Value::Array(items) => items.get(1).and_then(text).map(str::to_owned),
            _ => None,
        };
    }
    let (commands, names): (Vec<Command>, Vec<String>) = needs.commands(key).into_iter().unzip();
    let replies = talk.ask_all(&commands).await.map_err(broken)?;
    let mut lacking: Vec<String> = Vec::new();
    for (reply, name) in replies.iter().zip(&names) {
        let Value::Error(words) = reply else { continue };
        // Any other error isn't about a right: a decision says what is wrong.
        if let Some(right) = no_permission(words) {
            let right = match right {
                // Without our keys nothing else is of use.
                Right::Keys => return Err(Problem::of_command(words, endpoint)),
                Right::Channel => format!("&{CHANNEL}*"),
                Right::Command(_) => format!("+{name}"),
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
                "forgets what was used when its memory is full, because its `maxmemory-policy` is {}: set \
                 it to noeviction, or give the limits a server of their own",
                sluicegate_core::printable(&policy)
            ),
        )),
        None => Ok(Some(
            "its `maxmemory-policy` can't be seen, because this user may use neither INFO nor CONFIG GET: \
             make sure that it is noeviction, or grant `+info` for this check"
                .to_owned(),
        )),
    }
}

/// The eviction policy in what INFO says.
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
