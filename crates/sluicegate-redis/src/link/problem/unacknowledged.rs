//! The problems of decisions that replicas must acknowledge.

use sluicegate_core::{Acknowledgement, Span, StoreErrorKind};

use super::{Problem, Words, shown};
use crate::link::endpoint::Endpoint;
use crate::resp::Value;

impl Problem {
    /// Returns the problem of a decision that too few replicas have, from the server's reply.
    pub(in crate::link) fn unacknowledged(
        wanted: Acknowledgement,
        reply: &Value,
        endpoint: &Endpoint,
    ) -> Self {
        let text = match reply {
            Value::Error(words) => Self::without_wait(words, endpoint).text.into_owned(),
            Value::Int(have) => format!(
                "decided, but {have} of its replicas acknowledged within {}, and the limit requires {}: check their connections and lag (INFO replication)",
                Span::from(wanted.within),
                wanted.replicas
            ),
            _ => return Self::no_protocol(),
        };
        let text = format!("{text}; it may have charged, and a failover may lose that");
        Self::new(StoreErrorKind::Unacknowledged, text)
    }

    /// Returns the problem of a server that doesn't report its replicas' state.
    pub(in crate::link) fn without_wait(words: &[u8], endpoint: &Endpoint) -> Self {
        let words = Words::of(words);
        let text = match words.code {
            "NOPERM" => "does not permit this user to wait for replicas, as the limit asks: grant it `+wait`, or let the limit ask for no replicas".into(),
            _ => match Self::known(&words, endpoint) {
                Some(problem) => return problem,
                None => format!("does not wait for replicas, as the limit asks: {}", shown(words.all)).into(),
            },
        };
        Self { kind: StoreErrorKind::Unacknowledged, text, cause: None }
    }
}
