//! The call or value that replaces a denied call.

use std::panic::{AssertUnwindSafe, catch_unwind};

use sluicegate::error::{DeniedReason, FromDenied};
use sluicegate::{Denied, Registry, limit};

use crate::attribute::support::{Error, Setup, now};

fn cached() -> String {
    "cached".to_owned()
}

fn cached_for(limits: &Registry, name: String, times: usize) -> String {
    assert!(limits.find("with_arguments").is_some() || limits.find("async_sync").is_some());
    format!("cached {}", name.repeat(times))
}

async fn cached_later() -> String {
    tokio::task::yield_now().await;
    "cached later".to_owned()
}

#[limit("gcra 1/h", key = "k", fallback = cached, registry = limits)]
fn without_arguments(limits: &Registry, name: String) -> String {
    name
}

#[limit("gcra 1/h", name = "with_arguments", key = "{name}", fallback(args) = cached_for, registry = limits)]
fn with_arguments(limits: &Registry, name: String, times: usize) -> String {
    name.repeat(times)
}

#[test]
fn a_fallback_is_called_without_the_arguments() {
    let setup = Setup::empty();
    let call = || without_arguments(&setup.limits, "name".to_owned());
    assert_eq!([call(), call()], ["name", "cached"]);
}

#[test]
fn a_fallback_gets_the_original_arguments_by_value() {
    let setup = Setup::empty();
    let call = || with_arguments(&setup.limits, "ab".to_owned(), 2);
    assert_eq!([call(), call()], ["abab", "cached abab"]);
}

#[tokio::test]
async fn a_fallback_of_an_async_function_may_be_async_or_not() {
    #[limit("gcra 1/h", name = "async_async", key = "k", fallback = cached_later, registry = limits)]
    async fn with_async(limits: &Registry) -> String {
        "fresh".to_owned()
    }
    #[limit("gcra 1/h", name = "async_sync", key = "k", fallback(args) = cached_for, registry = limits)]
    async fn with_sync(limits: &Registry, name: String, times: usize) -> String {
        "fresh".to_owned()
    }
    let setup = Setup::empty();
    assert_eq!(with_async(&setup.limits).await, "fresh");
    assert_eq!(with_async(&setup.limits).await, "cached later");
    assert_eq!(with_sync(&setup.limits, "ab".to_owned(), 1).await, "fresh");
    assert_eq!(with_sync(&setup.limits, "ab".to_owned(), 1).await, "cached ab");
}

struct Weather {
    limits: Registry,
    last: u32,
}

impl Weather {
    #[limit("gcra 1/h", name = "read", key = "k", fallback = Self::unknown, registry = self.limits)]
    fn read(&self) -> u32 {
        21
    }

    #[limit("gcra 1/h", name = "at", key = "k", fallback(args) = self.stale, registry = self.limits)]
    fn at(&mut self, hour: u32) -> u32 {
        self.last = hour;
        hour
    }

    #[limit("gcra 1/h", name = "near", key = "k", fallback(args) = Self::stale_of, registry = self.limits)]
    async fn near(&self, hour: u32) -> u32 {
        hour
    }

    #[limit("gcra 1/h", name = "why", key = "k", fallback(denied, args) = Self::explain, registry = self.limits)]
    fn why(&self, hour: u32) -> Result<u32, String> {
        Ok(hour)
    }

    fn unknown() -> u32 {
        0
    }

    fn stale(&self, hour: u32) -> u32 {
        self.last * 100 + hour
    }

    async fn stale_of(&self, hour: u32) -> u32 {
        self.last * 10 + hour
    }

    fn explain(denied: Denied, this: &Self, hour: u32) -> Result<u32, String> {
        Err(format!("{hour}, {}: {denied}", this.last))
    }
}

/// Seed defect 0.17: a private method, whose errors are passed on unchanged.
#[test]
fn a_fallback_may_be_a_method_of_the_same_object() {
    let setup = Setup::empty();
    let mut weather = Weather { limits: setup.limits.clone(), last: 9 };
    assert_eq!([weather.read(), weather.read()], [21, 0]);
    assert_eq!([now(weather.near(2)), now(weather.near(3))], [2, 93]);
    assert_eq!([weather.at(4), weather.at(5)], [4, 405]);
}

#[test]
fn a_fallback_may_be_told_of_the_denial() {
    let setup = Setup::empty();
    let weather = Weather { limits: setup.limits.clone(), last: 9 };
    assert_eq!(weather.why(4), Ok(4));
    assert_eq!(weather.why(5), Err("5, 9: limit `why` is exhausted: retry in 1 h".to_owned()));
}

/// Seed defect 0.17: a refusal is typed, and no text in place of a result.
#[test]
fn without_a_fallback_a_result_is_made_of_the_denial() {
    #[limit("gcra 1/h", name = "result", key = "k", registry = limits)]
    fn result(limits: &Registry, fails: bool) -> Result<u8, Error> {
        if fails { Err(Error::Own) } else { Ok(1) }
    }
    let setup = Setup::empty();
    assert!(matches!(result(&setup.limits, true), Err(Error::Own)));
    let denied = result(&setup.limits, false).unwrap_err();
    assert_eq!(denied.reason(), Some(DeniedReason::Limited));
}

#[test]
fn a_boxed_error_and_a_type_of_one_s_own_can_say_denied() {
    #[limit("gcra 1/h", name = "boxed", key = "k", registry = limits)]
    fn boxed(limits: &Registry) -> Result<u8, Box<dyn std::error::Error + Send + Sync>> {
        Ok(1)
    }
    #[derive(Debug, PartialEq)]
    enum Reply {
        Found,
        TooMany,
    }
    impl FromDenied for Reply {
        fn from_denied(_: Denied) -> Self {
            Self::TooMany
        }
    }
    #[limit("gcra 1/h", name = "reply", key = "k", registry = limits)]
    fn reply(limits: &Registry) -> Reply {
        Reply::Found
    }
    let setup = Setup::empty();
    assert!(boxed(&setup.limits).is_ok());
    let error = boxed(&setup.limits).unwrap_err();
    assert!(error.downcast_ref::<Denied>().is_some(), "{error}");
    assert_eq!([reply(&setup.limits), reply(&setup.limits)], [Reply::Found, Reply::TooMany]);
}

#[test]
fn a_denied_call_may_return_a_value() {
    #[limit("gcra 1/h", name = "none", key = "k", denied = None, registry = limits)]
    fn none(limits: &Registry, id: u8) -> Option<u8> {
        Some(id)
    }
    #[limit("gcra 1/h", name = "nothing", key = "k", denied = (), registry = limits)]
    fn nothing(limits: &Registry, ran: &mut u32) {
        *ran += 1;
    }
    #[limit("gcra 1/h", name = "status", key = "k", denied = |denied| (429, denied.to_string()), registry = limits)]
    async fn status(limits: &Registry) -> (u16, String) {
        (200, String::new())
    }
    #[limit("gcra 1/h", name = "of_arguments", key = "k", denied = Err(name), registry = limits)]
    fn of_arguments(limits: &Registry, name: String) -> Result<String, String> {
        Ok(name + "!")
    }
    let setup = Setup::empty();
    assert_eq!([none(&setup.limits, 7), none(&setup.limits, 7)], [Some(7), None]);
    let mut ran = 0;
    nothing(&setup.limits, &mut ran);
    nothing(&setup.limits, &mut ran);
    assert_eq!(ran, 1);
    assert_eq!(now(status(&setup.limits)).0, 200);
    let exhausted = "limit `status` is exhausted: retry in 1 h".to_owned();
    assert_eq!(now(status(&setup.limits)), (429, exhausted));
    assert_eq!(of_arguments(&setup.limits, "a".to_owned()), Ok("a!".to_owned()));
    assert_eq!(of_arguments(&setup.limits, "a".to_owned()), Err("a".to_owned()));
}

fn panics() -> Result<u8, Denied> {
    panic!("the fallback's own")
}

async fn panics_later() -> Result<u8, Denied> {
    tokio::task::yield_now().await;
    panic!("the fallback's own")
}

/// The limiter continues after a fallback or a body that panics. Units that were taken stay taken, and a denied call
/// has taken nothing.
#[tokio::test]
async fn panics_leave_the_limiter_and_its_units_as_they_are() {
    #[limit("gcra 1/min burst 2", name = "panics", key = "k", fallback = panics, registry = limits)]
    fn call(limits: &Registry, fails: bool) -> Result<u8, Denied> {
        assert!(!fails, "the body's own");
        Ok(1)
    }
    #[limit("panics", key = "k", fallback = panics_later, registry = limits)]
    async fn call_later(limits: &Registry) -> Result<u8, Denied> {
        Ok(1)
    }
    let setup = Setup::empty();
    let attempt = |fails| catch_unwind(AssertUnwindSafe(|| call(&setup.limits, fails)));
    assert!(attempt(true).is_err());
    assert_eq!(setup.left("panics", "k"), 1, "the body ran, so its unit is spent");
    assert!(attempt(false).is_ok());
    for _ in 0..3 {
        assert!(attempt(false).is_err(), "denied, and the fallback panics");
        let limits = setup.limits.clone();
        let task = tokio::spawn(async move { call_later(&limits).await });
        assert!(task.await.unwrap_err().is_panic());
    }
    assert_eq!(setup.left("panics", "k"), 0);
    setup.pass(60);
    assert_eq!(setup.left("panics", "k"), 1, "exactly one came back");
    assert!(call_later(&setup.limits).await.is_ok());
}
