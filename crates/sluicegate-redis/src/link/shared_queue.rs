//! The queue of calls for a server, shared by callers and the connection that serves them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use sluicegate_core::for_stores::Batch;
use sluicegate_core::{Acknowledgement, StoreError};

use super::problem::Problem;
use super::send_queue::SendQueue;
use super::server::Server;

/// A queue of calls, and their server.
pub(super) struct SharedQueue {
    pub(super) server: Server,
    /// Maximum number of script calls in a batch.
    pub(super) batch: usize,
    /// The acknowledgement that replicas must send for them.
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
        // No code under this lock panics halfway.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the calls of a complete batch be sent.
    pub(super) fn end(&self, batch: Batch) {
        let mut queue = self.queue();
        queue.end(batch);
        let server = queue.server.take();
        drop(queue);
        if let Some(server) = server {
            server.wake();
        }
    }

    /// Returns the store's error of a problem.
    #[cold]
    pub(super) fn error(&self, problem: Problem) -> StoreError {
        problem.of(&self.server.endpoint.address)
    }
}
