//! A hash of a request's content, which tells its repeat from another request with the same id.

use crate::failure::{RequestError, RequestErrorKind};
use crate::limit::Limit;
use crate::request::Request;
use crate::time::Span;

/// A hash of what a request asks for. Two requests that differ only in ids and time have equal
/// hashes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Asked([u8; Self::BYTES]);

impl Asked {
    /// The number of bytes, enough to distinguish the requests that a caller sends under one id.
    pub const BYTES: usize = 8;

    /// Hashes the operation, the subjects of all parts of the limit, each policy's cost and the
    /// hold's duration.
    #[must_use]
    pub fn of(limit: &Limit, request: &Request<'_>) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&[request.operation().code()]);
        let lasts = request.holds().map_or(Span::ZERO, |hold| hold.lasts.into()).as_micros();
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
        let hash = hasher.finalize();
        Self(std::array::from_fn(|place| hash.as_bytes()[place]))
    }

    pub(crate) const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes of the hash.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; Self::BYTES] {
        self.0
    }
}

impl RequestError {
    /// Returns the error for a request whose id belongs to a request with other content. For
    /// stores.
    #[cold]
    #[must_use]
    pub fn asks_something_else(limit: &Limit) -> Self {
        Self::new(
            RequestErrorKind::Conflict,
            format!(
                "a different request to limit `{}` has used this id: use a new id for each request, and repeat one unchanged; nothing was charged",
                limit.name()
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::hold::{Hold, HoldId};
    use crate::request::{Costs, Operation};

    #[test]
    fn what_is_asked_is_all_but_ids_and_time() {
        let limit = |name: &str| Limit::new(name, vec!["gcra 9/s"]).unwrap();
        let held = |byte, lasts| Hold { id: HoldId::from_bytes([byte; 16]), lasts };
        let (one, other) = (held(1, Duration::from_secs(60)), held(2, Duration::from_secs(60)));
        let longer = held(1, Duration::from_secs(3_600));
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
            of(&check.with_operation(Operation::Charge)),
            of(&check.with_operation(Operation::Take)),
            of(&Request::check(b"alicf")),
            Asked::of(&limit("m"), &check),
        ];
        for (index, asked) in all.iter().enumerate() {
            assert!(!all[..index].contains(asked), "{index}");
        }
    }
}
