//! The address of a server, and the access options.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::KeyPrefix;

use super::traffic::Traffic;
use crate::access::{AskCredentials, CredentialsSource, TlsOptions};
use crate::redis_url::{Host, Place, RedisUrl, Servers, UrlError};

/// A server's address, the credentials, and the prefix of the store's keys.
#[derive(Clone)]
pub(crate) struct Endpoint {
    /// The place; for a primary that is looked up, that of one of its sentinels.
    pub(super) place: Place,
    pub(super) part: Part,
    pub(super) database: u16,
    /// The place, for messages.
    pub(super) address: String,
    pub(crate) prefix: KeyPrefix,
    pub(super) credentials: CredentialsSource,
    /// `None` without encryption.
    pub(super) tls: Option<TlsOptions>,
    /// Counts the calls to this server and to the store's others.
    pub(crate) traffic: Arc<Traffic>,
    /// Whether calls wait for the replicas' acknowledgement.
    pub(super) waits: bool,
    /// Maximum time of one attempt to connect. It continues in the background after its callers have given
    /// up, so that a slow handshake still succeeds.
    pub(crate) connect_deadline: Duration,
}

/// The part of a server in its topology.
#[derive(Clone, Debug)]
pub(super) enum Part {
    /// A single server with all the keys.
    Alone,
    /// The primary of sentinels, which are asked for its address at each connection.
    Watched,
    /// A server that sentinels named as the primary.
    Named,
    Sentinel,
    /// A node of a cluster.
    Node,
}

impl Endpoint {
    pub(crate) fn new(url: &RedisUrl) -> Result<Self, UrlError> {
        let (place, part) = match &url.servers {
            Servers::One(place) => (place.clone(), Part::Alone),
            Servers::Cluster(nodes) => (first(nodes), Part::Node),
            Servers::Sentinels(sentinels, _) => (first(sentinels), Part::Alone),
        };
        if url.is_encrypted() && cfg!(not(feature = "tls")) {
            return Err(UrlError::new(format!(
                "{url}: this build can't speak TLS: enable the feature `tls`"
            )));
        }
        Ok(Self {
            address: match &url.servers {
                Servers::One(Place::Tcp(host)) => host.to_string(),
                Servers::One(Place::Unix(path)) => path.to_string_lossy().into_owned(),
                Servers::Cluster(nodes) => sorted(nodes),
                Servers::Sentinels(sentinels, name) => format!("{}/{name}", sorted(sentinels)),
            },
            place,
            part,
            database: url.database,
            prefix: KeyPrefix::default(),
            credentials: CredentialsSource::Fixed(url.credentials.clone()),
            tls: url.tls.clone(),
            traffic: Arc::default(),
            waits: false,
            connect_deadline: Duration::from_secs(1),
        })
    }

    /// Returns whether the server is a node of a cluster.
    pub(super) const fn is_node(&self) -> bool {
        matches!(self.part, Part::Node)
    }

    /// Returns another server with the same access options.
    pub(crate) fn at(&self, host: Host) -> Self {
        let part = match &self.part {
            Part::Watched => Part::Named,
            part => part.clone(),
        };
        Self { address: host.to_string(), place: Place::Tcp(host), part, ..self.clone() }
    }

    /// Returns the access options of this primary's sentinels: the primary's, without credentials.
    pub(crate) fn of_sentinels(&self) -> Self {
        let credentials = CredentialsSource::Fixed(None);
        Self { part: Part::Sentinel, database: 0, credentials, ..self.clone() }
    }

    /// Returns the access options of a primary that sentinels watch.
    pub(super) fn watched(self) -> Self {
        Self { part: Part::Watched, ..self }
    }

    /// Sets the TLS options, or disables encryption.
    pub(crate) fn replace_tls(&mut self, options: Option<TlsOptions>) {
        self.tls = options;
    }

    /// Returns the longest pause between two attempts to connect. It is short if another server may take
    /// over, which must be noticed soon.
    pub(super) const fn longest_pause(&self) -> Duration {
        match &self.part {
            Part::Alone => Duration::from_secs(1),
            _ => Duration::from_millis(100),
        }
    }

    /// Returns the host, if there is one.
    pub(crate) const fn host(&self) -> Option<&Host> {
        match &self.place {
            Place::Tcp(host) => Some(host),
            Place::Unix(_) => None,
        }
    }

    /// Sets a source of credentials, which is called for each connection.
    pub(crate) fn ask_credentials(&mut self, ask: Arc<AskCredentials>) {
        self.credentials = CredentialsSource::Asked(ask);
    }

    /// Sets the TLS options of an encrypted connection.
    pub(crate) fn set_tls(&mut self, options: TlsOptions) -> Result<(), UrlError> {
        if let Some(why) = options.problem() {
            return Err(UrlError::new(format!("the option of TLS {why}")));
        }
        match &mut self.tls {
            Some(tls) => *tls = options,
            None if options == TlsOptions::default() => {}
            None => {
                return Err(UrlError::new(format!(
                    "there are options of TLS, and the store URL redis://{self} is not encrypted: write rediss:// instead of redis://, or leave them out"
                )));
            }
        }
        Ok(())
    }

    /// Returns the scheme of a URL with these access options.
    pub(super) const fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "rediss" } else { "redis" }
    }

    /// Returns the options of its URL: nothing, or a query that starts with a question mark.
    pub(super) fn options(&self) -> String {
        self.tls.as_ref().map(ToString::to_string).unwrap_or_default()
    }
}

/// Returns the first host.
fn first(hosts: &[Host]) -> Place {
    let none = || Host { name: String::new(), port: 0 };
    Place::Tcp(hosts.first().cloned().unwrap_or_else(none))
}

/// Joins the hosts in a fixed order, so that the same hosts are the same servers.
fn sorted(hosts: &[Host]) -> String {
    let mut hosts: Vec<_> = hosts.iter().map(ToString::to_string).collect();
    hosts.sort_unstable();
    hosts.dedup();
    hosts.join(",")
}

impl fmt::Display for Endpoint {
    /// Writes the address, without user and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)?;
        if self.database == 0 { Ok(()) } else { write!(f, "/{}", self.database) }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({self})")
    }
}
