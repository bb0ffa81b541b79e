//! The builder of a primary, its replicas and their sentinels.

use std::net::{IpAddr, Ipv4Addr};
use std::thread;

use super::{CALM_MS, NAME, Sentinels};
use crate::servers::binary::ServerBinary;
use crate::servers::error::ServerError;
use crate::servers::server::Server;
#[cfg(feature = "tls")]
use crate::servers::tls::Certificate;

/// Number of sentinels that must miss a primary before it counts as down.
const QUORUM: &str = "2";

/// Intervals of the sentinels in ms, much shorter than their defaults, so that a failover takes a
/// second instead of a minute.
///
/// A sentinel that detects that it was halted itself does nothing for the tilt period.
const PACE: [&str; 12] = [
    "INFO-PERIOD",
    "200",
    "PING-PERIOD",
    "200",
    "ASK-PERIOD",
    "200",
    "PUBLISH-PERIOD",
    "200",
    "ELECTION-TIMEOUT",
    "2000",
    "TILT-PERIOD",
    "2000",
];
/// A failover that failed is retried after twice this time.
const FAILOVER_TIMEOUT_MS: &str = "3000";

/// Sentinels to start, from [`Sentinels::builder`].
#[derive(Debug, Clone)]
pub struct SentinelsBuilder {
    binary: ServerBinary,
    replicas: usize,
    sentinels: usize,
    options: Vec<String>,
    password: Option<String>,
    sentinel_password: Option<String>,
    sentinel_user: Option<(String, String)>,
    ip: IpAddr,
    #[cfg(feature = "tls")]
    tls: Option<Certificate>,
    #[cfg(feature = "tls")]
    are_sentinels_plain: bool,
}

impl SentinelsBuilder {
    pub(super) fn new(binary: &ServerBinary) -> Self {
        Self {
            binary: binary.clone(),
            replicas: 1,
            sentinels: 3,
            options: Vec::new(),
            password: None,
            sentinel_password: None,
            sentinel_user: None,
            ip: Ipv4Addr::LOCALHOST.into(),
            #[cfg(feature = "tls")]
            tls: None,
            #[cfg(feature = "tls")]
            are_sentinels_plain: false,
        }
    }

    /// Sets the number of replicas of the primary.
    #[must_use]
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// Sets the number of sentinels. Two of them must agree.
    #[must_use]
    pub fn sentinels(mut self, sentinels: usize) -> Self {
        self.sentinels = sentinels;
        self
    }

    /// Adds command-line options for the primary and the replicas.
    #[must_use]
    pub fn options(mut self, options: &[&str]) -> Self {
        self.options.extend(options.iter().map(|&option| option.to_owned()));
        self
    }

    /// Sets the password of the primary and the replicas, which the sentinels know.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Sets the sentinels' own password, which clients need to query them.
    #[must_use]
    pub fn sentinel_password(mut self, password: &str) -> Self {
        self.sentinel_password = Some(password.to_owned());
        self
    }

    /// Adds a sentinel user that may only query the primary's address.
    #[must_use]
    pub fn sentinel_user(mut self, user: &str, password: &str) -> Self {
        self.sentinel_user = Some((user.to_owned(), password.to_owned()));
        self
    }

    /// Makes all servers listen on this address instead of 127.0.0.1, for example `::1`.
    #[must_use]
    pub fn ip(mut self, ip: IpAddr) -> Self {
        self.ip = ip;
        self
    }

    /// Gives all servers this certificate, and encrypts all connections: to clients, replicas and
    /// each other. Clients need no certificate. The start fails if the program was built without
    /// TLS.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, certificate: &Certificate) -> Self {
        self.tls = Some(certificate.clone());
        self
    }

    /// Makes clients query the sentinels without TLS, when [`tls`](Self::tls) is set for the
    /// servers.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn plain_sentinels(mut self) -> Self {
        self.are_sentinels_plain = true;
        self
    }

    /// Starts the servers and the sentinels, and waits until all know each other.
    ///
    /// # Errors
    /// Returns an error if a server doesn't start, or refuses a step.
    ///
    /// # Panics
    /// Panics if they don't agree within a minute.
    pub fn start(&self) -> Result<Sentinels, ServerError> {
        let primary = self.start_server(&[])?;
        let (ip, port) = primary.host();
        let count = self.replicas + self.sentinels;
        let starts: Vec<_> = (0..count)
            .map(|number| {
                let (builder, ip, port) = (self.clone(), ip.clone(), port.clone());
                thread::spawn(move || {
                    if number < builder.replicas {
                        builder.start_server(&["--replicaof", &ip, &port])
                    } else {
                        builder.start_sentinel()
                    }
                })
            })
            .collect();
        let mut servers = vec![primary];
        for start in starts {
            servers.push(start.join().map_err(|_| ServerError::NotRunning)??);
        }
        let sentinels = servers.split_off(1 + self.replicas);
        for sentinel in &sentinels {
            self.watch(sentinel, &ip, &port)?;
        }
        let sentinels = Sentinels { servers, sentinels };
        sentinels.settle();
        Ok(sentinels)
    }

    fn start_server(&self, role: &[&str]) -> Result<Server, ServerError> {
        let options: Vec<&str> = self.options.iter().map(String::as_str).collect();
        // Don't wait for more replicas that might come.
        let mut builder =
            Server::builder(&self.binary).ip(self.ip).options(&["--repl-diskless-sync-delay", "0"]);
        #[cfg(feature = "tls")]
        if let Some(certificate) = &self.tls {
            builder = builder.tls_only(certificate, None);
        }
        if let Some(password) = &self.password {
            builder = builder.password(password);
        }
        builder.options(role).options(&options).start()
    }

    fn start_sentinel(&self) -> Result<Server, ServerError> {
        let mut builder = Server::builder(&self.binary).ip(self.ip).options(&["--sentinel"]);
        #[cfg(feature = "tls")]
        if let Some(certificate) = &self.tls {
            builder = match self.are_sentinels_plain {
                true => builder.tls(certificate, None).tls_among_servers(),
                false => builder.tls_only(certificate, None),
            };
        }
        if let Some(password) = &self.sentinel_password {
            builder = builder.password(password);
        }
        builder.start()
    }

    fn watch(&self, sentinel: &Server, ip: &str, port: &str) -> Result<(), ServerError> {
        sentinel.cli(&[&["SENTINEL", "DEBUG"], PACE.as_slice()].concat())?;
        if let Some(password) = &self.sentinel_password {
            // The password that the sentinels use among themselves.
            sentinel.cli(&["SENTINEL", "CONFIG", "SET", "sentinel-pass", password])?;
        }
        if let Some((user, password)) = &self.sentinel_user {
            let password = format!(">{password}");
            let rules = ["on", &password, "-@all", "+auth", "+hello", "+ping", "+role", "+client"];
            let asks = ["allchannels", "+subscribe", "+psubscribe", "+sentinel"];
            sentinel.cli(&[&["ACL", "SETUSER", user], rules.as_slice(), &asks].concat())?;
        }
        sentinel.cli(&["SENTINEL", "MONITOR", NAME, ip, port, QUORUM])?;
        let mut settings = vec![
            "SENTINEL",
            "SET",
            NAME,
            "down-after-milliseconds",
            CALM_MS,
            "failover-timeout",
            FAILOVER_TIMEOUT_MS,
        ];
        if let Some(password) = &self.password {
            settings.extend(["auth-pass", password]);
        }
        sentinel.cli(&settings).map(|_| ())
    }
}
