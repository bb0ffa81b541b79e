//! The problems of discovery: of sentinels and cluster nodes, which are asked for the addresses of others.

use std::time::Duration;

use sluicegate_core::printable;

use super::{Problem, UNCHARGED, Words, shown};
use crate::link::endpoint::Endpoint;

impl Problem {
    /// Returns the problem of a server that didn't answer in time.
    pub(in crate::link) fn late_answer(patience: Duration) -> Self {
        Self::unavailable(format!("did not answer within {} ms", patience.as_millis()))
    }

    /// Returns the problem of several servers, all of which were asked.
    pub(in crate::link) fn of_all(problems: &[(String, Self)]) -> Self {
        let one = |(address, problem): &(String, Self)| {
            let text = problem.text.trim_end_matches(UNCHARGED).trim_end_matches("; ");
            format!("{address} {text}")
        };
        let all: Vec<_> = problems.iter().map(one).collect();
        Self::unavailable(all.join("; "))
    }

    /// Returns the problem of a cluster whose nodes don't report the owners of the keys.
    pub(crate) fn of_cluster(self) -> Self {
        let text = format!("doesn't tell which node has which keys: {}; {UNCHARGED}", self.text);
        Self { text: text.into(), ..self }
    }

    /// Returns the problem of a primary that no sentinel can name.
    pub(in crate::link) fn not_found(known: &[String], problem: &Self) -> Self {
        let known = match known {
            [] => String::new(),
            names => {
                let names: Vec<_> =
                    names.iter().map(|name| format!("`{}`", printable(name))).collect();
                format!("; the sentinels watch {}", names.join(", "))
            }
        };
        Self::unavailable(format!(
            "can't be found, because no sentinel knows its address: {}{known}; {UNCHARGED}",
            problem.text
        ))
    }

    /// Returns the problem of a sentinel that watches other primaries.
    pub(in crate::link) fn unknown_name() -> Self {
        Self::unavailable("knows no primary of this name: write a name that it knows into the URL")
    }

    /// Returns the problem of a server that isn't a sentinel, or refuses the query.
    pub(in crate::link) fn of_sentinel(words: &[u8], endpoint: &Endpoint) -> Self {
        let words = Words::of(words);
        if words.all.contains("unknown command") {
            let (scheme, options) = (endpoint.scheme(), endpoint.options());
            let address = &endpoint.address;
            return Self::unavailable(format!(
                "isn't a sentinel: write its URL {scheme}://{address}{options}, for a cluster node {scheme}+cluster://{address}{options}, or the sentinels' URL"
            ));
        }
        match words.code {
            "NOPERM" => Self::unavailable(
                "does not permit this user to ask: grant it `+sentinel|get-master-addr-by-name +sentinel|master`",
            ),
            _ => Self::known(&words, endpoint).unwrap_or_else(|| Self::refused(&shown(words.all))),
        }
    }

    /// Returns the problem of a server that isn't a node of a cluster, or can't report its layout.
    pub(crate) fn of_node(words: &[u8], endpoint: &Endpoint) -> Self {
        let words = Words::of(words);
        if words.all.contains("cluster support disabled") {
            return Self::no_cluster(endpoint);
        }
        match words.code {
            "NOPERM" => Self::unavailable(
                "does not permit this user to ask who has which slots: grant it `+cluster|slots`",
            ),
            _ if words.all.contains("unknown command") => {
                let (scheme, options) = (endpoint.scheme(), endpoint.options());
                let address = &endpoint.address;
                Self::unavailable(format!(
                    "isn't a cluster node: for a sentinel, write {scheme}+sentinel://{address}/NAME{options}, with its name for the primary; {UNCHARGED}"
                ))
            }
            _ => Self::known(&words, endpoint).unwrap_or_else(|| Self::refused(&shown(words.all))),
        }
    }

    /// Returns the problem of a single server that was expected to be a node of a cluster.
    pub(in crate::link) fn no_cluster(endpoint: &Endpoint) -> Self {
        let Endpoint { address, .. } = endpoint;
        let (scheme, options) = (endpoint.scheme(), endpoint.options());
        Self::unavailable(format!(
            "is a server of its own, and no node of a cluster: write {scheme}://{address}{options}; {UNCHARGED}"
        ))
    }

    /// Returns the problem of a server that sentinels named as the primary.
    pub(in crate::link) fn of_named(self, address: &str) -> Self {
        let text = format!("is at {address}, as its sentinels say, which {}", self.text);
        Self { text: text.into(), ..self }
    }
}
