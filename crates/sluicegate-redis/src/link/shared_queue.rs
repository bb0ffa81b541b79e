//! The queue of calls for a server, as callers share it with the connection that serves them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use sluicegate_core::{Acknowledgement, StoreError};

use super::problem::Problem;
use super::send_queue::SendQueue;
use super::server::Server;

/// A queue of calls, and where they go.
pub(super) struct SharedQueue {
    pub(super) server: Server,
    /// How many calls of the script travel together at most.
    pub(super) batch: usize,
    /// What replicas have to say to them.
    pub(super) acknowledgement: Option<Acknowledgement>,
    queue: Mutex<SendQueue>,
}

impl SharedQueue {
    pub(super) fn new(
        server: Server,
        batch: usize,
        acknowledgement: Option<Acknowledgement>,
    ) -> Self {
        Self { server, batch, acknowledgement, queue: Mutex::new(SendQueue::new()) }
    }

    pub(super) fn queue(&self) -> MutexGuard<'_, SendQueue> {
        // Nothing that is done under this lock panics half way.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The error of the store that a problem is.
    #[cold]
    pub(super) fn error(&self, problem: Problem) -> StoreError {
        problem.of(&self.server.endpoint.address)
    }
}
