//! Sentinels that watch a primary and its replicas.

mod builder;

use super::binary::{ServerBinary, available};
use super::error::ServerError;
use super::resp::Reply;
use super::server::Server;
use crate::wait::until_seldom;
pub use builder::SentinelsBuilder;

/// The sentinels' name for the primary.
const NAME: &str = "main";
/// Time of silence after which a server counts as down. A busy machine can halt servers for
/// seconds, and an election then would disturb a test. So only a server that was killed on purpose
/// is missed soon.
const CALM_MS: &str = "60000";
const ALERT_MS: &str = "1500";
const NO_PRIMARY: &str = "the server that they name is a replica";

/// A primary, its replicas, and sentinels that agree on the primary, with a quorum of two. Dropping
/// this value ends them.
///
/// Servers are identified by their number. Server 0 began as the primary and remains it until a
/// test changes that. The sentinels tolerate a silence of less than a minute, except for the server
/// that [`lose_primary`](Self::lose_primary) kills.
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
    /// Starts a primary with one replica and three sentinels, of the first program of
    /// [`available`].
    ///
    /// # Errors
    /// Returns the errors of [`SentinelsBuilder::start`].
    pub fn start() -> Result<Self, ServerError> {
        // `available` never returns an empty list.
        Self::builder(available()?.first().ok_or(ServerError::NotRunning)?).start()
    }

    /// Returns a builder for sentinels of this program, by default three with a primary and one
    /// replica.
    #[must_use]
    pub fn builder(binary: &ServerBinary) -> SentinelsBuilder {
        SentinelsBuilder::new(binary)
    }

    /// Returns the sentinels' name for the primary: `main`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        NAME
    }

    /// Returns a primary or replica.
    #[must_use]
    pub fn server(&self, number: usize) -> &Server {
        &self.servers[number]
    }

    /// Returns a primary or replica, to pause, kill or restart it. A restarted server has its
    /// initial role and no data until the sentinels have noticed.
    pub fn server_mut(&mut self, number: usize) -> &mut Server {
        &mut self.servers[number]
    }

    /// Returns the number of servers without the sentinels.
    #[must_use]
    pub fn server_count(&self) -> usize {
        self.servers.len()
    }

    /// Returns the sentinels.
    #[must_use]
    pub fn sentinels(&self) -> &[Server] {
        &self.sentinels
    }

    /// Returns a sentinel, to pause, kill or restart it. A restarted sentinel keeps its knowledge.
    pub fn sentinel_mut(&mut self, number: usize) -> &mut Server {
        &mut self.sentinels[number]
    }

    /// Returns the address and port that this sentinel reports for the primary.
    ///
    /// # Errors
    /// Returns an error if it doesn't answer.
    pub fn address_of_primary(
        &self,
        sentinel: usize,
    ) -> Result<Option<(String, u16)>, ServerError> {
        address_of_primary(&self.sentinels[sentinel])
    }

    /// Returns the number of the primary, as the first running sentinel sees it.
    ///
    /// # Panics
    /// Panics if it sees none of these servers.
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

    /// Waits until the running sentinels and servers agree, then [calms](Self::calm) the sentinels.
    ///
    /// They agree when all sentinels know each other and name the same primary, it knows that it is
    /// one, and all replicas follow it.
    ///
    /// # Panics
    /// Panics if that takes more than a minute.
    pub fn settle(&self) {
        let mut is_alert = false;
        until_seldom("the sentinels agree", || {
            let outcome = self.disagreement();
            if let Err(why) = &outcome
                && why.starts_with(NO_PRIMARY)
                && !is_alert
            {
                // A sentinel that was halted may have demoted the server that others elected
                // meanwhile. The sentinels then miss the primary, and must notice this soon.
                self.set_down_after(ALERT_MS);
                is_alert = true;
            }
            outcome
        });
        self.calm();
    }

    /// Makes the sentinels tolerate silence again. Call it after
    /// [`lose_primary`](Self::lose_primary), once another server is the primary. A failover that
    /// has begun continues.
    ///
    /// # Panics
    /// Panics if a sentinel doesn't receive this within a minute.
    pub fn calm(&self) {
        self.set_down_after(CALM_MS);
    }

    /// Makes a replica the primary (`SENTINEL FAILOVER`), although the primary runs, and waits
    /// until all know. Returns the number of the new primary.
    ///
    /// # Errors
    /// Returns an error if the sentinel refuses.
    ///
    /// # Panics
    /// Panics if no replica is suitable for more than a minute.
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
                // The failover has begun. It may fail, and is then started again.
                Ok(_) => Err("it begins".to_owned()),
                // The sentinel's data about the replica is slightly too old or from before the last
                // change, or a failover is in progress.
                Err(ServerError::Refused(why))
                    if why.starts_with("NOGOODSLAVE") || why.starts_with("INPROG") =>
                {
                    Err(why)
                }
                Err(error) => Ok(Err(error)),
            }
        })
    }

    /// Kills the primary (`SIGKILL`), makes the sentinels miss it soon, and immediately returns its
    /// number. Once another server has taken over, call [`settle`](Self::settle) or
    /// [`calm`](Self::calm).
    ///
    /// # Errors
    /// Returns an error if the primary doesn't run.
    ///
    /// # Panics
    /// Panics if a sentinel doesn't receive this within a minute.
    pub fn lose_primary(&mut self) -> Result<usize, ServerError> {
        let old = self.primary();
        self.servers[old].kill()?;
        self.set_down_after(ALERT_MS);
        Ok(old)
    }

    /// Kills the primary (`SIGKILL`) and waits until the sentinels have promoted a replica. Returns
    /// the number of the new primary.
    ///
    /// # Errors
    /// Returns an error if the primary doesn't run.
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
            // Valkey keeps reporting `master_down` for a sentinel that agreed that the last primary
            // was down.
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
            // During a failover it would refuse another one.
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

/// Returns the ports of other sentinels or of replicas, with a sentinel's flags for each.
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

/// Returns a field of a reply that alternates names and values.
fn field(reply: &Reply, name: &str) -> Option<String> {
    let Reply::Array(words) = reply else { return None };
    let mut pairs = words.chunks_exact(2);
    pairs.find(|pair| pair[0].to_string() == name).map(|pair| pair[1].to_string())
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn text(error: ServerError) -> String {
    error.to_string()
}
