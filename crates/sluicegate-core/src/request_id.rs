//! The ids of requests, with which a repeated request is charged once.

use std::fmt;
use std::time::Duration;

use crate::failure::{RequestError, RequestErrorKind};

/// A 128-bit id of a request about a subject under a limit, which identifies its repeats.
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

/// The error for an id's text or bytes that are empty or too long, with their length.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RequestIdError(usize);

/// The idempotency of a request: it is charged once, even if it is repeated.
///
/// ```
/// use std::time::Duration;
/// use sluicegate_core::for_stores::{Book, Now, step_with_books};
/// use sluicegate_core::{Limit, Idempotency, Request, RequestId};
///
/// let limit = Limit::new("api", vec!["fixed_window 10/h"])?;
/// let (mut held, mut books) = ([None], [Book::default()]);
/// let mut ask = |micros| {
///     let lasts = Duration::from_secs(60);
///     let once = Idempotency { id: RequestId::of("order-4711")?, lasts };
///     let now = Now { micros, max_clock_back: None };
///     let request = Request::check(b"alice").idempotent(once);
///     let decision = step_with_books(&limit, &request, now, &mut held, &mut books)?.decision;
///     Ok::<_, Box<dyn std::error::Error>>((decision.is_repeat(), decision.remaining()))
/// };
/// assert_eq!(ask(0)?, (false, Some(9)));
/// assert_eq!(ask(59_999_999)?, (true, Some(9)));
/// assert_eq!(ask(60_000_000)?, (false, Some(8)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Idempotency {
    /// The id of the request. Its scope is the limit and the subject; for several limits together,
    /// the first limit and its subject.
    pub id: RequestId,
    /// The time for which repeats are known, from the decision: 1 s to a day.
    pub lasts: Duration,
}

impl RequestId {
    /// The number of bytes of an id.
    pub const BYTES: usize = 16;
    /// The maximum number of bytes from which an id is [made](RequestId::of).
    pub const MAX_LEN: usize = 255;

    /// Returns the id for a text or any bytes. Equal bytes give equal ids.
    ///
    /// # Errors
    /// Returns [`RequestIdError`] unless there are 1 to 255 bytes.
    pub fn of(name: impl AsRef<[u8]>) -> Result<Self, RequestIdError> {
        let name = name.as_ref();
        if name.is_empty() || name.len() > Self::MAX_LEN {
            return Err(RequestIdError(name.len()));
        }
        let hash = blake3::hash(name);
        Ok(Self(std::array::from_fn(|place| hash.as_bytes()[place])))
    }

    /// Creates the id from these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes of the id.
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

impl Idempotency {
    /// The shortest time for which a repeat is known.
    pub const MIN_LASTS: Duration = Duration::from_secs(1);
    /// The longest time for which a repeat is known.
    pub const MAX_LASTS: Duration = Duration::from_secs(24 * 60 * 60);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_made_of_1_to_255_bytes() {
        assert!(RequestId::of([0; 255]).is_ok());
        assert_eq!(RequestId::of([0; 256]), Err(RequestIdError(256)));
        let error = RequestId::of("").unwrap_err();
        assert_eq!(error.to_string(), "the id of a request has 0 bytes: it takes 1 to 255");
        assert_eq!(RequestError::from(error).kind(), RequestErrorKind::Invalid);
        assert_eq!(RequestId::from_bytes([0xab; 16]).to_string(), "ab".repeat(16));
    }
}
