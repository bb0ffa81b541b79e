//! Calls whose store fails: a server that closes every connection.

use std::time::Duration;

use sluicegate::config::StoreUrl;
use sluicegate::error::{DeniedReason, StoreError, StoreErrorKind};
use sluicegate::store::{SharedStore, StoreOptions};
use sluicegate::{Config, Denied, MemoryStore, Registry, limit};
use sluicegate_testkit::layers::{Outage, Unsteady};
use sluicegate_testkit::servers::{GarbageServer, Misbehaviour, Server, fresh_prefix};
use sluicegate_testkit::wait::until_async;

use crate::attribute::support::{Error, Setup};
use crate::log;

struct Broken {
    _server: GarbageServer,
    limits: Registry,
}

impl Broken {
    fn new() -> Self {
        let server = GarbageServer::start(Misbehaviour::Close).unwrap();
        let limits = Registry::builder(open(&server.url())).build();
        Self { _server: server, limits }
    }
}

fn open(url: &str) -> SharedStore {
    let mut options = StoreOptions::default();
    options.prefix = fresh_prefix("attribute").parse().unwrap();
    options.deadline = Duration::from_secs(5);
    url.parse::<StoreUrl>().unwrap().open(&options).unwrap()
}

type Calls = std::sync::Mutex<Vec<&'static str>>;

struct Shop {
    limits: Registry,
    calls: Calls,
}

impl Shop {
    fn new(limits: &Registry) -> Self {
        Self { limits: limits.clone(), calls: Calls::default() }
    }

    fn call(&self, what: &'static str) {
        self.calls.lock().unwrap().push(what);
    }

    fn calls(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.calls.lock().unwrap())
    }

    #[limit("gcra 1/h", name = "chain", key = "k", on_error(args) = [self.give_up, self.log, Self::cached], registry = self.limits)]
    async fn chain(&self, id: u8) -> Result<u8, Error> {
        self.call("body");
        if id == 0 { Err(Error::Own) } else { Ok(id) }
    }

    fn give_up(&self, _: &StoreError, _: &u8) -> Option<Result<u8, Error>> {
        self.call("give up");
        None
    }

    async fn log(&self, _: &StoreError, id: &u8) -> Option<Result<u8, Error>> {
        tokio::task::yield_now().await;
        self.call("log");
        (*id == 9).then_some(Err(Error::Own))
    }

    async fn cached(error: &StoreError, this: &Self, id: &u8) -> Option<Result<u8, Error>> {
        tokio::task::yield_now().await;
        drop(error.clone());
        this.call("cached");
        (*id < 8).then_some(Ok(id + 100))
    }
}

#[tokio::test]
async fn handlers_of_store_failures_are_asked_in_turn_until_one_answers() {
    let broken = Broken::new();
    let shop = Shop::new(&broken.limits);
    assert_eq!(shop.chain(7).await.unwrap(), 107);
    assert_eq!(shop.calls(), ["give up", "log", "cached"]);
    assert!(matches!(shop.chain(9).await, Err(Error::Own)));
    assert_eq!(shop.calls(), ["give up", "log"]);
    let error = shop.chain(8).await.unwrap_err();
    assert_eq!(error.reason(), Some(DeniedReason::StoreFailed), "none of them had an answer");
    assert_eq!(shop.calls(), ["give up", "log", "cached"]);
}

/// Seed defect 4.6.
#[tokio::test]
async fn handlers_hear_neither_of_denials_nor_of_the_body_s_own_errors() {
    let setup = Setup::empty();
    let shop = Shop::new(&setup.limits);
    assert!(matches!(shop.chain(0).await, Err(Error::Own)));
    assert_eq!(shop.calls(), ["body"]);
    let denied = shop.chain(7).await.unwrap_err();
    assert_eq!(denied.reason(), Some(DeniedReason::Limited));
    assert_eq!(shop.calls(), [""; 0]);
}

#[tokio::test]
async fn handlers_don_t_hear_of_questions_that_are_wrong() {
    fn handler(_: &StoreError) -> Option<Result<(), Denied>> {
        panic!("no store failed")
    }
    #[limit("gcra 1/h", name = "malformed", key = "k", cost = cost, on_error = handler, registry = limits)]
    async fn take(limits: &Registry, cost: u64) -> Result<(), Denied> {
        Ok(())
    }
    let broken = Broken::new();
    assert!(take(&broken.limits, 0).await.unwrap_err().to_string().contains("from 1 to"));
}

#[test]
fn a_charge_that_fails_after_a_call_is_in_the_line_about_the_store() {
    #[limit("fixed_window 9/h", name = "charged", key = "k", charge_if = Result::is_ok, registry = limits)]
    fn charged(limits: &Registry, store: &Unsteady<MemoryStore>) -> Result<u8, Denied> {
        store.set(Outage::Away(StoreErrorKind::Unavailable));
        Ok(7)
    }
    let store = Unsteady::new(MemoryStore::new());
    let limits = Registry::builder(store.clone()).build();
    let told = log::warnings(|| assert_eq!(charged(&limits, &store).unwrap(), 7));
    assert!(matches!(&told[..], [line] if line.starts_with("the store fails: ")), "{told:?}");
}

#[tokio::test]
async fn without_handlers_a_failure_is_a_denial_with_the_store_s_error() {
    #[limit("gcra 1/h", name = "plain", key = "k", registry = limits)]
    async fn plain(limits: &Registry) -> Result<(), Denied> {
        Ok(())
    }
    let broken = Broken::new();
    let denied = plain(&broken.limits).await.unwrap_err();
    assert_eq!(denied.reason(), DeniedReason::StoreFailed);
    assert!(denied.to_string().starts_with("limit `plain` can't be asked: "), "{denied}");
    assert!(denied.error().is_some());
    assert!(std::error::Error::source(&denied).is_none(), "its text is in the message already");
}

#[tokio::test]
async fn a_fallback_answers_for_what_no_handler_did() {
    fn fallback(denied: Denied) -> DeniedReason {
        denied.reason()
    }
    fn handler(_: &StoreError) -> Option<DeniedReason> {
        None
    }
    #[limit("gcra 1/h", name = "both", key = "k", on_error = [handler], fallback(denied) = fallback, registry = limits)]
    async fn both(limits: &Registry) -> DeniedReason {
        DeniedReason::NoKey
    }
    let (broken, setup) = (Broken::new(), Setup::empty());
    assert_eq!(both(&broken.limits).await, DeniedReason::StoreFailed);
    assert_eq!(both(&setup.limits).await, DeniedReason::NoKey);
    assert_eq!(both(&setup.limits).await, DeniedReason::Limited);
}

#[test]
fn a_function_that_is_not_async_asks_a_server_from_wherever_it_runs() {
    fn handler(_: &StoreError) -> Option<Result<&'static str, Denied>> {
        Some(Ok("handled"))
    }
    #[limit("gcra 1/h burst 3", name = "blocking", key = "k", on_error = handler, registry = limits)]
    fn blocking(limits: &Registry) -> Result<&'static str, Denied> {
        Ok("body")
    }
    let broken = Broken::new();
    assert_eq!(blocking(&broken.limits).unwrap(), "handled");
    let server = Server::start().unwrap();
    let limits = Registry::builder(open(&server.url())).build();
    assert_eq!(blocking(&limits).unwrap(), "body");
    let many = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let many = many.unwrap();
    many.block_on(async { assert_eq!(blocking(&limits).unwrap(), "body") });
    let task = many.spawn({
        let limits = limits.clone();
        async move { blocking(&limits).unwrap() }
    });
    assert_eq!(many.block_on(task).unwrap(), "body");
    assert_eq!(blocking(&limits).unwrap_err().reason(), DeniedReason::Limited);
}

#[tokio::test]
async fn a_server_that_dies_and_comes_back_is_asked_again() {
    fn handler(_: &StoreError) -> Option<Result<&'static str, Denied>> {
        Some(Ok("handled"))
    }
    #[limit("gcra 1/h burst 2", name = "restart", key = "k", on_error = handler, registry = limits)]
    async fn ask(limits: &Registry) -> Result<&'static str, Denied> {
        Ok("body")
    }
    let mut server = Server::start().unwrap();
    let limits = Registry::builder(open(&server.url())).build();
    assert_eq!(ask(&limits).await.unwrap(), "body");
    server.kill().unwrap();
    assert_eq!(ask(&limits).await.unwrap(), "handled");
    server.restart().unwrap();
    // It connects again in its own time; until then the handler answers.
    until_async("an answer of the store", async || {
        let answer = ask(&limits).await.unwrap();
        if answer == "body" { Ok(()) } else { Err(answer) }
    })
    .await;
}

#[tokio::test]
async fn a_limit_that_has_an_answer_for_failures_gives_it_without_asking_handlers() {
    fn handler(_: &StoreError) -> Option<Result<(), Denied>> {
        panic!("the limit had an answer")
    }
    #[limit("allows", key = "k", on_error = handler, registry = limits)]
    async fn allows(limits: &Registry) -> Result<(), Denied> {
        Ok(())
    }
    #[limit("denies", key = "k", on_error = handler, registry = limits)]
    async fn denies(limits: &Registry) -> Result<(), Denied> {
        Ok(())
    }
    let text = "limits:
  allows: {policies: [gcra 1/h], on_store_failure: allow}
  denies: {policies: [gcra 1/h], on_store_failure: deny}
";
    let config = Config::parse(text, "limits.yaml").unwrap();
    let server = GarbageServer::start(Misbehaviour::Close).unwrap();
    let limits = Registry::builder(open(&server.url())).config(&config).build();
    assert!(allows(&limits).await.is_ok());
    assert_eq!(denies(&limits).await.unwrap_err().reason(), DeniedReason::StoreFailed);
}

/// The work is done: the result is returned, and only its count is missing.
#[tokio::test]
async fn a_charge_that_fails_leaves_the_result_alone() {
    #[limit("gcra 1/h", name = "charge", key = "k", charge_if = |_| true, registry = limits)]
    async fn call(limits: &Registry, server: &mut Server) -> Result<u8, Denied> {
        server.kill().unwrap();
        Ok(7)
    }
    let mut server = Server::start().unwrap();
    let limits = Registry::builder(open(&server.url())).build();
    assert_eq!(call(&limits, &mut server).await.unwrap(), 7);
}

#[tokio::test]
async fn a_shadow_whose_store_fails_is_no_reason_to_refuse() {
    #[limit("gcra 1/h", name = "shadow", key = "k", shadow, registry = limits)]
    async fn call(limits: &Registry) -> u8 {
        7
    }
    assert_eq!(call(&Broken::new().limits).await, 7);
}
