//! The map from slots to nodes.

use std::time::Duration;

use tokio::time::Instant;

use super::Primary;
use crate::link::{Link, Problem};
use crate::redis_url::Host;
use crate::resp::Value;
use crate::slot::SLOTS;

/// A slot without a node.
const NOBODY: u16 = u16::MAX;
/// Time to keep a connection to a node that took calls and has no slots yet.
const VISIT: Duration = Duration::from_secs(30);

/// The nodes of the slots, with a link to each.
#[derive(Debug, Default)]
pub(super) struct Map {
    /// For each slot the index of its node. Empty before anything is known.
    owners: Box<[u16]>,
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    host: Host,
    link: Link,
    /// Time of the last call to it whose keys were migrating.
    visited: Option<Instant>,
}

/// A node's view of its cluster.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Layout {
    /// First slot, last slot, and the node that has them.
    ranges: Vec<(u16, u16, Host)>,
    /// Every node, with slots or a replica.
    pub(super) nodes: Vec<Host>,
}

impl Map {
    pub(super) fn is_known(&self) -> bool {
        !self.owners.is_empty()
    }

    /// Returns the link to the node of a slot.
    pub(super) fn link(&self, slot: u16) -> Option<&Link> {
        let owner = self.owners.get(usize::from(slot))?;
        self.nodes.get(usize::from(*owner)).map(|node| &node.link)
    }

    /// Returns every node that has slots.
    pub(super) fn primaries(&self) -> Vec<Primary> {
        let with_slots = |(index, node): (usize, &Node)| {
            let owners = (0..SLOTS).zip(&self.owners);
            let slots = owners.filter(|(_, owner)| usize::from(**owner) == index);
            let slots: Vec<u16> = slots.map(|(slot, _)| slot).collect();
            (!slots.is_empty()).then(|| Primary { link: node.link.clone(), slots })
        };
        self.nodes.iter().enumerate().filter_map(with_slots).collect()
    }

    /// Replaces the map with a node's layout. A known node keeps its link.
    pub(super) fn replace(
        &mut self,
        layout: Layout,
        now: Instant,
        connect: impl Fn(&Host) -> Link,
    ) {
        let mut old = std::mem::take(&mut self.nodes);
        self.owners = vec![NOBODY; usize::from(SLOTS)].into();
        for (first, last, host) in layout.ranges {
            let at = old.iter().position(|node| node.host == host);
            if let Some(at) = at {
                self.nodes.push(old.swap_remove(at));
            }
            let index = self.index(host, &connect);
            self.owners[usize::from(first)..=usize::from(last)].fill(index);
        }
        let is_visited = |node: &Node| node.visited.is_some_and(|at| now < at + VISIT);
        self.nodes.extend(old.into_iter().filter(is_visited));
    }

    /// Records that a node now has a slot.
    pub(super) fn moved(&mut self, slot: u16, to: Host, connect: impl Fn(&Host) -> Link) -> Link {
        let index = self.index(to, &connect);
        if let Some(owner) = self.owners.get_mut(usize::from(slot)) {
            *owner = index;
        }
        self.nodes[usize::from(index)].link.clone()
    }

    /// Returns the link to a node that takes a call without having its slot.
    pub(super) fn visit(&mut self, host: Host, connect: impl Fn(&Host) -> Link) -> Link {
        let index = self.index(host, &connect);
        let node = &mut self.nodes[usize::from(index)];
        node.visited = Some(Instant::now());
        node.link.clone()
    }

    /// Returns the index of a node, and adds it if it isn't known.
    fn index(&mut self, host: Host, connect: impl Fn(&Host) -> Link) -> u16 {
        let at = self.nodes.iter().position(|node| node.host == host).unwrap_or_else(|| {
            self.nodes.push(Node { link: connect(&host), host, visited: None });
            self.nodes.len() - 1
        });
        // A cluster has fewer nodes than slots.
        u16::try_from(at).unwrap_or(NOBODY - 1)
    }
}

impl Layout {
    /// Parses the answer of a node at `asked` to `CLUSTER SLOTS`.
    ///
    /// Every server version supports this command. It returns the address that the cluster prefers, and over
    /// TLS the TLS ports.
    pub(super) fn of(answer: &Value, asked: &Host) -> Result<Self, Problem> {
        let Value::Array(entries) = answer else { return Err(Problem::no_protocol()) };
        if entries.is_empty() {
            return Err(Problem::unavailable(
                "is a node of a cluster without assigned slots: assign them to nodes, as with `redis-cli --cluster create`",
            ));
        }
        let mut layout = Self { ranges: Vec::new(), nodes: Vec::new() };
        for entry in entries {
            let Value::Array(entry) = entry else { return Err(Problem::no_protocol()) };
            let [Value::Int(first), Value::Int(last), nodes @ ..] = entry.as_slice() else {
                return Err(Problem::no_protocol());
            };
            let slot = |number: i64| u16::try_from(number).ok().filter(|slot| *slot < SLOTS);
            let (Some(first), Some(last)) = (slot(*first), slot(*last)) else {
                return Err(Problem::no_protocol());
            };
            let hosts = nodes.iter().map(|node| host(node, asked));
            for (place, host) in hosts.enumerate() {
                // Skip a node whose address the cluster doesn't know.
                let Some(host) = host else { continue };
                if !layout.nodes.contains(&host) {
                    layout.nodes.push(host.clone());
                }
                if place == 0 && first <= last {
                    layout.ranges.push((first, last, host));
                }
            }
        }
        Ok(layout)
    }
}

/// Returns the host of a node, from its address and port.
fn host(node: &Value, asked: &Host) -> Option<Host> {
    let Value::Array(words) = node else { return None };
    let [name, Value::Int(port), ..] = words.as_slice() else { return None };
    let port = u16::try_from(*port).ok().filter(|port| *port > 0)?;
    let name = match name {
        // The node is on the host that was asked.
        Value::Nil => &asked.name,
        Value::Bytes(name) if name.is_empty() => &asked.name,
        Value::Bytes(name) => std::str::from_utf8(name).ok().filter(|name| *name != "?")?,
        _ => return None,
    };
    Some(Host { name: name.to_owned(), port })
}
