//! The commands that a store sends or its script calls. Each is a right of the server's user.

use sluicegate_core::{Limit, Member, OpenOptions};

use crate::resp::Command;

/// A part of a configuration that needs further commands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Need {
    Decisions,
    /// Overrides at run time. Limits don't need them, so no rehearsal tries them.
    Settings,
    /// Units in flight, and waiting reservations.
    Holds,
    /// Queues of permits.
    Queues,
    /// Lists of bans.
    Lists,
    /// Decisions that replicas acknowledge.
    Replicas,
    /// A database other than the first one.
    Database,
    /// A node of a cluster.
    Cluster,
}

/// Every command, with arguments that change nothing. `SUBSCRIBE` comes last, because a connection that
/// listens takes no other commands.
///
/// It leaves out commands that every user may call (`AUTH`), and those whose refusal doesn't matter (`HELLO`,
/// `ROLE`, `INFO`, `CONFIG GET`, `CLUSTER INFO`).
const COMMANDS: [(Need, &[&str]); 38] = [
    // No server has this script: the error that it is unknown shows that the user is permitted to call it.
    (Need::Decisions, &["evalsha", "0000000000000000000000000000000000000000", "0"]),
    (Need::Decisions, &["eval", "return 1", "0"]),
    (Need::Decisions, &["time"]),
    (Need::Decisions, &["get", KEY]),
    (Need::Decisions, &["set", KEY, "", "XX"]),
    (Need::Decisions, &["getrange", KEY, "0", "0"]),
    (Need::Decisions, &["setrange", KEY, "0", ""]),
    (Need::Decisions, &["strlen", KEY]),
    (Need::Decisions, &["pexpire", KEY, "1"]),
    (Need::Decisions, &["del", KEY]),
    // The last field removed removes the key.
    (Need::Settings, &["hset", KEY, "a", ""]),
    (Need::Settings, &["hget", KEY, "a"]),
    (Need::Settings, &["hlen", KEY]),
    (Need::Settings, &["hscan", KEY, "0"]),
    (Need::Settings, &["hdel", KEY, "a"]),
    (Need::Settings, &["zadd", KEY, "XX", "0", "a"]),
    (Need::Settings, &["zrem", KEY, "a"]),
    (Need::Settings, &["zcard", KEY]),
    (Need::Settings, &["zrangebyscore", KEY, "0", "0"]),
    (Need::Settings, &["zrevrange", KEY, "0", "0"]),
    (Need::Settings, &["pexpireat", KEY, "1"]),
    (Need::Settings, &["persist", KEY]),
    (Need::Settings, &["xadd", KEY, "MAXLEN", "0", "*", "a", ""]),
    (Need::Settings, &["xrange", KEY, "-", "-"]),
    (Need::Settings, &["xrevrange", KEY, "-", "-"]),
    (Need::Holds, &["zadd", KEY, "XX", "0", "a"]),
    (Need::Holds, &["zrem", KEY, "a"]),
    (Need::Holds, &["zrangebylex", KEY, "-", "-"]),
    (Need::Holds, &["zrevrangebylex", KEY, "-", "-"]),
    (Need::Holds, &["pttl", KEY]),
    (Need::Queues, &["zlexcount", KEY, "-", "-"]),
    (Need::Lists, &["scan", "0", "COUNT", "1"]),
    (Need::Replicas, &["wait", "0", "0"]),
    (Need::Database, &["select", DATABASE]),
    (Need::Cluster, &["cluster", "slots"]),
    (Need::Cluster, &["asking"]),
    (Need::Queues, &["publish", CHANNEL, ""]),
    (Need::Queues, &["subscribe", CHANNEL]),
];

/// Placeholders in the words of a command.
const KEY: &str = "KEY";
const CHANNEL: &str = "CHANNEL";
const DATABASE: &str = "DATABASE";

/// Returns the rights to all commands of a need, as ACL rules.
pub(super) fn rules(need: Need) -> String {
    let needed = COMMANDS.iter().filter(|(for_this, _)| *for_this == need);
    needed.map(|(_, words)| rule(words)).collect::<Vec<_>>().join(" ")
}

fn rule(words: &[&str]) -> String {
    match words {
        ["cluster", part, ..] => format!("+cluster|{part}"),
        [name, ..] => format!("+{name}"),
        [] => String::new(),
    }
}

/// The needs of the limits of a store.
#[derive(Clone, Debug)]
pub(crate) struct Needs(Vec<Need>);

impl Needs {
    pub(crate) fn of(limits: &[(Limit, OpenOptions)]) -> Self {
        let mut needs = Self(vec![Need::Decisions]);
        for (limit, options) in limits {
            if limit.has_permits() {
                needs.add(Need::Holds);
            }
            if limit.members().iter().any(Member::has_queue) {
                needs.add(Need::Queues);
                needs.add(Need::Lists);
            }
            if limit.has_bans() {
                needs.add(Need::Lists);
            }
            if options.acknowledged.is_some() {
                needs.add(Need::Replicas);
            }
        }
        needs
    }

    pub(super) fn add(&mut self, need: Need) {
        if !self.0.contains(&need) {
            self.0.push(need);
        }
    }

    /// Returns each command, with these arguments, and its rule.
    pub(super) fn commands(
        &self,
        key: &str,
        channel: &str,
        database: &str,
    ) -> Vec<(Command, String)> {
        let needed = COMMANDS.iter().filter(|(need, _)| self.0.contains(need));
        let command = |words: &[&str]| {
            let filled = words.iter().map(|word| match *word {
                KEY => key.as_bytes(),
                CHANNEL => channel.as_bytes(),
                DATABASE => database.as_bytes(),
                word => word.as_bytes(),
            });
            (Command::of(&filled.collect::<Vec<_>>()), rule(words))
        };
        needed.map(|(_, words)| command(words)).collect()
    }
}
