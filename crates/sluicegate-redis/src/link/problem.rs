//! The problems of servers, from their errors: the words to show to a user, and the fix. [`Problem`] is one
//! of them.
//!
//! A server repeats arguments in some of its errors, and keys are personal data. So the quoted words of a
//! server end before a subject could begin, and no error has them as its source.

mod discovery;
mod unacknowledged;

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use sluicegate_core::{StoreError, StoreErrorKind, printable};

use super::endpoint::{Endpoint, Part};
use super::rights::{Need, rules};
use crate::access::Credentials;

/// A problem of the server, as the end of a sentence that names it.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(super) kind: StoreErrorKind,
    pub(super) text: Cow<'static, str>,
    /// The I/O error that caused it; never the words of a server.
    pub(super) cause: Option<Arc<io::Error>>,
}

impl Problem {
    /// Returns the error of the store at an address.
    #[cold]
    pub(crate) fn of(self, address: &str) -> StoreError {
        let Self { kind, text, cause } = self;
        let error = StoreError::new(kind, format!("the store at {address} {text}"));
        match cause {
            Some(cause) => error.with_cause(cause),
            None => error,
        }
    }

    pub(crate) fn new(kind: StoreErrorKind, text: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, text: text.into(), cause: None }
    }

    /// Returns a problem of a server that charges nothing, now or later.
    pub(crate) fn unavailable(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StoreErrorKind::Unavailable, text)
    }

    /// Returns the problem of an error that answers a command.
    pub(super) fn of_command(words: &[u8], endpoint: &Endpoint) -> Self {
        let words = Words::of(words);
        Self::known(&words, endpoint).unwrap_or_else(|| {
            Self::new(
                StoreErrorKind::Unexpected,
                format!("refused the command: {}", shown(words.all)),
            )
        })
    }

    /// Returns the problem of an error in the handshake.
    pub(super) fn of_connection(words: &[u8], endpoint: &Endpoint) -> Self {
        let words = Words::of(words);
        Self::known(&words, endpoint).unwrap_or_else(|| {
            if words.all.contains("unknown command") {
                return Self::old();
            }
            Self::of_greeting(words.all)
        })
    }

    /// Returns the problem of a server without the commands of the handshake.
    fn old() -> Self {
        let text = "is older than Redis 6.2, the oldest version that works: upgrade it, or name another server; nothing was charged";
        Self::new(StoreErrorKind::Unexpected, text)
    }

    /// Returns the problem of a server that accepts no connection.
    pub(super) fn unreachable(error: io::Error) -> Self {
        Self::unavailable(format!(
            "can't be reached ({error}): look whether it runs, and whether this is where it listens; nothing was charged"
        ))
        .because(error)
    }

    /// Returns the problem of a server other than Redis.
    pub(crate) fn no_protocol() -> Self {
        Self::new(StoreErrorKind::Unexpected, "does not speak the Redis protocol")
    }

    /// Returns the problem of a connection that ended while a call was outstanding.
    pub(super) fn disconnected() -> Self {
        Self::new(
            StoreErrorKind::Disconnected,
            "broke the connection before it answered; whether it charged is unknown",
        )
    }

    /// Returns the problem of a line with which a server rejects a connection.
    pub(super) fn of_greeting(line: &str) -> Self {
        if line.contains("max number of clients") {
            return Self::unavailable(
                "is full (ERR max number of clients reached): raise its `maxclients`, or connect fewer programs; nothing was charged",
            );
        }
        Self::refused(&shown(line))
    }

    /// Returns the problem of a replica, whose primary's address may be known.
    pub(super) fn replica(primary: Option<&str>, endpoint: &Endpoint) -> Self {
        let another = match &endpoint.part {
            Part::Alone | Part::Sentinel => None,
            Part::Named | Part::Watched => Some(
                "is a replica, though the sentinels named it as the primary: they will be queried again, and a failover in progress ends soon",
            ),
            Part::Node => {
                Some("is now a replica: the client looks for the new primary of its slots")
            }
        };
        if let Some(text) = another {
            return Self::unavailable(format!("{text}; {UNCHARGED}"));
        }
        let address = printable(primary.unwrap_or("HOST:PORT"));
        let (scheme, options) = (endpoint.scheme(), endpoint.options());
        Self::unavailable(format!(
            "is a read-only replica: write the URL of its primary, {scheme}://{address}{options}; nothing was charged"
        ))
    }

    pub(super) fn cluster_node(endpoint: &Endpoint) -> Self {
        let Endpoint { address, .. } = endpoint;
        let (scheme, options) = (endpoint.scheme(), endpoint.options());
        Self::unavailable(format!(
            "is a node of a cluster, which has only some of the keys: write {scheme}+cluster://{address}{options}; nothing was charged"
        ))
    }

    pub(super) fn sentinel(endpoint: &Endpoint) -> Self {
        let Endpoint { address, .. } = endpoint;
        let (scheme, options) = (endpoint.scheme(), endpoint.options());
        Self::unavailable(format!(
            "is a sentinel, which keeps no limits: write {scheme}+sentinel://{address}/NAME{options}, with its name for the primary; nothing was charged"
        ))
    }

    pub(super) fn tls_port(endpoint: &Endpoint) -> Self {
        Self::unavailable(format!(
            "looks like a TLS port: write its URL as rediss://{endpoint}; nothing was charged"
        ))
    }

    /// Returns the problem of a port without TLS.
    #[cfg(feature = "tls")]
    pub(super) fn plain_port(endpoint: &Endpoint) -> Self {
        let kind = match &endpoint.part {
            Part::Sentinel => "+sentinel",
            Part::Node => "+cluster",
            _ => "",
        };
        Self::unavailable(format!(
            "looks like a port without TLS: write the TLS port, or, on a trusted network, redis{kind}://{endpoint}; nothing was charged"
        ))
    }

    /// Returns the problem of TLS that can't be tried, because of files or names.
    #[cfg(feature = "tls")]
    pub(super) fn unusable_tls(why: &str) -> Self {
        Self::unavailable(format!("can't be asked over TLS: {why}; nothing was charged"))
    }

    /// Returns the problem of missing credentials.
    pub(super) fn without_credentials(why: &str) -> Self {
        Self::unavailable(format!("can't be signed in to: {}; nothing was charged", printable(why)))
    }

    /// Returns the problem of a server's answer to a user and password.
    pub(super) fn of_credentials(
        words: &[u8],
        credentials: &Credentials,
        endpoint: &Endpoint,
    ) -> Self {
        let text = Words::of(words);
        let who = match credentials.user() {
            Some(user) => format!("the user `{}`", printable(user)),
            None => "the default user".to_owned(),
        };
        if text.code == "WRONGPASS" {
            let sign_in = sign_in(endpoint);
            return Self::new(
                StoreErrorKind::Unexpected,
                format!("has another password for {who}, or has no such user: {sign_in}"),
            );
        }
        if text.all.contains("without any password configured") {
            return Self::new(
                StoreErrorKind::Unexpected,
                "has no password for the default user: name a user, or leave the password out",
            );
        }
        // Servers without users only accept a password.
        if text.all.contains("wrong number of arguments") {
            return Self::old();
        }
        Self::of_connection(words, endpoint)
    }

    /// Returns the problem of a connection that ended before its first use.
    pub(super) fn broken(error: io::Error) -> Self {
        let text = "took a connection and broke it before it answered; nothing was charged";
        Self::unavailable(text).because(error)
    }

    /// Returns the problem of an overloaded server.
    pub(super) fn overloaded(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StoreErrorKind::Overloaded, text)
    }

    /// Returns the problem of a runtime that ended before a call was sent; [`shut_down`](Self::shut_down) is
    /// for after.
    pub(super) fn shut_down_before() -> Self {
        Self::unavailable("was being connected to by a runtime that has ended; nothing was charged")
    }

    pub(super) fn shut_down() -> Self {
        Self::new(
            StoreErrorKind::Disconnected,
            "was being asked by a runtime that has ended; whether it charged is unknown",
        )
    }

    /// Returns the problem of replies to other calls.
    pub(super) fn disordered() -> Self {
        Self::new(
            StoreErrorKind::Disconnected,
            "sent the reply of another call: a proxy may repeat, drop or reorder replies, so connect directly; whether it charged is unknown",
        )
    }

    /// Returns the problem of a malformed reply, from a server whose handshake was correct.
    pub(super) fn garbled() -> Self {
        Self::new(
            StoreErrorKind::Disconnected,
            "sent a malformed reply: a proxy may truncate or corrupt replies, so connect directly; whether it charged is unknown",
        )
    }

    /// Returns the problem of a call that arrived too late at the server, twice.
    pub(super) fn late() -> Self {
        Self::overloaded("reached this call after its deadline and skipped it; nothing was charged")
    }

    /// Returns the problem of a connection that was silent while another one answered.
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

    /// Returns the problem of an error whose meaning doesn't depend on the command.
    fn known(words: &Words<'_>, endpoint: &Endpoint) -> Option<Self> {
        match words.code {
            "NOAUTH" | "WRONGPASS" => Some(Self::new(
                StoreErrorKind::Unexpected,
                format!("wants another user or password: {}", sign_in(endpoint)),
            )),
            "READONLY" | "MASTERDOWN" => Some(Self::replica(None, endpoint)),
            "LOADING" => Some(Self::unavailable("is loading its data; nothing was charged")),
            // These errors stop a script at its first write, and never after it.
            "OOM" => Some(Self::unavailable(
                "has no memory left and may evict nothing (OOM): raise its `maxmemory`, or give the limits a server of their own; nothing was charged",
            )),
            "MISCONF" => Some(Self::unavailable(
                "takes no writes because it can't save them (MISCONF): look into its log and at its disk; nothing was charged",
            )),
            "NOREPLICAS" => Some(Self::unavailable(
                "takes no writes because too few replicas keep up (NOREPLICAS): start replicas, or lower its `min-replicas-to-write`; nothing was charged",
            )),
            "MOVED" | "ASK" | "TRYAGAIN" | "CLUSTERDOWN" | "CROSSSLOT" => {
                Some(Self::cluster_node(endpoint))
            }
            _ => permission(words.all, endpoint)
                .map(|text| Self::new(StoreErrorKind::Unexpected, text)),
        }
    }
}

/// The words of a server's error. The first may be a code.
struct Words<'w> {
    code: &'w str,
    all: &'w str,
}

impl<'w> Words<'w> {
    fn of(words: &'w [u8]) -> Self {
        // Anything else than text is never shown.
        let all = match std::str::from_utf8(words) {
            Ok(all) => all,
            Err(error) => std::str::from_utf8(&words[..error.valid_up_to()]).unwrap_or_default(),
        };
        Self { code: all.split(' ').next().unwrap_or_default(), all }
    }
}

/// The most important fact for a reader of an error.
const UNCHARGED: &str = "nothing was charged";

/// Returns where to write user and password.
const fn sign_in(endpoint: &Endpoint) -> &'static str {
    match endpoint.part {
        Part::Sentinel => {
            "those of the sentinels are their own, so write them where the program takes them from, such as `redis.sentinel.password_file` of a configuration"
        }
        _ => SIGN_IN,
    }
}

const SIGN_IN: &str = "write them into the URL, redis://USER:PASSWORD@HOST:PORT (USER may be empty), or where the program takes them from, such as `redis.password_file` of a configuration";

/// A missing right of a user.
pub(super) enum Right {
    Keys,
    Channel,
    /// The name, unless the server doesn't report it.
    Command(Option<String>),
}

/// Returns the missing right, if the error has the phrases of servers since Redis 6. They follow `NOPERM` or,
/// in a script, an error without its own code.
pub(super) fn no_permission(words: &[u8]) -> Option<Right> {
    right(Words::of(words).all)
}

fn right(words: &str) -> Option<Right> {
    let is = |phrases: &[&str]| phrases.iter().any(|phrase| words.contains(phrase));
    if is(&["access a key", "access one of the keys", "access at least one of the keys"]) {
        return Some(Right::Keys);
    }
    if is(&["access a channel", "access one of the channels", "publish to the channel"]) {
        return Some(Right::Channel);
    }
    is(&["permissions to run the", "can't run this command"]).then(|| {
        let named = words.split_once("permissions to run the '");
        let name =
            named.and_then(|(_, rest)| rest.split_once('\'')).map(|(name, _)| printable(name));
        Right::Command(name.map(|name| name.to_lowercase()))
    })
}

fn permission(words: &str, endpoint: &Endpoint) -> Option<String> {
    Some(match right(words)? {
        Right::Keys => {
            let [live, injected] = endpoint.prefix.patterns();
            format!(
                "does not permit this user our keys: grant it `~{live}`, and for replays and conformance runs `~{injected}`"
            )
        }
        Right::Channel => "does not permit this user a channel: grant it with `&NAME`".to_owned(),
        Right::Command(Some(name)) => {
            format!("does not permit this user the command {name}: grant it `+{name}`")
        }
        Right::Command(None) => format!(
            "does not permit this user a command, and doesn't name it (`sluicegate config check --connect` does): grant it `{}`. Also grant `+select` for a database in the URL, `+scan` for lists of bans, and `+scan +unlink` for replays. Units in flight and waiting reservations need `{} +zlexcount`, and overrides at run time `{}`",
            rules(Need::Decisions),
            rules(Need::Holds),
            rules(Need::Settings)
        ),
    })
}

/// Returns the words of a server, shortened, and escaped for a terminal. They end where the server begins to
/// repeat the arguments, and before the first brace, because a subject follows it in the store's keys.
fn shown(words: &str) -> String {
    const MOST: usize = 200;
    // The text after " script:" identifies the script.
    let ends = [", with args", " script:", "{"].map(|end| words.find(end).unwrap_or(words.len()));
    let words = &words[..ends.into_iter().min().unwrap_or(0)];
    let words: String = words.trim().trim_end_matches('.').chars().take(MOST).collect();
    printable(&words)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use std::num::NonZeroUsize;

    use sluicegate_testkit::servers::{Server, available};

    use super::super::{Deadline, Link, Width};
    use super::*;
    use crate::resp::Command;

    /// Refusals of direct commands, and of commands in a script, which have other words.
    const REFUSED: [(&str, &[&str], &str); 8] = [
        ("~* +@all -get", &["GET", "sg:l:{alice}"], "the command get: grant it `+get`"),
        ("~* +@all -eval", &["EVAL", "return 1", "0"], "the command eval: grant it `+eval`"),
        (
            "~* +@all -time",
            &["EVAL", "return redis.call('TIME')", "0"],
            "does not permit this user %",
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
            // The name contains the words that distinguish the other errors.
            let user = "key-command-channel";
            let url = format!("redis://{user}:pw@127.0.0.1:{}", server.port());
            let width = Width { connections: NonZeroUsize::MIN, batch: NonZeroUsize::MIN };
            for (rules, words, expected) in REFUSED {
                let rules: Vec<&str> = rules.split(' ').collect();
                server
                    .cli(&[&["ACL", "SETUSER", user, "reset", "on", ">pw"], &rules[..]].concat())
                    .unwrap();
                let endpoint = Endpoint::new(&url.parse().unwrap()).unwrap();
                let link = Link::new(crate::link::Server::new(endpoint), width);
                let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
                let command = Command::of(&words);
                let deadline = Deadline::after(Duration::from_secs(5));
                let Err(error) = link.send(command, deadline).await else {
                    panic!("{words:?} is permitted by {rules:?}");
                };
                let text = error.to_string();
                // Redis 7.0 doesn't name the command that a script must not use; others do.
                let matches = match expected.split_once('%') {
                    Some((before, _)) => text.contains(before) && text.contains("+time"),
                    None => text.contains(expected),
                };
                assert!(matches, "no `{expected}` in: {text}");
                assert!(!format!("{error:?}").contains("alice"), "{error:?}");
            }
        }
    }
}
