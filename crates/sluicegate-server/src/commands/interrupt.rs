//! Commands that a signal interrupts while they have a turn or wait for one.

use std::future::Future;
use std::time::Duration;

use sluicegate::{Error, Grant, Registry, Span};

use super::verb::Verb;
use crate::output::{Exit, Failure, complain};
use crate::signals::{StopSignal, StopSignals};
use crate::token::Token;

/// The answer, and the token of what it holds with how long that lasts.
pub(super) type Answered = Result<(Grant, Option<(String, Span)>), Error>;

/// A command that a signal has interrupted.
pub(super) struct Interrupted {
    signal: StopSignal,
    signals: StopSignals,
    /// The token of a reservation.
    reserved: Option<String>,
}

/// Waits for the answer or for a signal.
///
/// # Errors
/// Returns an error if the system allows no handler of signals.
pub(super) async fn or_signal(
    verb: Verb,
    asking: impl Future<Output = Answered>,
) -> Result<Result<Answered, Interrupted>, Failure> {
    let mut signals = StopSignals::new()
        .map_err(|error| Failure::usage(format_args!("can't wait for signals: {error}")))?;
    let mut asking = Box::pin(asking);
    let signal = tokio::select! {
        answered = &mut asking => return Ok(Ok(answered)),
        signal = signals.next() => signal,
    };
    let reserved = match verb {
        // A single call, whose answer has the token.
        Verb::Reserve { .. } => asking.await.ok().and_then(|(_, held)| held),
        // The future gives back its turn or its position in a queue when it is dropped.
        _ => None,
    };
    let reserved = reserved.map(|(token, _)| token);
    Ok(Err(Interrupted { signal, signals, reserved }))
}

impl Interrupted {
    /// Gives back what the command had taken, unless that takes too long or another signal comes.
    pub(super) async fn give_back(mut self, registry: &Registry) -> Exit {
        const PATIENCE: Duration = Duration::from_secs(2);
        let Self { signal, reserved, .. } = self;
        let giving = async {
            if let Some(Ok(Token::Reservation(receipt))) =
                reserved.as_deref().map(Token::read_trusted)
            {
                return registry.cancel(&receipt).await.is_ok();
            }
            sluicegate::given_back().await;
            true
        };
        let is_given_back = tokio::select! {
            given_back = tokio::time::timeout(PATIENCE, giving) => given_back.unwrap_or(false),
            _ = self.signals.next() => false,
        };
        complain(if is_given_back {
            "note: interrupted: the turn is given back"
        } else {
            "note: interrupted: the store didn't answer in time, so the turn may count as used"
        });
        Exit::Signal(signal)
    }
}
