//! Statuses of gRPC that say why a call was refused.

mod details;
mod protobuf;

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use http::Response;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use sluicegate_core::{Decision, RetryAfter, Source, Span};

use crate::missing::MissingComponent;
use crate::policy_name::refusing;
use crate::problem::when_to_retry;
use crate::request::{RequestView, single_value};

use details::Details;
use protobuf::Violation;

static GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
static GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
static GRPC_STATUS_DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
static GRPC_RETRY_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

const MEDIA_TYPE: &str = "application/grpc";

/// Returns whether a request is a gRPC call, which needs a [`GrpcStatus`] as its response. The
/// content type of a gRPC call is `application/grpc`, possibly with a suffix or parameters. gRPC-Web
/// calls don't count.
///
/// ```
/// use sluicegate_http::is_grpc;
///
/// let call = |media_type| http::Request::post("/").header("content-type", media_type).body(());
/// assert!(is_grpc(&call("application/grpc+proto")?));
/// assert!(!is_grpc(&call("application/grpc-web")?));
/// # Ok::<(), http::Error>(())
/// ```
#[must_use]
pub fn is_grpc(request: &dyn RequestView) -> bool {
    let Ok(media_type) = single_value(request, &CONTENT_TYPE) else {
        return false;
    };
    media_type.split_at_checked(MEDIA_TYPE.len()).is_some_and(|(start, rest)| {
        start.eq_ignore_ascii_case(MEDIA_TYPE.as_bytes())
            && matches!(rest.first(), None | Some(b'+' | b';' | b' ' | b'\t'))
    })
}

/// The gRPC status of a call that was refused.
///
/// | the call | code | retry |
/// | --- | --- | --- |
/// | exceeds its quota | `RESOURCE_EXHAUSTED` (8) | after the delay in `RetryInfo` and `grpc-retry-pushback-ms` |
/// | can never pass | `RESOURCE_EXHAUSTED` (8) | no: there is no `RetryInfo`, and the pushback is -1 |
/// | can't be counted | `UNAVAILABLE` (14) | at the client's discretion |
/// | meets a misconfigured service | `INTERNAL` (13) | no |
/// | has a key on a block list | `PERMISSION_DENIED` (7) | no |
/// | lacks a component of its key | `INVALID_ARGUMENT` (3) | no |
///
/// The details are a `google.rpc.Status` with an `ErrorInfo`. An exceeded quota adds a
/// `QuotaFailure`, with one violation per policy that refused, and a `RetryInfo`.
///
/// ```
/// use sluicegate_http::GrpcStatus;
///
/// let response: http::Response<String> = GrpcStatus::unavailable().into_response();
/// assert_eq!(response.status(), 200);
/// assert_eq!(response.headers()["content-type"], "application/grpc");
/// assert_eq!(response.headers()["grpc-status"], "14");
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use]
pub struct GrpcStatus {
    code: GrpcCode,
    message: Cow<'static, str>,
    details: Details,
}

/// The code of a [`GrpcStatus`].
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum GrpcCode {
    /// 3: the call lacks a component of its key.
    InvalidArgument,
    /// 6: the id of the call was used for another one.
    AlreadyExists,
    /// 7: the key is on a block list.
    PermissionDenied,
    /// 8: a quota is exceeded.
    ResourceExhausted,
    /// 13: the service is misconfigured, for example its code names an unknown limit.
    Internal,
    /// 14: the store failed, and the limiter denies calls that it can't count.
    Unavailable,
}

impl GrpcCode {
    /// Returns the number of the code.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::InvalidArgument => 3,
            Self::AlreadyExists => 6,
            Self::PermissionDenied => 7,
            Self::ResourceExhausted => 8,
            Self::Internal => 13,
            Self::Unavailable => 14,
        }
    }
}

impl GrpcStatus {
    /// The default domain in `ErrorInfo`; see [`GrpcStatus::with_domain`].
    pub const DOMAIN: &'static str = "sluicegate";

    /// Returns the status of a denied call:
    ///
    /// - [unavailable](Self::unavailable) if the store failed and no policy was checked,
    /// - [permission denied](Self::permission_denied) if the key is on a block list,
    /// - otherwise [resource exhausted](Self::resource_exhausted).
    pub fn from_denial(decision: &Decision) -> Self {
        match decision.source() {
            _ if decision.is_assumed() => Self::unavailable(),
            Source::Bypass => Self::permission_denied(),
            _ => Self::resource_exhausted(decision),
        }
    }

    /// Makes a status `RESOURCE_EXHAUSTED`, which names the policies that refused, and says when to
    /// retry.
    pub fn resource_exhausted(decision: &Decision) -> Self {
        let violations = refusing(decision)
            .map(|(policy, outcome)| Violation::of(policy.into_owned(), outcome.limit()));
        let details = Details {
            violations: violations.collect(),
            retry: Some(decision.retry_after()),
            limit: decision.limit().map(|limit| limit.name().as_str().to_owned()),
            ..Details::of(if decision.is_store_full() { "STORE_FULL" } else { "RATE_LIMITED" })
        };
        Self { details, ..Self::new(GrpcCode::ResourceExhausted, when_to_retry(decision)) }
    }

    /// Makes a status `UNAVAILABLE`: the store failed, and the limiter denies calls that it can't
    /// count.
    pub fn unavailable() -> Self {
        let message = "the service can't check the quota of the call at the moment";
        let details = Details::of("RATE_LIMITER_UNAVAILABLE");
        Self { details, ..Self::new(GrpcCode::Unavailable, message) }
    }

    /// Makes a status `INTERNAL`: the service is misconfigured. The status tells clients no details.
    pub fn internal() -> Self {
        let message = "the service is misconfigured and can't check the quota of the call";
        let details = Details::of("MISCONFIGURED");
        Self { details, ..Self::new(GrpcCode::Internal, message) }
    }

    /// Makes a status `ALREADY_EXISTS`: the id of the call was used for another one.
    pub fn already_exists() -> Self {
        let message = "the id of the call was used for another call before";
        let details = Details::of("CONFLICT");
        Self { details, ..Self::new(GrpcCode::AlreadyExists, message) }
    }

    /// Makes a status `PERMISSION_DENIED`: the key is on a block list.
    pub fn permission_denied() -> Self {
        let message = "calls are not accepted from this client";
        let details = Details::of("BLOCKED");
        Self { details, ..Self::new(GrpcCode::PermissionDenied, message) }
    }

    /// Makes a status `INVALID_ARGUMENT`: the call lacks a component of its key.
    pub fn invalid_argument(missing: &MissingComponent) -> Self {
        let message = format!("the call can't be assigned to a quota: {missing}");
        let details = Details::of("MISSING_KEY");
        Self { details, ..Self::new(GrpcCode::InvalidArgument, message) }
    }

    /// Makes a status `INVALID_ARGUMENT`: the limit doesn't count the key of the call.
    pub fn unfit_key() -> Self {
        let details = Details::of("MISSING_KEY");
        let message =
            "the call can't be assigned to a quota: its key isn't one that the quota counts";
        Self { details, ..Self::new(GrpcCode::InvalidArgument, message) }
    }

    fn new(code: GrpcCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), details: Details::default() }
    }

    /// Replaces the message.
    pub fn with_message(self, message: impl Into<Cow<'static, str>>) -> Self {
        Self { message: message.into(), ..self }
    }

    /// Replaces the domain: the name of the service that refused.
    pub fn with_domain(mut self, domain: impl Into<Cow<'static, str>>) -> Self {
        self.details.domain = domain.into();
        self
    }

    /// Returns the code.
    #[must_use]
    pub const fn code(&self) -> GrpcCode {
        self.code
    }

    /// Returns the message, unencoded.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the details: an encoded `google.rpc.Status`, as `tonic::Status::with_details` expects.
    #[must_use]
    pub fn details(&self) -> Vec<u8> {
        self.details.encode(self.code, &self.message)
    }

    /// Returns the value of `grpc-retry-pushback-ms`: a delay in milliseconds, or -1 for never.
    /// `None` leaves the delay to the client.
    #[must_use]
    pub fn retry_pushback(&self) -> Option<i32> {
        match (self.code, self.details.retry) {
            (GrpcCode::Unavailable, _) => None,
            // -1 also for a delay above the range of the field: too long to wait.
            (_, Some(RetryAfter::After(wait))) => {
                Some(i32::try_from(Span::from(wait).as_millis_ceil()).unwrap_or(-1))
            }
            _ => Some(-1),
        }
    }

    /// Writes the status into trailers, or into the headers of a response without a body.
    pub fn write(&self, headers: &mut HeaderMap) {
        /// Printable ASCII except for the percent sign stays unescaped.
        const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');
        let mut insert = |name: &HeaderName, value: String| {
            // Digits, base64 and printable ASCII are always valid.
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(name, value);
            }
        };
        insert(&GRPC_STATUS, self.code.number().to_string());
        insert(&GRPC_MESSAGE, utf8_percent_encode(&self.message, ESCAPED).to_string());
        insert(&GRPC_STATUS_DETAILS, STANDARD_NO_PAD.encode(self.details()));
        if let Some(pushback) = self.retry_pushback() {
            insert(&GRPC_RETRY_PUSHBACK, pushback.to_string());
        }
    }

    /// Returns a response that consists of the status only: HTTP 200 without a body.
    pub fn into_response<B: Default>(self) -> Response<B> {
        let mut response = Response::new(B::default());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        self.write(headers);
        response
    }
}

#[cfg(test)]
mod tests;
