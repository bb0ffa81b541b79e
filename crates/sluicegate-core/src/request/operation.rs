//! The operations on a subject's states and holds.

use crate::ban::Ban;
use crate::failure::{RequestError, RequestErrorKind};
use crate::hold::HoldId;
use crate::limit::Limit;
use crate::pause;
use crate::receipt::Receipt;
use crate::time::{Span, Timestamp};

/// An operation on a subject's states and holds. Exhaustive, because a store must handle each of
/// them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Operation<'a> {
    /// Ban the subject manually, regardless of its denials. An existing ban that ends later is
    /// kept. Only for limits with a [`Ban`](crate::Ban). The decision is that of a peek at no cost,
    /// and names the ban.
    Ban {
        /// Length of the ban from now on: 1 s to 30 d.
        lasts: Span,
    },
    /// Undo a reservation, if no request was charged after it. If it
    /// [has a queue position](crate::Request::in_line_as), its turn can go to others instead. The
    /// decision is allowed if either happened, and lists no policies.
    Cancel(&'a Receipt),
    /// Take the cost unconditionally, going into debt if necessary.
    Charge,
    /// Take the cost, or be denied.
    Check,
    /// Answer like a check, but write nothing.
    Peek,
    /// Give back the units of an allowed request with these costs that haven't flowed back yet. The
    /// amount is never more than the request still withholds from others, so repeated calls gain
    /// nothing.
    GiveBack {
        /// [`Decision::taken_at`](crate::Decision::taken_at) of that request.
        taken_at: Timestamp,
    },
    /// Lift the subject's ban, and forget its denials and earlier bans. Only for limits with a
    /// [`Ban`](crate::Ban). The decision is that of a peek at no cost, and
    /// [reports](crate::Decision::forgotten) whether there was a ban.
    Unban,
    /// Give the cost back, even if another request took it.
    Refund,
    /// Refuse every request for the subject for some time. A pause that ends later is kept. The
    /// decision is that of a peek at no cost, and names the [pause](crate::Decision::pause).
    Pause {
        /// Length of the pause from now on: at least 1 ms.
        lasts: Span,
        /// The index in [`Limit::members`](crate::Limit::members) of the policy to pause; `None`
        /// for the whole limit.
        policy: Option<u8>,
    },
    /// Extend the hold of an earlier request. The decision is like that of [`Operation::Settle`].
    Renew {
        /// The id of the record.
        id: HoldId,
        /// New lifetime of the record from now on: 1 ms to a day.
        lasts: Span,
    },
    /// Take the cost now and return when to act. Only for limits of the bucket family.
    Reserve {
        /// The longest wait the caller accepts.
        within: Span,
    },
    /// Forget the subject.
    Reset,
    /// End the subject's pauses. The decision is that of a peek at no cost, and
    /// [reports](crate::Decision::forgotten) whether there was a pause.
    Resume {
        /// The index in [`Limit::members`](crate::Limit::members) of the policy whose pause ends;
        /// `None` for all pauses.
        policy: Option<u8>,
    },
    /// Settle the [hold](crate::Request::hold) of an earlier request with the units really used.
    /// The decision is that of a subsequent peek at no cost, and has
    /// [the result](crate::Decision::hold_found). It is allowed unless no hold was found.
    Settle {
        /// The id of the record.
        id: HoldId,
        /// The units that were used, one number per policy from 0 to 2^53 − 1, in the order of the
        /// limit. `None`, or a missing entry, stands for all units that the policy charged.
        used: &'a [Option<u64>],
    },
    /// Read the slices of a limit that is a ring, without writing. The decision is that of a peek,
    /// and [has the slices](crate::Decision::slices).
    Slices,
    /// Take as many units as every policy admits, up to the cost.
    Take,
}

/// The purpose of a request. It determines which lists of keys apply, and the decision if the store
/// fails.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Purpose {
    /// To admit a request, or to read without writing. Allow and block lists apply.
    Admit,
    /// To account for an admitted request. Allow lists apply, block lists don't.
    Settle,
    /// To change the state of a key manually. No list applies.
    Forget,
}

impl Operation<'_> {
    /// Returns the name in paths of the service and in logs: that of the variant in snake case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Peek => "peek",
            Self::Reserve { .. } => "reserve",
            Self::Take => "take",
            Self::Charge => "charge",
            Self::Refund => "refund",
            Self::GiveBack { .. } => "give_back",
            Self::Slices => "slices",
            Self::Reset => "reset",
            Self::Settle { .. } => "settle",
            Self::Renew { .. } => "renew",
            Self::Cancel(_) => "cancel",
            Self::Ban { .. } => "ban",
            Self::Unban => "unban",
            Self::Pause { .. } => "pause",
            Self::Resume { .. } => "resume",
        }
    }

    /// Returns the number of the operation in the protocol with scripts in other languages.
    ///
    /// It is stored with [ids of requests](crate::RequestId) and never changes.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Check => 1,
            Self::Peek => 2,
            Self::Reserve { .. } => 3,
            Self::Take => 4,
            Self::Charge => 5,
            Self::Refund => 6,
            Self::GiveBack { .. } => 7,
            Self::Slices => 8,
            Self::Reset => 9,
            Self::Settle { .. } => 10,
            Self::Renew { .. } => 11,
            Self::Cancel(_) => 12,
            Self::Ban { .. } => 14,
            Self::Unban => 15,
            Self::Pause { .. } => 16,
            Self::Resume { .. } => 17,
        }
    }

    /// Returns the purpose of the operation.
    #[must_use]
    pub const fn purpose(self) -> Purpose {
        match self {
            Self::Check | Self::Peek | Self::Reserve { .. } | Self::Take | Self::Slices => {
                Purpose::Admit
            }
            Self::Charge
            | Self::Refund
            | Self::GiveBack { .. }
            | Self::Settle { .. }
            | Self::Renew { .. }
            | Self::Cancel(_) => Purpose::Settle,
            Self::Reset
            | Self::Ban { .. }
            | Self::Unban
            | Self::Pause { .. }
            | Self::Resume { .. } => Purpose::Forget,
        }
    }

    /// Returns `true` if the operation uses the cost of a request.
    #[must_use]
    pub const fn has_cost(self) -> bool {
        matches!(self.purpose(), Purpose::Admit) || self.adjusts()
    }

    /// Returns `true` if a service reserves the operation for administrators.
    #[must_use]
    pub const fn is_administrative(self) -> bool {
        matches!(self.purpose(), Purpose::Forget) || self.adjusts()
    }

    /// Returns `true` if the operation charges or gives back a cost unconditionally.
    const fn adjusts(self) -> bool {
        matches!(self, Self::Charge | Self::Refund | Self::GiveBack { .. })
    }

    /// Returns the longest wait that the caller of a reservation accepts, in µs.
    #[must_use]
    pub const fn within(self) -> Option<u64> {
        match self {
            Self::Reserve { within } => Some(within.as_micros()),
            _ => None,
        }
    }

    /// Returns when the units to give back were taken, in µs since the epoch.
    #[must_use]
    pub const fn taken_at(self) -> Option<u64> {
        match self {
            Self::GiveBack { taken_at } => Some(taken_at.as_micros()),
            _ => None,
        }
    }

    /// Returns `true` if an allowed request takes units.
    pub(crate) const fn takes(self) -> bool {
        matches!(self, Self::Check | Self::Reserve { .. } | Self::Take | Self::Charge)
    }

    /// Returns `true` if an allowed request is granted its cost, even if a peek only reports it.
    pub(crate) const fn grants(self) -> bool {
        self.takes() || matches!(self, Self::Peek)
    }

    /// Returns `true` if a request with this operation can [hold](crate::Request::hold) its units,
    /// and have [an id](crate::Request::idempotent).
    #[must_use]
    pub const fn can_hold(self) -> bool {
        matches!(self, Self::Check | Self::Take | Self::Charge)
    }

    /// Returns the policy that the operation pauses or resumes, by its index; `None` for the whole
    /// limit and for other operations.
    #[must_use]
    pub const fn paused_policy(self) -> Option<usize> {
        match self {
            Self::Pause { policy: Some(policy), .. } | Self::Resume { policy: Some(policy) } => {
                Some(policy as usize)
            }
            _ => None,
        }
    }

    /// Returns `true` if the operation sets or ends pauses.
    #[must_use]
    pub const fn changes_pauses(self) -> bool {
        matches!(self, Self::Pause { .. } | Self::Resume { .. })
    }

    /// Returns `true` if a ban or a pause refuses the operation.
    pub(crate) const fn heeds_bans(self) -> bool {
        matches!(self, Self::Check | Self::Peek | Self::Reserve { .. } | Self::Take)
    }

    pub(super) fn validate(self, limit: &Limit) -> Result<(), RequestError> {
        if let Self::Ban { .. } | Self::Unban = self {
            return self.validate_ban(limit);
        }
        if self.changes_pauses() {
            return self.validate_pause(limit);
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

    fn validate_pause(self, limit: &Limit) -> Result<(), RequestError> {
        let name = limit.name();
        let invalid = |message| Err(RequestError::new(RequestErrorKind::Invalid, message));
        let shortest = pause::SHORTEST;
        let policies = limit.members().len();
        match self {
            _ if limit.parts().len() > 1 => Err(RequestError::new(
                RequestErrorKind::Unsupported,
                format!(
                    "limit `{name}` combines several limits: pause the subjects under each of them"
                ),
            )),
            Self::Pause { lasts, .. } if lasts < shortest => {
                invalid(format!("a pause can't last {lasts}: write {shortest} or longer"))
            }
            _ if self.paused_policy().is_some_and(|policy| policy >= policies) => invalid(format!(
                "limit `{name}` has {policies} policies: name one of them, or none for all"
            )),
            _ => Ok(()),
        }
    }

    fn validate_ban(self, limit: &Limit) -> Result<(), RequestError> {
        let name = limit.name();
        let unsupported = |message| Err(RequestError::new(RequestErrorKind::Unsupported, message));
        if limit.parts().len() > 1 {
            return unsupported(format!(
                "limit `{name}` combines several limits: ban the subjects under each of them"
            ));
        }
        if !limit.has_bans() {
            return unsupported(format!(
                "limit `{name}` has no bans: give it a `ban`, such as `5/1min for 15min`"
            ));
        }
        let (shortest, longest) = (Span::from(Ban::SHORTEST), Span::from(Ban::LONGEST));
        match self {
            Self::Ban { lasts } if !(shortest..=longest).contains(&lasts) => {
                let lasts = lasts.in_words();
                Err(RequestError::new(
                    RequestErrorKind::Invalid,
                    format!("a ban can't last {lasts}: write a time from {shortest} to {longest}"),
                ))
            }
            _ => Ok(()),
        }
    }
}
