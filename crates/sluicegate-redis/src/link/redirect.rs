//! Redirects: a node of a cluster did nothing, and names the node or the time for the next attempt.

use crate::redis_url::Host;

/// The node or the time for the next attempt. Nothing was done.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Redirect {
    /// Another node has the keys.
    Moved(Destination),
    /// The keys are migrating to another node, which takes this one call.
    Ask(Destination),
    /// Some of the keys are on this node and some on another one, until all have moved.
    TryAgain,
    /// Currently no node has these keys.
    Down,
}

/// The named node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Destination {
    At(Host),
    /// Another port of the host that answered.
    SameHost(u16),
    /// The node was not named, or its address is invalid.
    Unknown,
}

impl Redirect {
    /// Returns the redirect of an error, if it is one.
    pub(super) fn of(words: &[u8]) -> Option<Self> {
        let words = std::str::from_utf8(words).ok()?;
        let mut parts = words.split(' ');
        Some(match parts.next()? {
            "MOVED" => Self::Moved(Destination::of(parts.nth(1).unwrap_or_default())),
            "ASK" => Self::Ask(Destination::of(parts.nth(1).unwrap_or_default())),
            "TRYAGAIN" => Self::TryAgain,
            "CLUSTERDOWN" => Self::Down,
            _ => return None,
        })
    }
}

impl Destination {
    /// Parses `HOST:PORT`, without brackets around an IPv6 address.
    fn of(address: &str) -> Self {
        let Some((name, port)) = address.rsplit_once(':') else { return Self::Unknown };
        let Some(port) = port.parse().ok().filter(|port| *port > 0) else { return Self::Unknown };
        match name {
            "" => Self::SameHost(port),
            "?" => Self::Unknown,
            name => Self::At(Host { name: name.to_owned(), port }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_are_told_from_other_errors() {
        let at = |name: &str, port| Destination::At(Host { name: name.to_owned(), port });
        for (words, redirect) in [
            ("MOVED 3999 127.0.0.1:6381", Some(Redirect::Moved(at("127.0.0.1", 6_381)))),
            ("MOVED 3999 ::1:6381", Some(Redirect::Moved(at("::1", 6_381)))),
            ("MOVED 3999 :6381", Some(Redirect::Moved(Destination::SameHost(6_381)))),
            ("MOVED 3999 ?:6381", Some(Redirect::Moved(Destination::Unknown))),
            ("MOVED 3999", Some(Redirect::Moved(Destination::Unknown))),
            ("ASK 3999 db.example:7000", Some(Redirect::Ask(at("db.example", 7_000)))),
            ("ASK 3999 db.example:0", Some(Redirect::Ask(Destination::Unknown))),
            ("TRYAGAIN Multiple keys request", Some(Redirect::TryAgain)),
            ("CLUSTERDOWN The cluster is down", Some(Redirect::Down)),
            ("ERR MOVED 3999 127.0.0.1:6381", None),
            ("CROSSSLOT Keys in request", None),
        ] {
            assert_eq!(Redirect::of(words.as_bytes()), redirect, "{words}");
        }
    }
}
