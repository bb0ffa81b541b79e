//! The connections to one server: calls wait in queues, and connections send them and hand out the answers. A
//! [`Link`] reconnects on its own, and no caller waits beyond its deadline.
//!
//! A call whose caller gave up before it was written is never sent. The number of waiting calls is limited to
//! those that the server can answer within a caller's time, by its recent pace. Further calls are refused
//! immediately, so an overloaded server only works on calls with a waiting caller.

mod backoff;
mod channel;
mod connection;
mod directory;
mod endpoint;
mod handshake;
mod in_flight;
mod pace;
mod problem;
mod redirect;
mod rehearsal;
mod rights;
mod send_queue;
mod sentinels;
mod server;
mod server_clock;
mod shared_queue;
mod slots;
mod stream;
#[cfg(feature = "tls")]
mod tls;
mod trace;
mod traffic;
mod wire;

use std::fmt;
use std::hash::BuildHasher as _;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, FutureExt as _};
use hashbrown::DefaultHashBuilder;
use sluicegate_core::for_stores::{Batch, Driver};
use sluicegate_core::{Acknowledgement, StoreError};
use tokio::time::Instant;

use crate::call::{Call, ScriptCall};
use crate::reply_frame::Said;
use crate::resp::{Command, Value};
pub(crate) use backoff::Backoff;
use channel::Channel;
pub(crate) use directory::{Age, Directory};
pub(crate) use endpoint::Endpoint;
pub(crate) use handshake::Talk;
pub(crate) use problem::Problem;
pub(crate) use redirect::{Destination, Redirect};
pub(crate) use rights::Needs;
pub(crate) use send_queue::{Redirected, Told};
pub(crate) use sentinels::Sentinels;
pub(crate) use server::Server;
pub(crate) use traffic::Traffic;

/// The connections to one server. Clones share them, and the connections end when the last clone is dropped.
#[derive(Clone)]
pub(crate) struct Link {
    sets: Arc<Sets>,
}

/// Two sets of connections. A runtime serves the connections that its callers make, and one of a single thread serves
/// none while a caller blocks the thread. Such a caller runs in the driver, so its connections are separate.
struct Sets {
    /// For callers in runtimes of one thread.
    of_one_thread: Channels,
    /// For callers in runtimes of several threads, and in the driver.
    of_several: Channels,
}

/// A set of connections.
struct Channels {
    first: Channel,
    others: Box<[Channel]>,
    /// Seeded, so that no client can find keys that share a connection and overload it.
    hasher: DefaultHashBuilder,
    batch: usize,
    /// The channels on which replicas acknowledge calls, one for each setting, the latest used last.
    acknowledged: Mutex<Vec<(Acknowledgement, Arc<Channel>)>>,
}

/// Maximum number of acknowledgement settings that keep a connection. More settings only come from outdated
/// configurations.
const SETTINGS: usize = 8;

/// The script's reply, and a doubt about its durability.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) said: Said,
    /// Too few replicas have acknowledged the change, so it may be lost.
    pub(crate) doubt: Option<StoreError>,
}

/// The limits on concurrent calls to a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Width {
    pub(crate) connections: NonZeroUsize,
    /// Maximum number of script calls in a batch.
    pub(crate) batch: NonZeroUsize,
}

/// The deadline of a call to the store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    pub(crate) at: Instant,
    pub(crate) patience: Duration,
    /// Additional time for a call that needs a connection first.
    connects: Duration,
}

impl Deadline {
    /// Returns a deadline this long from now.
    pub(crate) fn after(patience: Duration) -> Self {
        Self::at(Instant::now() + patience, patience)
    }

    /// Returns a deadline at an instant, this long after the call began.
    pub(crate) const fn at(at: Instant, patience: Duration) -> Self {
        Self { at, patience, connects: Duration::ZERO }
    }

    /// Returns the deadline with additional time for a connection.
    pub(crate) const fn connecting_within(self, connects: Duration) -> Self {
        Self { connects, ..self }
    }

    /// Returns the deadline of a call that needs a connection first.
    pub(crate) fn with_connecting(self) -> Self {
        Self::at(self.at + self.connects, self.patience + self.connects)
    }
}

impl Link {
    /// Returns a link with two sets of `width.connections` connections. Each connects at its first use.
    pub(crate) fn new(server: Server, width: Width) -> Self {
        let of_several = Channels::new(server.apart(), width);
        Self { sets: Arc::new(Sets { of_one_thread: Channels::new(server, width), of_several }) }
    }

    /// Returns the connections for the caller's runtime.
    fn channels(&self) -> &Channels {
        if Driver::is_needed() { &self.sets.of_one_thread } else { &self.sets.of_several }
    }

    /// Returns the server of the link.
    pub(crate) fn server(&self) -> &Server {
        self.channels().first.server()
    }

    /// Returns the access options of the server.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.server().endpoint
    }

    /// Checks on a separate connection that the server permits what limits need. Returns what could not be
    /// checked.
    pub(crate) async fn rehearse(
        &self,
        needs: Needs,
        key: &str,
        deadline: Deadline,
    ) -> Result<Option<String>, StoreError> {
        let rehearsal = rehearsal::rehearse(self.server(), needs, key);
        let found = match tokio::time::timeout_at(deadline.at, rehearsal).await {
            Ok(found) => found,
            Err(_) => Err(Problem::late_answer(deadline.patience)),
        };
        found.map_err(|problem| problem.of(&self.endpoint().address))
    }

    /// Returns an error if the call would be refused, as far as that is known before it is written. With
    /// several connections it isn't known yet which one the call would take.
    pub(crate) fn admits(&self, deadline: Deadline) -> Result<(), StoreError> {
        if self.channels().others.is_empty() {
            self.channels().first.admits(deadline)
        } else {
            Ok(())
        }
    }

    /// Sends a command. The future returns its reply, or an error after the deadline.
    pub(crate) fn send(
        &self,
        command: Command,
        deadline: Deadline,
    ) -> impl Future<Output = Result<Value, StoreError>> + Send {
        self.ask(Call::Command(command), deadline).map(|told| self.value(told?))
    }

    /// Calls the script. The future returns its reply, or an error after the deadline.
    pub(crate) fn call(
        &self,
        call: ScriptCall,
        deadline: Deadline,
    ) -> impl Future<Output = Result<Heard, StoreError>> + Send {
        self.ask(Call::Script(call), deadline).map(|told| self.heard(told?))
    }

    /// Calls the script on the first connection, regardless of the keys.
    pub(crate) async fn call_on_first(
        &self,
        call: ScriptCall,
        deadline: Deadline,
    ) -> Result<Heard, StoreError> {
        self.heard(self.channels().first.ask(Call::Script(call), deadline).await?)
    }

    /// Returns the reply to a command.
    pub(crate) fn value(&self, told: Told) -> Result<Value, StoreError> {
        match told {
            Told::Value(value) => Ok(value),
            told => Err(self.channels().first.no_reply(told)),
        }
    }

    /// Returns the script's reply.
    pub(crate) fn heard(&self, told: Told) -> Result<Heard, StoreError> {
        match told {
            Told::Said(said) => Ok(Heard { said, doubt: None }),
            Told::Unacknowledged(unacknowledged) => {
                let said = unacknowledged.said.clone();
                let doubt = self.channels().first.no_reply(Told::Unacknowledged(unacknowledged));
                Ok(Heard { said, doubt: Some(doubt) })
            }
            told => Err(self.channels().first.no_reply(told)),
        }
    }

    /// Sends a call. The future returns its outcome, or an error after the deadline.
    pub(crate) fn ask(
        &self,
        call: Call,
        deadline: Deadline,
    ) -> impl Future<Output = Result<Told, StoreError>> + Send {
        if let Call::Script(script) = &call
            && let Some(wanted) = script.acknowledgement()
        {
            let channel = self.channels().acknowledged(wanted);
            // Hold the channel until the answer arrives: it may be removed from the list before.
            let told = async move { channel.ask(call, deadline).await };
            return Either::Left(Box::pin(told));
        }
        Either::Right(self.channels().of(&call).ask(call, deadline))
    }
}

impl Channels {
    fn new(server: Server, width: Width) -> Self {
        let batch = width.batch.get();
        let channel = |_| Channel::new(server.clone(), batch);
        let others = (1..width.connections.get()).map(channel).collect();
        let first = Channel::new(server, batch);
        let hasher = DefaultHashBuilder::default();
        Self { first, others, hasher, batch, acknowledged: Mutex::default() }
    }

    /// Returns the channel on which replicas send this acknowledgement. Each setting has its own channel, so
    /// no call waits for more replicas, or longer, than it needs.
    fn acknowledged(&self, wanted: Acknowledgement) -> Arc<Channel> {
        // No code under this lock panics halfway.
        let mut known = self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = known.iter().position(|(other, _)| *other == wanted) {
            known[place..].rotate_left(1);
        } else {
            if known.len() == SETTINGS {
                // Calls that still wait there keep the channel until then.
                known.remove(0);
            }
            let server = self.first.server().clone();
            let channel = Channel::acknowledged(server, self.batch, wanted);
            known.push((wanted, Arc::new(channel)));
        }
        Arc::clone(&known[known.len() - 1].1)
    }

    /// Returns the channel of a call. Script calls with the same first key use the same one, so that they can
    /// be batched and stay in order. Calls that a caller makes in one batch use the same one, too.
    fn of(&self, call: &Call) -> &Channel {
        let Call::Script(call) = call else { return &self.first };
        if self.others.is_empty() {
            return &self.first;
        }
        let hash = match Batch::current() {
            Some(batch) => self.hasher.hash_one(batch),
            None => self.hasher.hash_one(call.first_key()),
        };
        let count = self.others.len() as u64 + 1;
        let number = usize::try_from(hash % count).unwrap_or_default();
        // `others` doesn't contain the first channel.
        number.checked_sub(1).and_then(|other| self.others.get(other)).unwrap_or(&self.first)
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("address", &self.endpoint().address).finish_non_exhaustive()
    }
}
