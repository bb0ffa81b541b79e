//! Decides the requests of a key.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};

use futures_util::FutureExt as _;
use sluicegate_core::{
    Decision, Error, Hold, HoldId, OpenOptions, OpenedLimit, Operation, Request, RequestError,
    RequestErrorKind, StoreError, StoreErrorKind, TimeSource, Timestamp,
};

use crate::requests::{Arrival, OfKey};

/// Options of limits that share no state with any other run.
pub(crate) fn fresh_run() -> OpenOptions {
    let random = || RandomState::new().hash_one(std::process::id());
    let run = format!("replay-{:016x}{:016x}", random(), random());
    OpenOptions::default().time(TimeSource::Injected { run })
}

/// Calls a function for every key, on every core, and returns one result per core.
pub(crate) fn on_every_core<K: Sync, T: Send>(
    keys: &[K],
    new: impl Fn() -> T + Sync,
    work: impl Fn(&mut T, &K) -> Result<(), Error> + Sync,
) -> Result<Vec<T>, Error> {
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(keys.len());
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut made = new();
        while let Some(key) = keys.get(next.fetch_add(1, Ordering::Relaxed)) {
            work(&mut made, key)?;
        }
        Ok(made)
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(worker)).collect();
        let joined = workers.into_iter().map(ScopedJoinHandle::join);
        joined.map(|made| made.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}

/// Decides the requests of a key in order, then deletes the key's state.
///
/// `look` receives each decision. If no state can hold a request's cost, only that request is
/// refused, and `look` receives its error.
pub(crate) async fn decide(
    opened: &impl OpenedLimit,
    key: &[u8],
    requests: OfKey<'_>,
    mut look: impl FnMut(Result<&Decision, &RequestError>, &Arrival),
) -> Result<(), Error> {
    let mut last = Timestamp::EPOCH;
    let holds = opened.limit().has_permits();
    let mut in_flight = BinaryHeap::new();
    for (number, arrival) in requests.iter().enumerate() {
        let Arrival { at, costs, lasts, is_take, .. } = arrival;
        while let Some((end, id)) = next_end(&mut in_flight, at) {
            let _ = opened.ask(Request::settle(key, id, &[]).at(end)).wait().await?;
        }
        let hold =
            Hold { id: HoldId::from_bytes((number as u128).to_be_bytes()), lasts: Hold::MAX_LASTS };
        let operation = if is_take { Operation::Take } else { Operation::Check };
        let mut request = Request::new(operation, key).costs(costs).at(at);
        if holds {
            request = request.hold(&hold);
        }
        match opened.ask(request).wait().await {
            Ok(decision) if decision.warnings().full => {
                let message =
                    "has no memory for the states of another key: its denials say nothing";
                return Err(StoreError::new(StoreErrorKind::Unavailable, message).into());
            }
            Ok(decision) => {
                if decision.hold().is_some() {
                    in_flight.push(Reverse((at.saturating_add(lasts.into()), hold.id)));
                }
                look(Ok(&decision), &arrival);
            }
            Err(Error::Request(error)) if error.kind() == RequestErrorKind::Overflow => {
                look(Err(&error), &arrival);
            }
            Err(error) => return Err(error),
        }
        last = at;
    }
    let _ = opened.ask(Request::new(Operation::Reset, key).at(last)).wait().await?;
    Ok(())
}

/// Removes the request that ends first, if it has ended by `time`: at its end, a permit is no
/// longer in use.
fn next_end(
    in_flight: &mut BinaryHeap<Reverse<(Timestamp, HoldId)>>,
    by: Timestamp,
) -> Option<(Timestamp, HoldId)> {
    let Reverse((end, _)) = in_flight.peek()?;
    if *end > by { None } else { in_flight.pop().map(|Reverse(ended)| ended) }
}

/// Returns the result of a future on a store that must answer immediately.
pub(crate) fn at_once<T>(future: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    future.now_or_never().unwrap_or_else(|| {
        let message = "the store can't answer immediately: use `Plan::play`";
        Err(RequestError::new(RequestErrorKind::WouldBlock, message).into())
    })
}
