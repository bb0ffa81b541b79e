//! Lines on their way to the thread that writes them.

use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The lines that wait to be written, in a bounded number of bytes.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    reopens: bool,
    ends: bool,
}

/// The state of the queue when lines were taken from it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Taken {
    /// Whether the file must be opened again first.
    pub(super) reopens: bool,
    /// Whether there are no more lines.
    pub(super) ends: bool,
}

impl Queue {
    /// Maximum number of bytes that wait: seconds of a busy service. As many may be in the hands of the writer.
    const MOST_BYTES: usize = 16 << 20;
    /// Number of bytes that are worth a call to the system.
    const ENOUGH: usize = 256 << 10;
    /// Time in which lines come together. Each batch wakes the writer twice, which takes as long as many lines.
    const GATHER: Duration = Duration::from_millis(100);
    /// Maximum memory that is kept for later lines.
    const MOST_KEPT: usize = 1 << 20;

    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Adds a line. Returns `false` if the queue is full.
    pub(super) fn add(&self, line: &[u8]) -> bool {
        let mut state = self.lock();
        let before = state.bytes.len();
        let after = before + line.len();
        if after > Self::MOST_BYTES || state.ends {
            return false;
        }
        state.bytes.extend_from_slice(line);
        drop(state);
        // The writer waits for the first line, and then for enough of them.
        if before == 0 || (before < Self::ENOUGH && after >= Self::ENOUGH) {
            self.changed.notify_one();
        }
        true
    }

    /// Tells the writer to open the file again.
    pub(super) fn reopen(&self) {
        self.lock().reopens = true;
        self.changed.notify_one();
    }

    /// Lets the queue end once its lines are taken. Later lines are refused.
    pub(super) fn end(&self) {
        self.lock().ends = true;
        self.changed.notify_one();
    }

    /// Moves the lines to `batch`. Waits for the first one at most for `patience`.
    pub(super) fn take(&self, batch: &mut Vec<u8>, patience: Duration) -> Taken {
        batch.clear();
        batch.shrink_to(Self::MOST_KEPT);
        let is_told = |state: &State| state.reopens || state.ends;
        let is_idle = |state: &mut State| state.bytes.is_empty() && !is_told(state);
        let has_few = |state: &mut State| state.bytes.len() < Self::ENOUGH && !is_told(state);
        let waited = self.changed.wait_timeout_while(self.lock(), patience, is_idle);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        if !state.bytes.is_empty() {
            let waited = self.changed.wait_timeout_while(state, Self::GATHER, has_few);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        mem::swap(&mut state.bytes, batch);
        Taken { reopens: mem::take(&mut state.reopens), ends: state.ends }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_in_order_up_to_a_bound() {
        let queue = Queue::new();
        let mut batch = Vec::new();
        let nothing = Taken { reopens: false, ends: false };
        assert_eq!(queue.take(&mut batch, Duration::ZERO), nothing);
        assert!(queue.add(b"one\n") && queue.add(b"two\n"));
        assert_eq!(queue.take(&mut batch, Duration::ZERO), nothing);
        assert_eq!(batch, b"one\ntwo\n");
        let line = vec![b'x'; 1 << 20];
        assert_eq!((0..20).filter(|_| queue.add(&line)).count(), 16);
        queue.reopen();
        queue.end();
        assert!(!queue.add(b"late\n"));
        let taken = queue.take(&mut batch, Duration::ZERO);
        assert_eq!((taken, batch.len()), (Taken { reopens: true, ends: true }, 16 << 20));
        assert!(!queue.take(&mut batch, Duration::ZERO).reopens && batch.is_empty());
    }
}
