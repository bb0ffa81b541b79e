//! Stops the service without losing a request.

use std::time::Duration;

use tokio::sync::watch;

use super::listeners::Listeners;
use super::stage::Stage;
use crate::output::complain;
use crate::signals::{StopSignal, StopSignals};

/// Time limits of a stop, from the signal on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Time for clients to move to other instances.
    pub(crate) drain: Duration,
    /// Time for requests in flight.
    pub(crate) shutdown: Duration,
}

/// Serves until a signal arrives, then stops in order.
///
/// While clients move to other instances, all requests are answered, and every answer closes its
/// connection. Then no connections are accepted. The latest connections get a moment to send a
/// request. Finally, the rest is closed.
pub(crate) async fn run(
    mut listeners: Listeners,
    stage: watch::Sender<Stage>,
    mut signals: StopSignals,
    patience: Patience,
) {
    /// Time limit for the latest connections to send a request, followed by its minimum: the
    /// runtime has to notice what has arrived.
    const LAST_MOMENT: Duration = Duration::from_secs(1);
    const GLANCE: Duration = Duration::from_millis(20);
    let told = signals.next().await;
    stage.send_replace(Stage::Draining);
    // SIGINT comes from a keyboard: there is no load balancer that must notice the stop.
    let drain = if told == StopSignal::Terminate { patience.drain } else { Duration::ZERO };
    if tokio::time::timeout(drain, signals.next()).await.is_ok() {
        return complain(IMPATIENT);
    }
    tokio::select! {
        () = listeners.close(drain) => {}
        _ = signals.next() => return complain(IMPATIENT),
    }
    let moment = async {
        tokio::select! {
            () = listeners.all_closed() => {}
            () = tokio::time::sleep(LAST_MOMENT.min(drain).max(GLANCE)) => {}
        }
    };
    tokio::select! {
        () = moment => {}
        _ = signals.next() => return complain(IMPATIENT),
    }
    stage.send_replace(Stage::Ending);
    tokio::select! {
        () = listeners.all_closed() => {}
        () = tokio::time::sleep(patience.shutdown) => complain(format_args!(
            "note: stopped with requests in flight after waiting {} ms for them",
            patience.shutdown.as_millis()
        )),
        _ = signals.next() => complain(IMPATIENT),
    }
}

const IMPATIENT: &str =
    "note: stopped with requests in flight, because a second signal asked for it";
