//! The topology of the servers of a store: one server, one that sentinels watch, or a cluster.

use futures_util::future::{Either, FutureExt as _};
use sluicegate_core::{
    Error, KeyPrefix, NodeId, RequestError, RequestErrorKind, StoreError, StoreErrorKind,
};
use tokio::task::JoinSet;

use crate::call::{Company, ScriptCall};
use crate::cluster::{Cluster, Contention, unserved};
use crate::link::{Deadline, Endpoint, Heard, Link, Sentinels, Server, Width};
use crate::program::readiness;
use crate::redis_url::Servers;
use crate::reply_frame::{self, ReplyFrame, Said};
use crate::resp::{Command, Value, words_of};
use crate::slot::{Crossing, slot_of, slot_of_all};
use crate::unexpected::unexpected;

/// The servers of a store. Clones share them.
#[derive(Clone, Debug)]
pub(crate) enum Topology {
    /// One server that has all the keys. Sentinels may be used to find it.
    One(Link),
    Cluster(Cluster),
}

impl Topology {
    /// Returns the topology of the servers. `endpoint` sets how to reach each server, `sentinel` each
    /// sentinel.
    pub(crate) fn new(
        servers: Servers,
        endpoint: Endpoint,
        sentinel: &Endpoint,
        width: Width,
    ) -> Self {
        let server = match servers {
            Servers::One(_) => Server::new(endpoint),
            Servers::Cluster(nodes) => return Self::Cluster(Cluster::new(endpoint, nodes, width)),
            Servers::Sentinels(hosts, name) => {
                Server::watched(endpoint, Sentinels::new(sentinel, hosts, name))
            }
        };
        Self::One(Link::new(server, width))
    }

    /// Returns the access options of the servers.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        match self {
            Self::One(link) => link.endpoint(),
            Self::Cluster(cluster) => cluster.endpoint(),
        }
    }

    /// Returns a name that identifies the servers.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::One(link) => link.endpoint().to_string(),
            Self::Cluster(cluster) => format!("the cluster of {}", cluster.endpoint()),
        }
    }

    /// Returns an error if the call would be refused, as far as that is known before it is written.
    pub(crate) fn admits(&self, deadline: Deadline) -> Result<(), StoreError> {
        match self {
            Self::One(link) => link.admits(deadline),
            Self::Cluster(_) => Ok(()),
        }
    }

    /// Calls the script.
    pub(crate) fn call(
        &self,
        call: ScriptCall,
        deadline: Deadline,
    ) -> impl Future<Output = Result<Heard, Error>> + Send {
        match self {
            Self::One(link) => Either::Left(link.call(call, deadline).map(|heard| Ok(heard?))),
            // Boxed, so that the future of a call to one server is small to move.
            Self::Cluster(cluster) => Either::Right(Box::pin(async move {
                let slot = call.shared_slot().map_err(apart)?;
                Ok(cluster.call(call, slot, deadline).await?)
            })),
        }
    }

    /// Sends a command whose words are all keys, except for the first one.
    pub(crate) async fn send(&self, command: Command, deadline: Deadline) -> Result<Value, Error> {
        let slot = match self {
            Self::One(_) => 0,
            Self::Cluster(_) => slot_of_all(words_of(command.bytes()).skip(1)).map_err(apart)?,
        };
        self.send_to(slot, command, deadline).await
    }

    /// Sends a command to the server that has a slot.
    pub(crate) async fn send_to(
        &self,
        slot: u16,
        command: Command,
        deadline: Deadline,
    ) -> Result<Value, Error> {
        match self {
            Self::One(link) => Ok(link.send(command, deadline).await?),
            Self::Cluster(cluster) => Ok(Box::pin(cluster.send(command, slot, deadline)).await?),
        }
    }

    /// Returns the node that has a slot, if there are several nodes and it is known.
    pub(crate) fn node(&self, slot: u16) -> Option<NodeId> {
        match self {
            Self::One(_) => None,
            Self::Cluster(cluster) => cluster.node(slot),
        }
    }

    /// Returns the slot of a key. The keys of one command must have the same slot.
    pub(crate) fn slot_of(&self, key: &[u8]) -> u16 {
        match self {
            Self::One(_) => 0,
            Self::Cluster(_) => slot_of(key),
        }
    }

    /// Returns the slots with conflicts between decisions; `None` if one server has all keys.
    pub(crate) fn contention(&self) -> Option<&Contention> {
        match self {
            Self::One(_) => None,
            Self::Cluster(cluster) => Some(cluster.contention()),
        }
    }

    /// Returns a link to each server that has keys.
    pub(crate) async fn links(&self, deadline: Deadline) -> Result<Vec<Link>, StoreError> {
        Ok(self.servers(deadline).await?.into_iter().map(|(_, link)| link).collect())
    }

    /// Returns each server that has keys, with its first slot, in the order of the slots.
    pub(crate) async fn servers(&self, deadline: Deadline) -> Result<Vec<(u16, Link)>, StoreError> {
        match self {
            Self::One(link) => Ok(vec![(0, link.clone())]),
            Self::Cluster(cluster) => {
                let primaries = cluster.primaries(deadline).await?.into_iter();
                let first = |slots: &[u16]| slots.iter().min().copied().unwrap_or_default();
                let servers = primaries.map(|primary| (first(&primary.slots), primary.link));
                let mut servers: Vec<(u16, Link)> = servers.collect();
                servers.sort_unstable_by_key(|(slot, _)| *slot);
                Ok(servers)
            }
        }
    }

    /// Checks that every server that has keys can decide.
    pub(crate) async fn ping(
        &self,
        prefix: &KeyPrefix,
        deadline: Deadline,
    ) -> Result<(), StoreError> {
        let cluster = match self {
            Self::One(link) => {
                return write_something(link, format!("{}:ready", prefix.as_str()), deadline).await;
            }
            Self::Cluster(cluster) => cluster,
        };
        let primaries = cluster.primaries(deadline).await?;
        let mut problems: Vec<String> = unserved(&primaries)
            .map(|slots| format!("no node serves the slots {slots}"))
            .into_iter()
            .collect();
        let mut pings = JoinSet::new();
        for primary in primaries {
            let key = key_in(&primary.slots, prefix);
            pings.spawn(async move { write_something(&primary.link, key, deadline).await });
        }
        let mut kind = StoreErrorKind::Unavailable;
        while let Some(ping) = pings.join_next().await {
            if let Ok(Err(error)) = ping {
                if problems.is_empty() {
                    kind = error.kind();
                }
                problems.push(error.to_string());
            }
        }
        if problems.is_empty() {
            return Ok(());
        }
        problems.sort_unstable();
        Err(cluster.problem(kind, &problems.join("; ")))
    }
}

/// Returns a key of this store in one of these slots.
fn key_in(slots: &[u16], prefix: &KeyPrefix) -> String {
    let mut number = 0_u32;
    loop {
        let key = format!("{}:ready:{{{number}}}", prefix.as_str());
        if slots.is_empty() || slots.binary_search(&slot_of(key.as_bytes())).is_ok() {
            return key;
        }
        number = number.wrapping_add(1);
    }
}

/// Checks that a server can decide: a script writes a key that expires after a second.
async fn write_something(link: &Link, key: String, deadline: Deadline) -> Result<(), StoreError> {
    let heard = link.call_on_first(writing(&key), deadline).await?;
    match heard.said {
        Said::Briefly(ReplyFrame { sign: reply_frame::ALLOWED, .. }) => Ok(()),
        _ => Err(unexpected("a ping")),
    }
}

/// Returns that call. It is sent alone, because a node refuses a whole call for a key of another slot.
fn writing(key: &str) -> ScriptCall {
    let write_key = |words: &mut Command| {
        words.word(key);
    };
    let mut call = ScriptCall::new(write_key, &readiness());
    call.set_company(slot_of(key.as_bytes()), Company::None);
    call
}

#[cold]
fn apart(_: Crossing) -> Error {
    let message = "the subjects of this receipt belong to different cluster slots, which have no common reservations: cancel it in the store that made it";
    RequestError::new(RequestErrorKind::Unsupported, message).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ping_shares_no_call_that_would_be_refused_for_its_key() {
        let ping = writing("s:ready:{7}");
        for slot in [0, slot_of(b"s:ready:{7}")] {
            let mut other = ping.clone();
            other.set_company(slot, Company::Slot);
            assert!(!ping.may_travel_with(&other) && !other.may_travel_with(&ping), "{slot}");
        }
    }
}
