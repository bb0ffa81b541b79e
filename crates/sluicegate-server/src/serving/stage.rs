//! The stages of stopping the service.

use tokio::sync::watch;

/// The treatment of connections and requests. The stage only ever advances.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Stage {
    /// All connections are accepted.
    Serving,
    /// All requests are answered, but `/readyz` redirects clients to other instances, and each
    /// answer is the last one on its connection.
    Draining,
    /// Requests that have been sent are answered; the service waits for no others.
    Ending,
}

/// A shared view of the stage.
#[derive(Clone, Debug)]
pub(crate) struct Stages(watch::Receiver<Stage>);

impl Stages {
    pub(crate) fn new() -> (watch::Sender<Stage>, Self) {
        let (sender, receiver) = watch::channel(Stage::Serving);
        (sender, Self(receiver))
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.0.borrow() >= Stage::Draining
    }

    /// Waits until clients move to other instances.
    pub(crate) async fn draining(self) {
        self.reached(Stage::Draining).await;
    }

    /// Waits for the last stage.
    pub(crate) async fn ending(self) {
        self.reached(Stage::Ending).await;
    }

    async fn reached(mut self, wanted: Stage) {
        // A sender that is gone changes nothing any more.
        if self.0.wait_for(|stage| *stage >= wanted).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
