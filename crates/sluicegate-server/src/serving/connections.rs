//! The open connections, whose number is bounded.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sluicegate::Registry;
use sluicegate::http::Cidr;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::peer::Peer;

/// All connections of a listener.
#[derive(Debug)]
pub(crate) struct Connections {
    most: usize,
    free: Arc<Semaphore>,
    per_address: Option<PerAddress>,
    table: Mutex<Table>,
    /// Notifies when a connection starts to wait for its client, so it can be closed for another
    /// one.
    one_waits: Notify,
    closed_for_others: AtomicU64,
    closed_of_address: AtomicU64,
}

/// The bound on the connections of one address.
#[derive(Debug)]
pub(crate) struct PerAddress {
    pub(crate) most: NonZeroUsize,
    /// Provides the trusted proxies, and the prefixes of addresses that count as one client.
    pub(crate) registry: Registry,
}

#[derive(Debug, Default)]
struct Table {
    /// Number of the latest connection that began to wait.
    next: u64,
    /// Connections that wait for their clients, the longest wait first.
    waiting: BTreeMap<u64, Arc<Notify>>,
    of_address: HashMap<Cidr, usize>,
}

/// An open connection.
///
/// Either it waits for its client, or a request is being answered. A client that has sent part of a
/// request counts as waiting since its last answer. Otherwise slow clients could keep their
/// connections.
#[derive(Debug)]
pub(crate) struct Seat {
    connections: Arc<Connections>,
    address: Option<Cidr>,
    /// Number in the order of waiting. Like the counts, it changes only under the lock of the table.
    number: AtomicU64,
    /// Requests without an answer.
    requests: AtomicUsize,
    /// The subset of these that doesn't wait for the client.
    at_work: AtomicUsize,
    has_begun: AtomicBool,
    begins: Notify,
    taken: Arc<Notify>,
    _permit: Option<OwnedSemaphorePermit>,
}

/// A request on a connection, until it is answered or dropped.
#[derive(Debug)]
pub(crate) struct Work {
    seat: Arc<Seat>,
    /// One of the constants below. It changes only under the lock of the table.
    state: AtomicU8,
}

/// The request is being answered.
const AT_WORK: u8 = 0;
/// The rest of the request hasn't arrived.
const WAITS: u8 = 1;
/// The request is answered or dropped.
const ENDED: u8 = 2;

impl Connections {
    pub(crate) fn new(most: usize, per_address: Option<PerAddress>) -> Arc<Self> {
        let most = most.clamp(1, u32::MAX as usize >> 3);
        Arc::new(Self {
            most,
            free: Arc::new(Semaphore::new(most)),
            per_address,
            table: Mutex::default(),
            one_waits: Notify::new(),
            closed_for_others: AtomicU64::new(0),
            closed_of_address: AtomicU64::new(0),
        })
    }

    /// Returns a seat for a connection from this address, as soon as one is free.
    ///
    /// If all are taken, the connection that has waited longest for its client is closed. Returns
    /// `None` if the address has the maximum number of connections.
    pub(crate) async fn seat(self: &Arc<Self>, peer: Peer) -> Option<Arc<Seat>> {
        let address = self.count(peer)?;
        let permit = self.permit().await;
        let seat = Seat {
            connections: Arc::clone(self),
            address,
            number: AtomicU64::new(0),
            requests: AtomicUsize::new(0),
            at_work: AtomicUsize::new(0),
            has_begun: AtomicBool::new(false),
            begins: Notify::new(),
            taken: Arc::default(),
            _permit: permit,
        };
        seat.waits_again(&mut self.table());
        Some(Arc::new(seat))
    }

    /// Waits until all connections are closed.
    pub(crate) async fn all_closed(&self) {
        let all = u32::try_from(self.most).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        let _ = self.free.acquire_many(all).await;
    }

    /// Returns the number of open connections.
    pub(crate) fn open(&self) -> u64 {
        (self.most - self.free.available_permits().min(self.most)) as u64
    }

    /// Returns the numbers of connections closed because all seats were taken, and because their
    /// address had too many.
    pub(crate) fn closed(&self) -> [u64; 2] {
        [&self.closed_for_others, &self.closed_of_address].map(|it| it.load(Ordering::Relaxed))
    }

    async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
            return Some(permit);
        }
        let mut freed = std::pin::pin!(Arc::clone(&self.free).acquire_owned());
        loop {
            if self.close_longest_waiting() {
                return freed.await.ok();
            }
            tokio::select! {
                permit = &mut freed => return permit.ok(),
                () = self.one_waits.notified() => {}
            }
        }
    }

    fn close_longest_waiting(&self) -> bool {
        let longest = self.table().waiting.pop_first();
        if let Some((_, taken)) = &longest {
            taken.notify_one();
            self.closed_for_others.fetch_add(1, Ordering::Relaxed);
        }
        longest.is_some()
    }

    /// Counts a connection if its address has a bound. Returns `None` if the address has too many.
    /// Peers on a Unix socket count as a trusted proxy, which has no bound.
    fn count(&self, peer: Peer) -> Option<Option<Cidr>> {
        let (Some(bound), Peer::Ip(peer)) = (&self.per_address, peer) else { return Some(None) };
        let http = bound.registry.http();
        if http.client_address.trusts(peer) {
            return Some(None);
        }
        let address = http.client_address.network_of(peer);
        let mut table = self.table();
        let count = table.of_address.entry(address).or_default();
        if *count >= bound.most.get() {
            self.closed_of_address.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        *count += 1;
        Some(Some(address))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

impl Seat {
    /// Marks the start of a request.
    pub(crate) fn begin(self: &Arc<Self>) -> Arc<Work> {
        if !self.has_begun.swap(true, Ordering::Relaxed) {
            self.begins.notify_waiters();
        }
        let mut table = self.connections.table();
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.works(&mut table);
        Arc::new(Work { seat: Arc::clone(self), state: AtomicU8::new(AT_WORK) })
    }

    /// Makes the connection the latest one that waits for its client, because its client has just sent something.
    #[cfg(feature = "resp")]
    pub(crate) fn mark_active(&self) {
        let mut table = self.connections.table();
        let number = self.number.load(Ordering::Relaxed);
        // The latest one has nothing to gain.
        if number != table.next && table.waiting.contains_key(&number) {
            self.waits_again(&mut table);
        }
    }

    /// Waits until the connection has had a request.
    pub(crate) async fn begun(&self) {
        let begins = self.begins.notified();
        if !self.has_begun.load(Ordering::Relaxed) {
            begins.await;
        }
    }

    /// Returns `true` while a request is in progress.
    pub(crate) fn has_request(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 0
    }

    /// Waits until another connection gets the seat.
    pub(crate) async fn taken(&self) {
        self.taken.notified().await;
    }

    /// Counts one more request that is being answered.
    fn works(&self, table: &mut Table) {
        if self.at_work.fetch_add(1, Ordering::Relaxed) == 0 {
            table.waiting.remove(&self.number.load(Ordering::Relaxed));
        }
    }

    /// Makes the connection the latest one that waits for its client.
    fn waits_again(&self, table: &mut Table) {
        table.waiting.remove(&self.number.load(Ordering::Relaxed));
        self.number.store(table.next(), Ordering::Relaxed);
        self.waits(table);
    }

    fn waits(&self, table: &mut Table) {
        table.waiting.insert(self.number.load(Ordering::Relaxed), Arc::clone(&self.taken));
        self.connections.one_waits.notify_one();
    }
}

impl Work {
    /// Marks the request as waiting for the service: another part of it has arrived.
    pub(crate) fn goes_on(&self) {
        if self.state.load(Ordering::Relaxed) == WAITS {
            let mut table = self.seat.connections.table();
            if self.set_from(WAITS, AT_WORK) {
                self.seat.works(&mut table);
            }
        }
    }

    /// Marks the request as waiting for its client.
    pub(crate) fn waits(&self) {
        let mut table = self.seat.connections.table();
        if self.set_from(AT_WORK, WAITS) && self.seat.at_work.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.seat.waits(&mut table);
        }
    }

    /// Marks the end of the request.
    pub(crate) fn end(&self) {
        let seat = &*self.seat;
        let mut table = seat.connections.table();
        let state = self.state.swap(ENDED, Ordering::Relaxed);
        if state == ENDED {
            return;
        }
        seat.requests.fetch_sub(1, Ordering::Relaxed);
        if state == AT_WORK {
            seat.at_work.fetch_sub(1, Ordering::Relaxed);
        }
        if seat.at_work.load(Ordering::Relaxed) == 0 {
            seat.waits_again(&mut table);
        }
    }

    fn set_from(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.end();
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut table = self.connections.table();
        table.waiting.remove(&self.number.load(Ordering::Relaxed));
        let Some(address) = self.address else { return };
        if let Some(count) = table.of_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                table.of_address.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn seat(connections: &Arc<Connections>) -> Arc<Seat> {
        connections.seat(Peer::Unix).await.unwrap()
    }

    /// Returns whether the connection has lost its seat.
    fn is_taken(seat: &Seat) -> bool {
        let mut taken = Box::pin(seat.taken());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        taken.as_mut().poll(&mut context).is_ready()
    }

    #[tokio::test]
    async fn a_connection_is_idle_while_none_of_its_requests_is_being_answered() {
        let connections = Connections::new(2, None);
        let (streams, other) = (seat(&connections).await, seat(&connections).await);
        let (first, second) = (streams.begin(), streams.begin());
        let only = other.begin();
        assert!(!connections.close_longest_waiting());
        // One request waits for its body, and the other one is being answered.
        first.waits();
        assert!(!connections.close_longest_waiting());
        first.goes_on();
        second.end();
        drop(second);
        assert!(!connections.close_longest_waiting() && streams.has_request());
        first.waits();
        drop(only);
        assert!(connections.close_longest_waiting() && is_taken(&streams), "it waits longer");
        assert!(connections.close_longest_waiting() && is_taken(&other));
        assert!(!connections.close_longest_waiting());
        drop(first);
        assert!(!streams.has_request());
    }

    #[tokio::test]
    async fn a_request_that_is_dropped_ends() {
        let connections = Connections::new(1, None);
        let seat = seat(&connections).await;
        drop(seat.begin());
        assert!(!seat.has_request() && connections.close_longest_waiting());
    }
}
