//! Renewal of all holds of a process in one runtime.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sluicegate_core::for_stores::Driver;
use tokio::runtime::{Handle, Id};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::kept::Kept;

/// Renews holds: one task with one timer for all holds of a runtime. When one is due, all that are almost due are
/// renewed with it, so that their calls are batched.
pub(super) struct Renewer {
    runtime: Handle,
    numbers: AtomicU64,
    kept: Mutex<Slots>,
    /// Notified when a hold is due before the task would wake up.
    earlier: Notify,
}

#[derive(Default)]
struct Slots {
    by_number: HashMap<u64, Arc<Kept>>,
    /// When the task wakes up by itself.
    wakes: Option<Instant>,
}

/// One renewer per runtime that ever requested a permit, as long as the runtime exists.
static RENEWERS: Mutex<Option<HashMap<Id, Arc<Renewer>>>> = Mutex::new(None);

impl Renewer {
    /// Returns the renewer of the current runtime; outside of any, that of the driver. `None` if that can't be started.
    pub(super) fn here() -> Option<Arc<Self>> {
        let runtime = Driver::around().ok()?;
        let mut guard = RENEWERS.lock().unwrap_or_else(PoisonError::into_inner);
        let renewers = guard.get_or_insert_with(HashMap::new);
        if let Some(known) = renewers.get(&runtime.id()) {
            return Some(Arc::clone(known));
        }
        let renewer = Arc::new(Self {
            runtime: runtime.clone(),
            numbers: AtomicU64::new(0),
            kept: Mutex::default(),
            earlier: Notify::new(),
        });
        renewers.insert(runtime.id(), Arc::clone(&renewer));
        // A runtime that has ended drops the task immediately, which takes this lock.
        drop(guard);
        let task = Task(Arc::clone(&renewer));
        drop(runtime.spawn(async move { task.run().await }));
        Some(renewer)
    }

    pub(super) const fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Returns a number for the next hold.
    pub(super) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Starts to renew a hold.
    pub(super) fn keep(&self, number: u64, kept: &Arc<Kept>) {
        let next = kept.look().next;
        self.slots().by_number.insert(number, Arc::clone(kept));
        self.wake_by(next);
    }

    /// Stops renewing a hold.
    pub(super) fn forget(&self, number: u64) {
        let forgotten = self.slots().by_number.remove(&number);
        // Dropped after the lock is released.
        drop(forgotten);
    }

    fn wake_by(&self, next: Instant) {
        let mut slots = self.slots();
        if slots.wakes.is_none_or(|wakes| next < wakes) {
            slots.wakes = Some(next);
            self.earlier.notify_one();
        }
    }

    /// Returns the holds to renew now; the others are checked later.
    fn due(&self) -> Vec<Arc<Kept>> {
        let (now, mut lost, mut due, mut wakes) = (Instant::now(), Vec::new(), Vec::new(), None);
        let mut slots = self.slots();
        for (number, kept) in &slots.by_number {
            let life = kept.look();
            if life.is_lost {
                lost.push(*number);
                continue;
            }
            if life.opens <= now {
                due.push((life.next, Arc::clone(kept)));
            }
            wakes = [wakes, Some(life.next)].into_iter().flatten().min();
        }
        for number in &lost {
            slots.by_number.remove(number);
        }
        if wakes.is_none_or(|wakes| wakes > now) {
            slots.wakes = wakes;
            return Vec::new();
        }
        for (_, kept) in &due {
            kept.begin_renewal();
        }
        let all = slots.by_number.values();
        slots.wakes = all.map(|kept| kept.look().next).min();
        due.into_iter().map(|(_, kept)| kept).collect()
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        // Nothing that is done under this lock panics half way.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task of a renewer. It ends with its runtime.
struct Task(Arc<Renewer>);

impl Task {
    async fn run(self) {
        let renewer = &self.0;
        loop {
            for kept in renewer.due() {
                let renewer = Arc::clone(renewer);
                tokio::spawn(async move {
                    match kept.renew().await {
                        Some(next) => renewer.wake_by(next),
                        None => renewer.forget(kept.number()),
                    }
                });
            }
            let wakes = renewer.slots().wakes;
            match wakes {
                Some(wakes) => drop(timeout_at(wakes, renewer.earlier.notified()).await),
                None => renewer.earlier.notified().await,
            }
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let mut renewers = RENEWERS.lock().unwrap_or_else(PoisonError::into_inner);
        let own = renewers.as_mut().and_then(|renewers| renewers.remove(&self.0.runtime.id()));
        drop(renewers);
        drop(own);
        // Holds refer to this renewer.
        let kept = std::mem::take(&mut self.0.slots().by_number);
        drop(kept);
    }
}
