//! Handles signals for commands that have a turn or wait for one.

use std::future::Future;
use std::time::Duration;

use sluicegate::store::Operation;

use super::verb::Verb;
use crate::output::{Exit, Failure, complain};
use crate::signals::{StopSignal, StopSignals};

/// A command interrupted by a signal.
pub(super) struct Interrupted<T> {
    signal: StopSignal,
    signals: StopSignals,
    /// Answer to a reservation, which states the units it took.
    pub(super) reserved: Option<T>,
}

/// Waits for the answer or a signal.
///
/// # Errors
/// Returns an error if the system can't install a signal handler.
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
        // A reservation is a single call, and its answer has the token.
        Verb::Decide(Operation::Reserve { .. }) => {
            complain("note: interrupted, waiting for the answer to give the turn back");
            tokio::select! {
                answered = asking => Some(answered),
                _ = signals.next() => None,
            }
        }
        // Dropping the future returns its turn or its queue position.
        _ => None,
    };
    Ok(Err(Interrupted { signal, signals, reserved }))
}

impl<T> Interrupted<T> {
    /// Returns the units that the command took, unless that takes too long or another signal
    /// arrives. The output of `giving` says whether it succeeded.
    pub(super) async fn give_back(mut self, giving: impl Future<Output = bool>) -> Exit {
        const PATIENCE: Duration = Duration::from_secs(2);
        let is_given_back = tokio::select! {
            given_back = tokio::time::timeout(PATIENCE, giving) => given_back.unwrap_or(false),
            _ = self.signals.next() => false,
        };
        complain(if is_given_back {
            "note: interrupted, and the turn was given back"
        } else {
            "note: interrupted, but the store didn't answer in time, so the turn may count as used"
        });
        Exit::Signal(self.signal)
    }
}
