//! A key made from the caller, where there is no caller. In a program of its own, because the warnings appear once per
//! program.

#![cfg(feature = "macros")]
#![allow(clippy::unwrap_used, reason = "the helpers of tests may do what tests may")]

#[path = "integration/log.rs"]
mod log;

use sluicegate::{Caller, Denied, MemoryStore, Registry, limit};

#[limit("fixed_window 9/h", key = ip, registry = limits)]
fn by_address(limits: &Registry) -> Result<(), Denied> {
    Ok(())
}

#[limit("fixed_window 9/h", key = "user {caller::user}", registry = limits)]
fn by_user(limits: &Registry) -> Result<(), Denied> {
    Ok(())
}

#[limit("fixed_window 9/h", key = ip, missing = refuse, registry = limits)]
fn for_callers(limits: &Registry) -> Result<(), Denied> {
    Ok(())
}

#[test]
fn callers_that_share_a_key_for_lack_of_their_own_are_warned_of_once() {
    let limits = Registry::builder(MemoryStore::new()).build();
    let caller = Caller::new().with_ip([192, 0, 2, 7].into());
    assert_eq!(log::warnings(|| caller.scope_sync(|| by_address(&limits).unwrap())), [""; 0]);
    assert_eq!(log::warnings(|| for_callers(&limits).map_or((), drop)), [""; 0]);
    let told = log::warnings(|| {
        for _ in 0..3 {
            by_address(&limits).unwrap();
            by_user(&limits).unwrap();
        }
    });
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with("a function with `ip` in its `key` is called without one"));
    assert!(told[1].starts_with("a function with `user` in its `key`"));
}
