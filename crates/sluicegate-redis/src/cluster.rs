//! The connection to a cluster: [`Cluster`] sends each call to the node that has the slot of its keys.
//!
//! A node that no longer has them does nothing and names the node to ask. Only then is a call sent again. Any
//! other error is returned to the caller immediately.

mod contention;
mod map;

use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sluicegate_core::for_stores::Driver;
use sluicegate_core::{NodeId, StoreError, StoreErrorKind};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::call::{Call, Company, ScriptCall};
use crate::link::{
    Age, Backoff, Deadline, Destination, Directory, Endpoint, Heard, Link, Problem, Redirect,
    Redirected, Server, Told, Width,
};
use crate::redis_url::Host;
use crate::resp::{Command, Value};
use crate::slot;
use map::{Layout, Map};

pub(crate) use contention::Contention;

/// Minimum time between two looks at the cluster, regardless of how many calls find it changed.
const LOOKS_APART: Duration = Duration::from_millis(100);
/// The longest pause after a look that failed.
const LONGEST_PAUSE: Duration = Duration::from_millis(300);
/// The first pause before a call is sent again to migrating keys. The pause doubles up to the longest one.
const FIRST_WAIT: Duration = Duration::from_millis(1);
const LONGEST_WAIT: Duration = Duration::from_millis(32);
/// Number of redirects without a pause. Nodes that disagree could redirect a call endlessly.
const HOPS: u32 = 3;

/// The connection to a cluster. Clones share it.
#[derive(Clone)]
pub(crate) struct Cluster {
    shared: Arc<Shared>,
}

struct Shared {
    directory: Directory,
    /// The nodes of the URL, which are asked if all others fail.
    seeds: Vec<Host>,
    /// The cluster, for messages.
    address: String,
    width: Width,
    state: Mutex<State>,
    /// Number of finished looks at the cluster.
    looks: watch::Sender<u64>,
    contention: Contention,
}

struct State {
    map: Map,
    /// The age of the map.
    age: Age,
    is_looking: bool,
    /// Time of the earliest next look.
    next_look: Instant,
    backoff: Backoff,
    /// Error of the last look, if it failed.
    problem: Option<StoreError>,
}

/// A node with the slots it has.
#[derive(Clone, Debug)]
pub(crate) struct Primary {
    pub(crate) link: Link,
    pub(crate) slots: Vec<u16>,
}

impl Cluster {
    /// Returns a cluster that is discovered from these nodes. All are reached as `endpoint` is.
    pub(crate) fn new(endpoint: Endpoint, seeds: Vec<Host>, width: Width) -> Self {
        let state = State {
            map: Map::default(),
            age: Age::ANY,
            is_looking: false,
            next_look: Instant::now(),
            backoff: Backoff::up_to(LONGEST_PAUSE),
            problem: None,
        };
        Self {
            shared: Arc::new(Shared {
                address: endpoint.to_string(),
                directory: Directory::new(endpoint, seeds.clone()),
                seeds,
                width,
                state: Mutex::new(state),
                looks: watch::Sender::new(0),
                contention: Contention::new(),
            }),
        }
    }

    /// Returns the slots with conflicts between decisions.
    pub(crate) fn contention(&self) -> &Contention {
        &self.shared.contention
    }

    /// Returns the access options of the nodes.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        self.shared.directory.template()
    }

    /// Calls the script on the node of the slot.
    pub(crate) async fn call(
        &self,
        mut call: ScriptCall,
        slot: u16,
        deadline: Deadline,
    ) -> Result<Heard, StoreError> {
        call.set_company(slot, Company::Slot);
        let (told, link) = self.ask(Call::Script(call), slot, deadline).await?;
        link.heard(told)
    }

    /// Sends a command to the node of the slot.
    pub(crate) async fn send(
        &self,
        command: Command,
        slot: u16,
        deadline: Deadline,
    ) -> Result<Value, StoreError> {
        let (told, link) = self.ask(Call::Command(command), slot, deadline).await?;
        link.value(told)
    }

    /// Returns the node that has a slot, as far as is known.
    pub(crate) fn node(&self, slot: u16) -> Option<NodeId> {
        let state = self.shared.state();
        let link = state.map.link(slot)?;
        let mut hasher = DefaultHasher::new();
        link.endpoint().to_string().hash(&mut hasher);
        Some(NodeId(hasher.finish()))
    }

    /// Returns every node that has slots.
    pub(crate) async fn primaries(&self, deadline: Deadline) -> Result<Vec<Primary>, StoreError> {
        self.shared.known(deadline).await?;
        Ok(self.shared.state().map.primaries())
    }

    /// Returns an error of the whole cluster, from errors of some nodes.
    pub(crate) fn problem(&self, kind: StoreErrorKind, text: &str) -> StoreError {
        self.shared.look();
        self.shared.error(Problem::new(kind, format!("can't decide about all keys: {text}")))
    }

    async fn ask(
        &self,
        mut call: Call,
        slot: u16,
        deadline: Deadline,
    ) -> Result<(Told, Link), StoreError> {
        let shared = &self.shared;
        let is_known = shared.state().map.is_known();
        let deadline = if is_known { deadline } else { deadline.with_connecting() };
        let mut another = None;
        let (mut hops, mut wait) = (0, FIRST_WAIT);
        loop {
            let link = match another.take() {
                Some(link) => link,
                None => shared.link(slot, deadline).await?,
            };
            let Redirected { call: again, redirect } = match link.ask(call, deadline).await {
                Ok(Told::Redirected(redirected)) => *redirected,
                Ok(told) => return Ok((told, link)),
                Err(error) => {
                    if error.kind() != StoreErrorKind::Overloaded {
                        // Another node may have replaced it.
                        shared.look();
                    }
                    return Err(error);
                }
            };
            hops += 1;
            let mut needs_wait = hops > HOPS;
            let company = match &redirect {
                Redirect::Moved(to) => {
                    another = shared.moved(slot, to, &link);
                    needs_wait |= another.is_none();
                    Company::Slot
                }
                Redirect::Ask(to) => {
                    another = shared.asked(to, &link);
                    needs_wait |= another.is_none();
                    if another.is_some() { Company::Asking } else { Company::None }
                }
                Redirect::TryAgain => {
                    needs_wait = true;
                    Company::None
                }
                Redirect::Down => {
                    shared.look();
                    needs_wait = true;
                    Company::Slot
                }
            };
            call = in_company(again, slot, company);
            if needs_wait {
                // The next call should have enough time for its answer.
                if Instant::now() + wait * 2 >= deadline.at {
                    return Err(shared.undecided(&redirect, slot, deadline));
                }
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(LONGEST_WAIT);
            }
        }
    }
}

/// Returns the call in the form to send next.
fn in_company(call: Call, slot: u16, company: Company) -> Call {
    match call {
        Call::Script(mut call) => {
            call.set_company(slot, company);
            Call::Script(call)
        }
        Call::Command(command) | Call::Asking(command) => match company {
            Company::Asking => Call::Asking(command),
            Company::Slot | Company::None => Call::Command(command),
        },
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // No code under this lock panics halfway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the link to the node of the slot, and finds it first if necessary.
    async fn link(self: &Arc<Self>, slot: u16, deadline: Deadline) -> Result<Link, StoreError> {
        if let Some(link) = self.state().map.link(slot) {
            return Ok(link.clone());
        }
        self.known(deadline).await?;
        loop {
            if let Some(link) = self.state().map.link(slot) {
                return Ok(link.clone());
            }
            if !self.await_look(deadline).await {
                let text = format!(
                    "has no node that serves slot {slot}: give it to one, or look whether one is down; nothing was charged"
                );
                return Err(self.error(Problem::unavailable(text)));
            }
        }
    }

    /// Waits until the cluster's layout is known.
    async fn known(self: &Arc<Self>, deadline: Deadline) -> Result<(), StoreError> {
        // Directly after a failed look, its error is as good as the next one.
        let is_refused = |state: &State| state.next_look > deadline.at;
        if let Some(known) = self.known_by_now(is_refused) {
            return known;
        }
        let deadline = deadline.with_connecting();
        self.await_look(deadline).await;
        self.known_by_now(|_| true).unwrap_or_else(|| {
            Err(self.error(Problem::unavailable(format!(
                "did not tell within {} ms which node has which keys; nothing was charged",
                deadline.patience.as_millis()
            ))))
        })
    }

    /// Returns `Ok` if the layout is known, or the last error if `counts` accepts it.
    fn known_by_now(&self, counts: impl Fn(&State) -> bool) -> Option<Result<(), StoreError>> {
        let state = self.state();
        if state.map.is_known() {
            return Some(Ok(()));
        }
        state.problem.clone().filter(|_| counts(&state)).map(Err)
    }

    /// Waits until a look has ended; `false` if that took too long.
    async fn await_look(self: &Arc<Self>, deadline: Deadline) -> bool {
        let mut looks = self.looks.subscribe();
        self.look();
        matches!(tokio::time::timeout_at(deadline.at, looks.changed()).await, Ok(Ok(())))
    }

    /// Starts a look at the cluster, unless one is running.
    fn look(self: &Arc<Self>) {
        let mut state = self.state();
        if state.is_looking {
            return;
        }
        state.is_looking = true;
        drop(state);
        let looker = Looker { shared: Arc::clone(self) };
        match Driver::home() {
            Ok(runtime) => drop(runtime.spawn(looker.run())),
            Err(error) => self.state().problem = Some(error),
        }
    }

    /// Follows a slot to its new node.
    fn moved(self: &Arc<Self>, slot: u16, to: &Destination, from: &Link) -> Option<Link> {
        self.look();
        let host = host(to, from)?;
        let mut state = self.state();
        Some(state.map.moved(slot, host, |host| self.connect(host)))
    }

    /// Returns the link to the node that is importing the call's keys.
    fn asked(&self, to: &Destination, from: &Link) -> Option<Link> {
        let host = host(to, from)?;
        Some(self.state().map.visit(host, |host| self.connect(host)))
    }

    fn connect(&self, host: &Host) -> Link {
        Link::new(Server::new(self.directory.template().at(host.clone())), self.width)
    }

    /// Returns the error of a call that was redirected until its deadline.
    #[cold]
    fn undecided(&self, redirect: &Redirect, slot: u16, deadline: Deadline) -> StoreError {
        let why = match redirect {
            Redirect::Moved(_) | Redirect::Ask(_) => {
                "its nodes sent this call on to each other, or to nowhere that they name: look whether they agree (CLUSTER SLOTS)"
            }
            Redirect::TryAgain => {
                "the keys of this call are moving to another node, and some are there and some are not"
            }
            Redirect::Down => {
                "the cluster is down (CLUSTERDOWN): look whether all its slots are served"
            }
        };
        self.error(Problem::unavailable(format!(
            "did not decide about slot {slot} within {} ms, because {why}; nothing was charged",
            deadline.patience.as_millis()
        )))
    }

    #[cold]
    fn error(&self, problem: Problem) -> StoreError {
        problem.of(&self.address)
    }
}

/// Returns the host that a redirect names.
fn host(to: &Destination, from: &Link) -> Option<Host> {
    match to {
        Destination::At(host) => Some(host.clone()),
        Destination::SameHost(port) => {
            from.endpoint().host().map(|host| Host { port: *port, ..host.clone() })
        }
        Destination::Unknown => None,
    }
}

/// A single look at the cluster.
struct Looker {
    shared: Arc<Shared>,
}

impl Looker {
    async fn run(self) {
        let Shared { directory, seeds, .. } = &*self.shared;
        let (next_look, known) = {
            let state = self.shared.state();
            (state.next_look, state.age)
        };
        tokio::time::sleep_until(next_look).await;
        let questions = [[&b"CLUSTER"[..], b"INFO"], [b"CLUSTER", b"SLOTS"]];
        let read = |endpoint: &Endpoint, answers: Vec<Value>| match (&answers[..], endpoint.host())
        {
            ([_, Value::Error(words)], _) => Err(Problem::of_node(words, endpoint)),
            ([info, slots], Some(host)) => Ok((Age::of(info), Layout::of(slots, host)?)),
            _ => Err(Problem::no_protocol()),
        };
        let looked = directory.ask(&questions.map(|words| Command::of(&words)), known, read).await;
        let mut state = self.shared.state();
        let now = Instant::now();
        match looked {
            Ok((age, layout)) => {
                // Keep the age as if the node were in touch. Then an answer of a node that was cut off is
                // never new enough, and others are compared by their epoch alone.
                state.age = Age { is_in_touch: true, ..age };
                let mut hosts = layout.nodes.clone();
                hosts.extend(seeds.iter().filter(|seed| !layout.nodes.contains(seed)).cloned());
                directory.replace(hosts);
                state.map.replace(layout, now, |host| self.shared.connect(host));
                state.problem = None;
                state.backoff.reset();
                state.next_look = now + LOOKS_APART;
            }
            Err(problem) => {
                state.problem = Some(self.shared.error(problem.of_cluster()));
                state.next_look = now + state.backoff.pause();
            }
        }
    }
}

impl Drop for Looker {
    fn drop(&mut self) {
        self.shared.state().is_looking = false;
        self.shared.looks.send_modify(|looks| *looks += 1);
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("address", &self.shared.address).finish_non_exhaustive()
    }
}

/// Formats slots as people write them, for messages.
pub(crate) fn unserved(primaries: &[Primary]) -> Option<String> {
    let served: std::collections::HashSet<u16> =
        primaries.iter().flat_map(|primary| primary.slots.iter().copied()).collect();
    let unserved = slot::shown((0..slot::SLOTS).filter(|slot| !served.contains(slot)));
    (!unserved.is_empty()).then_some(unserved)
}
