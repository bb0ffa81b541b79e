//! The ids of requests, by which one that is asked twice is charged once.

use std::fmt;

use crate::failure::{RequestError, RequestErrorKind};
use crate::limit::Limit;
use crate::repeats::Repeats;
use crate::request::{Action, Operation, Request};
use crate::time::Span;

/// Names one request about a subject under a limit, so that it is known when it comes again: 128 bits.
///
/// ```
/// use sluicegate_core::RequestId;
///
/// let id = RequestId::of("order-4711")?;
/// assert_eq!(id, RequestId::of(b"order-4711")?);
/// assert_ne!(id, RequestId::of("order-4712")?);
/// assert_eq!(RequestId::from_bytes([7; 16]).to_bytes(), [7; 16]);
/// assert!(RequestId::of("").is_err());
/// # Ok::<(), sluicegate_core::RequestIdError>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RequestId([u8; Self::BYTES]);

/// Text or bytes that can't name a request: none, or too many. Says how many there were.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RequestIdError(usize);

/// That a request is charged once, however often it is asked.
///
/// ```
/// use sluicegate_core::{Book, Limit, Now, Once, Request, RequestId, Span, step_with_books};
///
/// let limit = Limit::new("api".parse()?, vec!["fixed_window 10/h".parse()?])?;
/// let (mut held, mut books) = ([None], [Book::default()]);
/// let mut ask = |micros| {
///     let once = Once { id: RequestId::of("order-4711")?, lasts: Span::MINUTE };
///     let now = Now { micros, max_clock_back: None };
///     let request = Request::check(b"alice").once(once);
///     let decision = step_with_books(&limit, &request, now, &mut held, &mut books)?.decision;
///     Ok::<_, Box<dyn std::error::Error>>((decision.is_repeat(), decision.remaining()))
/// };
/// assert_eq!(ask(0)?, (false, Some(9)));
/// assert_eq!(ask(59_999_999)?, (true, Some(9)));
/// assert_eq!(ask(60_000_000)?, (false, Some(8)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Once {
    /// What the request is called. Its scope is the limit and the subject; of several limits together,
    /// those of the first.
    pub id: RequestId,
    /// For how long a repeat is known, counted from the decision: 1 s to a day.
    pub lasts: Span,
}

impl RequestId {
    /// How many bytes an id has.
    pub const BYTES: usize = 16;
    /// The most bytes of what an id is [made of](RequestId::of).
    pub const MAX_LEN: usize = 255;

    /// The id that some text, or any bytes, stand for: the same for the same bytes.
    ///
    /// # Errors
    /// [`RequestIdError`] unless there are 1 to 255 bytes.
    pub fn of(name: impl AsRef<[u8]>) -> Result<Self, RequestIdError> {
        let name = name.as_ref();
        if name.is_empty() || name.len() > Self::MAX_LEN {
            return Err(RequestIdError(name.len()));
        }
        Ok(Self(first_of(blake3::hash(name).as_bytes())))
    }

    /// The id of these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes of the id.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; Self::BYTES] {
        self.0
    }
}

/// Prints as 32 hexadecimal digits.
impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Display for RequestIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = RequestId::MAX_LEN;
        write!(f, "the id of a request has {} bytes: it takes 1 to {most}", self.0)
    }
}

impl std::error::Error for RequestIdError {}

impl From<RequestIdError> for RequestError {
    fn from(error: RequestIdError) -> Self {
        Self::new(RequestErrorKind::Invalid, error.to_string())
    }
}

impl Once {
    /// The shortest time for which a repeat is known.
    pub const MIN_LASTS: Span = Span::SECOND;
    /// The longest time for which a repeat is known.
    pub const MAX_LASTS: Span = Span::DAY;

    pub(crate) fn validate(
        &self,
        request: &Request<'_>,
        limit: &Limit,
    ) -> Result<(), RequestError> {
        use Operation::{Charge, Check, TakeUpTo};
        let (least, most) = (Self::MIN_LASTS, Self::MAX_LASTS);
        let message = if !matches!(request.action(), Action::Decide(Check | Charge | TakeUpTo)) {
            "only a check, a charge and a partial grant can have an id".to_owned()
        } else if request.leases().is_some_and(|leasing| leasing.want > 0) {
            "a request with an id can't want a lease too".to_owned()
        } else if !(least..=most).contains(&self.lasts) {
            let name = limit.name();
            format!(
                "an id under limit `{name}` can't last {}: it lasts from {least} to {most}",
                self.lasts
            )
        } else {
            return Ok(());
        };
        Err(RequestError::new(RequestErrorKind::Invalid, message))
    }
}

/// What a request asks, but for its ids and its time: two that ask the same have the same.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Asked([u8; Self::BYTES]);

impl Asked {
    /// How many bytes it has: enough to tell apart what somebody asks by one id.
    pub const BYTES: usize = 8;

    /// What a request asks of a limit: the operation, the subjects of all its parts, what each policy
    /// is to be charged, and for how long that is to be held.
    #[must_use]
    pub fn of(limit: &Limit, request: &Request<'_>) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&[request.action().code()]);
        let lasts = request.holds().map_or(0, |hold| hold.lasts.as_micros());
        hasher.update(&lasts.to_be_bytes());
        for (part, name) in limit.parts().iter().enumerate() {
            for word in [name.as_str().as_bytes(), request.subject(part)] {
                hasher.update(&(word.len() as u64).to_be_bytes());
                hasher.update(word);
            }
        }
        for (index, member) in limit.members().iter().enumerate() {
            let cost = request.cost_of(limit, index);
            if cost > 0 {
                hasher.update(&member.identity().to_bytes());
                hasher.update(&cost.to_be_bytes());
            }
        }
        Self(first_of(hasher.finalize().as_bytes()))
    }

    pub(crate) const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; Self::BYTES] {
        self.0
    }
}

impl RequestError {
    /// The error for a request whose id is that of one which asked something else. For stores.
    #[cold]
    #[must_use]
    pub fn asks_something_else(limit: &Limit) -> Self {
        Self::new(
            RequestErrorKind::Conflict,
            format!(
                "the id of the request is that of another one to limit `{}`, with another operation, cost, subject or hold: take a new id for each request, and repeat one as it was; nothing was charged",
                limit.name()
            ),
        )
    }

    /// The error where a subject has as many ids of requests as it may. For stores.
    #[cold]
    #[must_use]
    pub fn too_many_ids(limit: &Limit) -> Self {
        Self::new(
            RequestErrorKind::Full,
            format!(
                "limit `{}` remembers the ids of {} requests of one subject, the most there are: let them last less long, or ask without; nothing was charged",
                limit.name(),
                Repeats::MOST
            ),
        )
    }
}

fn first_of<const N: usize>(hash: &[u8; 32]) -> [u8; N] {
    std::array::from_fn(|place| hash[place])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hold::{Hold, HoldId};
    use crate::request::Costs;

    #[test]
    fn an_id_is_made_of_1_to_255_bytes() {
        assert!(RequestId::of([0; 255]).is_ok());
        assert_eq!(RequestId::of([0; 256]), Err(RequestIdError(256)));
        let error = RequestId::of("").unwrap_err();
        assert_eq!(error.to_string(), "the id of a request has 0 bytes: it takes 1 to 255");
        assert_eq!(RequestError::from(error).kind(), RequestErrorKind::Invalid);
        assert_eq!(RequestId::from_bytes([0xab; 16]).to_string(), "ab".repeat(16));
    }

    #[test]
    fn what_is_asked_is_all_but_ids_and_time() {
        let limit = |name: &str| {
            Limit::new(name.parse().unwrap(), vec!["gcra 9/s".parse().unwrap()]).unwrap()
        };
        let held = |byte, lasts| Hold { id: HoldId::from_bytes([byte; 16]), lasts };
        let (one, other) = (held(1, Span::MINUTE), held(2, Span::MINUTE));
        let longer = held(1, Span::HOUR);
        let check = Request::check(b"alice");
        let of = |request: &Request<'_>| Asked::of(&limit("l"), request);
        // The policy's own cost is 1.
        assert_eq!(of(&check), of(&check.costs(Costs::Each(&[1]))));
        assert_eq!(of(&check.hold(&one)), of(&check.hold(&other)));
        let all = [
            of(&check),
            of(&check.hold(&one)),
            of(&check.hold(&longer)),
            of(&check.costs(Costs::Each(&[2]))),
            of(&check.operation(Operation::Charge)),
            of(&check.operation(Operation::TakeUpTo)),
            of(&Request::check(b"alicf")),
            Asked::of(&limit("m"), &check),
        ];
        for (index, asked) in all.iter().enumerate() {
            assert!(!all[..index].contains(asked), "{index}");
        }
    }

    #[test]
    fn an_id_lasts_a_second_to_a_day_and_is_for_what_takes() {
        let limit = Limit::new("l".parse().unwrap(), vec!["gcra 9/s".parse().unwrap()]).unwrap();
        let id = RequestId::from_bytes([1; 16]);
        let valid = |operation, lasts| {
            let request = Request::new(operation, b"alice").once(Once { id, lasts });
            request.validate(&limit).map_err(|error| error.kind())
        };
        let (micro, invalid) = (Span::from_micros(1).unwrap(), Err(RequestErrorKind::Invalid));
        let just_below = Span::from_micros(999_999).unwrap();
        let just_above = Span::from_micros(Span::DAY.as_micros() + 1).unwrap();
        for operation in [Operation::Check, Operation::Charge, Operation::TakeUpTo] {
            assert_eq!(valid(operation, Span::SECOND), Ok(()));
            assert_eq!(valid(operation, Span::DAY), Ok(()));
            for lasts in [Span::ZERO, micro, just_below, just_above, Span::WEEK] {
                assert_eq!(valid(operation, lasts), invalid, "{lasts}");
            }
        }
        for operation in [
            Operation::Peek,
            Operation::Refund,
            Operation::Reset,
            Operation::Reserve { within: Span::SECOND },
        ] {
            assert_eq!(valid(operation, Span::SECOND), invalid, "{operation:?}");
        }
    }
}
