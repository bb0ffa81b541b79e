//! Any bytes as calls of Envoy's services, decided by a registry's own limits or by the incumbent's rules.
//!
//! | bytes | input |
//! | --- | --- |
//! | 1 | whether the limits are the registry's own, and the incumbent's settings |
//! | … | calls |
//!
//! | bytes of a call | input |
//! | --- | --- |
//! | 1 | change of the clock before it |
//! | 1 | its method, its framing, and the size of its body's parts |
//! | 2 | length of the rest |
//! | … | a message, or a body with its framing |
//!
//! No call panics. An answer has as many statuses as the call has descriptors. No more than the remaining units pass.
//! A denied descriptor changes nothing under a registry's own limits, and a refused call changes nothing at all.

#![no_main]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use http::Request;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use libfuzzer_sys::fuzz_target;
use prost::Message as _;
use sluicegate::testing::{Clock as _, ManualClock, Timestamp};
use sluicegate::{Config, MemoryStore, Registry};
use sluicegate_envoy::incumbent::{HeaderNames, LoadOptions, Rules, Settings};
use sluicegate_envoy::service::protos::rate_limit_descriptor::Entry;
use sluicegate_envoy::service::protos::rate_limit_response::Code;
use sluicegate_envoy::service::protos::{RateLimitDescriptor, RateLimitRequest, RateLimitResponse};
use sluicegate_envoy::service::{NativeLimits, RateLimits, Unguarded, native_routes, routes};
use tokio::runtime::Runtime;
use tonic::codegen::{Bytes, Service as _, tokio_stream};
use tonic::service::Routes;
use tonic::{Code as Failure, Status};

const NATIVE: &str = r#"
limits:
  bucket: {policies: ["token_bucket 3/s burst 5"]}
  window: {policies: ["fixed_window 4/min aligned"]}
  several: {policies: ["gcra 1/s burst 3", "sliding_log 6/h"]}
  by_path: {policies: ["gcra 9/s"], key: path}
envoy:
  domains:
    d:
      - {match: {k: "*"}, limit: bucket}
      - {match: {w: "*"}, limit: window}
      - {match: {k: "*", v: a}, limit: several, key: "{k}"}
    r: {refunds: true, descriptors: [{match: {k: "*"}, limit: window}]}
"#;

/// Each rule of the domain `d` has a counter for each descriptor, and is enforced.
const FILES: [(&str, &str); 2] = [
    (
        "d.yaml",
        "\
domain: d
descriptors:
  - {key: k, rate_limit: {unit: second, requests_per_unit: 3}}
  - {key: k, value: a, rate_limit: {unit: day, requests_per_unit: 5}}
  - {key: w, rate_limit: {unit: minute, requests_per_unit: 0}}
  - {key: v, descriptors: [{key: k, rate_limit: {unit: year, requests_per_unit: 4294967295}}]}
",
    ),
    (
        "r.yaml",
        "\
domain: r
descriptors:
  - {key: k, value: a*, share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 3}}
  - {key: k, quota_mode: true, rate_limit: {unit: week, requests_per_unit: 2}, metadata: {a: [1]}}
  - {key: w, shadow_mode: true, rate_limit: {unit: month, requests_per_unit: 1, name: shadow}}
  - {key: v, rate_limit: {unlimited: true, replaces: [{name: shadow}]}}
",
    ),
];

/// The name of the rule that is only reported.
const SHADOW: &str = "shadow";
/// The domain whose counters the target follows.
const FOLLOWED: &str = "d";
const START: u64 = 1_795_810_837_250_000;
const MOST_CALLS: usize = 24;
/// The bit of the first byte that turns the local cache on.
const LOCAL_CACHE: u8 = 6;

static CONFIG: LazyLock<Config> =
    LazyLock::new(|| Config::parse(NATIVE, "limits.yaml").expect("it is valid"));
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime")
});
/// The limits of each first byte. They are used for many inputs, because making them takes longer than a call.
static MADE: [OnceLock<Limits>; 128] = [const { OnceLock::new() }; 128];

fuzz_target!(|input: &[u8]| {
    let Some((&first, rest)) = input.split_first() else { return };
    let first = if first & 1 == 0 { 0 } else { first & 0x7f };
    let new = || RUNTIME.block_on(Limits::new(first));
    if first & 1 << LOCAL_CACHE == 0 {
        let limits = MADE[usize::from(first)].get_or_init(new);
        RUNTIME.block_on(limits.calls(rest));
        limits.reset();
    } else {
        // The cache isn't reset.
        RUNTIME.block_on(new().calls(rest));
    }
});

/// Limits behind the services.
struct Limits {
    routes: Routes,
    store: MemoryStore,
    clock: Arc<ManualClock>,
    /// The incumbent's rules; `None` for a registry's own limits.
    rules: Option<RateLimits>,
    /// Whether a descriptor's counter changes by its hits alone.
    is_plain: bool,
}

/// The remaining units of counters.
type Remaining = BTreeMap<Vec<Pair>, u32>;
/// A key and its value.
type Pair = (String, String);

impl Limits {
    async fn new(first: u8) -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::from_micros_clamped(START)));
        let store = MemoryStore::builder().clock(Arc::clone(&clock)).build();
        let registry = Registry::builder(store.clone());
        if first & 1 == 0 {
            let registry = registry.config(&CONFIG).build();
            let routed = native_routes(NativeLimits::new(registry), Unguarded).await.expect("they are valid");
            let routes = routed.routes;
            return Self { routes, store, clock, rules: None, is_plain: true };
        }
        let has = |bit: u8| first & 1 << bit != 0;
        let headers = || HeaderNames {
            limit: "l".to_owned(),
            remaining: "r".to_owned(),
            reset: "s".to_owned(),
        };
        let settings = Settings {
            shadow_mode: has(1),
            quota_mode: has(2),
            response_dynamic_metadata: has(3),
            response_headers: has(4).then(headers),
            stop_increment_when_over: has(5),
            local_cache_bytes: if has(LOCAL_CACHE) { 400 } else { 0 },
            ..Settings::default()
        };
        let mut base = Config::default();
        base.limits.clear();
        let is_plain = !has(5) && !has(LOCAL_CACHE);
        let limits = RateLimits::with(registry.build(), base, settings, Arc::clone(&clock), |_| {});
        let rules = Rules::load(FILES, LoadOptions::default()).expect("they are valid");
        limits.load(rules).expect("they are limits");
        let routed = routes(limits.clone(), Unguarded).await.expect("they are valid");
        Self { routes: routed.routes, store, clock, rules: Some(limits), is_plain }
    }

    async fn calls(&self, mut bytes: &[u8]) {
        for _ in 0..MOST_CALLS {
            let Some((&[change, shape, high, low], rest)) = bytes.split_first_chunk() else {
                return;
            };
            let length = usize::from(u16::from_be_bytes([high, low])).min(rest.len());
            let (call, rest) = rest.split_at(length);
            bytes = rest;
            self.change_clock(change);
            self.call(shape, call).await;
        }
    }

    /// Removes all states: in the end, they equal those of fresh keys.
    fn reset(&self) {
        self.clock.set(Timestamp::from_micros_clamped(u64::MAX));
        self.store.purge();
        assert_eq!(self.store.stats().keys, 0);
        self.clock.set(Timestamp::from_micros_clamped(START));
    }

    /// Changes the clock by a power of two, forwards or backwards, or not at all.
    fn change_clock(&self, change: u8) {
        let micros = match change & 0x3f {
            0 => return,
            power => 1_u64 << (power % 46),
        };
        if change & 0x80 == 0 {
            self.clock.advance(Duration::from_micros(micros));
        } else {
            let earlier = self.clock.now().as_micros().saturating_sub(micros);
            self.clock.set(Timestamp::from_micros_clamped(earlier));
        }
    }

    async fn call(&self, shape: u8, bytes: &[u8]) {
        let part = [usize::MAX, 1, 5, 64][usize::from(shape >> 3 & 3)];
        if shape & 3 == 3 {
            return match &self.rules {
                Some(rules) => {
                    let answer = rules.answer_json(bytes).await;
                    assert!([200, 400, 429].contains(&answer.status), "{answer:?}");
                }
                None => {
                    let path = "/envoy.service.auth.v3.Authorization/Check";
                    let _answered = self.send(path, framed(bytes), part).await;
                }
            };
        }
        let body = if shape & 4 == 0 { framed(bytes) } else { bytes.to_vec() };
        match message(&body) {
            Some(message) => self.rate_limit(&message, &body, part).await,
            // It is refused, or the first of several messages is answered.
            None => {
                let _answered = self.send(RATE_LIMIT, body, part).await;
            }
        }
    }

    /// Sends a request, and checks its answer and its effects.
    async fn rate_limit(&self, request: &RateLimitRequest, body: &[u8], part: usize) {
        // Keys that don't fit the limit share one.
        let is_unfit = |entry: &Entry| entry.value.is_empty() || entry.value.starts_with('\0');
        let has_own_key =
            |it: &RateLimitDescriptor| self.rules.is_some() || !it.entries.iter().any(is_unfit);
        let is_plain = |it: &RateLimitDescriptor| {
            it.limit.is_none() && !it.is_negative_hits && has_own_key(it)
        };
        let is_followed =
            self.is_plain && request.domain == FOLLOWED && request.descriptors.iter().all(is_plain);
        let before = if is_followed { self.remaining(request).await } else { None };
        let answer = self.send(RATE_LIMIT, body.to_vec(), part).await;
        let after = if is_followed { self.remaining(request).await } else { None };
        let answer = match answer {
            Ok(answer) => RateLimitResponse::decode(&*answer).expect("an answer"),
            Err(status) => return assert_eq!(before, after, "a refused call: {status}"),
        };
        self.check(request, &answer);
        if let Some((remaining, after)) = before.zip(after) {
            assert_eq!(
                self.followed(request, &answer, remaining),
                after,
                "{request:?}: {answer:?}"
            );
        }
    }

    /// Checks what holds for every answer.
    fn check(&self, request: &RateLimitRequest, answer: &RateLimitResponse) {
        assert_eq!(answer.statuses.len(), request.descriptors.len(), "{answer:?}");
        let over = i32::from(Code::OverLimit);
        let is_code = |code: i32| code == over || code == i32::from(Code::Ok);
        let some_are_over = answer.statuses.iter().any(|status| status.code == over);
        assert!(is_code(answer.overall_code), "{answer:?}");
        assert!(answer.overall_code != over || some_are_over, "{answer:?}");
        assert!(self.rules.is_some() || (answer.overall_code == over) == some_are_over);
        for (status, descriptor) in answer.statuses.iter().zip(&request.descriptors) {
            assert!(is_code(status.code), "{answer:?}");
            let Some(limit) = &status.current_limit else { continue };
            assert!(status.limit_remaining <= limit.requests_per_unit, "{status:?}");
            let is_exempt = descriptor.is_negative_hits || limit.name == SHADOW;
            // Otherwise a denied descriptor leaves the others uncounted.
            if self.is_plain && status.code != over && !is_exempt {
                let hits = hits(request, descriptor);
                assert!(hits <= u64::from(limit.requests_per_unit), "{request:?}: {answer:?}");
            }
        }
    }

    /// Checks the answer by the units that remained, and returns the units that remain then.
    fn followed(
        &self,
        request: &RateLimitRequest,
        answer: &RateLimitResponse,
        mut remaining: Remaining,
    ) -> Remaining {
        for (descriptor, status) in request.descriptors.iter().zip(&answer.statuses) {
            let Some(units) = remaining.get_mut(&self.counter(descriptor)) else { continue };
            let hits = hits(request, descriptor);
            let passes = hits <= u64::from(*units);
            if hits > 0 {
                let is_ok = status.code == i32::from(Code::Ok);
                assert_eq!(is_ok, passes, "{units} remained: {request:?}: {answer:?}");
            }
            // The incumbent counts denied requests too.
            if passes || self.rules.is_some() {
                *units = units.saturating_sub(u32::try_from(hits).unwrap_or(u32::MAX));
            }
        }
        remaining
    }

    /// Returns the remaining units of each descriptor with a limit; `None` if the request is refused.
    async fn remaining(&self, request: &RateLimitRequest) -> Option<Remaining> {
        let look =
            |it: &RateLimitDescriptor| RateLimitDescriptor { hits_addend: Some(0), ..it.clone() };
        let descriptors: Vec<_> = request.descriptors.iter().map(look).collect();
        let looks = RateLimitRequest { descriptors, ..request.clone() };
        let answer =
            self.send(RATE_LIMIT, framed(&looks.encode_to_vec()), usize::MAX).await.ok()?;
        let answer = RateLimitResponse::decode(&*answer).expect("an answer");
        let remaining = looks.descriptors.iter().zip(&answer.statuses);
        let remaining = remaining.filter(|(_, status)| status.current_limit.is_some());
        Some(remaining.map(|(it, status)| (self.counter(it), status.limit_remaining)).collect())
    }

    /// Returns the name of a descriptor's counter in the followed domain.
    fn counter(&self, descriptor: &RateLimitDescriptor) -> Vec<Pair> {
        let own = |entry: &Entry| (entry.key.clone(), entry.value.clone());
        let mut entries: Vec<Pair> = descriptor.entries.iter().map(own).collect();
        if self.rules.is_none() {
            // Lines match entries in any order.
            entries.sort();
        }
        entries
    }

    /// Sends a body in parts. Returns the message of the answer, or the status of the refusal.
    async fn send(&self, path: &str, body: Vec<u8>, part: usize) -> Result<Bytes, Status> {
        let parts: Vec<Result<Frame<Bytes>, Infallible>> =
            body.chunks(part).map(|part| Ok(Frame::data(Bytes::copy_from_slice(part)))).collect();
        let body = tonic::body::Body::new(StreamBody::new(tokio_stream::iter(parts)));
        let request = Request::post(path).header("content-type", "application/grpc").body(body);
        let answer = self.routes.clone().call(request.expect("it is valid")).await;
        let (head, body) = answer.unwrap_or_else(|never| match never {}).into_parts();
        let body = body.collect().await.expect("an answer has its end");
        let trailers = body.trailers().and_then(Status::from_header_map);
        let status = trailers.or_else(|| Status::from_header_map(&head.headers));
        let status = status.expect("an answer has a status");
        if status.code() == Failure::Ok {
            let whole = body.to_bytes();
            assert_eq!(framed(&whole[FRAME..]), whole, "one message");
            return Ok(whole.slice(FRAME..));
        }
        // The embedded store answers.
        let is_of_store = matches!(status.code(), Failure::Unavailable | Failure::DeadlineExceeded);
        assert!(!is_of_store, "{status}");
        Err(status)
    }
}

const RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
/// Length of a frame's head.
const FRAME: usize = 5;

/// Puts a message into a frame.
fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("inputs are short").to_be_bytes();
    [&[0], &length[..], message].concat()
}

/// Reads a body that is one whole message.
fn message(body: &[u8]) -> Option<RateLimitRequest> {
    let message = body.get(FRAME..)?;
    let is_whole = framed(message) == body;
    RateLimitRequest::decode(message).ok().filter(|_| is_whole)
}

fn hits(request: &RateLimitRequest, descriptor: &RateLimitDescriptor) -> u64 {
    descriptor.hits_addend.unwrap_or_else(|| request.hits_addend.max(1).into())
}
