//! Waiting in functions that are not async.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use sluicegate_core::StoreError;
use sluicegate_core::for_stores::Driver;
use tokio::runtime::{EnterGuard, Handle};
use tokio::task::{block_in_place, unconstrained};

/// Blocks the thread until the future ends.
///
/// The future runs in the caller's runtime if that has several threads, and otherwise in the driver. So the tasks that
/// it needs run while this thread is blocked.
pub(crate) fn wait<F: Future>(future: F) -> Result<F::Output, StoreError> {
    // The budget of a task around this call never grows while the task doesn't return.
    let mut future = pin!(unconstrained(future));
    if let Some(_entered) = enter()? {
        return Ok(park_until(future));
    }
    // Another thread takes over this one's tasks. It panics where tasks are bound to this thread, before it runs
    // anything. No such task serves a store.
    let mut has_begun = false;
    let waited = catch_unwind(AssertUnwindSafe(|| {
        block_in_place(|| {
            has_begun = true;
            park_until(future.as_mut())
        })
    }));
    match waited {
        Ok(output) => Ok(output),
        Err(panic) if has_begun => resume_unwind(panic),
        Err(_) => Ok(park_until(future)),
    }
}

/// Enters the driver, which runs tasks while this thread is blocked. Returns `None` if the current runtime has other
/// threads for them.
pub(crate) fn enter() -> Result<Option<EnterGuard<'static>>, StoreError> {
    Driver::is_needed().then(|| Driver::handle().map(Handle::enter)).transpose()
}

fn park_until<F: Future>(mut future: Pin<&mut F>) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Runs work in the background of the current runtime, or else of the driver.
pub(crate) fn in_background(work: impl Future<Output = ()> + Send + 'static) {
    // Without a thread the work is not done.
    drop(Driver::around().map(|runtime| runtime.spawn(work)));
}

/// Continues the parked thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::runtime::Builder;

    use super::*;

    async fn work() -> u8 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        tokio::spawn(async { 7 }).await.unwrap()
    }

    #[test]
    fn it_waits_outside_of_any_runtime() {
        assert_eq!(wait(work()).unwrap(), 7);
    }

    #[test]
    fn it_waits_on_a_runtime_of_one_thread() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            assert_eq!(wait(work()).unwrap(), 7);
            let blocking = tokio::task::spawn_blocking(|| wait(work()).unwrap());
            assert_eq!(blocking.await.unwrap(), 7);
            tokio::time::sleep(Duration::from_millis(1)).await;
        });
    }

    #[test]
    fn it_waits_on_a_runtime_of_several_threads() {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            assert_eq!(wait(work()).unwrap(), 7);
            assert_eq!(tokio::spawn(async { wait(work()).unwrap() }).await.unwrap(), 7);
            let blocking = tokio::task::spawn_blocking(|| wait(work()).unwrap());
            assert_eq!(blocking.await.unwrap(), 7);
        });
    }

    #[test]
    fn it_waits_on_the_only_worker_of_a_runtime_and_on_the_driver() {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let waiting = || async { wait(work()).unwrap() };
        assert_eq!(runtime.block_on(runtime.spawn(waiting())).unwrap(), 7);
        let driver = Driver::handle().unwrap();
        assert_eq!(driver.block_on(driver.spawn(waiting())).unwrap(), 7);
    }

    #[test]
    fn it_waits_where_tasks_are_bound_to_one_thread_of_several() {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let local = tokio::task::LocalSet::new();
        let answer = local.block_on(&runtime, async {
            let task = tokio::task::spawn_local(async { wait(work()).unwrap() });
            task.await.unwrap()
        });
        assert_eq!(answer, 7);
    }

    #[test]
    fn a_task_that_has_used_up_its_budget_waits_too() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        (0..1_000).for_each(|number| sender.send(number).unwrap());
        runtime
            .block_on(runtime.spawn(async move {
                while tokio::task::coop::has_budget_remaining() {
                    receiver.recv().await.unwrap();
                }
                assert_eq!(wait(receiver.recv()).unwrap(), Some(128));
            }))
            .unwrap();
    }

    #[test]
    fn a_panic_is_the_caller_s() {
        let panics = || wait(async { panic!("on purpose") });
        assert!(catch_unwind(panics).is_err());
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        assert!(catch_unwind(AssertUnwindSafe(|| runtime.block_on(async { panics() }))).is_err());
        assert_eq!(wait(work()).unwrap(), 7);
    }
}
