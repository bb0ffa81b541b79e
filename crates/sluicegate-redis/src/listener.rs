//! The listener: a connection on which the server notifies a process of its tickets' turns.
//!
//! A process has a random number, and its tickets carry it. The script publishes their ids on the channel of
//! that number. So a [`Listener`] only receives its own tickets, regardless of their limits. One connection
//! is enough, because in a cluster every node forwards what another one publishes. A silent connection is
//! checked every 2 s. Waiters also retry on their own, so a lost message only delays them.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::Poll;
use std::time::Duration;

use sluicegate_core::for_stores::{Bell, Bells, Driver};
use sluicegate_core::{HoldId, MAX_EXACT};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::hold::CHANNEL;
use crate::link::{Backoff, Deadline, Server, Talk};
use crate::resp::{Command, Value};
use crate::topology::Topology;

/// Longest pause before retrying a server that can't be listened to.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Maximum time to find a node of a cluster, and for a server to answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Silence after which the server is checked.
const SILENCE: Duration = Duration::from_secs(2);

/// The notifications of one store to a process.
#[derive(Debug)]
pub(crate) struct Listener {
    number: u64,
    bells: Bells,
    hears: AtomicBool,
    task: Mutex<Option<AbortHandle>>,
}

impl Listener {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            number: fastrand::u64(1..=MAX_EXACT),
            bells: Bells::default(),
            hears: AtomicBool::new(false),
            task: Mutex::default(),
        })
    }

    /// Returns the number for tickets; 0 if nothing is received.
    pub(crate) fn number(&self) -> u64 {
        if self.hears.load(Ordering::Relaxed) { self.number } else { 0 }
    }

    /// Returns a notifier for a ticket, if messages are received. The first call starts to listen in the
    /// background; until then nothing is received.
    pub(crate) fn hang(self: &Arc<Self>, id: HoldId, topology: &Topology) -> Option<Bell> {
        self.listen(topology);
        self.hears.load(Ordering::Relaxed).then(|| self.bells.hang(id))
    }

    fn listen(self: &Arc<Self>, topology: &Topology) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        // The task ends with its runtime, and the process may have another one by then.
        if task.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let Ok(runtime) = Driver::home() else { return };
        // Nothing is received before the new task listens.
        self.hears.store(false, Ordering::Relaxed);
        let listening = listen(Arc::downgrade(self), topology.clone());
        *task = Some(runtime.spawn(listening).abort_handle());
    }

    fn set_hears(&self, hears: bool) {
        self.hears.store(hears, Ordering::Relaxed);
        // Waiters may have missed a message, so wake all of them.
        self.bells.ring_all();
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let task = self.task.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = task.take() {
            task.abort();
        }
    }
}

async fn listen(listener: Weak<Listener>, topology: Topology) {
    let mut backoff = Backoff::up_to(LONGEST_PAUSE);
    while let Some(number) = listener.upgrade().map(|listener| listener.number) {
        if let Some((mut talk, server)) = subscribe(&topology, number).await {
            backoff.reset();
            let Some(hearing) = listener.upgrade() else { return };
            hearing.set_hears(true);
            drop(hearing);
            let host = talk.host.clone();
            // Stop if another server takes over.
            either(hear(&listener, &mut talk, number), server.succeeded(host)).await;
            let Some(deaf) = listener.upgrade() else { return };
            deaf.set_hears(false);
        }
        tokio::time::sleep(backoff.pause()).await;
    }
}

/// Waits until one of both is done.
async fn either(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|context| match one.as_mut().poll(context) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => other.as_mut().poll(context),
    })
    .await;
}

/// Wakes waiters for each message, until the connection ends.
async fn hear(listener: &Weak<Listener>, talk: &mut Talk, number: u64) {
    loop {
        let Ok(said) = timeout(SILENCE, talk.receive()).await else {
            // Subscribing again changes nothing, and needs no further permission. Messages may arrive before
            // its answer.
            match timeout(PATIENCE, talk.ask(&subscription(number))).await {
                Ok(Ok(said)) => ring(listener, &said),
                _ => return,
            }
            continue;
        };
        match said {
            Ok(said) if listener.strong_count() > 0 => ring(listener, &said),
            _ => return,
        }
    }
}

fn ring(listener: &Weak<Listener>, said: &Value) {
    let (Some(listener), Value::Array(items)) = (listener.upgrade(), said) else { return };
    if let [Value::Bytes(_), Value::Bytes(_), Value::Bytes(ids)] = items.as_slice() {
        let ids = ids.as_chunks::<{ HoldId::BYTES }>().0;
        listener.bells.ring(ids.iter().map(|id| HoldId::from_bytes(*id)));
    }
}

fn subscription(number: u64) -> Command {
    Command::of(&[b"SUBSCRIBE", format!("{CHANNEL}{number}").as_bytes()])
}

/// Subscribes to the channel of a number. Returns `None` if no server is reachable or the user isn't
/// permitted to: then waiters retry more often.
async fn subscribe(topology: &Topology, number: u64) -> Option<(Talk, Server)> {
    let links = topology.links(Deadline::after(PATIENCE)).await.ok()?;
    // In a cluster every node receives what any of them publishes.
    let link = &links[fastrand::usize(..links.len().max(1)).min(links.len().checked_sub(1)?)];
    let subscribing = async {
        let mut talk = link.server().connect().await.ok()?;
        let subscribed = talk.ask(&subscription(number)).await.ok()?;
        matches!(subscribed, Value::Array(_)).then(|| (talk, link.server().clone()))
    };
    timeout(PATIENCE, subscribing).await.ok()?
}
