//! All listeners of the service, which start and stop together.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::connections::Connections;
use super::listener::Listener;

/// Listeners that accept connections, each in a task of its own. So one whose connections are all busy doesn't
/// stop another one.
pub(crate) struct Listeners {
    connections: Vec<Arc<Connections>>,
    tasks: JoinSet<()>,
    /// Time for handshakes in progress, once the listeners close.
    close: watch::Sender<Option<Duration>>,
    /// The number of listeners that don't accept connections yet.
    later: watch::Sender<usize>,
}

impl Listeners {
    /// Starts to accept connections.
    pub(crate) fn start(listeners: Vec<Listener>) -> Self {
        let (close, closing) = watch::channel(None);
        let connections = listeners.iter().map(|it| Arc::clone(&it.connections)).collect();
        let mut tasks = JoinSet::new();
        for listener in listeners {
            tasks.spawn(run(listener, closing.clone()));
        }
        Self { connections, tasks, close, later: watch::Sender::new(0) }
    }

    /// Starts another listener when `opens` returns it, unless all are closed before.
    pub(crate) fn start_later(
        &mut self,
        connections: Arc<Connections>,
        opens: impl Future<Output = Option<Listener>> + Send + 'static,
    ) {
        self.connections.push(connections);
        let mut closing = self.close.subscribe();
        let later = self.later.clone();
        later.send_modify(|count| *count += 1);
        self.tasks.spawn(async move {
            let listener = tokio::select! {
                listener = opens => listener,
                _ = closing.wait_for(Option::is_some) => None,
            };
            if let Some(listener) = listener {
                later.send_modify(|count| *count -= 1);
                run(listener, closing).await;
            }
        });
    }

    /// Returns a future that completes when all listeners accept connections. It never does if one of them can't.
    pub(crate) fn all_opened(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut later = self.later.subscribe();
        async move {
            if later.wait_for(|count| *count == 0).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Closes the listeners. Clients that have connected are served; handshakes in progress get at most
    /// `patience`.
    pub(crate) async fn close(&mut self, patience: Duration) {
        self.close.send_replace(Some(patience));
        while self.tasks.join_next().await.is_some() {}
    }

    /// Waits until all connections are closed.
    pub(crate) async fn all_closed(&self) {
        for connections in &self.connections {
            connections.all_closed().await;
        }
    }
}

async fn run(listener: Listener, mut closing: watch::Receiver<Option<Duration>>) {
    let patience = listener.accept(async {
        let patience = closing.wait_for(Option::is_some).await.map(|patience| *patience);
        match patience {
            Ok(patience) => patience.unwrap_or_default(),
            // A sender that is gone closes nothing.
            Err(_) => std::future::pending().await,
        }
    });
    let patience = patience.await;
    listener.close(patience).await;
}
