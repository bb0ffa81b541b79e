//! What is to be done with a subject's states.

use crate::ban::Ban;
use crate::failure::{RequestError, RequestErrorKind};
use crate::limit::Limit;
use crate::time::{Span, Timestamp};

/// What to do with a subject's states.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Operation {
    /// Ban the subject manually, regardless of its denials. A ban that ends later stays. Only for limits
    /// with a [`Ban`](crate::Ban). The decision is that of a peek at no cost, and names the ban.
    Ban {
        /// How long the ban lasts from now on: 1 s to 30 d.
        lasts: Span,
    },
    /// Take the cost in any case, going into debt if necessary.
    Charge,
    /// Take the cost, or be denied.
    Check,
    /// Answer like a check, but write nothing.
    Peek,
    /// Give back what is left of the same costs that an allowed request took: never more than they
    /// still withhold from others, so that nobody gains by asking again and again.
    GiveBack {
        /// [`Decision::taken_at`](crate::Decision::taken_at) of that request.
        taken_at: Timestamp,
    },
    /// Lift the subject's ban, and forget its denials and earlier bans. Only for limits with a
    /// [`Ban`](crate::Ban). The decision is that of a peek at no cost, and says whether there was a ban
    /// ([`Decision::forgotten`](crate::Decision::forgotten)).
    LiftBan,
    /// Give the cost back, whoever took it.
    Refund,
    /// Take the cost now and learn when to act. Only for limits of the bucket family.
    Reserve {
        /// The longest wait the caller accepts.
        within: Span,
    },
    /// Forget the subject.
    Reset,
    /// Take as much as every policy admits, up to the cost.
    TakeUpTo,
}

impl Operation {
    /// The longest wait that the caller of a reservation accepts, in µs.
    #[must_use]
    pub const fn within(self) -> Option<u64> {
        match self {
            Self::Reserve { within } => Some(within.as_micros()),
            _ => None,
        }
    }

    /// Whether an allowed request takes units.
    pub(crate) const fn takes(self) -> bool {
        matches!(self, Self::Check | Self::Reserve { .. } | Self::TakeUpTo | Self::Charge)
    }

    /// Whether an allowed request is granted what it asks for, be it only in words.
    pub(crate) const fn grants(self) -> bool {
        self.takes() || matches!(self, Self::Peek)
    }

    /// Whether a ban refuses it.
    pub(crate) const fn heeds_bans(self) -> bool {
        matches!(self, Self::Check | Self::Peek | Self::Reserve { .. } | Self::TakeUpTo)
    }

    pub(super) fn validate(self, limit: &Limit) -> Result<(), RequestError> {
        if let Self::Ban { .. } | Self::LiftBan = self {
            return self.validate_ban(limit);
        }
        if !matches!(self, Self::Reserve { .. }) || limit.can_reserve() {
            return Ok(());
        }
        Err(RequestError::new(
            RequestErrorKind::Unsupported,
            format!(
                "limit `{}` can't reserve: every policy has to be of the bucket family \
                 (token_bucket, gcra, leaky_bucket, shaper, smooth, warmup)",
                limit.name()
            ),
        ))
    }

    fn validate_ban(self, limit: &Limit) -> Result<(), RequestError> {
        let name = limit.name();
        let unsupported = |message| Err(RequestError::new(RequestErrorKind::Unsupported, message));
        if limit.parts().len() > 1 {
            return unsupported(format!(
                "limit `{name}` is several together: ban subjects under each of them by itself"
            ));
        }
        if !limit.has_bans() {
            return unsupported(format!(
                "limit `{name}` bans nobody: give it a `ban`, such as `5/1min for 15min`"
            ));
        }
        let (shortest, longest) = (Ban::SHORTEST, Ban::LONGEST);
        match self {
            Self::Ban { lasts } if !(shortest..=longest).contains(&lasts) => {
                Err(RequestError::new(
                    RequestErrorKind::Invalid,
                    format!("a ban can't last {lasts}: it lasts from {shortest} to {longest}"),
                ))
            }
            _ => Ok(()),
        }
    }
}
