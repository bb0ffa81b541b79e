//! Renewing all that a process holds in one runtime.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::{Handle, Id};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::kept::Kept;

/// Renews what is held: one task with one timer for all that was asked for in a runtime. When one is
/// due, all that are about to be are renewed with it, so that their calls travel together.
pub(super) struct Renewer {
    runtime: Handle,
    numbers: AtomicU64,
    kept: Mutex<Slots>,
    /// Told when something is due before the task would wake up.
    earlier: Notify,
}

#[derive(Default)]
struct Slots {
    by_number: HashMap<u64, Arc<Kept>>,
    /// When the task wakes up by itself.
    wakes: Option<Instant>,
}

/// One per runtime that ever asked for a permit, as long as it runs.
static RENEWERS: Mutex<Option<HashMap<Id, Arc<Renewer>>>> = Mutex::new(None);

impl Renewer {
    /// The renewer of the runtime around; `None` outside of any.
    pub(super) fn here() -> Option<Arc<Self>> {
        let runtime = Handle::try_current().ok()?;
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
        // A runtime that has ended drops the task at once, which takes this lock.
        drop(guard);
        let task = Task(Arc::clone(&renewer));
        drop(runtime.spawn(async move { task.run().await }));
        Some(renewer)
    }

    pub(super) const fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// A name for the next that is kept.
    pub(super) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Renews it from now on.
    pub(super) fn keep(&self, number: u64, kept: &Arc<Kept>) {
        let next = kept.look().next;
        self.slots().by_number.insert(number, Arc::clone(kept));
        self.wake_by(next);
    }

    /// Renews it no longer.
    pub(super) fn forget(&self, number: u64) {
        let forgotten = self.slots().by_number.remove(&number);
        // Not under the lock.
        drop(forgotten);
    }

    fn wake_by(&self, next: Instant) {
        let mut slots = self.slots();
        if slots.wakes.is_none_or(|wakes| next < wakes) {
            slots.wakes = Some(next);
            self.earlier.notify_one();
        }
    }

    /// What is to be renewed now; the rest is looked at later.
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
        // They hold this renewer.
        let kept = std::mem::take(&mut self.0.slots().by_number);
        drop(kept);
    }
}
