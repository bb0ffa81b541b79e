//! Every call of a store and of a limit reaches the one at the bottom, through layers that add nothing.
//!
//! A new method of `Store` or `OpenedLimit` must be added here. Without a default it is missing in
//! [`Bottom`], which then doesn't compile. With a default, the lint `clippy::missing_trait_methods`
//! reports it there. Rust can't list the methods of a trait. So the test reads their names in the
//! source, and compares them with the methods that it has called.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::collections::BTreeSet;
use std::future::{Future, Ready, ready};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sluicegate_core::for_stores::DecisionForStores as _;
use sluicegate_core::for_stores::{
    Bell, Bells, Changed, Keeping, Mark, News, Post, Posted, SettingChange, Settings,
};
use sluicegate_core::{
    Answer, BannedKey, BoxFuture, Cursor, Decision, Error, HoldId, Holder, Limit, ListedKey,
    Listing, Measure, NodeId, OpenOptions, OpenedLimit, Page, Request, SharedStore, Span, Store,
    StoreError, StoreErrorKind, StoreId, StoreStats,
};

/// Notes each call with its arguments, and answers what no default does.
#[derive(Clone, Default)]
struct Bottom(Arc<Mutex<Vec<String>>>);
struct BottomLimit(Bottom, Limit);

impl Bottom {
    fn note(&self, call: &str, arguments: impl std::fmt::Debug) {
        self.0.lock().unwrap().push(format!("{call} {arguments:?}"));
    }
}

/// The settings of the store at the bottom.
struct BottomSettings;

const SETTINGS: BottomSettings = BottomSettings;

impl Settings for BottomSettings {
    fn keeping(&self) -> Keeping {
        Keeping::Durably
    }

    fn change<'a>(&'a self, _: SettingChange<'a>) -> BoxFuture<'a, Result<Option<Changed>, Error>> {
        answer(Err(error("change").into()))
    }

    fn news<'a>(&'a self, _: &'a Mark) -> BoxFuture<'a, Result<News, Error>> {
        answer(Err(error("news").into()))
    }

    fn log<'a>(
        &'a self,
        _: Option<&'a Mark>,
        _: usize,
    ) -> BoxFuture<'a, Result<Vec<Changed>, Error>> {
        answer(Err(error("log").into()))
    }
}

fn error(message: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Unexpected, message.to_owned())
}

fn answer<'a, T: Send + 'a>(answer: Result<T, Error>) -> BoxFuture<'a, Result<T, Error>> {
    Box::pin(ready(answer))
}

#[deny(clippy::missing_trait_methods)]
impl Store for Bottom {
    type Opened = BottomLimit;

    fn inner(&self) -> Option<&dyn Store> {
        None
    }

    fn id(&self) -> StoreId {
        self.note("id", ());
        StoreId::new("bottom")
    }

    fn open(&self, limit: Limit, options: OpenOptions) -> BottomLimit {
        self.note("open", (&limit, &options));
        BottomLimit(self.clone(), limit)
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.note("ping", ());
        Box::pin(ready(Err(error("ping"))))
    }

    fn rehearse(
        &self,
        limits: Vec<(Limit, OpenOptions)>,
    ) -> BoxFuture<'_, Result<Vec<String>, StoreError>> {
        self.note("rehearse", limits);
        Box::pin(ready(Err(error("rehearse"))))
    }

    fn maintain(&self) {
        self.note("maintain", ());
    }

    fn return_leases(&self) -> BoxFuture<'_, ()> {
        self.note("return_leases", ());
        Box::pin(ready(()))
    }

    fn settings(&self) -> Option<&dyn Settings> {
        self.note("settings", ());
        Some(&SETTINGS)
    }

    fn stats(&self) -> StoreStats {
        self.note("stats", ());
        let mut stats = StoreStats::default();
        stats.keys = Some(7);
        stats
    }

    fn measures(&self) -> Vec<Measure> {
        self.note("measures", ());
        vec![Measure::counter("bottom", "At the bottom", 7)]
    }
}

#[deny(clippy::missing_trait_methods)]
impl OpenedLimit for BottomLimit {
    fn inner(&self) -> Option<&dyn OpenedLimit> {
        None
    }

    fn limit(&self) -> &Limit {
        self.0.note("limit", ());
        &self.1
    }

    fn ask<'a>(
        &'a self,
        request: Request<'a>,
    ) -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a> {
        self.0.note("ask", request);
        Answer::<Ready<_>>::Now(Err(error("ask").into()))
    }

    fn ask_now(&self, request: Request<'_>) -> Option<Result<Decision, Error>> {
        self.0.note("ask_now", request);
        Some(Err(error("ask_now").into()))
    }

    fn bell(&self, id: HoldId) -> Option<Bell> {
        self.0.note("bell", id);
        Some(Bells::default().hang(id))
    }

    fn wait_in_queue<'a>(
        &'a self,
        request: Request<'a>,
        within: Span,
    ) -> Option<BoxFuture<'a, Result<Decision, Error>>> {
        self.0.note("wait_in_queue", (request, within));
        Some(answer(Err(error("wait_in_queue").into())))
    }

    fn holders<'a>(
        &'a self,
        key: &'a [u8],
        page: Page<'a>,
    ) -> BoxFuture<'a, Result<Listing<Holder>, Error>> {
        self.0.note("holders", (key, page));
        answer(Err(error("holders").into()))
    }

    fn exchange<'a>(
        &'a self,
        key: &'a [u8],
        post: Option<Post<'a>>,
    ) -> BoxFuture<'a, Result<Vec<Posted>, Error>> {
        self.0.note("exchange", (key, post));
        answer(Err(error("exchange").into()))
    }

    fn bans<'a>(&'a self, page: Page<'a>) -> BoxFuture<'a, Result<Listing<BannedKey>, Error>> {
        self.0.note("bans", page);
        answer(Err(error("bans").into()))
    }

    fn keys<'a>(
        &'a self,
        prefix: &'a [u8],
        page: Page<'a>,
    ) -> BoxFuture<'a, Result<Listing<ListedKey>, Error>> {
        self.0.note("keys", (prefix, page));
        answer(Err(error("keys").into()))
    }

    fn nodes(&self, request: &Request<'_>) -> Vec<NodeId> {
        self.0.note("nodes", request);
        vec![NodeId(7)]
    }
}

/// A layer that adds nothing.
struct Through<S>(S);
struct ThroughLimit<L>(L);

impl<S: Store> Store for Through<S> {
    type Opened = ThroughLimit<S::Opened>;

    fn inner(&self) -> Option<&dyn Store> {
        Some(&self.0)
    }

    fn id(&self) -> StoreId {
        self.0.id()
    }

    fn open(&self, limit: Limit, options: OpenOptions) -> Self::Opened {
        ThroughLimit(self.0.open(limit, options))
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.0.ping()
    }
}

impl<L: OpenedLimit> OpenedLimit for ThroughLimit<L> {
    fn inner(&self) -> Option<&dyn OpenedLimit> {
        Some(&self.0)
    }

    fn limit(&self) -> &Limit {
        self.0.limit()
    }

    fn ask<'a>(
        &'a self,
        request: Request<'a>,
    ) -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a> {
        self.0.ask(request)
    }
}

/// Returns the output of a future that never waits.
fn done<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
    .unwrap()
}

/// Calls every method of both traits, and checks the answers. Returns what the bottom should have noted.
fn call_all(store: &impl Store) -> Vec<String> {
    fn says<T>(call: &str, answer: Result<T, impl ToString>) {
        assert_eq!(answer.err().map(|error| error.to_string()).as_deref(), Some(call));
    }
    let mut calls = Vec::new();
    let mut note = |call: &str, arguments: &dyn std::fmt::Debug| {
        calls.push(format!("{call} {arguments:?}"));
    };
    let limit = Limit::new("login", vec!["gcra 1/s"]).unwrap();
    let options = OpenOptions::default().deadline(Duration::from_secs(60)).layer("an option");
    let id = HoldId::from_bytes([7; 16]);
    let request = Request::check(b"alice").with_receipt();
    let cursor: Cursor = "0a.42".parse().unwrap();
    let page = Page::of(3).unwrap().after(&cursor);

    note("id", &());
    assert_eq!(store.id(), StoreId::new("bottom"));
    note("ping", &());
    says("ping", done(store.ping()));
    note("rehearse", &[(&limit, &options)]);
    says("rehearse", done(store.rehearse(vec![(limit.clone(), options.clone())])));
    note("maintain", &());
    store.maintain();
    note("return_leases", &());
    done(store.return_leases());
    note("settings", &());
    says("log", done(store.settings().unwrap().log(None, 1)));
    note("stats", &());
    assert_eq!(store.stats().keys, Some(7));
    note("measures", &());
    assert_eq!(store.measures(), [Measure::counter("bottom", "At the bottom", 7)]);
    note("open", &(&limit, &options));
    let opened = store.open(limit.clone(), options);
    note("limit", &());
    assert_eq!(opened.limit(), &limit);
    note("ask", &request);
    says("ask", done(opened.ask(request).wait()));
    note("bell", &id);
    assert!(opened.bell(id).is_some());
    note("wait_in_queue", &(request, Span::SECOND));
    says("wait_in_queue", done(opened.wait_in_queue(request, Span::SECOND).unwrap()));
    note("holders", &(b"alice", page));
    says("holders", done(opened.holders(b"alice", page)));
    let post = Post { name: b"edge-1", value: b"busy", lasts: Span::SECOND };
    note("exchange", &(b"alice", Some(post)));
    says("exchange", done(opened.exchange(b"alice", Some(post))));
    note("bans", &page);
    says("bans", done(opened.bans(page)));
    note("keys", &(&b"al"[..], page));
    says("keys", done(opened.keys(b"al", page)));
    note("nodes", &request);
    assert_eq!(opened.nodes(&request), [NodeId(7)]);
    calls
}

/// Returns the methods of a trait, except for `inner`, and for `ask_now`, which reaches a layer as
/// `ask`.
fn methods(of: &str) -> impl Iterator<Item = &'static str> {
    let source = include_str!("../src/store.rs");
    let (_, body) = source.split_once(&format!("pub trait {of}:")).unwrap();
    let (body, _) = body.split_once("\n}\n").unwrap();
    let declared = body.lines().filter_map(|line| line.strip_prefix("    fn "));
    declared
        .map(|line| &line[..line.find(['(', '<']).unwrap()])
        .filter(|name| !matches!(*name, "inner" | "ask_now"))
}

#[test]
fn every_call_reaches_the_store_at_the_bottom_with_its_arguments() {
    let bottom = Bottom::default();
    let stacks: [&dyn Fn() -> Vec<String>; 5] = [
        &|| call_all(&Through(bottom.clone())),
        &|| call_all(&Through(Through(bottom.clone()))),
        &|| call_all(&Arc::new(bottom.clone())),
        &|| call_all(&SharedStore::new(bottom.clone())),
        &|| call_all(&Through(SharedStore::new(Through(bottom.clone())))),
    ];
    for call_all in stacks {
        let called = call_all();
        assert_eq!(std::mem::take(&mut *bottom.0.lock().unwrap()), called);
        let names: BTreeSet<_> = called.iter().filter_map(|call| call.split(' ').next()).collect();
        assert_eq!(names, methods("Store").chain(methods("OpenedLimit")).collect());
    }
}

/// A layer that changes answers changes these, too: it is asked as usual, and what isn't there is left.
#[test]
fn an_immediate_answer_is_never_got_past_a_layer() {
    let limit = Limit::new("login", vec!["gcra 1/s"]).unwrap();
    let options = OpenOptions::default;
    let bottom = Bottom::default();
    let plain = bottom.open(limit.clone(), options());
    let erased = SharedStore::new(bottom.clone()).open(limit.clone(), options());
    let layer = Through(bottom.clone()).open(limit.clone(), options());
    let around = SharedStore::new(Through(bottom)).open(limit, options());
    let request = Request::check(b"alice");
    let said = |answer: Option<Result<Decision, Error>>| answer.unwrap().unwrap_err().to_string();
    assert_eq!(said(plain.ask_now(request)), "ask_now");
    assert_eq!(said(erased.ask_now(request)), "ask_now");
    assert_eq!(said(layer.ask_now(request)), "ask");
    assert_eq!(said(around.ask_now(request)), "ask");
}

#[test]
fn a_bottom_store_has_what_it_implements_and_says_so_of_the_rest() {
    struct Plain;
    struct PlainLimit(Limit);
    impl Store for Plain {
        type Opened = PlainLimit;

        fn inner(&self) -> Option<&dyn Store> {
            None
        }

        fn id(&self) -> StoreId {
            StoreId::new("plain")
        }

        fn open(&self, limit: Limit, _: OpenOptions) -> PlainLimit {
            PlainLimit(limit)
        }

        fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
            Box::pin(ready(Ok(())))
        }
    }
    impl OpenedLimit for PlainLimit {
        fn inner(&self) -> Option<&dyn OpenedLimit> {
            None
        }

        fn limit(&self) -> &Limit {
            &self.0
        }

        fn ask<'a>(
            &'a self,
            _: Request<'a>,
        ) -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a> {
            Answer::<Ready<_>>::Now(Ok(Decision::fallback(&self.0, false)))
        }
    }
    let limit = Limit::new("login", vec!["gcra 1/s"]).unwrap();
    let unknown = done(Plain.rehearse(vec![(limit.clone(), OpenOptions::default())])).unwrap();
    assert_eq!(unknown, ["it answers a ping; whether it has all that the limits need is unknown"]);
    assert_eq!((Plain.stats(), Plain.measures()), (StoreStats::default(), Vec::new()));
    let opened = Plain.open(limit, OpenOptions::default());
    let holders = done(opened.holders(b"alice", Page::first())).unwrap_err();
    let bans = done(opened.bans(Page::first())).unwrap_err();
    let keys = done(opened.keys(b"", Page::first())).unwrap_err();
    for error in [holders, bans, keys] {
        assert!(error.to_string().contains("in a store without lists"), "{error}");
    }
    let board = done(opened.exchange(b"alice", None)).unwrap_err();
    assert!(board.to_string().contains("in a store without boards"), "{board}");
}
