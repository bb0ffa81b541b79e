//! The limits, keys and costs in a request body, for one limit or several in one decision.

use axum::extract::Request;
use serde::Deserialize;
use sluicegate::decision::Holding;
use sluicegate::policy::{Member, Queue};
use sluicegate::store::Span;
use sluicegate::{Ask, Limit, Registry};

use super::body::{self, Object, some, span_of};
use super::cost::CostBody;
use super::error::ApiError;
use super::given::{Given, Wanted};
use super::guard;
use super::hold::HoldBody;
use super::request_id;
use crate::access::{Access, Call, Caller};
use crate::cost::AskedCost;
use crate::explain::Wish;

/// The limits of a request, each with a key and a cost, and its caller.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) caller: Caller,
    /// The kind of the call, which the caller may make for some limits.
    pub(super) call: Call,
    /// At least one part; the names of the limits differ.
    parts: Vec<Part>,
    is_list: bool,
    /// Whether and how the units are held.
    pub(super) holding: Holding,
    /// Id that identifies a repeated request.
    id: Option<String>,
    /// Maximum wait; zero for requests that don't wait.
    pub(super) within: Span,
    /// Priority in the queue.
    priority: u8,
    /// Length of a ban or a pause; zero for other requests.
    pub(super) lasts: Span,
    /// The only policy to pause or resume.
    pub(super) policy: Option<String>,
}

#[derive(Debug)]
struct Part {
    limit: String,
    /// The policies that the request gives for the limit.
    policies: Option<Given>,
    key: String,
    cost: AskedCost,
}

/// The fields that a body may have in addition to limits, keys and costs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Form {
    /// No further fields.
    Plain,
    /// `"for":"1h"`: the length of the ban.
    Bans,
    /// `"for":"30s"`: the length of the pause. Optional: `"policy":"tokens"`, the only policy to
    /// pause.
    Pauses,
    /// Optional: `"policy":"tokens"`, the only policy to resume.
    Resumes,
    /// Optional: `"hold":"30s"` to hold the units, and an id that identifies a repeat, as
    /// `"request_id"` or in the header field `Idempotency-Key`.
    Takes,
    /// `"within":"2s"`: the maximum wait.
    Waits,
    /// `"within":"2s"`, and optionally `"hold":"30s"` and `"priority":0`.
    WaitsAndHolds,
}

impl Asked {
    /// Maximum number of limits in one request. On a cluster, each one is a call to the store.
    const MOST: usize = 16;

    /// Finds the caller, and reads `{"limit":"…","key":"…","cost":1}`, or `{"limits":[…]}` with several
    /// of these, and the form's further fields.
    ///
    /// # Errors
    /// Returns an error if the caller lacks the right, the body is anything else, or the request ids
    /// differ.
    pub(super) async fn read(
        access: &Access,
        request: Request,
        call: Call,
        form: Form,
    ) -> Result<Self, ApiError> {
        let (head, body) = request.into_parts();
        let caller = guard::admit(access, &head, call)?;
        let fields: Fields = body::read(body, form.example()).await?;
        let mut asked = fields.asked(caller, call, form)?;
        if form == Form::Takes {
            asked.id = request_id::find(&head.headers, asked.id)?;
        }
        Ok(asked)
    }

    /// Returns the request. Its costs are not validated against a limit yet.
    pub(super) fn ask(&self) -> Ask<'_> {
        let asks = self.parts.iter().map(|part| part.cost.ask(part.key.as_bytes()));
        let ask = asks.reduce(Ask::and).unwrap_or(Ask::nothing()).priority(self.priority);
        match &self.id {
            Some(id) => ask.request_id(id),
            None => ask,
        }
    }

    /// Returns the limits, in the order of the request.
    pub(super) fn limits(&self) -> Vec<Wanted<'_>> {
        let parts = self.parts.iter();
        parts.map(|part| Wanted { name: &part.limit, given: part.policies.as_ref() }).collect()
    }

    /// Returns the limits with their keys and costs, in the order of the request.
    pub(super) fn wishes(&self) -> Vec<Wish<'_>> {
        let parts = self.parts.iter();
        let wishes = parts.map(|Part { limit, policies, key, cost }| Wish {
            limit,
            key: key.as_bytes(),
            cost,
            gives_policies: policies.is_some(),
        });
        wishes.collect()
    }

    /// Returns the total length of the keys, in bytes.
    pub(super) fn key_bytes(&self) -> usize {
        self.parts.iter().map(|part| part.key.len()).sum()
    }

    /// Returns `true` if the request has a list of limits, even of one.
    pub(super) const fn is_list(&self) -> bool {
        self.is_list
    }

    /// Returns the cost under each policy of the limit that answered, which may lack some requested
    /// limits.
    pub(super) fn costs(&self, limit: &Limit) -> Vec<u64> {
        let cost = |member: &Member| {
            let name = limit.parts().get(member.part()).map(sluicegate::policy::LimitName::as_str);
            let part = self.parts.iter().find(|part| Some(part.limit.as_str()) == name);
            part.map_or(0, |part| part.cost.of(member))
        };
        limit.members().iter().map(cost).collect()
    }

    /// Returns the maximum that the request takes from a policy, for a request that no policy
    /// counts.
    pub(super) fn whole_cost(&self, registry: &Registry) -> u64 {
        let whole = |part: &Part| match &part.policies {
            Some(given) => Some(part.cost.whole(&given.limit(&part.limit).ok()?)),
            None => Some(part.cost.whole(&registry.limit(&part.limit)?.limit)),
        };
        self.parts.iter().filter_map(whole).max().unwrap_or(0)
    }
}

const EXAMPLE: &str = r#"{"limit":"demo","key":"alice","cost":1}"#;
const WAIT_EXAMPLE: &str = r#"{"limit":"demo","key":"alice","cost":1,"within":"2s"}"#;
const BAN_EXAMPLE: &str = r#"{"limit":"demo","key":"alice","for":"1h"}"#;
const PAUSE_EXAMPLE: &str = r#"{"limit":"demo","key":"alice","for":"30s"}"#;
const RESUME_EXAMPLE: &str = r#"{"limit":"demo","key":"alice"}"#;

impl Form {
    const fn waits(self) -> bool {
        matches!(self, Self::Waits | Self::WaitsAndHolds)
    }

    const fn holds(self) -> bool {
        matches!(self, Self::Takes | Self::WaitsAndHolds)
    }

    /// Returns the word for the call's effect on a key, if its body has `for`.
    const fn lasting(self) -> Option<&'static str> {
        match self {
            Self::Bans => Some("ban"),
            Self::Pauses => Some("pause"),
            _ => None,
        }
    }

    /// Returns `true` if the call is about a key under one limit, and has no cost.
    const fn is_of_one_key(self) -> bool {
        matches!(self, Self::Bans | Self::Pauses | Self::Resumes)
    }

    const fn example(self) -> &'static str {
        match self {
            Self::Bans => BAN_EXAMPLE,
            Self::Pauses => PAUSE_EXAMPLE,
            Self::Resumes => RESUME_EXAMPLE,
            Self::Waits | Self::WaitsAndHolds => WAIT_EXAMPLE,
            Self::Plain | Self::Takes => EXAMPLE,
        }
    }
}

/// A body as the client wrote it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    #[serde(default, deserialize_with = "some")]
    limit: Option<String>,
    #[serde(default, deserialize_with = "some")]
    key: Option<String>,
    #[serde(default, deserialize_with = "some")]
    cost: Option<CostBody>,
    #[serde(default, deserialize_with = "some")]
    policies: Option<Given>,
    #[serde(default, deserialize_with = "some")]
    limits: Option<Vec<Object<PartFields>>>,
    #[serde(default, deserialize_with = "some")]
    request_id: Option<String>,
    #[serde(default, deserialize_with = "some")]
    within: Option<String>,
    #[serde(default, deserialize_with = "some")]
    priority: Option<u64>,
    #[serde(default, deserialize_with = "some")]
    hold: Option<HoldBody>,
    #[serde(default, rename = "for", deserialize_with = "some")]
    lasts: Option<String>,
    #[serde(default, deserialize_with = "some")]
    policy: Option<String>,
}

/// One of several limits as the client wrote it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PartFields {
    limit: String,
    key: String,
    #[serde(default, deserialize_with = "some")]
    cost: Option<CostBody>,
    #[serde(default, deserialize_with = "some")]
    policies: Option<Given>,
}

impl Fields {
    fn asked(self, caller: Caller, call: Call, form: Form) -> Result<Asked, ApiError> {
        let within = match (form.waits(), &self.within) {
            (true, within) => span_within(within.as_deref())?,
            (false, None) => Span::ZERO,
            (false, Some(_)) => {
                return Err(ApiError::malformed(
                    "only /v1/acquire and /v1/reserve wait: leave `within` out, or ask there",
                ));
            }
        };
        let (call, holding) = match &self.hold {
            None => (call, Holding::as_needed()),
            Some(hold) if form.holds() => {
                let call = if call == Call::Take { Call::Hold } else { call };
                (call, hold.holding()?)
            }
            Some(_) => {
                return Err(ApiError::malformed(
                    "only /v1/check, /v1/charge, /v1/take and /v1/acquire hold what they take: leave \
                     `hold` out, or ask there",
                ));
            }
        };
        let priority = match self.priority {
            None => 0,
            Some(priority) if form == Form::WaitsAndHolds => priority_of(priority)?,
            Some(_) => {
                return Err(ApiError::malformed(
                    "only /v1/acquire waits in queues: leave `priority` out, or ask there",
                ));
            }
        };
        let lasts = match (form.lasting(), &self.lasts) {
            (Some(_), Some(lasts)) => span_of("for", lasts)?,
            (Some(effect), None) => {
                return Err(ApiError::malformed(format!(
                    "the body lacks `for`, how long the {effect} lasts: send {}",
                    form.example()
                )));
            }
            (None, None) => Span::ZERO,
            (None, Some(_)) => {
                return Err(ApiError::malformed(
                    "only /v1/ban bans, and only /v1/pause pauses: leave `for` out, or ask there",
                ));
            }
        };
        if self.policy.is_some() && !matches!(form, Form::Pauses | Form::Resumes) {
            return Err(ApiError::malformed(
                "only /v1/pause and /v1/resume are about one policy: leave `policy` out, or ask there",
            ));
        }
        if self.request_id.is_some() && form != Form::Takes {
            return Err(ApiError::malformed(
                "only /v1/check, /v1/charge and /v1/take can have a request id: omit `request_id`, or \
                 ask there",
            ));
        }
        if form.is_of_one_key() && (self.limits.is_some() || self.cost.is_some()) {
            let effect = form.lasting().unwrap_or("pause");
            return Err(ApiError::malformed(format!(
                "a {effect} is of a key under one limit, and has no cost: send {}",
                form.example()
            )));
        }
        let (id, policy) = (self.request_id.clone(), self.policy.clone());
        let (parts, is_list) = self.parts()?;
        Ok(Asked { caller, call, parts, is_list, holding, id, within, priority, lasts, policy })
    }

    /// Returns the limits, and whether they are a list.
    fn parts(self) -> Result<(Vec<Part>, bool), ApiError> {
        let Self { limit, key, cost, policies, limits, .. } = self;
        let Some(limits) = limits else {
            let lacks = |field: &str| {
                ApiError::malformed(format!(
                    "the body lacks `{field}`: send {EXAMPLE}, or `limits` with several of these"
                ))
            };
            let limit = limit.ok_or_else(|| lacks("limit"))?;
            let key = key.ok_or_else(|| lacks("key"))?;
            let cost = cost.map_or_else(Default::default, Into::into);
            return Ok((vec![Part { limit, policies, key, cost }], false));
        };
        let given = [
            ("limit", limit.is_some()),
            ("key", key.is_some()),
            ("cost", cost.is_some()),
            ("policies", policies.is_some()),
        ];
        if let Some((field, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
            return Err(ApiError::malformed(format!(
                "`{field}` can't be combined with `limits`: move it into an entry of `limits`, or \
                 omit `limits`"
            )));
        }
        Ok((Self::several(limits)?, true))
    }

    fn several(limits: Vec<Object<PartFields>>) -> Result<Vec<Part>, ApiError> {
        if limits.is_empty() {
            return Err(ApiError::malformed(
                r#"`limits` is empty: name a limit, as in {"limits":[{"limit":"demo","key":"alice"}]}"#,
            ));
        }
        if limits.len() > Asked::MOST {
            return Err(ApiError::malformed(format!(
                "`limits` has {} entries: send at most {} in one request",
                limits.len(),
                Asked::MOST
            )));
        }
        let mut parts: Vec<Part> = Vec::with_capacity(limits.len());
        for Object(PartFields { limit, key, cost, policies }) in limits {
            if parts.iter().any(|part| part.limit == limit) {
                return Err(ApiError::malformed(format!(
                    "`limits` has the limit `{}` twice: leave one out, or ask about its keys one \
                     after another",
                    shown(&limit)
                )));
            }
            let cost = cost.map_or_else(Default::default, Into::into);
            parts.push(Part { limit, policies, key, cost });
        }
        Ok(parts)
    }
}

/// Parses the maximum wait of a request.
fn span_within(text: Option<&str>) -> Result<Span, ApiError> {
    /// Long enough for a queue, and short enough for proxies between the client and the service.
    const LONGEST: u64 = 10 * Span::MINUTE.as_micros();
    let Some(text) = text else {
        return Err(ApiError::malformed(format!(
            "the body lacks `within`, how long the request may wait: send {WAIT_EXAMPLE}"
        )));
    };
    let span = span_of("within", text)?;
    if span.as_micros() > LONGEST {
        return Err(ApiError::malformed(format!(
            "`within` is {span}, but must be from 0s to 10min"
        )));
    }
    Ok(span)
}

/// Validates the priority of a waiting request.
fn priority_of(priority: u64) -> Result<u8, ApiError> {
    let most = Queue::MAX_PRIORITIES - 1;
    u8::try_from(priority).ok().filter(|_| priority <= most).ok_or_else(|| {
        ApiError::malformed(format!(
            "`priority` is {priority}, but must be from 0, the highest, to {most}"
        ))
    })
}

/// Returns the beginning of a name that a client chose.
pub(super) fn shown(name: &str) -> String {
    let name: String = name.chars().take(64).collect();
    name.escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(json: &str) -> Result<Fields, ApiError> {
        body::parse(json.as_bytes(), EXAMPLE)
    }

    fn plain(fields: Fields) -> Result<Asked, ApiError> {
        fields.asked(Caller::Anyone, Call::Take, Form::Plain)
    }

    fn problem(json: &str) -> String {
        format!("{:?}", fields(json).and_then(plain).unwrap_err())
    }

    #[test]
    fn one_limit_or_several_are_asked_and_never_both() {
        let asked = |json: &str| fields(json).and_then(plain).unwrap();
        let one = asked(r#"{"limit":"a","key":"k","cost":3}"#);
        let names = |asked: &Asked| {
            asked.limits().iter().map(|limit| limit.name.to_owned()).collect::<Vec<_>>()
        };
        assert_eq!((names(&one), one.is_list()), (vec!["a".to_owned()], false));
        let two =
            asked(r#"{"limits":[{"limit":"a","key":"k"},{"limit":"b","key":"j","cost":{"p":2}}]}"#);
        assert_eq!((names(&two), two.is_list()), (vec!["a".to_owned(), "b".to_owned()], true));
        for (body, words) in [
            (r#"{"limits":[]}"#, "`limits` is empty"),
            (r#"{"limits":[{"limit":"a","key":"k"}],"limit":"b"}"#, "`limit` can't be combined"),
            (r#"{"limits":[{"limit":"a","key":"k"}],"key":"b"}"#, "`key` can't be combined"),
            (r#"{"limits":[{"limit":"a","key":"k"}],"cost":1}"#, "`cost` can't be combined"),
            (
                r#"{"limits":[{"limit":"a","key":"k"}],"policies":["gcra 1/s"]}"#,
                "`policies` can't be combined",
            ),
            (r#"{"limit":"a","key":"k","policies":"gcra 1/s"}"#, "a sequence"),
            (r#"{"limit":"a","key":"k","policies":[1]}"#, "a string"),
            (r#"{"limit":"a","key":"k","policies":null}"#, "null"),
            (r#"{"limits":[{"limit":"a","key":"k"},{"limit":"a","key":"j"}]}"#, "`a` twice"),
            (r#"{"limits":[{"limit":"a"}]}"#, "missing field `key`"),
            (r#"{"limits":[["a","k"]]}"#, "an object"),
            (r#"{"limits":[{"limit":"a","key":"k","limits":[]}]}"#, "unknown field `limits`"),
            (r#"{"limits":null}"#, "null"),
            (r#"{"limits":{"limit":"a","key":"k"}}"#, "a sequence"),
            (r#"{"key":"k"}"#, "lacks `limit`"),
            (r#"{"limit":"a"}"#, "lacks `key`"),
        ] {
            assert!(problem(body).contains(words), "{body}: {}", problem(body));
        }
    }

    #[test]
    fn the_number_of_limits_is_bounded() {
        let body = |count: usize| {
            let one = |number: usize| format!(r#"{{"limit":"l{number}","key":"k"}}"#);
            format!(r#"{{"limits":[{}]}}"#, (0..count).map(one).collect::<Vec<_>>().join(","))
        };
        assert!(fields(&body(16)).and_then(plain).is_ok());
        assert!(problem(&body(17)).contains("at most 16"));
    }

    #[test]
    fn a_wait_is_a_length_of_time_and_at_most_ten_minutes() {
        let span = |within: &str| {
            let body = format!(r#"{{"limit":"a","key":"k","within":{within}}}"#);
            let asked = fields(&body);
            let asked = asked.and_then(|it| it.asked(Caller::Anyone, Call::Take, Form::Waits));
            asked.map(|asked| asked.within.as_micros())
        };
        for (within, micros) in [
            (r#""500ms""#, 500_000),
            (r#""2s""#, 2_000_000),
            (r#""s""#, 1_000_000),
            (r#""10min""#, 600_000_000),
            (r#""0s""#, 0),
        ] {
            assert_eq!(span(within).unwrap(), micros, "{within}");
        }
        for nonsense in [
            r#""""#,
            r#""2""#,
            "2",
            "2.5",
            r#""2.5s""#,
            r#""-1s""#,
            r#""2m""#,
            r#""2 s""#,
            r#""1h""#,
            r#""601s""#,
            r#""99999999999999999999s""#,
            "null",
            "true",
            r#"["2s"]"#,
        ] {
            assert!(span(nonsense).is_err(), "{nonsense}");
        }
    }
}
