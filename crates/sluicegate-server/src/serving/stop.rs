//! Stops the service without losing a request.

use std::time::Duration;

use tokio::sync::watch;

use super::listeners::Listeners;
use super::stage::Stage;
use crate::output::complain;
use crate::signals::{StopSignal, StopSignals};
use crate::supervisor;

/// Time limits of a stop, from the signal on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Time for clients to move to other instances.
    pub(crate) drain: Duration,
    /// Time for requests in flight.
    pub(crate) shutdown: Duration,
}

/// The end of a stop.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stopped {
    /// In order: requests were answered, or their time has passed.
    InOrder,
    /// Immediately, because this second signal arrived.
    AtOnce(StopSignal),
}

/// Serves until a signal arrives, then stops in order.
///
/// While clients move to other instances, all requests are answered, and every answer closes its
/// connection. Then no connections are accepted. The latest connections get a moment to send a
/// request. Then the rest is closed, and `farewell` is awaited. A second signal ends all of it immediately.
pub(crate) async fn run(
    listeners: Listeners,
    stage: watch::Sender<Stage>,
    mut signals: StopSignals,
    patience: Patience,
    farewell: impl Future<Output = ()>,
) -> Stopped {
    let told = signals.next().await;
    // SIGINT comes from a keyboard: there is no load balancer that must notice the stop.
    let drain = if told == StopSignal::Terminate { patience.drain } else { Duration::ZERO };
    supervisor::stopping(&format!(
        "Stopping: clients move to other instances for {} ms, then requests in flight end within {} ms",
        drain.as_millis(),
        patience.shutdown.as_millis()
    ));
    let in_order = async {
        drain_and_close(listeners, stage, Patience { drain, ..patience }).await;
        farewell.await;
    };
    tokio::select! {
        () = in_order => Stopped::InOrder,
        signal = signals.next() => {
            complain("note: stopped with requests in flight, because a second signal asked for it");
            Stopped::AtOnce(signal)
        }
    }
}

async fn drain_and_close(
    mut listeners: Listeners,
    stage: watch::Sender<Stage>,
    Patience { drain, shutdown }: Patience,
) {
    /// Time limit for the latest connections to send a request, followed by its minimum: the
    /// runtime has to notice what has arrived.
    const LAST_MOMENT: Duration = Duration::from_secs(1);
    const GLANCE: Duration = Duration::from_millis(20);
    stage.send_replace(Stage::Draining);
    tokio::time::sleep(drain).await;
    listeners.close(drain).await;
    tokio::select! {
        () = listeners.all_closed() => {}
        () = tokio::time::sleep(LAST_MOMENT.min(drain).max(GLANCE)) => {}
    }
    stage.send_replace(Stage::Ending);
    tokio::select! {
        () = listeners.all_closed() => {}
        () = tokio::time::sleep(shutdown) => complain(format_args!(
            "note: stopped with requests in flight after waiting {} ms for them",
            shutdown.as_millis()
        )),
    }
}
