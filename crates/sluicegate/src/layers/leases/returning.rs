//! The opened limits that lease, through which units are given back at the end of a process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use futures_util::stream::{self, StreamExt as _};
use sluicegate_core::for_stores::LeaseReport;
use sluicegate_core::{BoxFuture, Costs, OpenedLimit, Operation, Request};

use super::holding::Owner;
use super::{Serves, Tells, Units};

/// The opened limits that lease, by their numbers, as long as they are in use.
#[derive(Default)]
pub(super) struct Lessees(Mutex<HashMap<u64, Lessee>>);

#[derive(Clone)]
struct Lessee {
    serves: Serves,
    opened: Weak<dyn Reports>,
}

/// The number of calls under way. A server decides about batches of them.
const CALLS: usize = 64;

impl Lessees {
    /// Adds an opened limit.
    pub(super) fn add<L: OpenedLimit>(&self, serves: Serves, opened: &Arc<L>) {
        let opened: Weak<L> = Arc::downgrade(opened);
        let mut lessees = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Limits come and go: before the table grows, those out of use leave it.
        if lessees.len() == lessees.capacity() {
            lessees.retain(|_, lessee| lessee.opened.strong_count() > 0);
        }
        lessees.insert(serves.number, Lessee { serves, opened });
    }

    /// Sends reports, each in a call of its own.
    pub(super) async fn report(&self, all: Vec<(Owner, Vec<LeaseReport>)>) {
        let lessees = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let calls = all.into_iter().filter(|(_, reports)| !reports.is_empty());
        let calls = calls.filter_map(|(owner, reports)| {
            let Lessee { serves, opened } = lessees.get(&owner.limit)?;
            Some((opened.upgrade()?, owner.key, Tells::new(*serves, 0, reports)))
        });
        let send = |(opened, key, tells): (Arc<dyn Reports>, Box<[u8]>, Tells)| async move {
            opened.report(&key, &tells).await;
        };
        stream::iter(calls).for_each_concurrent(CALLS, send).await;
    }
}

/// An opened limit of any type, for reports.
trait Reports: Send + Sync {
    /// Sends reports about a key. If that fails, the units stay charged.
    fn report<'a>(&'a self, key: &'a [u8], tells: &'a Tells) -> BoxFuture<'a, ()>;
}

impl<L: OpenedLimit> Reports for L {
    fn report<'a>(&'a self, key: &'a [u8], tells: &'a Tells) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            // A refund of nothing. No layer answers it without the store, and a key that is banned or paused gets it too.
            let nothing: Units = self.limit().members().iter().map(|_| 0).collect();
            let leasing = tells.leasing();
            let request = Request::new(Operation::Refund, key).costs(Costs::Each(&nothing));
            let _ = self.ask(request.leasing(&leasing)).wait().await;
        })
    }
}
