//! Tokens of holds and reservations, for the service and the command line.

use std::time::Duration;

use sluicegate::decision::{HoldToken, Receipt};
use sluicegate::policy::LimitName;

/// The object that a token names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Token {
    /// A hold: a record in the store, with an id that can't be guessed.
    Hold(HoldToken),
    /// A reservation: the change that it made, with which it can be undone.
    Reservation(Receipt),
}

/// Prefix of a reservation's token that the command line made in a store. The token isn't signed,
/// because a process with access to the store can write any state.
const BARE: &str = "reservation:";

impl Token {
    /// Parses a token for a process with access to the store itself.
    ///
    /// # Errors
    /// Returns a message that describes the error in the token.
    pub(crate) fn read_trusted(text: &str) -> Result<Self, String> {
        if let Some(receipt) = text.strip_prefix(BARE) {
            let receipt: Receipt = receipt.parse().map_err(|error| format!("{error}"))?;
            return Ok(Self::Reservation(receipt));
        }
        if text.starts_with(SEALED) {
            return Err(
                "it is of a reservation that a service made: only the service can cancel that, \
                 which --server asks"
                    .to_owned(),
            );
        }
        Self::read_hold(text)
    }

    /// Parses a token of a hold.
    ///
    /// # Errors
    /// Returns a message that describes the error in the token.
    pub(crate) fn read_hold(text: &str) -> Result<Self, String> {
        text.parse()
            .map(Self::Hold)
            .map_err(|error: sluicegate::error::HoldTokenError| error.to_string())
    }

    /// Returns its limits.
    pub(crate) fn limits(&self) -> Vec<&LimitName> {
        match self {
            Self::Hold(token) => token.limits().collect(),
            Self::Reservation(receipt) => receipt.parts().iter().map(|part| &part.limit).collect(),
        }
    }

    /// Returns the names of its limits, joined with ` + `.
    pub(crate) fn name(&self) -> String {
        let names: Vec<&str> = self.limits().into_iter().map(LimitName::as_str).collect();
        names.join(" + ")
    }
}

/// Formats an unsigned token of a reservation, for a process with access to the store itself.
pub(crate) fn bare(receipt: &Receipt) -> String {
    format!("{BARE}{receipt}")
}

/// Returns the time for which a reservation with this wait can be cancelled: until a minute after
/// its turn.
pub(crate) fn reservation_lasts(wait: Duration) -> Duration {
    wait + Duration::from_secs(60)
}

/// Prefix of a reservation's token that a service made and signed.
pub(crate) const SEALED: &str = "sealed:";
