//! What is wrong with a server, from what it says: which words are the user's to read, and what to
//! change.
//!
//! A server repeats what it was sent in some of its errors, and keys are personal data: the words
//! of a server end before a subject could begin, and no error keeps them as its cause.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use sluicegate_core::{StoreErrorKind, printable};

use super::endpoint::Endpoint;

/// What is wrong with the server, as the end of a sentence that names it.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) kind: StoreErrorKind,
    pub(super) text: Cow<'static, str>,
    /// What broke on the way; never what a server said.
    pub(super) cause: Option<Arc<io::Error>>,
}

impl Problem {
    pub(super) fn new(kind: StoreErrorKind, text: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, text: text.into(), cause: None }
    }

    /// Nothing was charged, now or whenever the server is asked again.
    pub(super) fn unavailable(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StoreErrorKind::Unavailable, text)
    }

    /// Of an error that answers a command.
    pub(super) fn of_command(words: &[u8], endpoint: &Endpoint) -> Self {
        let words = Words::of(words);
        Self::known(&words, endpoint).unwrap_or_else(|| {
            Self::new(
                StoreErrorKind::Unexpected,
                format!("refused the command: {}", shown(words.all)),
            )
        })
    }

    /// Of an error that answers our first words.
    pub(super) fn of_connection(words: &[u8], endpoint: &Endpoint) -> Self {
        let words = Words::of(words);
        Self::known(&words, endpoint).unwrap_or_else(|| {
            if words.all.contains("unknown command") {
                let text = "is older than Redis 6.2, the oldest version that works";
                return Self::new(StoreErrorKind::Unexpected, text);
            }
            Self::of_greeting(words.all)
        })
    }

    /// Of a server that takes no connection.
    pub(super) fn unreachable(error: io::Error) -> Self {
        Self::unavailable("can't be reached; nothing was charged").because(error)
    }

    /// Of something that is no Redis server.
    pub(super) fn no_protocol() -> Self {
        Self::new(StoreErrorKind::Unexpected, "does not speak the Redis protocol")
    }

    /// Of a connection that ended while a call was outstanding.
    pub(super) fn disconnected() -> Self {
        Self::new(
            StoreErrorKind::Disconnected,
            "broke the connection before it answered; whether it charged is unknown",
        )
    }

    /// Of the line with which a server sends a connection away.
    pub(super) fn of_greeting(line: &str) -> Self {
        if line.contains("max number of clients") {
            return Self::unavailable(
                "is full (ERR max number of clients reached): raise its `maxclients`, or connect fewer programs; nothing was charged",
            );
        }
        Self::refused(&shown(line))
    }

    /// A server that copies another one, whose URL may be known.
    pub(super) fn replica(primary: Option<&str>) -> Self {
        let url = printable(primary.unwrap_or("redis://HOST:PORT"));
        Self::unavailable(format!(
            "is a read-only replica: write the URL of its primary, {url}; nothing was charged"
        ))
    }

    pub(super) fn cluster_node(endpoint: &Endpoint) -> Self {
        let address = &endpoint.address;
        Self::unavailable(format!(
            "is a node of a cluster, which has only some of the keys: its URL would be redis+cluster://{address}, which this build can't use, so write the URL of a server that has them all; nothing was charged"
        ))
    }

    pub(super) fn sentinel(endpoint: &Endpoint) -> Self {
        let address = &endpoint.address;
        Self::unavailable(format!(
            "is a sentinel, which keeps no limits: its URL would be redis+sentinel://{address}/NAME, which this build can't use, so write the URL of the server that it watches; nothing was charged"
        ))
    }

    pub(super) fn tls_port(endpoint: &Endpoint) -> Self {
        Self::unavailable(format!(
            "looks like a TLS port: its URL would be rediss://{endpoint}, which this build can't use, so write the URL of a port without TLS; nothing was charged"
        ))
    }

    /// A connection that ended before it was used.
    pub(super) fn broken(error: io::Error) -> Self {
        let text = "took a connection and broke it before it answered; nothing was charged";
        Self::unavailable(text).because(error)
    }

    /// Of a server that has too much to do.
    pub(super) fn overloaded(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StoreErrorKind::Overloaded, text)
    }

    /// Of a runtime that ended before a call was sent, and after it was.
    pub(super) fn shut_down_before() -> Self {
        Self::unavailable("was being connected to by a runtime that has ended; nothing was charged")
    }

    pub(super) fn shut_down() -> Self {
        Self::new(
            StoreErrorKind::Disconnected,
            "was being asked by a runtime that has ended; whether it charged is unknown",
        )
    }

    /// Of a connection that was silent while another one answered.
    pub(super) fn silent() -> Self {
        Self::new(
            StoreErrorKind::Disconnected,
            "fell silent on this connection, and answers on another; whether it charged is unknown",
        )
    }

    pub(super) fn because(self, error: io::Error) -> Self {
        Self { cause: Some(Arc::new(error)), ..self }
    }

    fn refused(words: &str) -> Self {
        Self::unavailable(format!("refused the connection: {words}; nothing was charged"))
    }

    /// What means the same at any time.
    fn known(words: &Words<'_>, endpoint: &Endpoint) -> Option<Self> {
        match words.code {
            "NOAUTH" | "WRONGPASS" => Some(Self::new(StoreErrorKind::Unexpected, PASSWORD)),
            "READONLY" | "MASTERDOWN" => Some(Self::replica(None)),
            "LOADING" => Some(Self::unavailable("is loading its data; nothing was charged")),
            "MOVED" | "ASK" | "TRYAGAIN" | "CLUSTERDOWN" | "CROSSSLOT" => {
                Some(Self::cluster_node(endpoint))
            }
            _ => permission(words.all, endpoint)
                .map(|text| Self::new(StoreErrorKind::Unexpected, text)),
        }
    }
}

/// The words of a server's error, of which the first may be a code.
struct Words<'w> {
    code: &'w str,
    all: &'w str,
}

impl<'w> Words<'w> {
    fn of(words: &'w [u8]) -> Self {
        // What isn't text is nothing that we would show.
        let all = match std::str::from_utf8(words) {
            Ok(all) => all,
            Err(error) => std::str::from_utf8(&words[..error.valid_up_to()]).unwrap_or_default(),
        };
        Self { code: all.split(' ').next().unwrap_or_default(), all }
    }
}

const PASSWORD: &str = "wants another user or password: write them into the URL, redis://USER:PASSWORD@HOST:PORT (USER may be empty)";

/// What every user needs who limits anything, in the words of ACL rules.
const COMMANDS: &str = "+evalsha +eval +time +get +set +getrange +setrange +strlen +pexpire +del";

/// What a user isn't permitted, in the words that servers have had for it since Redis 6, with which
/// `NOPERM` begins or, in a script, an error without a code of its own.
fn permission(words: &str, endpoint: &Endpoint) -> Option<String> {
    let is = |phrases: &[&str]| phrases.iter().any(|phrase| words.contains(phrase));
    if is(&["access a key", "access one of the keys", "access at least one of the keys"]) {
        let [live, injected] = endpoint.prefix.patterns();
        return Some(format!(
            "does not permit this user our keys: grant it `~{live}`, and for replays and conformance runs `~{injected}`"
        ));
    }
    if is(&["access a channel", "access one of the channels", "publish to the channel"]) {
        return Some("does not permit this user a channel: grant it with `&NAME`".to_owned());
    }
    if is(&["permissions to run the", "can't run this command"]) {
        let name = words.split_once("permissions to run the '").and_then(|(_, rest)| {
            let (name, _) = rest.split_once('\'')?;
            Some(format!(" {}", printable(name)))
        });
        return Some(format!(
            "does not permit this user the command{}: grant it `{COMMANDS}`, with a database in the URL `+select`, and for replays `+scan +unlink`",
            name.unwrap_or_default()
        ));
    }
    None
}

/// The words of a server, shortened, and escaped for a terminal. They end where it begins to repeat
/// the arguments, and before the first brace, which in our keys is what a subject follows.
fn shown(words: &str) -> String {
    const MOST: usize = 200;
    // What comes after " script:" is which script it was.
    let ends = [", with args", " script:", "{"].map(|end| words.find(end).unwrap_or(words.len()));
    let words = &words[..ends.into_iter().min().unwrap_or(0)];
    let words: String = words.trim().trim_end_matches('.').chars().take(MOST).collect();
    printable(&words)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sluicegate_testkit::servers::{Server, available};

    use super::super::{Deadline, Failure, Link};
    use super::*;
    use crate::resp::Command;

    /// As one says it oneself, and as a script says it, whose words are others.
    const REFUSED: [(&str, &[&str], &str); 8] = [
        ("~* +@all -get", &["GET", "sg:l:{alice}"], "the command get: grant it `+evalsha +eval "),
        ("~* +@all -eval", &["EVAL", "return 1", "0"], "the command eval: grant it `+evalsha "),
        (
            "~* +@all -time",
            &["EVAL", "return redis.call('TIME')", "0"],
            "the command%: grant it `+evalsha +eval ",
        ),
        ("~other:* +@all", &["GET", "sg:l:{alice}"], "our keys: grant it `~sg:*`, "),
        (
            "~other:* +@all",
            &["EVAL", "return 1", "1", "sg:l:{alice}"],
            "our keys: grant it `~sg:*`, ",
        ),
        (
            "~other:* +@all",
            &["EVAL", "return redis.call('GET', ARGV[1])", "0", "sg:l:{alice}"],
            "our keys: grant it `~sg:*`, ",
        ),
        ("~* +@all resetchannels", &["PUBLISH", "alice", "x"], "a channel: grant it with `&NAME`"),
        (
            "~* +@all resetchannels",
            &["EVAL", "return redis.call('PUBLISH', ARGV[1], 'x')", "0", "alice"],
            "a channel: grant it with `&NAME`",
        ),
    ];

    #[tokio::test]
    async fn commands_keys_and_channels_that_a_user_may_not_use_are_told_apart() {
        for binary in available().unwrap() {
            let server = Server::start_with(&binary, &[]).unwrap();
            // The name has the words in it by which the others are told.
            let user = "key-command-channel";
            let url = format!("redis://{user}:pw@127.0.0.1:{}", server.port());
            for (rules, words, expected) in REFUSED {
                let rules: Vec<&str> = rules.split(' ').collect();
                server
                    .cli(&[&["ACL", "SETUSER", user, "reset", "on", ">pw"], &rules[..]].concat())
                    .unwrap();
                let link = Link::new(Endpoint::new(&url).unwrap());
                let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
                let command = Command::of(&words);
                let deadline = Deadline::after(Duration::from_secs(5));
                let Err(Failure::Store(error)) = link.send(command, deadline).await else {
                    panic!("{words:?} is permitted by {rules:?}");
                };
                let text = error.to_string();
                // Redis 7.0 doesn't name the command that a script may not run; others do.
                let matches = match expected.split_once('%') {
                    Some((before, after)) => text.contains(before) && text.contains(after),
                    None => text.contains(expected),
                };
                assert!(matches, "no `{expected}` in: {text}");
                assert!(!format!("{error:?}").contains("alice"), "{error:?}");
            }
        }
    }
}
