//! The messages to Envoy.

use std::collections::BTreeMap;

use prost_types::Duration;

use crate::protos::envoy::service::rate_limit_quota::v3::rate_limit_quota_response::BucketAction;
use crate::protos::envoy::service::rate_limit_quota::v3::rate_limit_quota_response::bucket_action::{
    AbandonAction, BucketAction as Action, QuotaAssignmentAction,
};
use crate::protos::envoy::service::rate_limit_quota::v3::{BucketId, RateLimitQuotaResponse};
use crate::protos::envoy::r#type::v3::rate_limit_strategy::{BlanketRule, Strategy};
use crate::protos::envoy::r#type::v3::{RateLimitStrategy, TokenBucket};
use crate::quota::Assignment;

/// A message for Envoy.
#[derive(Clone, Debug, PartialEq)]
pub struct Outgoing {
    /// The message.
    pub message: RateLimitQuotaResponse,
    /// The instant until which it must be handed to the network, in µs of the stopwatch. Its assignments would outlast
    /// their bookings if it arrived later.
    pub fresh_until: u64,
}

/// The entries of a bucket's id.
pub(super) type Id = BTreeMap<String, String>;

/// The answer for a bucket that gets no share.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Blanket {
    /// No limit is assigned to the bucket.
    Unlimited,
    /// Its key is on an allow list, or the limit is off.
    Allowed,
    /// Its key is blocked, banned or paused.
    Denied,
    /// The limit can't be assigned.
    Abandoned,
}

impl Blanket {
    /// Returns the seconds for which it is valid. An abandoned bucket is abandoned again if it reports a second later.
    pub(super) const fn seconds(self) -> u64 {
        match self {
            Self::Unlimited => 3_600,
            Self::Allowed | Self::Denied => 10,
            Self::Abandoned => 2,
        }
    }

    /// Returns the action for a bucket.
    pub(super) fn action(self, id: Id) -> BucketAction {
        let rule = match self {
            Self::Unlimited | Self::Allowed => BlanketRule::AllowAll,
            Self::Denied => BlanketRule::DenyAll,
            Self::Abandoned => return abandon(id),
        };
        assign(id, self.seconds(), Strategy::BlanketRule(rule.into()))
    }
}

/// Returns the action that assigns a share.
pub(super) fn assignment(id: Id, assignment: &Assignment) -> BucketAction {
    let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let bucket = TokenBucket {
        max_tokens: number(assignment.max_tokens),
        tokens_per_fill: Some(number(assignment.tokens_per_fill())),
        fill_interval: Some(seconds(assignment.numbers.interval())),
    };
    assign(id, assignment.seconds, Strategy::TokenBucket(bucket))
}

/// Returns the action that makes Envoy forget a bucket.
pub(super) fn abandon(id: Id) -> BucketAction {
    of(id, Action::AbandonAction(AbandonAction {}))
}

fn assign(id: Id, lasts: u64, strategy: Strategy) -> BucketAction {
    let action = QuotaAssignmentAction {
        assignment_time_to_live: Some(seconds(lasts)),
        rate_limit_strategy: Some(RateLimitStrategy { strategy: Some(strategy) }),
    };
    of(id, Action::QuotaAssignmentAction(action))
}

const fn of(bucket: Id, action: Action) -> BucketAction {
    BucketAction { bucket_id: Some(BucketId { bucket }), bucket_action: Some(action) }
}

fn seconds(seconds: u64) -> Duration {
    Duration { seconds: i64::try_from(seconds).unwrap_or(i64::MAX), nanos: 0 }
}
