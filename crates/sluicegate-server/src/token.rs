//! Tokens as the service and the command line give them: of holds, and of reservations.

use sluicegate::decision::{HoldToken, Receipt};
use sluicegate::policy::LimitName;
use sluicegate::store::Span;

/// What a token names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Token {
    /// A record in the store, whose id nobody guesses.
    Hold(HoldToken),
    /// A reservation: what it changed, by which that is undone.
    Reservation(Receipt),
}

/// What the text of a reservation begins with that the command line has made in a store. Who has the
/// store can write what it likes, so that nothing vouches for it.
const BARE: &str = "reservation:";

impl Token {
    /// Reads a token for whoever has the store itself.
    ///
    /// # Errors
    /// Says what is wrong.
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

    /// Reads a token of a hold.
    ///
    /// # Errors
    /// Says what is wrong.
    pub(crate) fn read_hold(text: &str) -> Result<Self, String> {
        text.parse()
            .map(Self::Hold)
            .map_err(|error: sluicegate::error::HoldTokenError| error.to_string())
    }

    /// The names of its limits, joined with ` + `.
    pub(crate) fn limits(&self) -> String {
        let names: Vec<&str> = match self {
            Self::Hold(token) => token.limits().map(LimitName::as_str).collect(),
            Self::Reservation(receipt) => {
                receipt.parts().iter().map(|part| part.limit.as_str()).collect()
            }
        };
        names.join(" + ")
    }
}

/// The text of a reservation's token for whoever has the store itself.
pub(crate) fn bare(receipt: &Receipt) -> String {
    format!("{BARE}{receipt}")
}

/// How long a reservation can be cancelled that has so long to wait: until a minute after its turn.
pub(crate) fn reservation_lasts(wait: Span) -> Span {
    let micros = wait.as_micros().saturating_add(Span::MINUTE.as_micros());
    Span::from_micros(micros).unwrap_or(Span::MAX)
}

/// What the text of a reservation begins with that a service has made and vouches for.
pub(crate) const SEALED: &str = "sealed:";
