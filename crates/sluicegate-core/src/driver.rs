//! The runtime that works for callers whose own runtime can't.

use std::sync::OnceLock;

use tokio::runtime::{Builder, EnterGuard, Handle, Runtime, RuntimeFlavor};

use crate::failure::{RequestError, RequestErrorKind, StoreError, StoreErrorKind};

/// A tokio runtime of one thread that the process starts on first need and never stops.
///
/// It serves connections and timers for callers outside of a runtime, and for those that block the only thread of one.
///
/// ```
/// use sluicegate_core::for_stores::Driver;
///
/// assert!(Driver::check_request("the store").is_err(), "this thread is outside of any runtime");
/// let runtime = Driver::home()?;
/// assert_eq!(runtime.block_on(async { 7 }), 7);
/// # Ok::<(), sluicegate_core::StoreError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Driver;

impl Driver {
    /// Returns the runtime of the driver.
    ///
    /// # Errors
    /// Returns an error if the operating system starts no thread.
    pub fn handle() -> Result<&'static Handle, StoreError> {
        static DRIVER: OnceLock<Runtime> = OnceLock::new();
        Self::kept_in(&DRIVER, || {
            Builder::new_multi_thread()
                .worker_threads(1)
                .thread_name("sluicegate")
                .enable_all()
                .build()
        })
        .map(Runtime::handle)
    }

    /// Returns the runtime in which a store's tasks run: the caller's if it has several threads, otherwise the driver.
    /// So the tasks run while a caller's thread is blocked.
    ///
    /// # Errors
    /// Returns the errors of [`Driver::handle`].
    pub fn home() -> Result<Handle, StoreError> {
        Self::home_of(Handle::try_current().ok())
    }

    /// Returns the runtime in which tasks for callers of `runtime` run: that one if it has several threads, otherwise the
    /// driver.
    ///
    /// # Errors
    /// Returns the errors of [`Driver::handle`].
    pub fn home_of(runtime: Option<Handle>) -> Result<Handle, StoreError> {
        match runtime.filter(has_other_threads) {
            Some(runtime) => Ok(runtime),
            None => Self::handle().cloned(),
        }
    }

    /// Returns `true` unless the caller's runtime has other threads, which run its tasks while the caller's is blocked.
    #[must_use]
    pub fn is_needed() -> bool {
        !Handle::try_current().is_ok_and(|current| has_other_threads(&current))
    }

    /// Returns the caller's runtime; outside of any, the driver.
    ///
    /// # Errors
    /// Returns the errors of [`Driver::handle`].
    pub fn around() -> Result<Handle, StoreError> {
        Handle::try_current().or_else(|_| Self::handle().cloned())
    }

    /// Enters the driver, unless the caller is in a runtime.
    ///
    /// # Errors
    /// Returns the errors of [`Driver::handle`].
    pub fn enter_outside() -> Result<Option<EnterGuard<'static>>, StoreError> {
        match Handle::try_current() {
            Ok(_) => Ok(None),
            Err(_) => Self::handle().map(|driver| Some(driver.enter())),
        }
    }

    /// Checks that the caller of a request is in a runtime, as awaiting a store over a network requires. `store` is its
    /// name in the message.
    ///
    /// # Errors
    /// Returns [`RequestErrorKind::WouldBlock`] outside of a runtime.
    pub fn check_request(store: &str) -> Result<(), RequestError> {
        Self::check(store).map_err(|text| RequestError::new(RequestErrorKind::WouldBlock, text))
    }

    /// Checks that the caller of a connection is in a runtime, for a call that belongs to no request.
    ///
    /// # Errors
    /// Returns [`StoreErrorKind::Unavailable`] outside of a runtime.
    pub fn check_connection(store: &str) -> Result<(), StoreError> {
        Self::check(store).map_err(|text| StoreError::new(StoreErrorKind::Unavailable, text))
    }

    fn check(store: &str) -> Result<(), String> {
        Handle::try_current().map(drop).map_err(|_| {
            format!(
                "{store} can't be awaited outside of a tokio runtime: await it in one, or end the request by `blocking()`; nothing was sent"
            )
        })
    }

    /// Returns the runtime that `cell` keeps, and builds it on the first call.
    fn kept_in(
        cell: &OnceLock<Runtime>,
        build: impl FnOnce() -> std::io::Result<Runtime>,
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
}

fn has_other_threads(runtime: &Handle) -> bool {
    runtime.runtime_flavor() == RuntimeFlavor::MultiThread
}

#[cold]
fn no_thread(error: impl std::fmt::Display) -> StoreError {
    StoreError::new(
        StoreErrorKind::Unavailable,
        format!("no thread could be started to wait for the store: {error}; nothing was charged"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_first_calls_at_once_inside_of_a_runtime_keep_one_and_never_drop_the_other_there() {
        let build = || Builder::new_multi_thread().worker_threads(1).build();
        let cell = OnceLock::new();
        let around = Builder::new_current_thread().build().unwrap();
        let answer = around.block_on(async {
            let runtime = Driver::kept_in(&cell, || {
                let late = build();
                // Simulates another thread that builds a runtime in the meantime.
                cell.set(build()?).unwrap();
                late
            });
            runtime.unwrap().spawn(async { 7 }).await.unwrap()
        });
        assert_eq!(answer, 7);
        cell.into_inner().unwrap().shutdown_background();
    }

    #[test]
    fn tasks_run_in_the_caller_s_runtime_only_if_that_has_several_threads() {
        let home = || Driver::home().unwrap().id();
        let driver = Driver::handle().unwrap().id();
        assert_eq!(home(), driver);
        let single = Builder::new_current_thread().build().unwrap();
        assert_eq!(single.block_on(async { home() }), driver);
        let several = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        assert_eq!(several.block_on(async { home() }), several.handle().id());
    }

    #[test]
    fn only_a_caller_in_a_runtime_may_await_a_store_of_a_network() {
        let error = Driver::check_request("the Redis store").unwrap_err();
        assert_eq!(error.kind(), RequestErrorKind::WouldBlock);
        assert_eq!(
            error.to_string(),
            "the Redis store can't be awaited outside of a tokio runtime: await it in one, or end the request by `blocking()`; nothing was sent"
        );
        let runtime = Builder::new_current_thread().build().unwrap();
        assert!(runtime.block_on(async { Driver::check_request("the Redis store") }).is_ok());
    }
}
