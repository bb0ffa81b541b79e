//! Requests and answers as messages.

use prost_types::value::Kind;
use prost_types::{Duration, ListValue, Struct, Value};
use sluicegate_core::{RequestError, RequestErrorKind};
use tonic::Status;

use crate::incumbent::{
    Answer, Code, Descriptor, Metadata, MetadataValue, Override, Request, Status as Descriptors,
    Unit,
};
use crate::protos::envoy::config::core::v3::HeaderValue;
use crate::protos::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use crate::protos::envoy::service::ratelimit::v3::rate_limit_response::{
    DescriptorStatus, RateLimit,
};
use crate::protos::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};

/// Maximum number of descriptors of a request: those that are decided in one call of the store.
const MOST_DESCRIPTORS: usize = 128;

/// Reads a request.
///
/// # Errors
/// Returns the status of a request that the incumbent refuses, or that has too many descriptors or an unknown unit.
pub(super) fn request(message: &RateLimitRequest) -> Result<Request<'_>, Status> {
    if message.domain.is_empty() {
        return Err(Status::unknown("rate limit domain must not be empty"));
    }
    if message.descriptors.is_empty() {
        return Err(Status::unknown("rate limit descriptor list must not be empty"));
    }
    if message.descriptors.len() > MOST_DESCRIPTORS {
        return Err(Status::invalid_argument(format!(
            "the request has {} descriptors, but may have at most {MOST_DESCRIPTORS}",
            message.descriptors.len()
        )));
    }
    let descriptors = message.descriptors.iter().map(descriptor).collect::<Result<_, Status>>()?;
    Ok(Request { domain: &message.domain, descriptors, hits_addend: message.hits_addend })
}

/// Writes an answer.
pub(super) fn response(answer: Answer) -> RateLimitResponse {
    let header = |(key, value)| HeaderValue { key, value, raw_value: Vec::new() };
    RateLimitResponse {
        overall_code: code(answer.code),
        statuses: answer.statuses.into_iter().map(status).collect(),
        response_headers_to_add: answer.response_headers.into_iter().map(header).collect(),
        dynamic_metadata: answer.dynamic_metadata.map(fields),
        ..RateLimitResponse::default()
    }
}

/// Returns the status of a request that wasn't decided.
pub(super) fn failure(error: &sluicegate::Error) -> Status {
    match error.as_request().map(RequestError::kind) {
        Some(RequestErrorKind::Invalid | RequestErrorKind::Overflow) => {
            Status::invalid_argument(error.to_string())
        }
        _ => Status::unavailable(error.to_string()),
    }
}

fn descriptor(message: &RateLimitDescriptor) -> Result<Descriptor<'_>, Status> {
    let limit = message.limit.as_ref().map(|limit| {
        Override::new(limit.requests_per_unit, limit.unit).ok_or_else(|| {
            let unit = limit.unit;
            Status::invalid_argument(format!("a descriptor's limit has the unknown unit {unit}"))
        })
    });
    let entries = message.entries.iter();
    Ok(Descriptor {
        entries: entries.map(|entry| (entry.key.as_str(), entry.value.as_str())).collect(),
        limit: limit.transpose()?,
        hits_addend: message.hits_addend,
        is_negative_hits: message.is_negative_hits,
    })
}

const fn code(code: Code) -> i32 {
    match code {
        Code::Ok => 1,
        Code::OverLimit => 2,
    }
}

fn status(status: Descriptors) -> DescriptorStatus {
    let reset = status
        .reset_seconds
        .map(|seconds| Duration { seconds: i64::try_from(seconds).unwrap_or(i64::MAX), nanos: 0 });
    DescriptorStatus {
        code: code(status.code),
        limit_remaining: status.remaining,
        duration_until_reset: reset,
        current_limit: status.current_limit.map(|limit| RateLimit {
            requests_per_unit: limit.requests_per_unit,
            unit: limit.unit.map_or(0, Unit::number),
            name: limit.name,
        }),
    }
}

/// Writes metadata.
pub(super) fn fields(metadata: Metadata) -> Struct {
    Struct { fields: metadata.into_iter().map(|(name, it)| (name, value(it))).collect() }
}

fn value(value: MetadataValue) -> Value {
    let kind = match value {
        MetadataValue::Null => Kind::NullValue(0),
        MetadataValue::Bool(it) => Kind::BoolValue(it),
        MetadataValue::Number(it) => Kind::NumberValue(it),
        MetadataValue::Text(it) => Kind::StringValue(it),
        MetadataValue::List(items) => {
            Kind::ListValue(ListValue { values: items.into_iter().map(self::value).collect() })
        }
        MetadataValue::Map(it) => Kind::StructValue(fields(it)),
    };
    Value { kind: Some(kind) }
}
