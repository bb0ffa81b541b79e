//! The details of a status, beyond its code and message.

use std::borrow::Cow;

use prost::Message as _;
use sluicegate_core::RetryAfter;

use super::protobuf::{Any, Duration, ErrorInfo, QuotaFailure, RetryInfo, Status, Violation};
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
        let limit = self.limit.iter().map(|limit| ("limit".to_owned(), limit.clone())).collect();
        let info = ErrorInfo(self.reason.to_owned(), self.domain.to_string(), limit);
        let mut details = vec![Any::of("ErrorInfo", &info)];
        if !self.violations.is_empty() {
            details.push(Any::of("QuotaFailure", &QuotaFailure(self.violations.clone())));
        }
        if let Some(RetryAfter::After(delay)) = self.retry {
            let delay = Duration(delay.as_secs().cast_signed(), delay.subsec_nanos().cast_signed());
            details.push(Any::of("RetryInfo", &RetryInfo(Some(delay))));
        }
        Status(code.number().into(), message.to_owned(), details).encode_to_vec()
    }
}
