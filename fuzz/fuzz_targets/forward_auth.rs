//! Any bytes as a proxy's call about a request of its client, who chose most of them.
//!
//! | bytes | input |
//! | --- | --- |
//! | 1 | the form of the call, its peer, and the family of fields that counts |
//! | to the first line break | the terms of the call, as a careless operator writes them |
//! | to the next line break | the target of the client's request |
//! | … | fields of the client, one a line |
//!
//! No call panics. Terms that are accepted are in their ranges, and those before a prefix are unchanged by all that a
//! client sends. A request gets the statuses of the page alone. No field of the family that doesn't count changes a key.
//! If the peer isn't trusted, no field of either family changes it.

#![no_main]

use std::sync::LazyLock;

use http::{HeaderName, HeaderValue, Request, StatusCode};
use libfuzzer_sys::fuzz_target;
use sluicegate::http::{AuthTerms, ForwardedFields, ForwardedRequest, Peer, RequestView};
use sluicegate::middleware::authorize;
use sluicegate::{Config, Gate, Registry};
use tokio::runtime::Runtime;

const CONFIG: &str = r#"
http: {client_address: x-forwarded-for, trusted_proxies: [10.0.0.0/8]}
limits:
  whole: {policies: ["gcra 1/h burst 3"], key: "ip+method+host+path", missing_key: refuse}
  any: {policies: ["fixed_window 5/h"], key: "query:user or cookie:user or header:x-user or path", block: [mallory]}
"#;

static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
    Registry::open(&Config::parse(CONFIG, "limits.yaml").expect("it is valid")).expect("in memory")
});
static BOTH: LazyLock<Gate> = LazyLock::new(|| {
    REGISTRY.gate("whole").and(REGISTRY.gate("any")).expect("their names differ")
});
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime")
});

fuzz_target!(|input: &[u8]| {
    let Some((&form, rest)) = input.split_first() else { return };
    let mut lines = rest.split(|&byte| byte == b'\n');
    let terms = String::from_utf8_lossy(lines.next().unwrap_or_default());
    let target = lines.next().unwrap_or_default();
    let fields = fields(lines);
    let is_trusted = form & 1 == 0;
    let family =
        if form & 2 == 0 { ForwardedFields::XForwarded } else { ForwardedFields::XOriginal };
    let terms = if form & 4 == 0 { by_fields(&terms) } else { by_prefix(&terms, target) };

    let call = call(is_trusted, family, target, &fields);
    let address = &REGISTRY.http().client_address;
    let request = ForwardedRequest::described(&call, family, address);
    let key = key_of(&request);
    // Fields of the other family are as if they weren't there.
    let others = |(name, _): &&Field| !is_of(name, family, is_trusted);
    let fewer: Vec<Field> = fields.iter().filter(others).cloned().collect();
    let fewer = self::call(is_trusted, family, target, &fewer);
    assert_eq!(key, key_of(&ForwardedRequest::described(&fewer, family, address)), "{fields:?}");
    if !is_trusted {
        assert!(key.is_none(), "{key:?}");
    }
    if let Some(terms) = terms {
        decide(&terms, &request);
        let (path, query) = match call.uri().path_and_query() {
            Some(both) => (both.path(), both.query()),
            None => ("/", None),
        };
        decide(&terms, &ForwardedRequest::after_prefix(&call, path, query));
    }
});

type Field = (HeaderName, HeaderValue);

/// Returns the fields that a server accepts.
fn fields<'i>(lines: impl Iterator<Item = &'i [u8]>) -> Vec<Field> {
    let field = |line: &[u8]| {
        let at = line.iter().position(|&byte| byte == b':')?;
        let (name, value) = line.split_at(at);
        let name = HeaderName::from_bytes(name).ok()?;
        Some((name, HeaderValue::from_bytes(value.get(1..)?).ok()?))
    };
    lines.filter_map(field).take(32).collect()
}

/// Returns whether a field has no part in the description of a request.
fn is_of(name: &HeaderName, family: ForwardedFields, is_trusted: bool) -> bool {
    let forwarded = ["x-forwarded-method", "x-forwarded-uri", "x-forwarded-host"];
    let original = ["x-original-method", "x-original-uri"];
    let name = name.as_str();
    match family {
        _ if !is_trusted => forwarded.contains(&name) || original.contains(&name),
        ForwardedFields::XOriginal => forwarded.contains(&name),
        _ => original.contains(&name) || name == "host",
    }
}

/// Returns the call of a proxy that sets the target and passes the fields of its client on.
fn call(
    is_trusted: bool,
    family: ForwardedFields,
    target: &[u8],
    fields: &[Field],
) -> Request<()> {
    let peer = if is_trusted { [10, 0, 0, 1] } else { [192, 0, 2, 1] };
    let mut call = Request::new(());
    call.extensions_mut().insert(Peer((peer, 1).into()));
    if let Ok(uri) = http::Uri::try_from(target) {
        *call.uri_mut() = uri;
    }
    let (method, uri) = match family {
        ForwardedFields::XOriginal => ("x-original-method", "x-original-uri"),
        _ => ("x-forwarded-method", "x-forwarded-uri"),
    };
    let headers = call.headers_mut();
    for (name, value) in fields {
        headers.append(name, value.clone());
    }
    if let Ok(target) = HeaderValue::from_bytes(target) {
        headers.insert(uri, target);
        headers.insert(method, HeaderValue::from_static("PUT"));
    }
    call
}

/// Returns the key of a request under `whole`; `None` if it lacks a part.
fn key_of(request: &dyn RequestView) -> Option<Vec<u8>> {
    let keys = REGISTRY.gate("whole").keys(request).ok()?;
    let key = keys.iter().next()??.as_bytes().to_vec();
    Some(key)
}

/// Reads terms in a query.
fn by_fields(terms: &str) -> Option<AuthTerms> {
    let (limits, query) = match terms.split_once('?') {
        Some((limits, query)) => (limits, Some(query)),
        None => (terms, None),
    };
    AuthTerms::of_query(limits, query).ok().inspect(in_range)
}

/// Reads terms before the target of a client, which never changes them.
fn by_prefix(terms: &str, target: &[u8]) -> Option<AuthTerms> {
    let terms = terms.replace('/', "");
    let target = format!("/{}", String::from_utf8_lossy(target));
    let (own, none) = AuthTerms::of_prefix(&terms).ok()?;
    assert_eq!(none, "");
    in_range(&own);
    let whole = format!("{terms}{target}");
    let (read, rest) = AuthTerms::of_prefix(&whole).expect("only the prefix has terms");
    assert_eq!((&read, rest), (&own, &*target));
    Some(read)
}

fn in_range(terms: &AuthTerms) {
    let is_status = |status: Option<StatusCode>| {
        status.is_none_or(|status| (200..=599).contains(&status.as_u16()))
    };
    assert!(is_status(terms.denied()) && is_status(terms.failed()), "{terms:?}");
    assert!(terms.cost().is_none_or(|cost| (1..1 << 53).contains(&cost)), "{terms:?}");
    assert!((1..=AuthTerms::MOST_LIMITS).contains(&terms.limits().count()), "{terms:?}");
}

fn decide(terms: &AuthTerms, request: &dyn RequestView) {
    let Err(refusal) = RUNTIME.block_on(authorize(&BOTH, request, terms.cost())) else { return };
    let status = refusal.status(terms).expect("the store doesn't fail").as_u16();
    let denied = terms.denied().map_or(429, |status| status.as_u16());
    assert!(status == denied || status == 403, "{status}: {refusal:?}");
    let response = refusal.response_with(terms.denied().unwrap_or(StatusCode::FORBIDDEN));
    assert!(response.status().is_success() == response.body().is_empty(), "{response:?}");
}
