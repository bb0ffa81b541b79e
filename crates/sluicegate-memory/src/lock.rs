//! The lock of a shard: one compare-and-swap to lock, one plain store to unlock.
//!
//! A lock is held for some tens of nanoseconds, or longer when a shard grows. So a waiting thread
//! spins at first. After that the holder was most likely descheduled, and the waiting thread yields
//! its processor.

use spin::mutex::{SpinMutex, SpinMutexGuard};

/// The content of a locked shard.
pub(crate) type Guard<'a, T> = SpinMutexGuard<'a, T>;

/// A lock.
#[derive(Debug, Default)]
pub(crate) struct Lock<T>(SpinMutex<T>);

impl<T> Lock<T> {
    pub(crate) const fn new(content: T) -> Self {
        Self(SpinMutex::new(content))
    }

    /// Takes the lock, waiting for it if necessary.
    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        match self.0.try_lock() {
            Some(guard) => guard,
            None => self.wait(),
        }
    }

    /// Takes the lock unless another thread holds it.
    pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
        self.0.try_lock()
    }

    #[cold]
    fn wait(&self) -> Guard<'_, T> {
        loop {
            for _ in 0..ROUNDS {
                for _ in 0..PAUSES {
                    std::hint::spin_loop();
                }
                if !self.0.is_locked()
                    && let Some(guard) = self.0.try_lock()
                {
                    return guard;
                }
            }
            std::thread::yield_now();
        }
    }
}

/// Number of checks of the lock before the thread yields.
const ROUNDS: u32 = 16;
/// Pauses between two checks, about a microsecond in total. Checking rarely lets the other thread
/// decide a dozen times before the cache lines of lock and slot move. With two threads on one key,
/// each decides three times as fast as with a quarter of the pauses.
const PAUSES: u32 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_increment_is_lost_between_threads() {
        let lock = Lock::<u64>::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|_| *lock.lock() += 1));
            }
        });
        assert_eq!(*lock.lock(), 40_000);
    }

    #[test]
    fn a_taken_lock_is_not_taken_twice() {
        let lock = Lock::<u64>::default();
        let guard = lock.lock();
        assert!(lock.try_lock().is_none());
        drop(guard);
        assert!(lock.try_lock().is_some());
    }
}
