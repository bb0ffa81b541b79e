//! Sentinels that watch a primary and its replicas.

use std::thread;

use super::binary::{ServerBinary, available};
use super::error::ServerError;
use super::resp::Reply;
use super::server::Server;
use crate::wait::until_seldom;

/// What the sentinels call what they watch.
const NAME: &str = "main";
/// How many of them must miss a primary before it counts as down.
const QUORUM: &str = "2";

/// How often sentinels do what they do, in ms: much more often than they would by themselves, so
/// that a fail-over takes a second and not a minute. What is watched counts as down after
/// [`DOWN_AFTER_MS`]: soon, and not yet on a machine that is merely busy.
const PACE: [&str; 10] = [
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
];
const DOWN_AFTER_MS: &str = "1500";
/// After twice this time a fail-over that came to nothing is tried again.
const FAILOVER_TIMEOUT_MS: &str = "3000";

/// A primary, its replicas, and sentinels that agree on who is the primary, with a quorum of two.
/// They end with this value.
///
/// Servers go by their number; server 0 began as the primary.
///
/// ```no_run
/// use sluicegate_testkit::servers::{Sentinels, available};
///
/// let mut sentinels = Sentinels::builder(&available()?[0]).start()?;
/// let old = sentinels.primary();
/// let new = sentinels.kill_primary()?;
/// assert_ne!(new, old);
/// let port = sentinels.server(new).port();
/// assert_eq!(sentinels.address_of_primary(0)?, Some(("127.0.0.1".to_owned(), port)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Sentinels {
    servers: Vec<Server>,
    sentinels: Vec<Server>,
}

/// Sentinels to be started, from [`Sentinels::builder`].
#[derive(Debug, Clone)]
pub struct SentinelsBuilder {
    binary: ServerBinary,
    replicas: usize,
    sentinels: usize,
    options: Vec<String>,
    password: Option<String>,
    sentinel_password: Option<String>,
    sentinel_user: Option<(String, String)>,
}

impl Sentinels {
    /// A primary with one replica and three sentinels, of the first program of [`available`].
    ///
    /// # Errors
    /// As [`SentinelsBuilder::start`].
    pub fn start() -> Result<Self, ServerError> {
        // `available` never answers an empty list.
        Self::builder(available()?.first().ok_or(ServerError::NotRunning)?).start()
    }

    /// Sentinels of this program that are yet to be started: three, with a primary and one
    /// replica, if nothing else is said.
    #[must_use]
    pub fn builder(binary: &ServerBinary) -> SentinelsBuilder {
        SentinelsBuilder {
            binary: binary.clone(),
            replicas: 1,
            sentinels: 3,
            options: Vec::new(),
            password: None,
            sentinel_password: None,
            sentinel_user: None,
        }
    }

    /// What the sentinels call what they watch: `main`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        NAME
    }

    /// A primary or replica.
    #[must_use]
    pub fn server(&self, number: usize) -> &Server {
        &self.servers[number]
    }

    /// A primary or replica, to pause, kill or restart it. Who is restarted comes back as what it
    /// began as, without its data, until the sentinels have noticed.
    pub fn server_mut(&mut self, number: usize) -> &mut Server {
        &mut self.servers[number]
    }

    /// How many servers there are besides the sentinels.
    #[must_use]
    pub fn server_count(&self) -> usize {
        self.servers.len()
    }

    /// The sentinels.
    #[must_use]
    pub fn sentinels(&self) -> &[Server] {
        &self.sentinels
    }

    /// A sentinel, to pause, kill or restart it: it remembers what it knew.
    pub fn sentinel_mut(&mut self, number: usize) -> &mut Server {
        &mut self.sentinels[number]
    }

    /// Where this sentinel says that the primary is, as an address and a port.
    ///
    /// # Errors
    /// When it doesn't answer.
    pub fn address_of_primary(
        &self,
        sentinel: usize,
    ) -> Result<Option<(String, u16)>, ServerError> {
        address_of_primary(&self.sentinels[sentinel])
    }

    /// The number of the server that is the primary as the first running sentinel sees it.
    ///
    /// # Panics
    /// If it sees none that is ours.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a test fails by panicking")]
    pub fn primary(&self) -> usize {
        let sentinel = self.running_sentinels().next().expect("a sentinel runs");
        let port = address_of_primary(sentinel).ok().flatten().map(|(_, port)| port);
        let at = self.servers.iter().position(|server| Some(server.port()) == port);
        at.expect("the sentinels watch our servers")
    }

    /// Waits until all running sentinels know each other and name the same primary, which knows
    /// that it is one, and until all running replicas follow it.
    ///
    /// # Panics
    /// If that takes more than a minute.
    pub fn settle(&self) {
        until_seldom("the sentinels agree", || self.disagreement());
    }

    /// Lets the sentinels make a replica the primary (`SENTINEL FAILOVER`), though the primary
    /// runs, and waits until all know; answers the number of the new primary.
    ///
    /// # Errors
    /// When the sentinel refuses.
    ///
    /// # Panics
    /// If no replica is fit for more than a minute.
    pub fn fail_over(&self) -> Result<usize, ServerError> {
        let old = self.primary();
        let sentinel = self.running_sentinels().next().ok_or(ServerError::NotRunning)?;
        until_seldom("a replica is fit", || {
            match sentinel.cli(&["SENTINEL", "FAILOVER", NAME]) {
                // What it last heard of the replica is a moment too old, or from before the last
                // change.
                Err(ServerError::Refused(why)) if why.starts_with("NOGOODSLAVE") => Err(why),
                outcome => Ok(outcome),
            }
        })?;
        Ok(self.await_other_primary(old))
    }

    /// Kills the primary (`SIGKILL`) and waits until the sentinels have made a replica the primary,
    /// whose number it answers.
    ///
    /// # Errors
    /// When the primary doesn't run.
    pub fn kill_primary(&mut self) -> Result<usize, ServerError> {
        let old = self.primary();
        self.servers[old].kill()?;
        Ok(self.await_other_primary(old))
    }

    fn await_other_primary(&self, old: usize) -> usize {
        until_seldom("another primary", || match self.primary() {
            primary if primary == old => Err(primary),
            _ => Ok(()),
        });
        self.settle();
        self.primary()
    }

    fn running_sentinels(&self) -> impl Iterator<Item = &Server> {
        self.sentinels.iter().filter(|sentinel| sentinel.is_running())
    }

    fn disagreement(&self) -> Result<(), String> {
        let primary = &self.servers[self.primary()];
        let running = self.servers.iter().filter(|server| server.is_running());
        let replicas: Vec<_> = running.filter(|it| it.port() != primary.port()).collect();
        let count = self.running_sentinels().count();
        for sentinel in self.running_sentinels() {
            let port = address_of_primary(sentinel).map_err(text)?.map(|(_, port)| port);
            if port != Some(primary.port()) {
                return Err(format!("a sentinel names {port:?}"));
            }
            let others = flags(sentinel, "SENTINELS").map_err(text)?;
            // Valkey keeps on saying `master_down` of one that agreed that the last one was.
            let is_there =
                |flags: &str| !flags.contains("s_down") && !flags.contains("disconnected");
            if others.iter().filter(|(_, flags)| is_there(flags)).count() + 1 < count {
                return Err(format!("a sentinel knows {others:?}"));
            }
            let known = flags(sentinel, "REPLICAS").map_err(text)?;
            let is_fit = |server: &&Server| known.contains(&(server.port(), "slave".to_owned()));
            if !replicas.iter().all(is_fit) {
                return Err(format!("a sentinel sees the replicas {known:?}"));
            }
            // In the middle of a fail-over it would refuse another one.
            let state = state(sentinel).map_err(text)?;
            if state != "master" {
                return Err(format!("a sentinel sees the primary as {state}"));
            }
        }
        let role = primary.cli(&["INFO", "replication"]).map_err(text)?;
        if !role.contains("role:master") {
            return Err(role);
        }
        let follows = format!("master_port:{}\r\nmaster_link_status:up", primary.port());
        for replica in replicas {
            let role = replica.cli(&["INFO", "replication"]).map_err(text)?;
            if !role.contains(&follows) {
                return Err(role);
            }
        }
        Ok(())
    }
}

impl SentinelsBuilder {
    /// How many replicas the primary has.
    #[must_use]
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// How many sentinels there are, of which two must agree.
    #[must_use]
    pub fn sentinels(mut self, sentinels: usize) -> Self {
        self.sentinels = sentinels;
        self
    }

    /// Further command-line options for the primary and the replicas.
    #[must_use]
    pub fn options(mut self, options: &[&str]) -> Self {
        self.options.extend(options.iter().map(|&option| option.to_owned()));
        self
    }

    /// The password of the primary and the replicas, which the sentinels know.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// The sentinels' own password, which clients must give to ask them.
    #[must_use]
    pub fn sentinel_password(mut self, password: &str) -> Self {
        self.sentinel_password = Some(password.to_owned());
        self
    }

    /// A user of the sentinels' own with no more rights than to ask where the primary is.
    #[must_use]
    pub fn sentinel_user(mut self, user: &str, password: &str) -> Self {
        self.sentinel_user = Some((user.to_owned(), password.to_owned()));
        self
    }

    /// Starts the servers and the sentinels, and waits until all know each other.
    ///
    /// # Errors
    /// When a server doesn't come up, or refuses a step.
    ///
    /// # Panics
    /// If they don't agree within a minute.
    pub fn start(&self) -> Result<Sentinels, ServerError> {
        let primary = self.start_server(&[])?;
        let port = primary.port().to_string();
        let count = self.replicas + self.sentinels;
        let starts: Vec<_> = (0..count)
            .map(|number| {
                let (builder, port) = (self.clone(), port.clone());
                thread::spawn(move || {
                    if number < builder.replicas {
                        builder.start_server(&["--replicaof", "127.0.0.1", &port])
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
            self.watch(sentinel, &port)?;
        }
        let sentinels = Sentinels { servers, sentinels };
        sentinels.settle();
        Ok(sentinels)
    }

    fn start_server(&self, role: &[&str]) -> Result<Server, ServerError> {
        let options: Vec<&str> = self.options.iter().map(String::as_str).collect();
        // Without waiting for more replicas that might come.
        let mut builder =
            Server::builder(&self.binary).options(&["--repl-diskless-sync-delay", "0"]);
        if let Some(password) = &self.password {
            builder = builder.password(password);
        }
        builder.options(role).options(&options).start()
    }

    fn start_sentinel(&self) -> Result<Server, ServerError> {
        let mut builder = Server::builder(&self.binary).options(&["--sentinel"]);
        if let Some(password) = &self.sentinel_password {
            builder = builder.password(password);
        }
        builder.start()
    }

    fn watch(&self, sentinel: &Server, port: &str) -> Result<(), ServerError> {
        sentinel.cli(&[&["SENTINEL", "DEBUG"], PACE.as_slice()].concat())?;
        if let Some(password) = &self.sentinel_password {
            // What the sentinels say to each other.
            sentinel.cli(&["SENTINEL", "CONFIG", "SET", "sentinel-pass", password])?;
        }
        if let Some((user, password)) = &self.sentinel_user {
            let password = format!(">{password}");
            let rules = ["on", &password, "-@all", "+auth", "+hello", "+ping", "+role", "+client"];
            let asks = ["allchannels", "+subscribe", "+psubscribe", "+sentinel"];
            sentinel.cli(&[&["ACL", "SETUSER", user], rules.as_slice(), &asks].concat())?;
        }
        sentinel.cli(&["SENTINEL", "MONITOR", NAME, "127.0.0.1", port, QUORUM])?;
        let mut settings = vec![
            "SENTINEL",
            "SET",
            NAME,
            "down-after-milliseconds",
            DOWN_AFTER_MS,
            "failover-timeout",
            FAILOVER_TIMEOUT_MS,
        ];
        if let Some(password) = &self.password {
            settings.extend(["auth-pass", password]);
        }
        sentinel.cli(&settings).map(|_| ())
    }
}

fn address_of_primary(sentinel: &Server) -> Result<Option<(String, u16)>, ServerError> {
    match sentinel.command(&[b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", NAME.as_bytes()])? {
        Reply::Array(parts) => {
            let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
            let [ip, port] = parts.as_slice() else { return Ok(None) };
            Ok(port.parse().ok().map(|port| (ip.clone(), port)))
        }
        Reply::Error(why) => Err(ServerError::Refused(why)),
        _ => Ok(None),
    }
}

/// The ports of other sentinels or of replicas, and what a sentinel thinks of each.
fn flags(sentinel: &Server, whose: &str) -> Result<Vec<(u16, String)>, ServerError> {
    let words = [b"SENTINEL", whose.as_bytes(), NAME.as_bytes()];
    let Reply::Array(members) = sentinel.command(&words)? else { return Ok(Vec::new()) };
    let found = members
        .iter()
        .filter_map(|member| Some((field(member, "port")?.parse().ok()?, field(member, "flags")?)));
    Ok(found.collect())
}

fn state(sentinel: &Server) -> Result<String, ServerError> {
    let reply = sentinel.command(&[b"SENTINEL", b"MASTER", NAME.as_bytes()])?;
    Ok(field(&reply, "flags").unwrap_or_default())
}

/// A field of a reply in which names and values take turns.
fn field(reply: &Reply, name: &str) -> Option<String> {
    let Reply::Array(words) = reply else { return None };
    let mut pairs = words.chunks_exact(2);
    pairs.find(|pair| pair[0].to_string() == name).map(|pair| pair[1].to_string())
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn text(error: ServerError) -> String {
    error.to_string()
}
