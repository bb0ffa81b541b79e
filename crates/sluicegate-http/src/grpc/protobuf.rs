//! The messages of `google/rpc/status.proto` and `error_details.proto`, with the fields that a
//! refusal sets.

use std::collections::BTreeMap;

use prost::Message;

/// `google.rpc.Status`: the code, the message and the details.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Status(
    #[prost(int32, tag = "1")] pub(super) i32,
    #[prost(string, tag = "2")] pub(super) String,
    #[prost(message, repeated, tag = "3")] pub(super) Vec<Any>,
);

/// `google.protobuf.Any`: the URL of the type, and an encoded message.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Any(
    #[prost(string, tag = "1")] String,
    #[prost(bytes = "vec", tag = "2")] Vec<u8>,
);

/// `google.rpc.ErrorInfo`: the reason, the domain and metadata.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ErrorInfo(
    #[prost(string, tag = "1")] pub(super) String,
    #[prost(string, tag = "2")] pub(super) String,
    #[prost(btree_map = "string, string", tag = "3")] pub(super) BTreeMap<String, String>,
);

/// `google.rpc.QuotaFailure`: the violations.
#[derive(Clone, PartialEq, Message)]
pub(super) struct QuotaFailure(#[prost(message, repeated, tag = "1")] pub(super) Vec<Violation>);

/// `google.rpc.QuotaFailure.Violation`: the subject, a description, and the id and value of the quota.
#[derive(Clone, Eq, PartialEq, Message)]
pub(super) struct Violation(
    #[prost(string, tag = "1")] String,
    #[prost(string, tag = "2")] String,
    #[prost(string, tag = "5")] String,
    #[prost(int64, tag = "7")] i64,
);

/// `google.rpc.RetryInfo`: the delay.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RetryInfo(#[prost(message, tag = "1")] pub(super) Option<Duration>);

/// `google.protobuf.Duration`: seconds and nanoseconds.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Duration(
    #[prost(int64, tag = "1")] pub(super) i64,
    #[prost(int32, tag = "2")] pub(super) i32,
);

impl Any {
    /// Wraps a message of `google.rpc`.
    pub(super) fn of(name: &str, message: &impl Message) -> Self {
        Self(format!("type.googleapis.com/google.rpc.{name}"), message.encode_to_vec())
    }
}

impl Violation {
    /// Returns the violation of a policy, whose quota may be known.
    pub(super) fn of(policy: String, quota: Option<u64>) -> Self {
        let description = match quota {
            Some(quota) => format!("exceeds the {quota} units of policy {policy}"),
            None => format!("exceeds policy {policy}"),
        };
        let quota = quota.unwrap_or_default().cast_signed();
        Self(format!("policy:{policy}"), description, policy, quota)
    }
}
