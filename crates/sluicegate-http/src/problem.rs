//! Problem details: JSON bodies that say why a request was refused.

use std::borrow::Cow;
use std::fmt::Write as _;

use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use sluicegate_core::{Decision, RetryAfter, Source, Span};

use crate::missing::MissingComponent;
use crate::policy_name::refusing;

/// The reason why a request was refused: problem details by RFC 9457, `application/problem+json`.
///
/// ```
/// use sluicegate_http::Problem;
///
/// let problem = Problem::temporary_reduced_capacity();
/// assert_eq!(problem.status(), 503);
/// let response: http::Response<String> = problem.into_response();
/// assert_eq!(response.headers()["content-type"], Problem::MEDIA_TYPE);
/// assert_eq!(response.headers()["cache-control"], "no-store");
/// assert!(response.body().contains("\"status\":503"));
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use]
pub struct Problem {
    kind: ProblemKind,
    /// A status in place of that of the kind.
    status: Option<StatusCode>,
    detail: Cow<'static, str>,
    instance: Option<String>,
    violated: Vec<String>,
}

/// The type of a [`Problem`].
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum ProblemKind {
    /// The request exceeds a quota: status 429.
    QuotaExceeded,
    /// The store failed, and the limiter denies requests that it can't count: status 503.
    TemporaryReducedCapacity,
    /// The embedded store has no capacity for the key: status 429.
    StoreFull,
    /// The key is paused: status 429.
    Paused,
    /// The behavior of the client looks like abuse: status 429.
    AbnormalUsageDetected,
    /// The key is on a block list: status 403.
    Blocked,
    /// The request lacks a component of its key: status 400.
    MissingKey,
    /// The id of the request was used for another one: status 409.
    Conflict,
    /// The service is misconfigured, for example its code names an unknown limit: status 500.
    Misconfigured,
}

impl ProblemKind {
    /// Returns the status of a response with this problem.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::QuotaExceeded | Self::StoreFull | Self::Paused | Self::AbnormalUsageDetected => {
                StatusCode::TOO_MANY_REQUESTS
            }
            Self::TemporaryReducedCapacity => StatusCode::SERVICE_UNAVAILABLE,
            Self::Blocked => StatusCode::FORBIDDEN,
            Self::MissingKey => StatusCode::BAD_REQUEST,
            Self::Conflict => StatusCode::CONFLICT,
            Self::Misconfigured => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Returns the URI of the problem type; `about:blank` for types that say no more than their
    /// status.
    #[must_use]
    pub const fn uri(self) -> &'static str {
        match self {
            Self::QuotaExceeded => "https://iana.org/assignments/http-problem-types#quota-exceeded",
            Self::TemporaryReducedCapacity => {
                "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
            }
            Self::AbnormalUsageDetected => {
                "https://iana.org/assignments/http-problem-types#abnormal-usage-detected"
            }
            Self::StoreFull
            | Self::Paused
            | Self::Blocked
            | Self::Conflict
            | Self::MissingKey
            | Self::Misconfigured => "about:blank",
        }
    }

    /// Returns the title of the problem type. All problems of one type share it.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::QuotaExceeded => "Quota exceeded",
            Self::TemporaryReducedCapacity => "Temporarily reduced capacity",
            Self::StoreFull | Self::Paused => "Too Many Requests",
            Self::AbnormalUsageDetected => "Abnormal usage detected",
            Self::Blocked => "Forbidden",
            Self::MissingKey => "Bad Request",
            Self::Conflict => "Conflict",
            Self::Misconfigured => "Internal Server Error",
        }
    }

    /// Returns whether the problem names the violated policies.
    const fn has_policies(self) -> bool {
        matches!(
            self,
            Self::QuotaExceeded | Self::TemporaryReducedCapacity | Self::AbnormalUsageDetected
        )
    }

    /// Returns a code for programs, where the type says no more than its status.
    const fn code(self) -> Option<&'static str> {
        match self {
            Self::StoreFull => Some("store_full"),
            Self::Paused => Some("paused"),
            _ => None,
        }
    }
}

impl Problem {
    /// The media type of the body.
    pub const MEDIA_TYPE: &'static str = "application/problem+json";

    /// Returns the problem of a denied request:
    ///
    /// - [temporary reduced capacity](Self::temporary_reduced_capacity) if the store failed and no
    ///   policy was checked,
    /// - [store full](Self::store_full) if the embedded store has no capacity for the key,
    /// - [paused](Self::paused) if the key is paused,
    /// - [blocked](Self::blocked) if the key is on a block list,
    /// - otherwise [quota exceeded](Self::quota_exceeded).
    pub fn from_denial(decision: &Decision) -> Self {
        match decision.source() {
            _ if decision.is_assumed() => Self::temporary_reduced_capacity(),
            _ if decision.is_store_full() => Self::store_full(decision),
            _ if decision.pause().is_some() => Self::paused(decision),
            Source::Bypass => Self::blocked(),
            _ => Self::quota_exceeded(decision),
        }
    }

    /// Makes a problem with status 429, which names the policies that refused, and says when to
    /// retry.
    pub fn quota_exceeded(decision: &Decision) -> Self {
        let violated = violated(decision);
        let problem = Self::new(ProblemKind::QuotaExceeded, when_to_retry(decision));
        problem.with_violated_policies(violated)
    }

    /// Makes a problem with status 429 and `"code":"store_full"`: the embedded store has no capacity
    /// for the key. No policy refused.
    pub fn store_full(decision: &Decision) -> Self {
        Self::new(ProblemKind::StoreFull, when_to_retry(decision))
    }

    /// Makes a problem with status 429 and `"code":"paused"`: the key is paused. No policy refused.
    pub fn paused(decision: &Decision) -> Self {
        Self::new(ProblemKind::Paused, when_to_retry(decision))
    }

    /// Makes a problem with status 503: the store failed, and the limiter denies requests that it
    /// can't count.
    pub fn temporary_reduced_capacity() -> Self {
        Self::new(
            ProblemKind::TemporaryReducedCapacity,
            "The service can't check the quota of the request at the moment. Try again later.",
        )
    }

    /// Makes a problem with status 429: the behavior of the client looks like abuse. The problem
    /// names the policies that refused, and says when to retry.
    pub fn abnormal_usage_detected(decision: &Decision) -> Self {
        let violated = violated(decision);
        let problem = Self::new(ProblemKind::AbnormalUsageDetected, when_to_retry(decision));
        problem.with_violated_policies(violated)
    }

    /// Makes a problem with status 403: the key is on a block list.
    pub fn blocked() -> Self {
        Self::new(ProblemKind::Blocked, "The request is not accepted from this client.")
    }

    /// Makes a problem with status 400: the request lacks a component of its key.
    pub fn missing_key(missing: &MissingComponent) -> Self {
        let detail = format!("The request can't be assigned to a quota: {missing}.");
        Self::new(ProblemKind::MissingKey, detail)
    }

    /// Makes a problem with status 400: the limit doesn't count the key of the request, as if it had
    /// none.
    pub fn unfit_key() -> Self {
        Self::new(
            ProblemKind::MissingKey,
            "The request can't be assigned to a quota: its key isn't one that the quota counts.",
        )
    }

    /// Makes a problem with status 409: the id of the request was used for another one.
    pub fn conflict() -> Self {
        Self::new(
            ProblemKind::Conflict,
            "The id of the request was used for another request before: send a new one with an id of its own.",
        )
    }

    /// Makes a problem with status 500: the service is misconfigured. The problem tells clients no
    /// details.
    pub fn misconfigured() -> Self {
        Self::new(
            ProblemKind::Misconfigured,
            "The service is misconfigured and can't check the quota of the request.",
        )
    }

    fn new(kind: ProblemKind, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, status: None, detail: detail.into(), instance: None, violated: Vec::new() }
    }

    /// Replaces the [`detail`](Self::detail).
    pub fn with_detail(self, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { detail: detail.into(), ..self }
    }

    /// Replaces the [`status`](Self::status).
    pub fn with_status(self, status: StatusCode) -> Self {
        Self { status: Some(status), ..self }
    }

    /// Sets a URI that identifies this occurrence of the problem.
    pub fn with_instance(self, uri: impl Into<String>) -> Self {
        Self { instance: Some(uri.into()), ..self }
    }

    /// Replaces the names of the violated policies.
    pub fn with_violated_policies<N: Into<String>>(
        self,
        names: impl IntoIterator<Item = N>,
    ) -> Self {
        Self { violated: names.into_iter().map(Into::into).collect(), ..self }
    }

    /// Returns the type of the problem.
    #[must_use]
    pub const fn kind(&self) -> ProblemKind {
        self.kind
    }

    /// Returns the status of the response.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status.unwrap_or(self.kind.status())
    }

    /// Returns the title. Problems without a type of their own have the title of their status.
    fn title(&self) -> &'static str {
        let of_status = || self.status?.canonical_reason();
        let is_of_status = self.kind.uri() == "about:blank";
        is_of_status.then(of_status).flatten().unwrap_or(self.kind.title())
    }

    /// Returns what is wrong with this request, in one or two sentences.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Returns the names of the policies that refused.
    #[must_use]
    pub fn violated_policies(&self) -> &[String] {
        &self.violated
    }

    /// Returns the problem as a JSON object: the body of the response.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut json = String::with_capacity(256);
        json.push_str("{\"type\":");
        write_string(&mut json, self.kind.uri());
        json.push_str(",\"title\":");
        write_string(&mut json, self.title());
        let _ = write!(json, ",\"status\":{}", self.status().as_u16());
        json.push_str(",\"detail\":");
        write_string(&mut json, &self.detail);
        if let Some(instance) = &self.instance {
            json.push_str(",\"instance\":");
            write_string(&mut json, instance);
        }
        if let Some(code) = self.kind.code() {
            json.push_str(",\"code\":");
            write_string(&mut json, code);
        }
        if self.kind.has_policies() {
            json.push_str(",\"violated-policies\":[");
            for (index, name) in self.violated.iter().enumerate() {
                if index > 0 {
                    json.push(',');
                }
                write_string(&mut json, name);
            }
            json.push(']');
        }
        json.push('}');
        json
    }

    /// Returns a response with the problem as its body, not cacheable.
    pub fn into_response<B: From<String>>(self) -> Response<B> {
        let mut response = Response::new(B::from(self.to_json()));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(Self::MEDIA_TYPE));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

fn violated(decision: &Decision) -> Vec<String> {
    refusing(decision).map(|(policy, _)| policy.into_owned()).collect()
}

/// Says in a sentence when to retry a denied request.
pub(crate) fn when_to_retry(decision: &Decision) -> String {
    match decision.retry_after() {
        RetryAfter::After(wait) if decision.is_store_full() => {
            format!(
                "The service can't count more clients for now. Try again in {}.",
                Span::from(wait).in_words()
            )
        }
        _ if decision.is_store_full() => {
            "The service can't count more clients for now. Try again later.".to_owned()
        }
        RetryAfter::After(wait) if decision.pause().is_some() => {
            format!("Requests are paused. Try again in {}.", Span::from(wait).in_words())
        }
        RetryAfter::After(wait) if decision.ban().is_some_and(|ban| !ban.begins) => {
            let again = Span::from(wait).in_words();
            format!(
                "Too many requests were denied, so none is accepted for now. Try again in {again}."
            )
        }
        RetryAfter::After(wait) => {
            let again = Span::from(wait).in_words();
            format!("The request exceeds its quota. Try again in {again}.")
        }
        RetryAfter::Never => "The request costs more than its quota ever allows.".to_owned(),
        _ => "The request exceeds its quota.".to_owned(),
    }
}

fn write_string(json: &mut String, text: &str) {
    json.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => json.extend(['\\', character]),
            control if u32::from(control) < 0x20 => {
                let _ = write!(json, "\\u{:04x}", u32::from(control));
            }
            other => json.push(other),
        }
    }
    json.push('"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use sluicegate_core::for_stores::DecisionForStores as _;

    use super::*;
    use crate::key_component::KeyComponent;
    use crate::test_limit::TestLimit;

    fn read(problem: &Problem) -> Value {
        serde_json::from_str(&problem.to_json()).unwrap()
    }

    #[test]
    fn a_denial_names_the_policies_that_refused_and_no_shadow() {
        let test = TestLimit::new(&[
            "token_bucket 1/min burst 1 as burst",
            "gcra 1/h burst 1 shadow as secret",
            "fixed_window 9/h as hour",
        ]);
        assert!(test.check(1).is_allowed());
        let decision = test.check(1);
        let problem = Problem::from_denial(&decision);
        assert_eq!(
            read(&problem),
            json!({
                "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
                "title": "Quota exceeded",
                "status": 429,
                "detail": "The request exceeds its quota. Try again in 1 min.",
                "violated-policies": ["burst"],
            })
        );
        let never = Problem::from_denial(&test.check(10));
        assert_eq!(never.detail(), "The request costs more than its quota ever allows.");
        assert_eq!(never.violated_policies(), ["burst", "hour"]);
    }

    #[test]
    fn every_denial_has_its_status() {
        let test = TestLimit::new(&["gcra 1/s"]);
        let missing = MissingComponent::absent(KeyComponent::Query("a\"b\n".into()));
        for (problem, status, policies) in [
            (Problem::from_denial(&Decision::fallback(&test.limit, false)), 503, true),
            (Problem::from_denial(&Decision::bypass(false)), 403, false),
            (Problem::abnormal_usage_detected(&test.check(2)), 429, true),
            (Problem::missing_key(&missing), 400, false),
        ] {
            let json = read(&problem);
            assert_eq!((&json["status"], problem.status().as_u16()), (&json!(status), status));
            assert_eq!(json.get("violated-policies").is_some(), policies, "{json}");
            assert_eq!(json["type"] == "about:blank", !policies, "{json}");
        }
        let detail = "The request can't be assigned to a quota: the request has no query parameter `a\\\"b\\n`.";
        assert_eq!(read(&Problem::missing_key(&missing))["detail"], detail);
    }

    #[test]
    fn another_status_changes_the_title_of_a_problem_without_a_type() {
        let forbidden = |problem: Problem| read(&problem.with_status(StatusCode::FORBIDDEN));
        let json = forbidden(Problem::unfit_key());
        assert_eq!((&json["status"], &json["title"]), (&json!(403), &json!("Forbidden")));
        let json = forbidden(Problem::temporary_reduced_capacity());
        assert_eq!(json["title"], "Temporarily reduced capacity");
    }

    proptest! {
        #[test]
        fn another_program_reads_the_same_text(
            detail in any::<String>(), instance in prop::option::of(any::<String>()),
            policies in prop::collection::vec(any::<String>(), 0..4),
        ) {
            let mut problem = Problem::temporary_reduced_capacity()
                .with_detail(detail.clone())
                .with_violated_policies(policies.clone());
            if let Some(instance) = &instance {
                problem = problem.with_instance(instance);
            }
            let json = read(&problem);
            prop_assert_eq!(&json["detail"], &json!(detail));
            prop_assert_eq!(json.get("instance").cloned(), instance.map(Value::from));
            prop_assert_eq!(&json["violated-policies"], &json!(policies));
        }
    }
}
