//! Support for the code that `#[limit(…)]` generates.

mod call;
mod from_denied;
mod held;
mod installed;
#[allow(missing_docs, reason = "called by generated code alone")]
mod key;
mod name;
mod opened;
#[allow(missing_docs, reason = "called by generated code alone")]
mod resolve;
#[allow(missing_docs, reason = "called by generated code alone")]
mod site;

use std::time::Duration;

use sluicegate_core::{Cost, Error, StoreError};

use crate::denied::Denied;
use crate::pause_on;

pub use call::{Answer, Call, Peeked, Taken};
pub use from_denied::FromDenied;
pub use held::{Held, Said};
pub use installed::{install, installed};
pub use key::{
    Component, Copied, Key, KeyPart, KeyWriter, OnMissing, PutCopied, PutDisplay, PutOption,
};
pub use resolve::{Answers, AnswersNow, Resolve, ResolveFuture};
pub use site::{AsRegistry, Part, Site};

/// Returns the store's failure, if that is why a call is denied.
#[must_use]
pub fn store_failure(denied: &Denied) -> Option<&StoreError> {
    denied.error().and_then(Error::as_store)
}

/// Runs a body in which a `return` ends only the body.
pub fn run<R>(body: impl FnOnce() -> R) -> R {
    body()
}

/// Returns whether the predicate holds for a result.
pub fn holds<R>(result: &R, predicate: impl FnOnce(&R) -> bool) -> bool {
    predicate(result)
}

/// Returns the length of the pause that a result causes, if any.
pub fn pause_of<R>(result: &R, pause_on: impl FnOnce(&R) -> Option<Duration>) -> Option<Duration> {
    pause_on::length(pause_on(result))
}

/// Converts a denial to the value that a denied call returns.
pub fn answer<R>(denied: Denied, make: impl FnOnce(Denied) -> R) -> R {
    make(denied)
}

/// A cost. If its type is inferred, it is a `u64`, because method lookup finds the method below before those of the
/// trait.
#[derive(Debug)]
pub struct Units<C>(pub C);

impl Units<u64> {
    /// Returns the number.
    #[inline]
    #[must_use]
    pub const fn units(self) -> u64 {
        self.0
    }
}

/// Conversion of costs of other types.
pub trait OtherUnits<C>: Sized {
    /// Returns the number.
    fn units(self) -> u64
    where
        C: IntoUnits;
}

impl<C> OtherUnits<C> for Units<C> {
    #[inline]
    fn units(self) -> u64
    where
        C: IntoUnits,
    {
        self.0.into_units()
    }
}

/// Whole numbers that can't be negative.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a cost",
    label = "not an unsigned integer",
    note = "a cost is a `u8`, `u16`, `u32`, `u64`, `usize` or `sluicegate::policy::Cost`: convert it with `u64::try_from(…)`, and handle the error"
)]
pub trait IntoUnits {
    /// Returns the number.
    fn into_units(self) -> u64;
}

macro_rules! into_units {
    ($number:ident: $units:expr; $($type:ty),*) => {$(
        impl IntoUnits for $type {
            #[inline]
            fn into_units(self) -> u64 {
                let $number = self;
                $units
            }
        }

        impl IntoUnits for &$type {
            #[inline]
            fn into_units(self) -> u64 {
                (*self).into_units()
            }
        }
    )*};
}

into_units!(number: u64::from(number); u8, u16, u32);
into_units!(number: number; u64);
// A number that doesn't fit exceeds what any limit admits.
into_units!(number: u64::try_from(number).unwrap_or(u64::MAX); usize);
into_units!(cost: cost.get(); Cost);
