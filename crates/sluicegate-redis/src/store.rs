//! The store: a server, the connection to it, and the limits opened on it.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::for_stores::{Bell, StoreKey};
use sluicegate_core::{
    Error, HoldId, KeyPrefix, Limit, NodeId, OpenOptions, Span, StoreError, StoreErrorKind,
    StoreId, TimeSource,
};

use crate::access::{AskCredentials, Credentials, TlsOptions};
use crate::call::ScriptCall;
use crate::cluster::Contention;
use crate::link::{Deadline, Endpoint, Heard, Link, Needs, Width};
use crate::listener::Listener;
use crate::redis_url::{RedisUrl, Servers, UrlError};
use crate::reply_frame::{self, ReplyFrame, Said};
use crate::resp::{Command, Value};
use crate::topology::Topology;
use crate::unexpected::unexpected;

/// How many calls travel together, unless the builder is told.
const BATCH: NonZeroUsize = NonZeroUsize::new(32).unwrap();

/// The most connections to one server.
const MOST_CONNECTIONS: NonZeroUsize = NonZeroUsize::new(16).unwrap();

/// A Redis or Valkey server, or a cluster of them, as a store. Cheap to clone; clones share the
/// connections, of which there is one to each server unless the builder is told.
#[derive(Clone)]
pub struct RedisStore {
    topology: Topology,
    deadline: Duration,
    max_clock_back: Span,
    listener: Arc<Listener>,
}

/// Configures and builds a [`RedisStore`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct RedisStoreBuilder {
    servers: Servers,
    endpoint: Endpoint,
    sentinel: SentinelOptions,
    deadline: Duration,
    max_clock_back: Span,
    width: Width,
}

/// How sentinels are reached, where that differs from how the servers are.
#[derive(Clone, Default)]
struct SentinelOptions {
    credentials: Option<Arc<AskCredentials>>,
    /// Inside, `None` stands for none at all.
    tls: Option<Option<TlsOptions>>,
}

impl RedisStoreBuilder {
    /// A store at a URL that has been read.
    ///
    /// # Errors
    /// If this build can't reach it: without the feature `tls` nothing with `rediss`.
    pub fn new(url: &RedisUrl) -> Result<Self, UrlError> {
        Ok(Self {
            servers: url.servers.clone(),
            endpoint: Endpoint::new(url)?,
            sentinel: SentinelOptions::default(),
            deadline: Duration::from_millis(50),
            max_clock_back: Span::from_millis(5_000).unwrap_or(Span::MAX),
            width: Width { connections: NonZeroUsize::MIN, batch: BATCH },
        })
    }

    /// Asks for user and password at each connection, in the place of those in the URL: for passwords
    /// and tokens that change while the program runs. A connection that is open stays, as the server
    /// lets it; the next one is signed in with what `ask` answers then. It may read a file, as
    /// [`Credentials::from_file`] does, but not wait for long: it has a part of the second that a
    /// connection may take. Its error is shown to whoever waits for the connection.
    ///
    /// ```
    /// use sluicegate_redis::{Credentials, RedisStore};
    ///
    /// let store = RedisStore::builder("redis://db.example")?
    ///     .credentials(|| Ok(Credentials::from_file(Some("limiter"), "/run/secrets/redis")?))
    ///     .build();
    /// # Ok::<(), sluicegate_redis::UrlError>(())
    /// ```
    pub fn credentials<F>(mut self, ask: F) -> Self
    where
        F: Fn() -> Result<Credentials, Box<dyn std::error::Error + Send + Sync>>
            + Send
            + Sync
            + 'static,
    {
        self.endpoint.ask_credentials(Arc::new(ask));
        self
    }

    /// Sets the options of TLS, all of them, in the place of those in the URL.
    ///
    /// # Errors
    /// If the URL doesn't say `rediss`, so that nothing would be encrypted, or if the options can't
    /// work; files are looked at later, for each connection.
    pub fn tls(mut self, options: TlsOptions) -> Result<Self, UrlError> {
        self.endpoint.set_tls(options)?;
        Ok(self)
    }

    /// Asks for user and password of the sentinels at each connection to one. Default: none. What the
    /// URL or [`credentials`](Self::credentials) says is for the servers alone.
    pub fn sentinel_credentials<F>(mut self, ask: F) -> Self
    where
        F: Fn() -> Result<Credentials, Box<dyn std::error::Error + Send + Sync>>
            + Send
            + Sync
            + 'static,
    {
        self.sentinel.credentials = Some(Arc::new(ask));
        self
    }

    /// The options of TLS to the sentinels; with `None` they are asked without TLS. Default: as the
    /// servers are.
    ///
    /// # Errors
    /// If the options can't work, or this build can't speak TLS.
    pub fn sentinel_tls(mut self, options: Option<TlsOptions>) -> Result<Self, UrlError> {
        if let Some(why) = options.as_ref().and_then(TlsOptions::problem) {
            return Err(UrlError::new(format!("the option of TLS to sentinels {why}")));
        }
        if options.is_some() && cfg!(not(feature = "tls")) {
            return Err(UrlError::new(
                "this build can't speak TLS to sentinels: enable the feature `tls`",
            ));
        }
        self.sentinel.tls = Some(options);
        Ok(self)
    }

    /// The prefix of all keys. Default: `sg`.
    pub fn prefix(mut self, prefix: KeyPrefix) -> Self {
        self.endpoint.prefix = prefix;
        self
    }

    /// How long a decision may take, unless a limit is opened with its own deadline. Default: 50
    /// ms.
    pub fn deadline(mut self, deadline: impl Into<Span>) -> Self {
        self.deadline = deadline.into().into();
        self
    }

    /// Sets how long one attempt to connect may take. Default: 1 s. A call of a caller that can wait has this much time
    /// for its connection in addition to the deadline; other calls have the deadline alone, while the attempt continues.
    pub fn connect_deadline(mut self, deadline: impl Into<Span>) -> Self {
        self.endpoint.connect_deadline = deadline.into().into();
        self
    }

    /// How far ahead of the server's clock a state may be stamped before it is restamped to now.
    /// Default: 5 s. This bounds how long keys don't refill after a failover to a server whose
    /// clock is behind.
    pub fn max_clock_back(mut self, span: impl Into<Span>) -> Self {
        self.max_clock_back = span.into();
        self
    }

    /// How many calls that wait for the server travel as one script call, which decides them in order.
    /// Calls only gather while two such are under way, so that none waits when there is little to do.
    /// 1 sends each call by itself. Default: 32, which keeps a server from anything else for a
    /// tenth of a millisecond.
    pub const fn batch(mut self, most: NonZeroUsize) -> Self {
        self.width.batch = most;
        self
    }

    /// How many connections go to each server, or each node of a cluster: 1 to 16, and what is more
    /// counts as 16. All calls about one key go the same way, so that they stay in order and travel
    /// together; one connection that breaks fails only the calls on it. Each connects at its first use.
    /// Default: 1, which is enough unless a server has threads of its own for connections.
    pub const fn connections(mut self, count: NonZeroUsize) -> Self {
        let is_fine = count.get() <= MOST_CONNECTIONS.get();
        self.width.connections = if is_fine { count } else { MOST_CONNECTIONS };
        self
    }

    /// Builds the store. It connects at the first use, inside a Tokio runtime.
    #[must_use]
    pub fn build(self) -> RedisStore {
        let Self { servers, endpoint, sentinel, deadline, max_clock_back, width } = self;
        let mut to_sentinels = endpoint.of_sentinels();
        if let Some(ask) = sentinel.credentials {
            to_sentinels.ask_credentials(ask);
        }
        if let Some(tls) = sentinel.tls {
            to_sentinels.replace_tls(tls);
        }
        let topology = Topology::new(servers, endpoint, &to_sentinels, width);
        RedisStore { topology, deadline, max_clock_back, listener: Listener::new() }
    }
}

impl RedisStore {
    /// A store at a URL, of which [`RedisUrl`] has the forms: `redis://[USER:PASSWORD@]HOST[:PORT]`
    /// and others.
    ///
    /// # Errors
    /// If the URL is malformed, or one that this build can't reach; the message says what to write,
    /// and never contains a password.
    pub fn builder(url: &str) -> Result<RedisStoreBuilder, UrlError> {
        RedisStoreBuilder::new(&url.parse()?)
    }

    /// Deletes every key of a run under injected time. It scans the whole key space in small steps,
    /// so use it after a replay, not in a request.
    ///
    /// # Errors
    /// If the server fails midway; call it again to delete the rest.
    pub async fn delete_run(&self, limit: &Limit, run: &str) -> Result<u64, StoreError> {
        let time = TimeSource::Injected { run: run.to_owned() };
        let mut deleted = 0;
        for part in limit.parts() {
            let pattern = StoreKey::new(self.prefix(), part, &time).pattern();
            deleted += self.delete_matching(&pattern).await?;
        }
        Ok(deleted)
    }

    async fn delete_matching(&self, pattern: &[u8]) -> Result<u64, StoreError> {
        let mut deleted = 0;
        for link in self.topology.links(self.deadline()).await? {
            let mut cursor = b"0".to_vec();
            loop {
                let scan = Command::of(&[b"SCAN", &cursor, b"MATCH", pattern, b"COUNT", b"1000"]);
                let Value::Array(reply) = link.send(scan, self.deadline()).await? else {
                    return Err(unexpected("SCAN"));
                };
                let [Value::Bytes(next), Value::Array(keys)] = reply.as_slice() else {
                    return Err(unexpected("SCAN"));
                };
                deleted += keys.len() as u64;
                self.delete(keys).await?;
                if *next == b"0"[..] {
                    break;
                }
                cursor = next.to_vec();
            }
        }
        Ok(deleted)
    }

    /// Deletes keys, those of each slot with one command.
    async fn delete(&self, keys: &[Value]) -> Result<(), StoreError> {
        let mut keys: Vec<(u16, &[u8])> = keys
            .iter()
            .filter_map(|key| if let Value::Bytes(key) = key { Some(&key[..]) } else { None })
            .map(|key| (self.topology.slot_of(key), key))
            .collect();
        keys.sort_unstable();
        for keys in keys.chunk_by(|(slot, _), (other, _)| slot == other) {
            let mut unlink = Command::of(&[b"UNLINK"]);
            for (_, key) in keys {
                unlink.word(key);
            }
            self.send(unlink, self.deadline()).await.map_err(store_error)?;
        }
        Ok(())
    }

    /// Every server that has keys, with the first of its slots, in the order of those.
    pub(crate) async fn servers(&self, deadline: Deadline) -> Result<Vec<(u16, Link)>, StoreError> {
        self.topology.servers(deadline).await
    }

    /// The address, database and prefix: two names of one server are two stores.
    pub(crate) fn store_id(&self) -> StoreId {
        StoreId::new(&format!("{} under `{}`", self.topology.name(), self.prefix().as_str()))
    }

    pub(crate) fn prefix(&self) -> &KeyPrefix {
        &self.topology.endpoint().prefix
    }

    /// The calls that were sent, and the requests in them.
    pub(crate) fn traffic(&self) -> (u64, u64) {
        self.topology.endpoint().traffic.counted()
    }

    pub(crate) const fn max_clock_back(&self) -> Span {
        self.max_clock_back
    }

    pub(crate) const fn patience(&self) -> Duration {
        self.deadline
    }

    fn deadline(&self) -> Deadline {
        Deadline::after(self.deadline)
    }

    /// The deadline of a caller that has this much time for a connection.
    pub(crate) fn connecting(&self, deadline: Deadline, time: Span) -> Deadline {
        let most = self.topology.endpoint().connect_deadline;
        deadline.connecting_within(most.min(time.into()))
    }

    /// Sends a command all of whose words but the first are keys.
    pub(crate) fn send(
        &self,
        command: Command,
        deadline: Deadline,
    ) -> impl Future<Output = Result<Value, Error>> {
        self.topology.send(command, deadline)
    }

    /// Fails if a call would be refused, as far as that is known before it is written.
    pub(crate) fn admits(&self, deadline: Deadline) -> Result<(), StoreError> {
        self.topology.admits(deadline)
    }

    /// Calls the script.
    pub(crate) fn call(
        &self,
        call: ScriptCall,
        deadline: Deadline,
    ) -> impl Future<Output = Result<Heard, Error>> {
        self.topology.call(call, deadline)
    }

    /// Calls the script for what is no decision, and tells whether that was done.
    pub(crate) async fn run_errand(
        &self,
        call: ScriptCall,
        deadline: Deadline,
    ) -> Result<bool, Error> {
        Ok(self.ask_errand(call, deadline).await?.is_allowed())
    }

    /// Calls the script for what is no decision.
    pub(crate) async fn ask_errand(
        &self,
        call: ScriptCall,
        deadline: Deadline,
    ) -> Result<ReplyFrame, Error> {
        match self.call(call, deadline).await?.said {
            Said::Briefly(said)
                if [reply_frame::ALLOWED, reply_frame::DENIED].contains(&said.sign) =>
            {
                Ok(said)
            }
            _ => Err(unexpected("an errand").into()),
        }
    }

    /// A bell for the ticket of an id, if the server tells whose turn it is.
    pub(crate) fn bell(&self, id: HoldId) -> Option<Bell> {
        self.listener.hang(id, &self.topology)
    }

    /// The number of this process that its tickets bear.
    pub(crate) fn listener(&self) -> u64 {
        self.listener.number()
    }

    /// What keys have to have in common to be in one command.
    pub(crate) fn slot_of(&self, key: &[u8]) -> u16 {
        self.topology.slot_of(key)
    }

    /// Where decisions over several slots get into each other's way; `None` without slots.
    pub(crate) fn contention(&self) -> Option<&Contention> {
        self.topology.contention()
    }

    /// The node that has a slot, if there are several and it is known.
    pub(crate) fn node(&self, slot: u16) -> Option<NodeId> {
        self.topology.node(slot)
    }

    /// Checks that every server can decide.
    pub(crate) async fn check_servers(&self) -> Result<(), StoreError> {
        // Called at the start, when nothing is connected yet.
        let deadline = self.connecting(self.deadline(), Span::MAX);
        self.topology.ping(self.prefix(), deadline).await
    }

    /// Checks that every server can decide, and permits everything that these limits need. Returns what could
    /// not be checked.
    pub(crate) async fn check_rights(
        &self,
        limits: &[(Limit, OpenOptions)],
    ) -> Result<Vec<String>, StoreError> {
        let checked = self.check_servers().await;
        // A server need not say which command a script may not use, but says it of the command alone.
        if let Err(error) = &checked
            && error.kind() != StoreErrorKind::Unexpected
        {
            return Err(error.clone());
        }
        let needs = Needs::of(limits);
        let mut unknown = Vec::new();
        for link in self.topology.links(self.deadline()).await? {
            let key = format!("{}:ready", self.prefix().as_str());
            let remark = link.rehearse(needs.clone(), &key, self.deadline()).await?;
            unknown.extend(remark);
        }
        checked.map(|()| unknown)
    }
}

impl fmt::Debug for SentinelOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SentinelOptions").field("tls", &self.tls).finish_non_exhaustive()
    }
}

/// The failure of a store in what is about no request.
fn store_error(error: Error) -> StoreError {
    match error {
        Error::Store(error) => error,
        _ => unexpected("a command"),
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("topology", &self.topology)
            .field("prefix", &self.prefix().as_str())
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}
