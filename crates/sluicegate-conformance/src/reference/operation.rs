//! The model's operations.

use sluicegate_core::{self as core, Cost, Span};

/// The source of a request's time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Clock {
    /// The caller's time. An earlier time is evaluated at the newest one, however far back it is.
    Injected,
    /// The store's own clock. A state further ahead than the maximum is restamped to now.
    Own {
        /// The furthest step back, in microseconds, during which a key's time stands still.
        max_clock_back_us: u64,
    },
}

/// The units of an operation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Costs {
    /// Each policy's own cost.
    Unsaid,
    /// One number for all policies, at least 1.
    All(u64),
    /// One number per policy in their order; 0 leaves the policy out.
    Each(Vec<u64>),
}

/// One request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Operation {
    /// Take the cost, or be denied.
    Check {
        /// The cost.
        costs: Costs,
    },
    /// Answer like a check, but change nothing.
    Peek {
        /// The cost.
        costs: Costs,
    },
    /// Take the cost now, and act later.
    Reserve {
        /// The cost.
        costs: Costs,
        /// The longest wait accepted, in microseconds.
        within_us: u64,
    },
    /// Take the largest cost that passes, up to the one given.
    Take {
        /// The maximum number of units.
        costs: Costs,
    },
    /// Take the cost unconditionally, into debt if necessary.
    Charge {
        /// The cost.
        costs: Costs,
    },
    /// Give units back, even if another request took them.
    Refund {
        /// The units to give back.
        costs: Costs,
    },
    /// Give back the units of an earlier charge that haven't flowed back yet.
    GiveBack {
        /// The units that were taken.
        costs: Costs,
        /// The time of the charge, in microseconds since the Unix epoch.
        taken_at_us: u64,
    },
    /// Forget the key.
    Reset,
    /// Ban the key manually.
    Ban {
        /// The duration, in microseconds.
        lasts_us: u64,
    },
    /// Lift the key's ban.
    Unban,
    /// Pause the key.
    Pause {
        /// The duration, in microseconds.
        lasts_us: u64,
        /// The index of the policy to pause; `None` for the whole limit.
        policy: Option<usize>,
    },
    /// End the key's pauses.
    Resume {
        /// The index of the policy whose pause ends; `None` for all pauses.
        policy: Option<usize>,
    },
}

impl Operation {
    /// Returns the operation and its costs in the form that a store takes.
    ///
    /// # Panics
    /// Panics if the cost for all policies or the longest wait is out of range.
    #[must_use]
    #[expect(
        clippy::expect_used,
        reason = "schedules have numbers in range; a test with others must fail"
    )]
    pub fn for_store(&self) -> (core::Operation<'static>, core::Costs<'_>) {
        let (operation, costs) = match self {
            Self::Check { costs } => (core::Operation::Check, costs),
            Self::Peek { costs } => (core::Operation::Peek, costs),
            Self::Reserve { costs, within_us } => {
                let within = Span::from_micros(*within_us).expect("a wait of at most 2^53 - 1");
                (core::Operation::Reserve { within }, costs)
            }
            Self::Take { costs } => (core::Operation::Take, costs),
            Self::Charge { costs } => (core::Operation::Charge, costs),
            Self::Refund { costs } => (core::Operation::Refund, costs),
            Self::GiveBack { costs, taken_at_us } => {
                let taken_at = core::Timestamp::from_micros_clamped(*taken_at_us);
                (core::Operation::GiveBack { taken_at }, costs)
            }
            Self::Reset => (core::Operation::Reset, &Costs::Unsaid),
            Self::Ban { lasts_us } => {
                let lasts = Span::from_micros(*lasts_us).expect("a ban of at most 2^53 - 1");
                (core::Operation::Ban { lasts }, &Costs::Unsaid)
            }
            Self::Unban => (core::Operation::Unban, &Costs::Unsaid),
            Self::Pause { lasts_us, policy } => {
                let lasts = Span::from_micros(*lasts_us).expect("a pause of at most 2^53 - 1");
                let policy = policy.map(index);
                (core::Operation::Pause { lasts, policy }, &Costs::Unsaid)
            }
            Self::Resume { policy } => {
                (core::Operation::Resume { policy: policy.map(index) }, &Costs::Unsaid)
            }
        };
        let costs = match costs {
            Costs::Unsaid => core::Costs::Own,
            Costs::All(units) => {
                core::Costs::Same(Cost::new(*units).expect("a cost from 1 to 2^53 - 1"))
            }
            Costs::Each(units) => core::Costs::Each(units),
        };
        (operation, costs)
    }

    /// Returns `true` if the operation takes permits.
    pub(super) const fn takes(&self) -> bool {
        !matches!(
            self,
            Self::Peek { .. }
                | Self::Refund { .. }
                | Self::Reset
                | Self::Ban { .. }
                | Self::Unban
                | Self::Pause { .. }
                | Self::Resume { .. }
        )
    }

    /// Returns `true` if a ban or a pause can refuse the operation.
    pub(super) const fn is_refusable(&self) -> bool {
        matches!(
            self,
            Self::Check { .. } | Self::Peek { .. } | Self::Reserve { .. } | Self::Take { .. }
        )
    }

    /// Returns `true` if the operation sets or ends pauses.
    pub(super) const fn changes_pauses(&self) -> bool {
        matches!(self, Self::Pause { .. } | Self::Resume { .. })
    }

    /// Returns the units for the policy at `index`, whose own cost is `default`.
    pub(super) fn units_for(&self, index: usize, default: u64) -> u64 {
        match self {
            Self::Check { costs }
            | Self::Peek { costs }
            | Self::Reserve { costs, .. }
            | Self::Take { costs }
            | Self::Charge { costs }
            | Self::Refund { costs }
            | Self::GiveBack { costs, .. } => match costs {
                Costs::Unsaid => default,
                Costs::All(units) => *units,
                Costs::Each(units) => units.get(index).copied().unwrap_or(default),
            },
            Self::Reset
            | Self::Ban { .. }
            | Self::Unban
            | Self::Pause { .. }
            | Self::Resume { .. } => 0,
        }
    }
}

/// Returns the index of a policy in the form that a store takes.
#[expect(clippy::expect_used, reason = "a limit has at most 64 policies")]
fn index(policy: usize) -> u8 {
    policy.try_into().expect("an index below 64")
}
