//! A cluster of real servers.

mod builder;
mod view;

use std::net::IpAddr;

use super::binary::{ServerBinary, available};
use super::error::ServerError;
use super::resp::Reply;
use super::server::Server;
use crate::wait::until_seldom;
pub use builder::ClusterBuilder;
use view::View;

/// The last slot.
const LAST_SLOT: u16 = 16_383;

/// A cluster of primaries, each with the same number of replicas, by the servers' own protocol:
/// nothing about it is simulated. It ends with this value.
///
/// Nodes go by their number. Those before [`primaries`](ClusterBuilder::primaries) began as
/// primaries, and node `primaries + i` as a replica of node `i % primaries`; fail-overs change that.
/// No replica takes over by itself but from a primary that [`lose_primary_of`](Self::lose_primary_of)
/// kills: not from one that a busy machine has halted for a while.
///
/// ```no_run
/// use sluicegate_testkit::servers::Cluster;
///
/// let cluster = Cluster::start()?;
/// let slot = cluster.slot_of(b"visits")?;
/// let (from, to) = (cluster.primary_of(slot), (cluster.primary_of(slot) + 1) % 3);
/// let migration = cluster.migration(slot, to);
/// migration.open()?;
/// // Until the slot is assigned, its first owner sends clients on with ASK.
/// let asked = cluster.node(from).server().cli(&["GET", "visits"]).unwrap_err();
/// assert!(asked.to_string().contains("ASK"));
/// # Ok::<(), sluicegate_testkit::servers::ServerError>(())
/// ```
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<ClusterNode>,
    password: Option<String>,
}

/// One node of a [`Cluster`].
#[derive(Debug)]
pub struct ClusterNode {
    server: Server,
    id: String,
}

/// Where a node says that it is, if that is not where it listens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Announced {
    /// Instead of that on which it listens. The nodes use it among themselves too, so they must listen there:
    /// start them with the option `--bind 127.0.0.1 127.0.0.2`, for example.
    pub ip: Option<IpAddr>,
    /// Instead of the port that it listens on for clients: a proxy's, for example. Nodes don't
    /// use it among themselves.
    pub port: Option<u16>,
    /// Besides the IP address. Whether redirections name it is up to the option
    /// `--cluster-preferred-endpoint-type hostname`.
    pub hostname: Option<String>,
}

impl Cluster {
    /// Three primaries with a replica each, of the first program of [`available`].
    ///
    /// # Errors
    /// As [`ClusterBuilder::start`].
    pub fn start() -> Result<Self, ServerError> {
        // `available` never answers an empty list.
        Self::builder(available()?.first().ok_or(ServerError::NotRunning)?).start()
    }

    /// A cluster of this program that is yet to be started: three primaries with a replica each,
    /// if nothing else is said.
    #[must_use]
    pub fn builder(binary: &ServerBinary) -> ClusterBuilder {
        ClusterBuilder::new(binary)
    }

    /// The nodes, by number.
    #[must_use]
    pub fn nodes(&self) -> &[ClusterNode] {
        &self.nodes
    }

    /// The node of this number.
    #[must_use]
    pub fn node(&self, number: usize) -> &ClusterNode {
        &self.nodes[number]
    }

    /// The server of a node, to pause, kill or restart it. A node that is restarted comes back as
    /// the member that it was, without its data.
    pub fn server_mut(&mut self, number: usize) -> &mut Server {
        &mut self.nodes[number].server
    }

    /// The URLs of all nodes.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.server.url()).collect()
    }

    /// The slot of a key, as the servers compute it. Keys with the same part in braces have the
    /// same slot: `{one}a` and `{one}b`.
    ///
    /// # Errors
    /// When no node answers.
    pub fn slot_of(&self, key: &[u8]) -> Result<u16, ServerError> {
        match self.any_running().command(&[b"CLUSTER", b"KEYSLOT", key])? {
            Reply::Integer(slot) => Ok(u16::try_from(slot).unwrap_or(LAST_SLOT)),
            reply => Err(ServerError::Refused(reply.to_string())),
        }
    }

    /// The number of the node that serves a slot. Right after a change, nodes may see it
    /// differently: [`settle`](Self::settle) first.
    ///
    /// # Panics
    /// If no node serves it.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a test fails by panicking")]
    pub fn primary_of(&self, slot: u16) -> usize {
        let owner = view_of(self.any_running()).ok().and_then(|view| view.owner(slot));
        owner.and_then(|id| self.number(&id)).expect("every slot is served by a node")
    }

    /// The numbers of the running replicas of a node.
    ///
    /// # Errors
    /// When no node answers.
    pub fn replicas_of(&self, number: usize) -> Result<Vec<usize>, ServerError> {
        let view = view_of(self.any_running())?;
        let ids = view.replicas_of(&self.nodes[number].id).into_iter();
        Ok(ids.filter_map(|id| self.number(&id)).filter(|&at| self.is_running(at)).collect())
    }

    /// Waits until every running node sees the same cluster, in which it knows which nodes run and
    /// which do not, all slots are served, and every replica follows its primary. From then on they
    /// are calm.
    ///
    /// # Panics
    /// If that takes more than a minute.
    pub fn settle(&self) {
        until_seldom("the nodes agree", || self.disagreement(true));
        self.calm();
    }

    /// Lets replicas stay replicas again, after [`lose_primary_of`](Self::lose_primary_of) and once
    /// one has taken over.
    ///
    /// # Panics
    /// If a node doesn't hear that within a minute.
    pub fn calm(&self) {
        self.let_replicas_take_over(false);
    }

    /// Makes a replica the primary of its slots with the consent of the old primary, which
    /// becomes its replica (`CLUSTER FAILOVER`), and waits until all nodes know.
    ///
    /// # Errors
    /// When the node is no replica.
    pub fn fail_over(&self, replica: usize) -> Result<(), ServerError> {
        let node = &self.nodes[replica];
        node.server.cli(&["CLUSTER", "FAILOVER"])?;
        until_seldom("the replica takes over", || {
            let view = view_of(&node.server).map_err(|error| error.to_string())?;
            if view.is_primary(&node.id) { Ok(()) } else { Err(format!("{view:?}")) }
        });
        self.settle();
        Ok(())
    }

    /// Kills the primary of a slot (`SIGKILL`), lets its replicas take over, and answers its number
    /// at once. [`settle`](Self::settle) or [`calm`](Self::calm) once one has.
    ///
    /// # Errors
    /// When the primary doesn't run.
    ///
    /// # Panics
    /// If a node doesn't hear of it within a minute.
    pub fn lose_primary_of(&mut self, slot: u16) -> Result<usize, ServerError> {
        let primary = self.primary_of(slot);
        self.nodes[primary].server.kill()?;
        self.let_replicas_take_over(true);
        Ok(primary)
    }

    /// Kills the primary of a slot (`SIGKILL`) and waits until one of its replicas has taken over,
    /// whose number it answers.
    ///
    /// # Errors
    /// When the primary doesn't run.
    pub fn kill_primary_of(&mut self, slot: u16) -> Result<usize, ServerError> {
        self.lose_primary_of(slot)?;
        self.settle();
        Ok(self.primary_of(slot))
    }

    /// Halts the primary of a slot and waits until one of its replicas has taken over: the numbers of
    /// both. The old one takes itself for the primary until it goes on, by
    /// [`server_mut`](Self::server_mut) and [`Server::resume`], and hears of it; until then, nothing
    /// else of this value answers.
    ///
    /// # Errors
    /// When the primary doesn't run.
    ///
    /// # Panics
    /// If no replica takes over within a minute.
    pub fn halt_primary_of(&mut self, slot: u16) -> Result<(usize, usize), ServerError> {
        let old = self.primary_of(slot);
        let replicas = self.replicas_of(old)?;
        self.let_replicas_take_over(true);
        self.nodes[old].server.pause()?;
        let new = until_seldom("a replica takes over", || {
            let is_primary = |node: &ClusterNode| {
                view_of(&node.server).is_ok_and(|view| view.is_primary(&node.id))
            };
            replicas.iter().copied().find(|&at| is_primary(&self.nodes[at])).ok_or("none has")
        });
        Ok((old, new))
    }

    fn let_replicas_take_over(&self, may: bool) {
        let value = if may { "no" } else { "yes" };
        let words = ["CONFIG", "SET", "cluster-replica-no-failover", value];
        for server in self.running() {
            until_seldom("a node hears whether to take over", || {
                server.cli(&words).map_err(|error| error.to_string())
            });
        }
    }

    /// Lets a node say that it is somewhere else, and waits until all nodes have heard it. A
    /// restart of the node undoes it.
    ///
    /// # Errors
    /// When the node refuses: an address or name that can't be.
    pub fn announce(&self, number: usize, announced: &Announced) -> Result<(), ServerError> {
        let node = &self.nodes[number];
        let settings = [
            ("cluster-announce-ip", announced.ip.map(|ip| ip.to_string())),
            ("cluster-announce-port", announced.port.map(|port| port.to_string())),
            ("cluster-announce-hostname", announced.hostname.clone()),
        ];
        for (name, value) in settings {
            // Each has a word that stands for none.
            let none = if name.ends_with("port") { "0" } else { "" };
            node.server.cli(&["CONFIG", "SET", name, value.as_deref().unwrap_or(none)])?;
        }
        let address = node.server.address();
        let ip = announced.ip.unwrap_or(address.ip()).to_string();
        let port = announced.port.unwrap_or(address.port());
        let hostname = announced.hostname.clone().unwrap_or_default();
        until_seldom("all nodes have heard where it is", || {
            for server in self.running() {
                let view = view_of(server).map_err(|error| error.to_string())?;
                // A node shows of itself only its name.
                let is_itself = server.address() == node.server.address();
                if !view.is_at(&node.id, (!is_itself).then_some((&ip, port)), &hostname) {
                    return Err(format!("{view:?}"));
                }
            }
            Ok(())
        });
        self.settle();
        Ok(())
    }

    pub(super) fn password(&self) -> Option<&str> {
        self.password.as_deref()
    }

    /// The numbers of the nodes that run and are primaries in the eyes of the node `number`.
    pub(super) fn primaries_seen_by(&self, number: usize) -> Result<Vec<usize>, ServerError> {
        let view = view_of(&self.nodes[number].server)?;
        let all = 0..self.nodes.len();
        Ok(all.filter(|&at| self.is_running(at) && view.is_primary(&self.nodes[at].id)).collect())
    }

    /// What the nodes disagree on.
    fn disagreement(&self, with_slots: bool) -> Result<(), String> {
        let mut first: Option<View> = None;
        for (number, node) in self.nodes.iter().enumerate().filter(|(at, _)| self.is_running(*at)) {
            let view = view_of(&node.server).map_err(|error| error.to_string())?;
            let members = self.nodes.iter().enumerate();
            view.check(members.map(|(at, node)| (node.id.as_str(), self.is_running(at))))?;
            if !with_slots {
                continue;
            }
            let state = node.server.cli(&["CLUSTER", "INFO"]).map_err(|error| error.to_string())?;
            if !state.contains("cluster_state:ok") {
                return Err(format!("node {number}: {state}"));
            }
            let replication =
                node.server.cli(&["INFO", "replication"]).map_err(|error| error.to_string())?;
            if replication.contains("master_link_status:down") {
                return Err(format!("node {number}: {replication}"));
            }
            match &first {
                Some(first) if !first.agrees_with(&view) => {
                    return Err(format!("{first:?} differs from {view:?}"));
                }
                _ => first = Some(view),
            }
        }
        Ok(())
    }

    fn running(&self) -> impl Iterator<Item = &Server> {
        self.nodes.iter().map(|node| &node.server).filter(|server| server.is_running())
    }

    /// The first that runs; if none does, the first, which then says so.
    fn any_running(&self) -> &Server {
        self.running().next().unwrap_or(&self.nodes[0].server)
    }

    fn is_running(&self, number: usize) -> bool {
        self.nodes[number].server.is_running()
    }

    fn number(&self, id: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.id == id)
    }
}

impl ClusterNode {
    /// Its server.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// What the other nodes know it by: 40 hexadecimal digits.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }
}

fn view_of(server: &Server) -> Result<View, ServerError> {
    server.cli(&["CLUSTER", "NODES"]).map(|text| View::parse(&text))
}
