//! Ids of holds that can't be guessed.

use sluicegate_core::{Error, HoldId, RequestError, RequestErrorKind};

/// Returns an id that no other hold has. Any caller that knows the id can settle the hold, so it comes from the
/// operating system.
pub(crate) fn random_id() -> Result<HoldId, Error> {
    let mut bytes = [0; HoldId::BYTES];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(HoldId::from_bytes(bytes)),
        Err(error) => Err(no_randomness(error)),
    }
}

#[cold]
fn no_randomness(error: getrandom::Error) -> Error {
    let message = format!(
        "the operating system gave no random bytes for a hold id ({error}): set your own id with `under`; nothing was charged"
    );
    RequestError::new(RequestErrorKind::Unsupported, message).into()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_differ_in_every_byte() {
        let ids: Vec<_> = (0..100).map(|_| random_id().unwrap().to_bytes()).collect();
        for byte in 0..HoldId::BYTES {
            assert!(ids.iter().map(|id| id[byte]).collect::<HashSet<_>>().len() > 20);
        }
    }
}
