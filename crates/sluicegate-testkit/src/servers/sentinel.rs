//! Sentinels that watch a primary and its replicas.

mod builder;

use super::binary::{ServerBinary, available};
use super::error::ServerError;
use super::resp::Reply;
use super::server::Server;
use crate::wait::until_seldom;
pub use builder::SentinelsBuilder;

/// What the sentinels call what they watch.
const NAME: &str = "main";
/// How long a server is silent before it counts as down. A busy machine halts servers for seconds, and
/// what is elected then is not what a test goes by: so nothing is missed soon but what was lost on
/// purpose.
const CALM_MS: &str = "60000";
const ALERT_MS: &str = "1500";
const NO_PRIMARY: &str = "the server that they name is a replica";

/// A primary, its replicas, and sentinels that agree on who is the primary, with a quorum of two.
/// They end with this value.
///
/// Servers go by their number; server 0 began as the primary, and is it until a test says otherwise:
/// the sentinels bear with a server that is silent for less than a minute, but for the one that
/// [`lose_primary`](Self::lose_primary) kills.
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
        SentinelsBuilder::new(binary)
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
    pub fn primary(&self) -> usize {
        until_seldom("a sentinel names a server of ours", || {
            let sentinel = self.running_sentinels().next().ok_or("no sentinel runs")?;
            let address = address_of_primary(sentinel).map_err(text)?;
            let port = address.as_ref().map(|(_, port)| *port);
            let at = self.servers.iter().position(|server| Some(server.address().port()) == port);
            at.ok_or_else(|| format!("it names {address:?}"))
        })
    }

    /// Waits until all running sentinels know each other and name the same primary, which knows
    /// that it is one, and until all running replicas follow it. From then on they are calm.
    ///
    /// # Panics
    /// If that takes more than a minute.
    pub fn settle(&self) {
        let mut is_alert = false;
        until_seldom("the sentinels agree", || {
            let outcome = self.disagreement();
            if let Err(why) = &outcome
                && why.starts_with(NO_PRIMARY)
                && !is_alert
            {
                // One that was halted has made a replica of the server that others elected meanwhile.
                // They miss it for that, and as soon as they miss anything.
                self.set_down_after(ALERT_MS);
                is_alert = true;
            }
            outcome
        });
        self.calm();
    }

    /// Lets the sentinels bear with silence again, after [`lose_primary`](Self::lose_primary) and
    /// once another server is the primary: what they have begun they end.
    ///
    /// # Panics
    /// If one doesn't hear that within a minute.
    pub fn calm(&self) {
        self.set_down_after(CALM_MS);
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
        until_seldom("a fail-over", || {
            if self.primary() != old {
                self.settle();
                let now = self.primary();
                return if now == old { Err("it was undone".to_owned()) } else { Ok(Ok(now)) };
            }
            match sentinel.cli(&["SENTINEL", "FAILOVER", NAME]) {
                // Begun, which may come to nothing: then it is begun again.
                Ok(_) => Err("it begins".to_owned()),
                // What it last heard of the replica is a moment too old, or from before the last
                // change; or it is about it.
                Err(ServerError::Refused(why))
                    if why.starts_with("NOGOODSLAVE") || why.starts_with("INPROG") =>
                {
                    Err(why)
                }
                Err(error) => Ok(Err(error)),
            }
        })
    }

    /// Kills the primary (`SIGKILL`), has the sentinels miss it soon, and answers its number at
    /// once. [`settle`](Self::settle) or [`calm`](Self::calm) once another has taken its place.
    ///
    /// # Errors
    /// When the primary doesn't run.
    ///
    /// # Panics
    /// If a sentinel doesn't hear of it within a minute.
    pub fn lose_primary(&mut self) -> Result<usize, ServerError> {
        let old = self.primary();
        self.servers[old].kill()?;
        self.set_down_after(ALERT_MS);
        Ok(old)
    }

    /// Kills the primary (`SIGKILL`) and waits until the sentinels have made a replica the primary,
    /// whose number it answers.
    ///
    /// # Errors
    /// When the primary doesn't run.
    pub fn kill_primary(&mut self) -> Result<usize, ServerError> {
        let old = self.lose_primary()?;
        until_seldom("another primary", || match self.primary() {
            primary if primary == old => Err(primary),
            _ => Ok(()),
        });
        self.settle();
        Ok(self.primary())
    }

    fn set_down_after(&self, milliseconds: &str) {
        let words = ["SENTINEL", "SET", NAME, "down-after-milliseconds", milliseconds];
        for sentinel in self.running_sentinels() {
            until_seldom("a sentinel hears how long to wait", || {
                sentinel.cli(&words).map_err(text)
            });
        }
    }

    fn running_sentinels(&self) -> impl Iterator<Item = &Server> {
        self.sentinels.iter().filter(|sentinel| sentinel.is_running())
    }

    fn disagreement(&self) -> Result<(), String> {
        let primary = &self.servers[self.primary()];
        let running = self.servers.iter().filter(|server| server.is_running());
        let replicas: Vec<_> = running.filter(|it| it.address() != primary.address()).collect();
        let count = self.running_sentinels().count();
        for sentinel in self.running_sentinels() {
            let port = address_of_primary(sentinel).map_err(text)?.map(|(_, port)| port);
            if port != Some(primary.address().port()) {
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
            let is_fit =
                |server: &&Server| known.contains(&(server.address().port(), "slave".to_owned()));
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
            return Err(format!("{NO_PRIMARY}: {role}"));
        }
        let follows = format!("master_port:{}\r\nmaster_link_status:up", primary.address().port());
        for replica in replicas {
            let role = replica.cli(&["INFO", "replication"]).map_err(text)?;
            if !role.contains(&follows) {
                return Err(role);
            }
        }
        Ok(())
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
