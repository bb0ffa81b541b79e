//! The details of a status, beyond its code and message.

use std::borrow::Cow;

use sluicegate_core::RetryAfter;

use super::protobuf::Message;
use super::{GrpcCode, GrpcStatus};

/// The details of a status, defined in `google/rpc/error_details.proto`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Details {
    pub(super) reason: &'static str,
    pub(super) domain: Cow<'static, str>,
    pub(super) limit: Option<String>,
    pub(super) violations: Vec<Violation>,
    pub(super) retry: Option<RetryAfter>,
}

/// A policy that refused.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Violation {
    pub(super) policy: String,
    pub(super) quota: Option<u64>,
}

impl Default for Details {
    fn default() -> Self {
        Self::of("")
    }
}

impl Details {
    pub(super) const fn of(reason: &'static str) -> Self {
        Self {
            reason,
            domain: Cow::Borrowed(GrpcStatus::DOMAIN),
            limit: None,
            violations: Vec::new(),
            retry: None,
        }
    }

    /// Encodes a `google.rpc.Status`.
    pub(super) fn encode(&self, code: GrpcCode, message: &str) -> Vec<u8> {
        let mut status = Message::default().number(1, code.number().into()).text(2, message);
        status = status.message(3, &any("google.rpc.ErrorInfo", &self.error_info()));
        if !self.violations.is_empty() {
            status = status.message(3, &any("google.rpc.QuotaFailure", &self.quota_failure()));
        }
        if let Some(RetryAfter::After(span)) = self.retry {
            let micros = span.as_micros();
            let delay = Message::default()
                .number(1, micros / 1_000_000)
                .number(2, micros % 1_000_000 * 1_000);
            let info = Message::default().message(1, &delay);
            status = status.message(3, &any("google.rpc.RetryInfo", &info));
        }
        status.into_bytes()
    }

    fn error_info(&self) -> Message {
        let info = Message::default().text(1, self.reason).text(2, &self.domain);
        match &self.limit {
            Some(limit) => info.message(3, &Message::default().text(1, "limit").text(2, limit)),
            None => info,
        }
    }

    fn quota_failure(&self) -> Message {
        self.violations.iter().fold(Message::default(), |failure, Violation { policy, quota }| {
            let description = match quota {
                Some(quota) => format!("exceeds the {quota} units of policy {policy}"),
                None => format!("exceeds policy {policy}"),
            };
            let violation = Message::default()
                .text(1, &format!("policy:{policy}"))
                .text(2, &description)
                .text(5, policy)
                .number(7, quota.unwrap_or_default());
            failure.message(1, &violation)
        })
    }
}

/// Wraps a message in a `google.protobuf.Any`.
fn any(type_name: &str, message: &Message) -> Message {
    Message::default().text(1, &format!("type.googleapis.com/{type_name}")).message(2, message)
}
