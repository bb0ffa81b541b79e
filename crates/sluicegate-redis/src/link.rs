//! The way to one server: calls wait in queues, connections send them and hand out the answers. They
//! reconnect by themselves, and no caller waits beyond its deadline.
//!
//! A call whose caller has given up before it was written is never sent. How many may wait is bounded
//! by how many the server has lately answered in the time that a caller has; the rest is refused at
//! once, so that a server with too much to do is busy with calls that somebody still waits for.

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
mod traffic;
mod wire;

use std::fmt;
use std::hash::BuildHasher as _;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, FutureExt as _};
use hashbrown::DefaultHashBuilder;
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

/// The way to one server. Clones share it.
#[derive(Clone)]
pub(crate) struct Link {
    channels: Arc<Channels>,
}

/// All clones of a link: when the last one goes, the connections end.
struct Channels {
    first: Channel,
    others: Box<[Channel]>,
    /// Nobody outside can tell which keys share a connection, and so crowd one.
    hasher: DefaultHashBuilder,
    batch: usize,
    /// Those on which replicas are waited for, for each of what they have to say; the one that was
    /// used last is the last.
    acknowledged: Mutex<Vec<(Acknowledgement, Arc<Channel>)>>,
}

/// So many settings of what replicas have to say keep a connection; more come only from configurations
/// that are gone.
const SETTINGS: usize = 8;

/// What the script said, and why that may not count.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) said: Said,
    /// Too few replicas have it: what it changed may be lost.
    pub(crate) doubt: Option<StoreError>,
}

/// How much goes to a server at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Width {
    pub(crate) connections: NonZeroUsize,
    /// How many calls of the script travel together at most.
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
    /// A deadline this long from now.
    pub(crate) fn after(patience: Duration) -> Self {
        Self::at(Instant::now() + patience, patience)
    }

    /// A deadline at an instant, this long after the call began.
    pub(crate) const fn at(at: Instant, patience: Duration) -> Self {
        Self { at, patience, connects: Duration::ZERO }
    }

    /// The same, for a caller that gives a connection this much time of its own.
    pub(crate) const fn connecting_within(self, connects: Duration) -> Self {
        Self { connects, ..self }
    }

    /// The deadline of a call that needs a connection first.
    pub(crate) fn with_connecting(self) -> Self {
        Self::at(self.at + self.connects, self.patience + self.connects)
    }
}

impl Link {
    /// A link of so many connections, each of which connects at its first use.
    pub(crate) fn new(server: Server, width: Width) -> Self {
        let batch = width.batch.get();
        let channel = |_| Channel::new(server.clone(), batch);
        let others = (1..width.connections.get()).map(channel).collect();
        let first = Channel::new(server, batch);
        let hasher = DefaultHashBuilder::default();
        let acknowledged = Mutex::default();
        Self { channels: Arc::new(Channels { first, others, hasher, batch, acknowledged }) }
    }

    /// Where it leads.
    pub(crate) fn server(&self) -> &Server {
        self.channels.first.server()
    }

    /// How that is reached.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.server().endpoint
    }

    /// Checks on a connection of its own that the server permits what limits need. Returns what could not be
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

    /// Fails if a call would be refused, as far as that is known before it is written: of several
    /// connections, nobody knows yet which it would take.
    pub(crate) fn admits(&self, deadline: Deadline) -> Result<(), StoreError> {
        if self.channels.others.is_empty() { self.channels.first.admits(deadline) } else { Ok(()) }
    }

    /// Sends a command; its reply can be awaited, at most until the deadline.
    pub(crate) fn send(
        &self,
        command: Command,
        deadline: Deadline,
    ) -> impl Future<Output = Result<Value, StoreError>> + Send {
        self.ask(Call::Command(command), deadline).map(|told| self.value(told?))
    }

    /// Calls the script; what it says can be awaited, at most until the deadline.
    pub(crate) fn call(
        &self,
        call: ScriptCall,
        deadline: Deadline,
    ) -> impl Future<Output = Result<Heard, StoreError>> + Send {
        self.ask(Call::Script(call), deadline).map(|told| self.heard(told?))
    }

    /// The same on the first connection, whatever the keys are.
    pub(crate) async fn call_on_first(
        &self,
        call: ScriptCall,
        deadline: Deadline,
    ) -> Result<Heard, StoreError> {
        self.heard(self.channels.first.ask(Call::Script(call), deadline).await?)
    }

    /// The reply to a command.
    pub(crate) fn value(&self, told: Told) -> Result<Value, StoreError> {
        match told {
            Told::Value(value) => Ok(value),
            told => Err(self.channels.first.no_reply(told)),
        }
    }

    /// What the script said.
    pub(crate) fn heard(&self, told: Told) -> Result<Heard, StoreError> {
        match told {
            Told::Said(said) => Ok(Heard { said, doubt: None }),
            Told::Unacknowledged(unacknowledged) => {
                let said = unacknowledged.said.clone();
                let doubt = self.channels.first.no_reply(Told::Unacknowledged(unacknowledged));
                Ok(Heard { said, doubt: Some(doubt) })
            }
            told => Err(self.channels.first.no_reply(told)),
        }
    }

    /// Sends a call; what is told of it can be awaited, at most until the deadline.
    pub(crate) fn ask(
        &self,
        call: Call,
        deadline: Deadline,
    ) -> impl Future<Output = Result<Told, StoreError>> + Send {
        if let Call::Script(script) = &call
            && let Some(wanted) = script.acknowledgement()
        {
            let channel = self.channels.acknowledged(wanted);
            // Nobody else may have this channel any more when the answer comes.
            let told = async move { channel.ask(call, deadline).await };
            return Either::Left(Box::pin(told));
        }
        Either::Right(self.channels.of(&call).ask(call, deadline))
    }
}

impl Channels {
    /// The channel on which replicas have to say this. It is one for each of what they have to say, so
    /// that nobody waits for more of them, or longer, than it has to.
    fn acknowledged(&self, wanted: Acknowledgement) -> Arc<Channel> {
        // Nothing that is done under this lock panics half way.
        let mut known = self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = known.iter().position(|(other, _)| *other == wanted) {
            known[place..].rotate_left(1);
        } else {
            if known.len() == SETTINGS {
                // Whoever still waits there has it until then.
                known.remove(0);
            }
            let server = self.first.server().clone();
            let channel = Channel::acknowledged(server, self.batch, wanted);
            known.push((wanted, Arc::new(channel)));
        }
        Arc::clone(&known[known.len() - 1].1)
    }

    /// The channel of a call: of calls of the script, the same for the same first key, so that they
    /// can travel as one and stay in order.
    fn of(&self, call: &Call) -> &Channel {
        let Call::Script(call) = call else { return &self.first };
        if self.others.is_empty() {
            return &self.first;
        }
        let hash = self.hasher.hash_one(call.first_key());
        let count = self.others.len() as u64 + 1;
        let number = usize::try_from(hash % count).unwrap_or_default();
        // The first is not among them.
        number.checked_sub(1).and_then(|other| self.others.get(other)).unwrap_or(&self.first)
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("address", &self.endpoint().address).finish_non_exhaustive()
    }
}
