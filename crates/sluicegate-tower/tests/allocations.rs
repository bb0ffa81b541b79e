//! The tower layer must not allocate for a request that it admits. This test has a file of its own,
//! because the counter replaces the allocator.
//!
//! The test measures the service alone and the same service behind limits; the difference is the work
//! of the layer. The response already has a header field, like that of every service that names the
//! type of its body. The map of fields then has capacity for those of the layer. A response without
//! any field has a map without capacity, so the first added field allocates the map.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "the helpers of tests may do what tests may"
)]

use std::borrow::Cow;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use allocation_counter::measure;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response};
use sluicegate::http::{
    AddressHeader, ClientAddress, FieldFormat, KeyExpression, KeyExtractor as _, MatchedRoute,
    Peer, User, from_fn,
};
use sluicegate::{Config, Gate, Registry};
use sluicegate_tower::LimitLayer;
use tower::{Layer as _, Service};

const CONFIG: &str = "
limits:
  one: {policies: [token_bucket 100000/s burst 9000000]}
  two: {policies: [token_bucket 100000/s burst 9000000, fixed_window 9000000/h]}
  listed: {policies: [gcra 100000/s burst 9000000], allow: [10.0.0.0/8], overrides: [{key: alice, times: 2}]}
";

type Body = Cow<'static, str>;
type Reply = Result<Response<Body>, Infallible>;

#[derive(Clone)]
struct Hello;

impl Service<Request<()>> for Hello {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Reply>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        let mut response = Response::new(Body::Borrowed("hello"));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        ready(Ok(response))
    }
}

fn request() -> Request<()> {
    Request::get("/users/7?page=2")
        .header("x-forwarded-for", "6.6.6.6, 2001:db8:1:2:3:4:5:6")
        .header("x-api-key", "abc123")
        .extension(Peer(([192, 0, 2, 1], 443).into()))
        .extension(User::new("alice"))
        .extension(MatchedRoute::new("/users/{id}"))
        .body(())
        .unwrap()
}

/// Returns the number of allocations in that many calls, without those of the requests themselves.
fn allocated<S, R>(service: &mut S, calls: usize) -> u64
where
    S: Service<Request<()>, Response = Response<R>, Error = Infallible>,
{
    let mut requests: Vec<_> = (0..calls).map(|_| request()).collect();
    let mut allocations = 0;
    while let Some(request) = requests.pop() {
        let mut context = Context::from_waker(Waker::noop());
        let call = measure(|| {
            assert!(service.poll_ready(&mut context).is_ready());
            let answer = pin!(service.call(request));
            let Poll::Ready(Ok(response)) = answer.poll(&mut context) else { panic!("it waits") };
            assert_eq!(response.status(), 200);
        });
        allocations += call.count_total;
    }
    allocations
}

#[test]
fn letting_a_request_in_allocates_nothing() {
    let registry = Registry::open(&Config::parse(CONFIG, "limits.yaml").unwrap()).unwrap();
    let gate = |name: &str| -> Gate { registry.gate(name) };
    let key = |text: &str| text.parse::<KeyExpression>().unwrap();
    let proxies = ["192.0.2.0/24".parse().unwrap()];
    let behind = ClientAddress::behind(proxies, AddressHeader::XForwardedFor);
    let unasked = from_fn(|_| None);
    let mut layers = vec![
        ("the smallest", LimitLayer::new(gate("one"))),
        ("behind a proxy", LimitLayer::new(gate("two")).client_address(behind)),
        ("a list", LimitLayer::new(gate("listed")).key(key("user"))),
        ("several parts", LimitLayer::new(gate("two")).key(key("user+route+header:x-api-key"))),
        ("another choice", LimitLayer::new(gate("two")).key(unasked.or(key("ip")))),
        ("limits together", LimitLayer::new(gate("one")).and(gate("two"), key("user")).unwrap()),
        ("a cost", LimitLayer::new(gate("two")).cost(|request| request.path().len() as u64)),
        ("without a caller", LimitLayer::new(gate("one")).caller(sluicegate::config::Switch::Off)),
        ("nothing asked", LimitLayer::new(gate("one")).skip_if(|_| true)),
    ];
    for format in [
        FieldFormat::None,
        FieldFormat::DraftNext,
        FieldFormat::Draft03,
        FieldFormat::XRateLimit,
        FieldFormat::XRateLimitUnix,
    ] {
        layers.push(("other fields", LimitLayer::new(gate("one")).fields(format)));
    }
    for (what, layer) in layers {
        let mut behind = layer.layer(Hello);
        // The first calls allocate what is made at the first use.
        let _ = (allocated(&mut Hello, 10), allocated(&mut behind, 200));
        let (bare, layered) = (allocated(&mut Hello, 1_000), allocated(&mut behind, 1_000));
        assert_eq!(layered, bare, "{what}, of 1000 calls");
    }
}
