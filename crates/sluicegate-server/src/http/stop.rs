//! Stopping, without losing a request.

use std::time::Duration;

use tokio::sync::watch;

use super::listener::Listener;
use super::stage::Stage;
use crate::output::complain;
use crate::signals::{StopSignal, StopSignals};

/// For how long the service waits, from a signal on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// For clients to go elsewhere.
    pub(super) drain: Duration,
    /// For requests in flight.
    pub(super) shutdown: Duration,
}

/// Accepts connections until a signal comes, and stops in order.
///
/// While clients go elsewhere, all is answered, and every answer closes its connection. Then nobody is
/// let in, connections that came last have a moment for their request, and the rest is closed.
pub(super) async fn run(
    listener: Listener,
    stage: watch::Sender<Stage>,
    mut signals: StopSignals,
    patience: Patience,
) {
    /// What a connection that was accepted at the very last has for its request, and what it has at
    /// least: the runtime has to learn what has arrived.
    const LAST_MOMENT: Duration = Duration::from_secs(1);
    const GLANCE: Duration = Duration::from_millis(20);
    let told = listener.accept(signals.next()).await;
    stage.send_replace(Stage::Draining);
    // Who presses a key has no balancer to wait for.
    let drain = if told == StopSignal::Terminate { patience.drain } else { Duration::ZERO };
    let drained = listener.accept(tokio::time::timeout(drain, signals.next())).await;
    if drained.is_ok() {
        return complain(IMPATIENT);
    }
    let connections = listener.close(drain).await;
    let moment = async {
        tokio::select! {
            () = connections.all_closed() => {}
            () = tokio::time::sleep(LAST_MOMENT.min(drain).max(GLANCE)) => {}
        }
    };
    tokio::select! {
        () = moment => {}
        _ = signals.next() => return complain(IMPATIENT),
    }
    stage.send_replace(Stage::Ending);
    tokio::select! {
        () = connections.all_closed() => {}
        () = tokio::time::sleep(patience.shutdown) => complain(format_args!(
            "note: stopped with requests in flight after waiting {} ms for them",
            patience.shutdown.as_millis()
        )),
        _ = signals.next() => complain(IMPATIENT),
    }
}

const IMPATIENT: &str =
    "note: stopped with requests in flight, because a second signal asked for it";
