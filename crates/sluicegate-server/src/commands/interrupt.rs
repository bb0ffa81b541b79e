//! Commands that a signal interrupts while they have a turn or wait for one.

use std::future::Future;
use std::time::Duration;

use sluicegate::store::Operation;

use super::verb::Verb;
use crate::output::{Exit, Failure, complain};
use crate::signals::{StopSignal, StopSignals};

/// A command that a signal has interrupted.
pub(super) struct Interrupted<T> {
    signal: StopSignal,
    signals: StopSignals,
    /// The answer to a reservation, which names what it has taken.
    pub(super) reserved: Option<T>,
}

/// Waits for the answer or for a signal.
///
/// # Errors
/// Returns an error if the system allows no handler of signals.
pub(super) async fn or_signal<T>(
    verb: Verb,
    asking: impl Future<Output = T>,
) -> Result<Result<T, Interrupted<T>>, Failure> {
    let mut signals = StopSignals::new()
        .map_err(|error| Failure::usage(format_args!("can't wait for signals: {error}")))?;
    let mut asking = Box::pin(asking);
    let signal = tokio::select! {
        answered = &mut asking => return Ok(Ok(answered)),
        signal = signals.next() => signal,
    };
    let reserved = match verb {
        // A single call, whose answer has the token.
        Verb::Decide(Operation::Reserve { .. }) => {
            complain("note: interrupted: waiting for the answer, to give the turn back");
            tokio::select! {
                answered = asking => Some(answered),
                _ = signals.next() => None,
            }
        }
        // The future gives back its turn or its position in a queue when it is dropped.
        _ => None,
    };
    Ok(Err(Interrupted { signal, signals, reserved }))
}

impl<T> Interrupted<T> {
    /// Gives back what the command had taken, unless that takes too long or another signal comes. `giving`
    /// returns whether it did.
    pub(super) async fn give_back(mut self, giving: impl Future<Output = bool>) -> Exit {
        const PATIENCE: Duration = Duration::from_secs(2);
        let is_given_back = tokio::select! {
            given_back = tokio::time::timeout(PATIENCE, giving) => given_back.unwrap_or(false),
            _ = self.signals.next() => false,
        };
        complain(if is_given_back {
            "note: interrupted: the turn is given back"
        } else {
            "note: interrupted: the store didn't answer in time, so the turn may count as used"
        });
        Exit::Signal(self.signal)
    }
}
