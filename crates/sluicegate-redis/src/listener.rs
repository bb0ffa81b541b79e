//! Hears whose turn has come: a connection on which the server tells a process of its tickets.
//!
//! A process has a number, drawn at random, and its tickets bear it; the script publishes their ids on the
//! channel of that number. So each process hears of its own tickets alone, whatever they wait for, and one
//! connection is enough: in a cluster every node passes on what another one publishes. A connection that
//! says nothing is asked now and then whether it is one still. What is lost is asked for by who waits.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::Poll;
use std::time::Duration;

use sluicegate_core::for_stores::{Bell, Bells};
use sluicegate_core::{HoldId, MAX_EXACT};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::hold::CHANNEL;
use crate::link::{Backoff, Deadline, Server, Talk};
use crate::resp::{Command, Value};
use crate::topology::Topology;

/// How long a server is left alone at most that can't be listened to.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How long it may take to find a node of a cluster, and a server to answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// After so much silence the server is asked whether it is there still.
const SILENCE: Duration = Duration::from_secs(2);

/// What a process hears of one store.
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

    /// The number that tickets bear; 0 for those of which nothing is heard.
    pub(crate) fn number(&self) -> u64 {
        if self.hears.load(Ordering::Relaxed) { self.number } else { 0 }
    }

    /// A bell for a ticket, if anything can be heard. The first to ask has the process listen, in the
    /// background; until then nothing is.
    pub(crate) fn hang(self: &Arc<Self>, id: HoldId, topology: &Topology) -> Option<Bell> {
        self.listen(topology);
        self.hears.load(Ordering::Relaxed).then(|| self.bells.hang(id))
    }

    fn listen(self: &Arc<Self>, topology: &Topology) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        // The task ends with the runtime that it is in, and another one may be there by then.
        if task.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        let listening = listen(Arc::downgrade(self), topology.clone());
        *task = Some(runtime.spawn(listening).abort_handle());
    }

    fn set_hears(&self, hears: bool) {
        self.hears.store(hears, Ordering::Relaxed);
        // Whoever has waited for a call may have missed it.
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
            // Or another server has taken its place.
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

/// Rings for what is heard, until the connection ends.
async fn hear(listener: &Weak<Listener>, talk: &mut Talk, number: u64) {
    loop {
        let Ok(said) = timeout(SILENCE, talk.receive()).await else {
            // To subscribe once more changes nothing, and needs no further right. The answer may come after
            // what was published meanwhile.
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

/// Subscribes to the channel of a number. `None` if that can't be, because nobody is there or the user may
/// not: then those who wait ask more often.
async fn subscribe(topology: &Topology, number: u64) -> Option<(Talk, Server)> {
    let links = topology.links(Deadline::after(PATIENCE)).await.ok()?;
    // In a cluster every node hears what any of them publishes.
    let link = &links[fastrand::usize(..links.len().max(1)).min(links.len().checked_sub(1)?)];
    let subscribing = async {
        let mut talk = link.server().connect().await.ok()?;
        let subscribed = talk.ask(&subscription(number)).await.ok()?;
        matches!(subscribed, Value::Array(_)).then(|| (talk, link.server().clone()))
    };
    timeout(PATIENCE, subscribing).await.ok()?
}
