//! Waiting in functions that are not async.

use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::OnceLock;

use sluicegate_core::{StoreError, StoreErrorKind};
use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};

/// The kind of runtime around the calling thread.
#[cfg(any(feature = "macros", test))]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RuntimeKind {
    /// None, or one with other threads that take over its tasks.
    Free,
    /// A runtime of a single thread, maybe this one: while it is blocked, no other task runs.
    OneThread,
}

#[cfg(any(feature = "macros", test))]
pub(crate) fn around() -> RuntimeKind {
    match Handle::try_current() {
        Ok(handle) if handle.runtime_flavor() == RuntimeFlavor::CurrentThread => {
            RuntimeKind::OneThread
        }
        _ => RuntimeKind::Free,
    }
}

/// Enters a runtime of our own, which runs tasks while this thread is blocked. Returns `None` if the current runtime
/// has other threads for them, or if no thread could be started.
#[cfg(feature = "macros")]
pub(crate) fn enter() -> Option<tokio::runtime::EnterGuard<'static>> {
    let is_around = Handle::try_current().is_ok() && around() == RuntimeKind::Free;
    if is_around { None } else { runtime().ok().map(Runtime::enter) }
}

/// Blocks the thread until the future ends.
///
/// On a multi-threaded runtime, other threads take over this thread's tasks. Otherwise, a runtime of our own drives
/// timers and sockets. A single-threaded runtime can't be entered again, so there a separate thread waits.
pub(crate) fn wait<F>(future: F) -> Result<F::Output, StoreError>
where
    F: Future<Output: Send> + Send,
{
    let Ok(handle) = Handle::try_current() else {
        return Ok(runtime()?.block_on(future));
    };
    let mut future = Some(future);
    if handle.runtime_flavor() == RuntimeFlavor::MultiThread {
        let mut entered = false;
        // It panics where tasks are bound to this thread, before it runs anything.
        let waited = catch_unwind(AssertUnwindSafe(|| {
            tokio::task::block_in_place(|| {
                entered = true;
                future.take().map(|future| handle.block_on(future))
            })
        }));
        match waited {
            Ok(Some(output)) => return Ok(output),
            Err(panic) if entered => resume_unwind(panic),
            _ => {}
        }
    }
    let Some(future) = future else {
        return Err(no_thread("the wait was given up"));
    };
    let runtime = runtime()?;
    std::thread::scope(|scope| {
        let waiting = std::thread::Builder::new()
            .name("sluicegate-wait".to_owned())
            .spawn_scoped(scope, || runtime.block_on(future))
            .map_err(no_thread)?;
        waiting.join().map_err(|panic| resume_unwind(panic))
    })
}

/// Runs work in the background of the current runtime, or else of our own.
pub(crate) fn in_background(work: impl Future<Output = ()> + Send + 'static) {
    match Handle::try_current() {
        Ok(handle) => drop(handle.spawn(work)),
        // Without a thread the work is not done.
        Err(_) => drop(runtime().map(|runtime| runtime.spawn(work))),
    }
}

/// Returns a runtime for programs without one: a single thread for timers and sockets.
fn runtime() -> Result<&'static Runtime, StoreError> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    kept_in(&RUNTIME, || {
        Builder::new_multi_thread().worker_threads(1).thread_name("sluicegate").enable_all().build()
    })
}

/// Returns the runtime that `cell` keeps, and builds it on the first call.
fn kept_in(
    cell: &OnceLock<Runtime>,
    build: impl FnOnce() -> io::Result<Runtime>,
) -> Result<&Runtime, StoreError> {
    if cell.get().is_none() {
        // Another thread may have built one in the meantime. Dropping ours would wait for its
        // threads, which panics if this thread runs a task.
        if let Err(other) = cell.set(build().map_err(no_thread)?) {
            other.shutdown_background();
        }
    }
    cell.get().ok_or_else(|| no_thread("the runtime was not kept"))
}

fn no_thread(error: impl std::fmt::Display) -> StoreError {
    StoreError::new(
        StoreErrorKind::Unavailable,
        format!("no thread could be started to wait for the store: {error}; nothing was charged"),
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn work() -> u8 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        tokio::spawn(async { 7 }).await.unwrap()
    }

    #[test]
    fn it_waits_outside_of_any_runtime() {
        assert_eq!(around(), RuntimeKind::Free);
        assert_eq!(wait(work()).unwrap(), 7);
    }

    #[test]
    fn it_waits_on_a_runtime_of_one_thread() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            assert_eq!(around(), RuntimeKind::OneThread);
            assert_eq!(wait(work()).unwrap(), 7);
            let blocking = tokio::task::spawn_blocking(|| wait(work()).unwrap());
            assert_eq!(blocking.await.unwrap(), 7);
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
    fn two_first_calls_at_once_inside_of_a_runtime_keep_one_and_never_drop_the_other_there() {
        let build = || Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let cell = OnceLock::new();
        let around = Builder::new_current_thread().build().unwrap();
        let answer = around.block_on(async {
            let runtime = kept_in(&cell, || {
                let late = build();
                // Simulates another thread that builds a runtime in the meantime.
                cell.set(build()?).unwrap();
                late
            });
            runtime.unwrap().spawn(work()).await.unwrap()
        });
        assert_eq!(answer, 7);
        cell.into_inner().unwrap().shutdown_background();
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
