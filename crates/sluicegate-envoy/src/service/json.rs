//! Requests and answers of the rate limit service as JSON, in protobuf's form.

use std::borrow::Cow;
use std::fmt;

use prost_types::Struct;
use prost_types::value::Kind;
use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use tonic::Code;

use super::rate_limits::RateLimits;
use super::rights::Rights;
use super::rls::Answering as _;
use crate::protos::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use crate::protos::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry, RateLimitOverride,
};
use crate::protos::envoy::service::ratelimit::v3::rate_limit_response::{
    Code as Over, DescriptorStatus, RateLimit, rate_limit,
};
use crate::protos::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};

/// An answer to a request in JSON.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JsonAnswer {
    /// Status of HTTP: 200 for OK, 429 for over the limit, 400 for a request that can't be read, 500 if the store fails.
    pub status: u16,
    /// The answer as JSON, or a message.
    pub body: String,
}

impl RateLimits {
    /// Answers a request in JSON, as the incumbent does on `/json`.
    pub async fn answer_json(&self, body: &[u8]) -> JsonAnswer {
        let request = match serde_json::from_slice::<Request<'_>>(body) {
            Ok(request) => request.message(),
            Err(error) => {
                return JsonAnswer {
                    status: 400,
                    body: format!("the request can't be read: {error}"),
                };
            }
        };
        match self.answer(&request, &Rights::new(true, |_| Ok(()))).await {
            Ok(answer) => {
                let is_over = answer.overall_code == i32::from(Over::OverLimit);
                JsonAnswer { status: if is_over { 429 } else { 200 }, body: response(&answer) }
            }
            Err(error) => {
                let is_theirs = matches!(error.code(), Code::Unknown | Code::InvalidArgument);
                let status = if is_theirs { 400 } else { 500 };
                JsonAnswer { status, body: error.message().to_owned() }
            }
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Request<'j> {
    #[serde(borrow, deserialize_with = "or_default")]
    domain: Text<'j>,
    #[serde(borrow, deserialize_with = "or_default")]
    descriptors: Vec<Descriptor<'j>>,
    #[serde(alias = "hits_addend", deserialize_with = "or_default")]
    hits_addend: Number<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Descriptor<'j> {
    #[serde(borrow, deserialize_with = "or_default")]
    entries: Vec<DescriptorEntry<'j>>,
    limit: Option<Override>,
    #[serde(alias = "hits_addend")]
    hits_addend: Option<Number<u64>>,
    #[serde(alias = "is_negative_hits", deserialize_with = "or_default")]
    is_negative_hits: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct DescriptorEntry<'j> {
    #[serde(borrow, deserialize_with = "or_default")]
    key: Text<'j>,
    #[serde(borrow, deserialize_with = "or_default")]
    value: Text<'j>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Override {
    #[serde(alias = "requests_per_unit", deserialize_with = "or_default")]
    requests_per_unit: Number<u32>,
    #[serde(deserialize_with = "or_default")]
    unit: UnitNumber,
}

/// A text, borrowed if it has no escapes.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
struct Text<'j>(#[serde(borrow)] Cow<'j, str>);

/// A whole number, which may be in quotes.
#[derive(Clone, Copy, Debug, Default)]
struct Number<T>(T);

/// A unit by its name or number.
#[derive(Clone, Copy, Debug, Default)]
struct UnitNumber(i32);

/// Reads a value; `null` is the default.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl<'de, T: TryFrom<u64>> Deserialize<'de> for Number<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Whole;
        impl Visitor<'_> for Whole {
            type Value = u64;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number from 0 on")
            }

            fn visit_u64<E>(self, number: u64) -> Result<u64, E> {
                Ok(number)
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<u64, E> {
                let is_number = !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
                let number = text.parse().ok().filter(|_| is_number);
                number.ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }
        }
        let number = deserializer.deserialize_any(Whole)?;
        let fits = T::try_from(number).map(Self);
        fits.map_err(|_| D::Error::custom(format_args!("{number} is too large for this field")))
    }
}

impl<'de> Deserialize<'de> for UnitNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameOrNumber;
        impl Visitor<'_> for NameOrNumber {
            type Value = i32;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a unit such as MINUTE")
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<i32, E> {
                i32::try_from(number).map_err(E::custom)
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<i32, E> {
                let unit = rate_limit::Unit::from_str_name(name);
                unit.map(i32::from)
                    .ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(name), &self))
            }
        }
        deserializer.deserialize_any(NameOrNumber).map(Self)
    }
}

impl Request<'_> {
    fn message(self) -> RateLimitRequest {
        RateLimitRequest {
            domain: self.domain.0.into_owned(),
            descriptors: self.descriptors.into_iter().map(Descriptor::message).collect(),
            hits_addend: self.hits_addend.0,
        }
    }
}

impl Descriptor<'_> {
    fn message(self) -> RateLimitDescriptor {
        let entry = |entry: DescriptorEntry<'_>| Entry {
            key: entry.key.0.into_owned(),
            value: entry.value.0.into_owned(),
        };
        RateLimitDescriptor {
            entries: self.entries.into_iter().map(entry).collect(),
            limit: self.limit.map(|limit| RateLimitOverride {
                requests_per_unit: limit.requests_per_unit.0,
                unit: limit.unit.0,
            }),
            hits_addend: self.hits_addend.map(|hits| hits.0),
            is_negative_hits: self.is_negative_hits,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'m> {
    overall_code: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    statuses: Vec<Status<'m>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    response_headers_to_add: Vec<Header<'m>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dynamic_metadata: Option<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status<'m> {
    code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_limit: Option<CurrentLimit<'m>>,
    #[serde(skip_serializing_if = "is_zero")]
    limit_remaining: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_until_reset: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CurrentLimit<'m> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'m str,
    #[serde(skip_serializing_if = "is_zero")]
    requests_per_unit: u32,
    unit: &'static str,
}

#[derive(Serialize)]
struct Header<'m> {
    key: &'m str,
    value: &'m str,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn response(message: &RateLimitResponse) -> String {
    let header = |it: &'_ crate::protos::envoy::config::core::v3::HeaderValue| {
        (it.key.clone(), it.value.clone())
    };
    let headers: Vec<(String, String)> =
        message.response_headers_to_add.iter().map(header).collect();
    let response = Response {
        overall_code: code(message.overall_code),
        statuses: message.statuses.iter().map(status).collect(),
        response_headers_to_add: headers.iter().map(|(key, value)| Header { key, value }).collect(),
        dynamic_metadata: message.dynamic_metadata.as_ref().map(object),
    };
    // Texts, numbers and maps of them are always JSON.
    serde_json::to_string(&response).unwrap_or_default()
}

fn code(number: i32) -> &'static str {
    Over::try_from(number).unwrap_or(Over::Unknown).as_str_name()
}

fn status(message: &DescriptorStatus) -> Status<'_> {
    let limit = |limit: &RateLimit| rate_limit::Unit::try_from(limit.unit).unwrap_or_default();
    Status {
        code: code(message.code),
        current_limit: message.current_limit.as_ref().map(|it| CurrentLimit {
            name: &it.name,
            requests_per_unit: it.requests_per_unit,
            unit: limit(it).as_str_name(),
        }),
        limit_remaining: message.limit_remaining,
        duration_until_reset: message
            .duration_until_reset
            .as_ref()
            .map(|it| format!("{}s", it.seconds)),
    }
}

fn object(message: &Struct) -> Value {
    let fields = message.fields.iter();
    Value::Object(fields.map(|(name, it)| (name.clone(), value(it))).collect::<Map<_, _>>())
}

fn value(message: &prost_types::Value) -> Value {
    match &message.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(it)) => (*it).into(),
        Some(Kind::NumberValue(it)) => (*it).into(),
        Some(Kind::StringValue(it)) => it.as_str().into(),
        Some(Kind::ListValue(it)) => it.values.iter().map(value).collect(),
        Some(Kind::StructValue(it)) => object(it),
    }
}
