//! The parts of a [`Policy`](crate::Policy) and of a [`Limit`](crate::Limit).

pub use sluicegate_core::{
    Algorithm, Ban, CalendarUnit, CalendarWindow, Cost, DeniedCharge, Enforcement, IntoPolicy,
    LimitName, LogTier, Member, OnExpiry, PolicyName, Queue, Start, Window,
};
