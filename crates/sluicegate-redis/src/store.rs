//! The store: its servers, its connections and its options.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::for_stores::{Bell, Driver, StoreKey};
use sluicegate_core::{
    Error, HoldId, KeyPrefix, Limit, NodeId, OpenOptions, Span, StoreError, StoreErrorKind,
    StoreId, TimeSource,
};

use crate::access::{AskCredentials, Credentials, TlsOptions};
use crate::call::ScriptCall;
use crate::cluster::Contention;
use crate::link::{Deadline, Endpoint, Heard, Link, Needs, Traffic, Width};
use crate::listener::Listener;
use crate::redis_url::{RedisUrl, Servers, UrlError};
use crate::reply_frame::{self, ReplyFrame, Said};
use crate::resp::{Command, Value};
use crate::script::Script;
use crate::topology::Topology;
use crate::unexpected::unexpected;

/// The name of the store in errors.
pub(crate) const NAME: &str = "the Redis store";

/// Default of [`RedisStoreBuilder::batch`].
const BATCH: NonZeroUsize = NonZeroUsize::new(32).unwrap();

/// Maximum number of connections to one server.
const MOST_CONNECTIONS: NonZeroUsize = NonZeroUsize::new(16).unwrap();

/// A Redis or Valkey server, or a cluster, as a store.
///
/// Cloning is cheap. Clones share the connections: by default one to each server.
#[derive(Clone)]
pub struct RedisStore {
    topology: Topology,
    deadline: Duration,
    max_clock_back: Span,
    listener: Arc<Listener>,
}

/// A builder of a [`RedisStore`].
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

/// Access to sentinels, where it differs from access to the servers.
#[derive(Clone, Default)]
struct SentinelOptions {
    credentials: Option<Arc<AskCredentials>>,
    /// The inner `None` stands for no TLS.
    tls: Option<Option<TlsOptions>>,
}

impl RedisStoreBuilder {
    /// Returns a builder for the store at a parsed URL.
    ///
    /// # Errors
    /// Returns an error if this build can't reach the URL: without the feature `tls`, any `rediss` URL.
    pub fn new(url: &RedisUrl) -> Result<Self, UrlError> {
        Ok(Self {
            servers: url.servers.clone(),
            endpoint: Endpoint::new(url)?,
            sentinel: SentinelOptions::default(),
            deadline: Duration::from_millis(50),
            max_clock_back: Duration::from_secs(5).into(),
            width: Width { connections: NonZeroUsize::MIN, batch: BATCH },
        })
    }

    /// Sets a function that returns the user and password for each new connection, in place of those in the
    /// URL.
    ///
    /// Use it for passwords and tokens that change while the program runs. An open connection stays open as long as
    /// the server allows it; the next one uses the current result of `ask`. The function may read a file, as
    /// [`Credentials::from_file`] does, but must not wait long: it has a part of the
    /// [`connect_deadline`](Self::connect_deadline). Callers that wait for the connection receive its error.
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

    /// Sets all TLS options, in place of those in the URL.
    ///
    /// # Errors
    /// Returns an error if the URL isn't a `rediss` URL, so that nothing would be encrypted, or if the
    /// options are inconsistent. Files are read later, for each connection.
    pub fn tls(mut self, options: TlsOptions) -> Result<Self, UrlError> {
        self.endpoint.set_tls(options)?;
        Ok(self)
    }

    /// Sets a function that returns the user and password for each connection to a sentinel. By default none
    /// are sent.
    ///
    /// Neither the URL's credentials nor those of [`credentials`](Self::credentials) are sent to sentinels.
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

    /// Sets the TLS options for sentinels; `None` connects without TLS. The default is the servers' options.
    ///
    /// # Errors
    /// Returns an error if the options are inconsistent, or if this build has no TLS.
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

    /// Sets the prefix of all keys. The default is `sg`.
    pub fn prefix(mut self, prefix: KeyPrefix) -> Self {
        self.endpoint.prefix = prefix;
        self
    }

    /// Sets the deadline of a decision, for limits that are opened without their own deadline. The default is
    /// 50 ms. Zero leaves no time for an answer, so every decision fails.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Span::from(deadline).into();
        self
    }

    /// Sets how long one attempt to connect may take. The default is 1 s.
    ///
    /// A caller that can wait has this much time for its connection in addition to the deadline. Other
    /// callers only have the deadline, while the attempt continues.
    pub fn connect_deadline(mut self, deadline: Duration) -> Self {
        self.endpoint.connect_deadline = Span::from(deadline).into();
        self
    }

    /// Sets how far ahead of the server's clock a state's time may be before it is restamped to now. The
    /// default is 5 s.
    ///
    /// This limits how long keys don't refill after a failover to a server whose clock is behind.
    pub fn max_clock_back(mut self, bound: Duration) -> Self {
        self.max_clock_back = bound.into();
        self
    }

    /// Sets the maximum number of waiting calls that one script call decides, in order. The default is 32,
    /// which occupies a server for 0.1 ms.
    ///
    /// Calls are only batched while two script calls are in flight, so under low load no call waits. 1 sends
    /// each call on its own. Calls that are made with [`batched`](sluicegate_core::batched) are in one script call,
    /// regardless of this number.
    pub const fn batch(mut self, most: NonZeroUsize) -> Self {
        self.width.batch = most;
        self
    }

    /// Sets the number of connections to each server, or to each node of a cluster: 1 to 16, and larger
    /// numbers count as 16. The default is 1, which is enough unless a server has several I/O threads.
    ///
    /// All calls about one key use the same connection, so they stay in order and can be batched. A broken
    /// connection fails only its own calls. Each connection is opened at its first use.
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
        // Assembles the script now. In the first call it could take longer than the deadline.
        let _ = Script::get();
        RedisStore { topology, deadline, max_clock_back, listener: Listener::new() }
    }
}

impl RedisStore {
    /// Returns a builder for the store at a URL, such as `redis://[USER:PASSWORD@]HOST[:PORT]`. [`RedisUrl`]
    /// lists all forms.
    ///
    /// # Errors
    /// Returns an error if the URL is malformed, or if this build can't reach it. The message says what to
    /// write, and never contains a password.
    pub fn builder(url: &str) -> Result<RedisStoreBuilder, UrlError> {
        RedisStoreBuilder::new(&url.parse()?)
    }

    /// Deletes every key of a run under injected time.
    ///
    /// It scans the whole key space in small steps, so use it after a replay, not in a request.
    ///
    /// # Errors
    /// Returns an error if the server fails midway. Call it again to delete the rest.
    pub async fn delete_run(&self, limit: &Limit, run: &str) -> Result<u64, StoreError> {
        Driver::check_connection(NAME)?;
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

    /// Deletes keys, with one command for each slot.
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

    /// Returns every server that has keys, with its first slot, in the order of the slots.
    pub(crate) async fn servers(&self, deadline: Deadline) -> Result<Vec<(u16, Link)>, StoreError> {
        self.topology.servers(deadline).await
    }

    /// Returns the address, database and prefix as an identifier. Two names of one server are two stores.
    pub(crate) fn store_id(&self) -> StoreId {
        StoreId::new(&format!("{} under `{}`", self.topology.name(), self.prefix().as_str()))
    }

    pub(crate) fn prefix(&self) -> &KeyPrefix {
        &self.topology.endpoint().prefix
    }

    /// Returns the counts of the sent calls.
    pub(crate) fn traffic(&self) -> &Traffic {
        &self.topology.endpoint().traffic
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

    /// Returns the deadline of a caller that has `time` to connect.
    pub(crate) fn connecting(&self, deadline: Deadline, time: Span) -> Deadline {
        let most = self.topology.endpoint().connect_deadline;
        deadline.connecting_within(most.min(time.into()))
    }

    /// Sends a command whose words are all keys, except for the first one.
    pub(crate) fn send(
        &self,
        command: Command,
        deadline: Deadline,
    ) -> impl Future<Output = Result<Value, Error>> {
        self.topology.send(command, deadline)
    }

    /// Sends a command to the server that has a key.
    pub(crate) fn send_about(
        &self,
        key: &[u8],
        command: Command,
        deadline: Deadline,
    ) -> impl Future<Output = Result<Value, Error>> + use<'_> {
        let slot = self.slot_of(key);
        self.topology.send_to(slot, command, deadline)
    }

    /// Returns an error if the call would be refused, as far as that is known before it is written.
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

    /// Runs an auxiliary command, and returns whether it was done.
    pub(crate) async fn run_errand(
        &self,
        call: ScriptCall,
        deadline: Deadline,
    ) -> Result<bool, Error> {
        Ok(self.ask_errand(call, deadline).await?.is_allowed())
    }

    /// Runs an auxiliary command of the script.
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

    /// Returns a notifier for the ticket of an id, if the server publishes turns.
    pub(crate) fn bell(&self, id: HoldId) -> Option<Bell> {
        self.listener.hang(id, &self.topology)
    }

    /// Returns the number of this process, which its tickets carry.
    pub(crate) fn listener(&self) -> u64 {
        self.listener.number()
    }

    /// Returns the slot of a key. The keys of one command must have the same slot.
    pub(crate) fn slot_of(&self, key: &[u8]) -> u16 {
        self.topology.slot_of(key)
    }

    /// Returns the slots with conflicts between decisions; `None` without slots.
    pub(crate) fn contention(&self) -> Option<&Contention> {
        self.topology.contention()
    }

    /// Returns the node that has a slot, if there are several nodes and it is known.
    pub(crate) fn node(&self, slot: u16) -> Option<NodeId> {
        self.topology.node(slot)
    }

    /// Checks that every server can decide.
    pub(crate) async fn check_servers(&self) -> Result<(), StoreError> {
        Driver::check_connection(NAME)?;
        // Called at startup, when there is no connection yet.
        let deadline = self.connecting(self.deadline(), Span::MAX);
        self.topology.ping(self.prefix(), deadline).await
    }

    /// Checks that every server can decide, and permits everything that these limits need. Returns the points
    /// that could not be checked.
    pub(crate) async fn check_rights(
        &self,
        limits: &[(Limit, OpenOptions)],
    ) -> Result<Vec<String>, StoreError> {
        let checked = self.check_servers().await;
        // A server may leave out the name of the command that a script must not use. It does name it for the
        // command alone.
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

/// Returns the store's failure of a call that belongs to no request.
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
