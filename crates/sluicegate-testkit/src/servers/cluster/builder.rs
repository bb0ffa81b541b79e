//! The builder of a cluster.

use std::net::{IpAddr, Ipv4Addr};
use std::thread;

use super::{Cluster, ClusterNode, LAST_SLOT};
use crate::servers::binary::ServerBinary;
use crate::servers::error::ServerError;
use crate::servers::server::Server;
#[cfg(feature = "tls")]
use crate::servers::tls::Certificate;
use crate::wait::until_seldom;

/// Time in ms after which nodes miss each other: soon, but not on a machine that is merely busy.
const NODE_TIMEOUT_MS: &str = "1500";

/// A cluster to start, from [`Cluster::builder`].
#[derive(Debug, Clone)]
pub struct ClusterBuilder {
    binary: ServerBinary,
    primaries: usize,
    replicas: usize,
    options: Vec<String>,
    password: Option<String>,
    ip: IpAddr,
    #[cfg(feature = "tls")]
    tls: Option<Certificate>,
}

impl ClusterBuilder {
    pub(super) fn new(binary: &ServerBinary) -> Self {
        Self {
            binary: binary.clone(),
            primaries: 3,
            replicas: 1,
            options: Vec::new(),
            password: None,
            ip: Ipv4Addr::LOCALHOST.into(),
            #[cfg(feature = "tls")]
            tls: None,
        }
    }

    /// Sets the number of primaries, which share the slots evenly. Automatic failovers need three.
    #[must_use]
    pub fn primaries(mut self, primaries: usize) -> Self {
        self.primaries = primaries.max(1);
        self
    }

    /// Sets the number of replicas of each primary.
    #[must_use]
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// Adds command-line options for all nodes, such as `["--cluster-require-full-coverage",
    /// "no"]`.
    #[must_use]
    pub fn options(mut self, options: &[&str]) -> Self {
        self.options.extend(options.iter().map(|&option| option.to_owned()));
        self
    }

    /// Sets the password of all nodes.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Makes all nodes listen on this address instead of 127.0.0.1, for example `::1`.
    #[must_use]
    pub fn ip(mut self, ip: IpAddr) -> Self {
        self.ip = ip;
        self
    }

    /// Gives all nodes this certificate, and encrypts all connections: to clients, replicas and
    /// each other. Clients need no certificate. The start fails if the program was built without
    /// TLS.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, certificate: &Certificate) -> Self {
        self.tls = Some(certificate.clone());
        self
    }

    /// Starts the nodes, forms a cluster of them and waits until they all agree on it.
    ///
    /// # Errors
    /// Returns an error if a server doesn't start, or refuses a step.
    ///
    /// # Panics
    /// Panics if the nodes don't agree within a minute.
    pub fn start(&self) -> Result<Cluster, ServerError> {
        let count = self.primaries * (1 + self.replicas);
        let starts: Vec<_> = (0..count)
            .map(|_| {
                let builder = self.clone();
                thread::spawn(move || builder.start_node())
            })
            .collect();
        let mut nodes = Vec::with_capacity(count);
        for start in starts {
            nodes.push(start.join().map_err(|_| ServerError::NotRunning)??);
        }
        let cluster = Cluster { nodes, password: self.password.clone() };
        for number in 0..self.primaries {
            let share = |part| part * (usize::from(LAST_SLOT) + 1) / self.primaries;
            let (begin, end) = (share(number), share(number + 1) - 1);
            let server = &cluster.nodes[number].server;
            // Different epochs from the start: otherwise the nodes first resolve the conflict.
            server.cli(&["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()])?;
            server.cli(&["CLUSTER", "ADDSLOTSRANGE", &begin.to_string(), &end.to_string()])?;
        }
        let (first, others) = cluster.nodes.split_at(1);
        for other in others {
            let (ip, port) = other.server.host();
            first[0].server.cli(&["CLUSTER", "MEET", &ip, &port])?;
        }
        until_seldom("the nodes know each other", || cluster.disagreement(false));
        for number in self.primaries..count {
            let primary = &cluster.nodes[number % self.primaries].id;
            cluster.nodes[number].server.cli(&["CLUSTER", "REPLICATE", primary])?;
        }
        cluster.settle();
        Ok(cluster)
    }

    fn start_node(&self) -> Result<ClusterNode, ServerError> {
        let options: Vec<&str> = self.options.iter().map(String::as_str).collect();
        let fixed = [
            ["--cluster-enabled", "yes"],
            ["--cluster-node-timeout", NODE_TIMEOUT_MS],
            // A replica may take over regardless of the time since its primary's last data.
            ["--cluster-replica-validity-factor", "0"],
            ["--cluster-replica-no-failover", "yes"],
            // Don't wait for more replicas that might come.
            ["--repl-diskless-sync-delay", "0"],
        ];
        let mut builder = Server::builder(&self.binary).ip(self.ip).options(fixed.as_flattened());
        #[cfg(feature = "tls")]
        if let Some(certificate) = &self.tls {
            builder = builder.tls_only(certificate, None).options(&["--tls-cluster", "yes"]);
        }
        if let Some(password) = &self.password {
            builder = builder.password(password);
        }
        let server = builder.options(&options).start()?;
        let id = server.cli(&["CLUSTER", "MYID"])?;
        Ok(ClusterNode { server, id })
    }
}
