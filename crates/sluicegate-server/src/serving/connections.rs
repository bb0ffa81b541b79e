//! The open connections, whose number is bounded.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sluicegate::Registry;
use sluicegate::http::Cidr;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

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
/// Either it waits for its client, or its request is being answered. A client that has sent part of
/// a request counts as waiting since its last answer. Otherwise slow clients could keep their
/// connections.
#[derive(Debug)]
pub(crate) struct Seat {
    connections: Arc<Connections>,
    address: Option<Cidr>,
    /// Number in the order of waiting.
    number: AtomicU64,
    has_request: AtomicBool,
    taken: Arc<Notify>,
    _permit: Option<OwnedSemaphorePermit>,
}

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
    pub(crate) async fn seat(self: &Arc<Self>, peer: IpAddr) -> Option<Arc<Seat>> {
        let address = self.count(peer)?;
        let permit = self.permit().await;
        let (number, taken) = (self.table().next(), Arc::new(Notify::new()));
        let seat = Seat {
            connections: Arc::clone(self),
            address,
            number: AtomicU64::new(number),
            has_request: AtomicBool::new(false),
            taken,
            _permit: permit,
        };
        seat.waits();
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
    fn count(&self, peer: IpAddr) -> Option<Option<Cidr>> {
        let Some(bound) = &self.per_address else { return Some(None) };
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
    pub(crate) fn begin(&self) {
        self.has_request.store(true, Ordering::Relaxed);
        self.works();
    }

    /// Marks the end of a request.
    pub(crate) fn answered(&self) {
        self.has_request.store(false, Ordering::Relaxed);
        // The connection may have been waiting for a body that never came.
        self.works();
        self.number.store(self.connections.table().next(), Ordering::Relaxed);
        self.waits();
    }

    /// Returns `true` while a request is in progress.
    pub(crate) fn has_request(&self) -> bool {
        self.has_request.load(Ordering::Relaxed)
    }

    /// Marks the connection as waiting for the service.
    pub(crate) fn works(&self) {
        self.connections.table().waiting.remove(&self.number.load(Ordering::Relaxed));
    }

    /// Marks the connection as waiting for its client.
    pub(crate) fn waits(&self) {
        let number = self.number.load(Ordering::Relaxed);
        self.connections.table().waiting.insert(number, Arc::clone(&self.taken));
        self.connections.one_waits.notify_one();
    }

    /// Waits until another connection gets the seat.
    pub(crate) async fn taken(&self) {
        self.taken.notified().await;
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
