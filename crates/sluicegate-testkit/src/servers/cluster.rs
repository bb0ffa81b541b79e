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

/// A cluster of primaries, each with the same number of replicas. It uses the servers' own
/// protocol, and nothing is simulated. Dropping this value ends it.
///
/// Nodes are identified by their number. Those before [`primaries`](ClusterBuilder::primaries)
/// began as primaries, and node `primaries + i` as a replica of node `i % primaries`; failovers
/// change that.
///
/// A replica takes over on its own only after [`lose_primary_of`](Self::lose_primary_of) has killed
/// its primary. A primary that a busy machine halts for a while is not replaced.
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

/// The address that a node announces, if it isn't the one on which it listens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Announced {
    /// Replaces the listening address. The nodes also use it among themselves, so they must listen
    /// there: start them with the option `--bind 127.0.0.1 127.0.0.2`, for example.
    pub ip: Option<IpAddr>,
    /// Replaces the port for clients, for example by a proxy's port. Nodes don't use it among
    /// themselves.
    pub port: Option<u16>,
    /// A name in addition to the IP address. The option `--cluster-preferred-endpoint-type
    /// hostname` determines whether redirections contain it.
    pub hostname: Option<String>,
}

impl Cluster {
    /// Starts three primaries with one replica each, of the first program of [`available`].
    ///
    /// # Errors
    /// Returns the errors of [`ClusterBuilder::start`].
    pub fn start() -> Result<Self, ServerError> {
        // `available` never returns an empty list.
        Self::builder(available()?.first().ok_or(ServerError::NotRunning)?).start()
    }

    /// Returns a builder for a cluster of this program, by default three primaries with one replica
    /// each.
    #[must_use]
    pub fn builder(binary: &ServerBinary) -> ClusterBuilder {
        ClusterBuilder::new(binary)
    }

    /// Returns the nodes, by number.
    #[must_use]
    pub fn nodes(&self) -> &[ClusterNode] {
        &self.nodes
    }

    /// Returns the node with this number.
    #[must_use]
    pub fn node(&self, number: usize) -> &ClusterNode {
        &self.nodes[number]
    }

    /// Returns the server of a node, to pause, kill or restart it. A restarted node is again the
    /// same member, without its data.
    pub fn server_mut(&mut self, number: usize) -> &mut Server {
        &mut self.nodes[number].server
    }

    /// Returns the URLs of all nodes.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.server.url()).collect()
    }

    /// Returns the slot of a key, as the servers compute it. Keys with the same part in braces have
    /// the same slot: `{one}a` and `{one}b`.
    ///
    /// # Errors
    /// Returns an error if no node answers.
    pub fn slot_of(&self, key: &[u8]) -> Result<u16, ServerError> {
        match self.any_running().command(&[b"CLUSTER", b"KEYSLOT", key])? {
            Reply::Integer(slot) => Ok(u16::try_from(slot).unwrap_or(LAST_SLOT)),
            reply => Err(ServerError::Refused(reply.to_string())),
        }
    }

    /// Returns the number of the node that serves a slot. Just after a change, nodes may disagree,
    /// so call [`settle`](Self::settle) first.
    ///
    /// # Panics
    /// Panics if no node serves it.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a test fails by panicking")]
    pub fn primary_of(&self, slot: u16) -> usize {
        let owner = view_of(self.any_running()).ok().and_then(|view| view.owner(slot));
        owner.and_then(|id| self.number(&id)).expect("every slot is served by a node")
    }

    /// Returns the numbers of the running replicas of a node.
    ///
    /// # Errors
    /// Returns an error if no node answers.
    pub fn replicas_of(&self, number: usize) -> Result<Vec<usize>, ServerError> {
        let view = view_of(self.any_running())?;
        let ids = view.replicas_of(&self.nodes[number].id).into_iter();
        Ok(ids.filter_map(|id| self.number(&id)).filter(|&at| self.is_running(at)).collect())
    }

    /// Waits until every running node sees the same cluster, then [calms](Self::calm) the nodes.
    ///
    /// In this cluster the nodes know which nodes run, all slots are served, and every replica
    /// follows its primary.
    ///
    /// # Panics
    /// Panics if that takes more than a minute.
    pub fn settle(&self) {
        until_seldom("the nodes agree", || self.disagreement(true));
        self.calm();
    }

    /// Prevents replicas from taking over again. Call it after
    /// [`lose_primary_of`](Self::lose_primary_of), once one has taken over.
    ///
    /// # Panics
    /// Panics if a node doesn't receive this within a minute.
    pub fn calm(&self) {
        self.let_replicas_take_over(false);
    }

    /// Makes a replica the primary of its slots (`CLUSTER FAILOVER`), and waits until all nodes
    /// know. The old primary agrees and becomes its replica.
    ///
    /// # Errors
    /// Returns an error if the node isn't a replica.
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

    /// Kills the primary of a slot (`SIGKILL`), permits its replicas to take over, and immediately
    /// returns its number. Once one has taken over, call [`settle`](Self::settle) or
    /// [`calm`](Self::calm).
    ///
    /// # Errors
    /// Returns an error if the primary doesn't run.
    ///
    /// # Panics
    /// Panics if a node doesn't receive the permission within a minute.
    pub fn lose_primary_of(&mut self, slot: u16) -> Result<usize, ServerError> {
        let primary = self.primary_of(slot);
        self.nodes[primary].server.kill()?;
        self.let_replicas_take_over(true);
        Ok(primary)
    }

    /// Kills the primary of a slot (`SIGKILL`) and waits until one of its replicas has taken over.
    /// Returns the number of the new primary.
    ///
    /// # Errors
    /// Returns an error if the primary doesn't run.
    pub fn kill_primary_of(&mut self, slot: u16) -> Result<usize, ServerError> {
        self.lose_primary_of(slot)?;
        self.settle();
        Ok(self.primary_of(slot))
    }

    /// Halts the primary of a slot and waits until one of its replicas has taken over. Returns the
    /// numbers of both.
    ///
    /// The old primary still considers itself the primary until it is resumed with
    /// [`server_mut`](Self::server_mut) and [`Server::resume`] and learns of the change. Until
    /// then, no other method of this value gets an answer.
    ///
    /// # Errors
    /// Returns an error if the primary doesn't run.
    ///
    /// # Panics
    /// Panics if no replica takes over within a minute.
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

    /// Makes a node announce another address, and waits until all nodes know. Restarting the node
    /// undoes it.
    ///
    /// # Errors
    /// Returns an error if the node refuses an invalid address or name.
    pub fn announce(&self, number: usize, announced: &Announced) -> Result<(), ServerError> {
        let node = &self.nodes[number];
        let settings = [
            ("cluster-announce-ip", announced.ip.map(|ip| ip.to_string())),
            ("cluster-announce-port", announced.port.map(|port| port.to_string())),
            ("cluster-announce-hostname", announced.hostname.clone()),
        ];
        for (name, value) in settings {
            // Each setting has a value that means none.
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
                // A node shows only its name as its own address.
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

    /// Returns the numbers of the running nodes that the node `number` considers primaries.
    pub(super) fn primaries_seen_by(&self, number: usize) -> Result<Vec<usize>, ServerError> {
        let view = view_of(&self.nodes[number].server)?;
        let all = 0..self.nodes.len();
        Ok(all.filter(|&at| self.is_running(at) && view.is_primary(&self.nodes[at].id)).collect())
    }

    /// Returns an error that names the first disagreement between the nodes.
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

    /// Returns the first running server. If none runs, returns the first, whose command then fails.
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
    /// Returns the node's server.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Returns the id under which the other nodes know it: 40 hexadecimal digits.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }
}

fn view_of(server: &Server) -> Result<View, ServerError> {
    server.cli(&["CLUSTER", "NODES"]).map(|text| View::parse(&text))
}
