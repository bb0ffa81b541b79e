//! How far the service is with stopping.

use tokio::sync::watch;

/// What the service does with connections and requests; it only ever goes on to the next one.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Stage {
    /// All are welcome.
    Serving,
    /// All are answered, but `/readyz` sends clients elsewhere, and an answer is its connection's last.
    Draining,
    /// What has been sent is answered, and nothing more is waited for.
    Ending,
}

/// The stage as many see it.
#[derive(Clone, Debug)]
pub(super) struct Stages(watch::Receiver<Stage>);

impl Stages {
    pub(super) fn new() -> (watch::Sender<Stage>, Self) {
        let (sender, receiver) = watch::channel(Stage::Serving);
        (sender, Self(receiver))
    }

    pub(super) fn is_draining(&self) -> bool {
        *self.0.borrow() >= Stage::Draining
    }

    /// Waits for the last stage.
    pub(super) async fn ending(mut self) {
        // A sender that is gone says nothing more.
        if self.0.wait_for(|stage| *stage == Stage::Ending).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
