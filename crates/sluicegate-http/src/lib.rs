//! The HTTP side of a rate limiter: makes the key of a request, and reports a decision.
//!
//! The crate does no I/O, reads no clock, depends on no async runtime and makes no decisions.
//! Middleware takes a key from these types, a decision from a limiter, and the response from these
//! types again. They work with `http` 1.x, and so with axum, hyper, tower and tonic; other libraries
//! implement [`RequestView`].
//!
//! # Keys
//!
//! A [`KeyExpression`], usually read from a config file, makes the [`Key`] of a request. Its
//! component `ip` is the client's network, which a [`ClientAddress`] finds. It trusts a header
//! field only if configured with the proxies that write it.
//!
//! ```
//! use sluicegate_http::{AddressHeader, ClientAddress, KeyExpression, KeyExtractor, Peer};
//!
//! let proxies = ["10.0.0.0/8".parse()?];
//! let key = "ip+header:x-tenant"
//!     .parse::<KeyExpression>()?
//!     .with_client_address(ClientAddress::behind(proxies, AddressHeader::XForwardedFor));
//!
//! let request = http::Request::get("/cart")
//!     .extension(Peer("10.0.0.7:443".parse()?)) // set by the server
//!     .header("x-forwarded-for", "6.6.6.6, 198.51.100.7") // the client made up the first
//!     .header("x-tenant", "acme")
//!     .body(())?;
//! assert_eq!(key.key(&request)?.as_bytes(), b"198.51.100.7|acme");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Code can make keys from anything in a request: see [`KeyExtractor`]. [`OnMissingKey`] sets what
//! happens to a request without a key, and a [`KeyMap`] holds the entries of allow and block lists.
//!
//! A proxy can ask about the requests of its clients. [`ForwardedRequest`] is the described request, and [`AuthTerms`] are
//! the limits and statuses of the call.
//!
//! # Responses
//!
//! [`LimitFields`] are the response fields in a given [`FieldFormat`], [`Problem`] is the body of a
//! denial, and [`GrpcStatus`] replaces both for gRPC. None of them shows shadow policies.
//!
//! ```
//! use sluicegate_core::{Limit, OpenOptions, Request, Store};
//! use sluicegate_http::{FieldFormat, LimitFields, Problem};
//! use sluicegate_memory::MemoryStore;
//!
//! let limit = Limit::new("api", vec!["fixed_window 1/h as hourly"])?;
//! let opened = MemoryStore::new().open(limit.clone(), OpenOptions::default());
//! assert!(opened.decide(Request::check(b"alice"))?.is_allowed());
//! let denied = opened.decide(Request::check(b"alice"))?;
//!
//! let mut response: http::Response<String> = Problem::from_denial(&denied).into_response();
//! LimitFields::new(&limit, FieldFormat::Draft11).of(&denied).write(response.headers_mut());
//! assert_eq!(response.status(), 429);
//! assert_eq!(response.headers()["retry-after"], "3600");
//! assert_eq!(response.headers()["ratelimit"], "\"hourly\";r=0;t=3600");
//! assert!(response.body().contains(r#""violated-policies":["hourly"]"#));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! - `grpc`: `GrpcStatus`, the response to a denied gRPC call.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod auth_terms;
mod cidr;
mod cidr_set;
mod client_address;
mod escape;
mod extractor;
mod fields;
mod forwarded;
#[cfg(feature = "grpc")]
mod grpc;
mod key;
mod key_bytes;
mod key_component;
mod key_expression;
mod key_matcher;
mod key_view;
mod missing;
mod policy_name;
mod problem;
mod request;
#[cfg(test)]
mod test_limit;

pub use auth_terms::{AuthTerms, AuthTermsError};
pub use cidr::{Cidr, CidrError};
pub use client_address::{AddressHeader, ClientAddress, ClientAddressError};
pub use extractor::{And, Fixed, KeyExtractor, Map, Or, fixed, from_fn};
pub use fields::{
    DecisionFields, FieldFormat, FieldFormatError, LimitFields, Partition, PartitionError,
    PreparedFields, retry_after,
};
pub use forwarded::{ForwardedFields, ForwardedFieldsError, ForwardedRequest};
#[cfg(feature = "grpc")]
pub use grpc::{GrpcCode, GrpcStatus, is_grpc};
pub use key::Key;
pub use key_component::KeyComponent;
pub use key_expression::{KeyExpression, KeyExpressionError, UnfitKey};
pub use key_matcher::{KeyMap, KeyMatcher, KeyMatcherError};
pub use key_view::KeyView;
pub use missing::{KeyOutcome, MissingComponent, MissingReason, OnMissingKey, OnMissingKeyError};
pub use problem::{Problem, ProblemKind};
pub use request::{MatchedRoute, Peer, RequestView, User};
