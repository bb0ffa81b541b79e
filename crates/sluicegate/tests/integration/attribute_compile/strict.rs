//! A module that denies all lints: the attribute adds no warning.

#![deny(warnings, missing_docs, unused, nonstandard_style)]
#![deny(unused_qualifications, unused_results, let_underscore_drop)]
#![deny(single_use_lifetimes, trivial_casts, missing_debug_implementations)]
#![deny(clippy::all, clippy::pedantic)]
#![allow(unreachable_pub, reason = "a test has no public API")]
#![allow(clippy::unused_async, reason = "the bodies here have nothing to wait for")]

use sluicegate::error::StoreError;
use sluicegate::{Denied, limit};

/// Documented.
#[derive(Debug)]
pub struct User {
    id: u64,
}

/// Documented.
#[limit("token_bucket 5/min", name = "everything", key = "{user.id}:{phone}:{ip}",
        missing = skip, cost = u64::from(phone.len() > 3) + 1, skip_if = user.id == 0, wait = "500ms",
        fallback(denied, args) = refused, on_error(args) = [log, log_later])]
#[limit("named", key = (user.id, method))]
#[limit("gcra 1/s", shadow)]
pub async fn send(user: &User, phone: &str) -> Result<u64, Denied> {
    Ok(user.id + phone.len() as u64)
}

async fn refused(denied: Denied, _: &User, _: &str) -> Result<u64, Denied> {
    Err(denied)
}

fn log(_: &StoreError, _: &User, _: &str) -> Option<Result<u64, Denied>> {
    None
}

async fn log_later(_: &StoreError, _: &User, _: &str) -> Option<Result<u64, Denied>> {
    None
}

/// Documented.
#[limit("fixed_window 5/h", key = "{user.id}", charge_if = Result::is_err)]
#[limit("gcra 1/s", shadow)]
pub fn log_in(user: &User, password: &str) -> Result<u64, Denied> {
    let _ = password.len();
    Ok(user.id)
}

/// Documented.
#[limit("fixed_window 5/h", key = "{user.id}", charge_if = |result| *result != Ok(7), denied = |denied| Err(denied.to_string()))]
pub async fn log_in_later(user: &User) -> Result<u64, String> {
    Ok(user.id)
}

/// Documented.
#[limit("fixed_window 5/h", key = "{user.id}", refund_if = Result::is_ok, wait = "1s")]
#[limit("gcra 1/s", shadow)]
pub fn guess(user: &User, password: &str) -> Result<u64, Denied> {
    let _ = password.len();
    Ok(user.id)
}

/// Documented.
#[limit("fixed_window 5/h", key = "{user.id}", refund_if = |result| *result == Ok(7), denied = |denied| Err(denied.to_string()))]
#[limit("gcra 9/s", key = "{user.id}", cost = 2, missing = skip, skip_if = user.id == 0)]
pub async fn guess_later(user: &User) -> Result<u64, String> {
    Ok(user.id)
}

/// Documented.
#[limit("gcra 9/s", cost = (3 * 3), key = (user.id), skip_if = (user.id > 7))]
#[limit("gcra 9/s", cost = 2 * 3, key = { user.id })]
#[limit("gcra 9/s", cost = if user.id > 7 { 1 } else { 2 })]
pub fn delete(user: &User) -> Result<(), Denied> {
    match user.id {
        0 => Ok(()),
        _ => delete(&User { id: 0 }),
    }
}

/// Documented.
#[limit("gcra 1/s", denied = |denied| denied.to_string(), key = user)]
pub fn text() -> String {
    String::new()
}

#[limit("gcra 1/s", key = "{self.id}")]
impl User {
    /// Documented.
    pub fn name(&self) -> Result<String, Denied> {
        Ok(self.id.to_string())
    }

    /// Documented.
    #[limit(skip)]
    pub fn new(id: u64) -> Self {
        Self { id }
    }
}

#[test]
fn the_attribute_adds_nothing_that_lints_complain_about() {
    let user = User::new(7);
    assert_eq!(log_in(&user, "password").unwrap(), 7);
    assert_eq!(guess(&user, "password").unwrap(), 7);
    assert_eq!(user.name().unwrap(), "7");
    assert!(user.name().is_err());
    assert_eq!(text(), "");
    delete(&User::new(0)).unwrap();
    drop((send(&user, "555"), log_in_later(&user), guess_later(&user)));
}
