//! Opens the sockets of listeners, and serves routes on them.

use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;

use axum::Router;
use sluicegate::Registry;
use sluicegate::config::{ListenAddress, TlsConfig};

use crate::output::{Failure, complain};
use crate::serving::{
    Bound, Connections, FEW_CONNECTIONS, Kind, Listener, ListenerState, Listeners, PassedSockets,
    PerAddress, Served, SocketFile, Stages, Tls, most_connections,
};

/// A listener whose address is bound.
pub(crate) struct Opened {
    pub(crate) kind: Kind,
    bound: Bound,
    tls: Option<Arc<Tls>>,
}

impl Opened {
    /// Binds an address, and reads the files of its TLS. `option` sets the address on the command line.
    ///
    /// # Errors
    /// Returns an error that names the address or the file, and what to change.
    pub(crate) async fn new(
        kind: Kind,
        option: &str,
        address: &ListenAddress,
        tls: Option<&TlsConfig>,
        passed: &mut PassedSockets,
    ) -> Result<Self, Failure> {
        let bound = Bound::new(address, passed).await.map_err(|why| {
            Failure::usage(format_args!(
                "can't listen on {address}: {why}; choose another address with {option}"
            ))
        })?;
        let tls = tls.map(|tls| Tls::new(kind, tls)).transpose();
        let tls = tls.map_err(|why| {
            Failure::usage(format_args!("listeners.{kind}.tls: {why}: name one that is right"))
        })?;
        Ok(Self { kind, bound, tls })
    }

    /// Returns the file of the socket, if there is one. It is removed when the last owner drops it.
    pub(crate) fn file(&self) -> Option<Arc<SocketFile>> {
        self.bound.file()
    }

    /// Returns whether only probes or scrapers connect.
    const fn has_few_clients(&self) -> bool {
        matches!(self.kind, Kind::Metrics | Kind::Health)
    }
}

/// Returns the number of connections that each listener for clients may have, of all that the service may have.
pub(crate) fn most_per_listener(most: NonZeroUsize, opened: &[Opened]) -> usize {
    let listeners = opened.iter().filter(|opened| !opened.has_few_clients()).count();
    most_connections(most.get(), listeners)
}

/// Returns the state of each listener.
pub(crate) fn states(
    opened: &[Opened],
    most: usize,
    per_address: Option<NonZeroUsize>,
    registry: &Registry,
) -> Vec<ListenerState> {
    let state = |opened: &Opened| {
        let bound = |most| PerAddress { most, registry: registry.clone() };
        let connections = match opened.has_few_clients() {
            true => Connections::new(FEW_CONNECTIONS, None),
            false => Connections::new(most, per_address.map(bound)),
        };
        ListenerState { kind: opened.kind, connections, tls: opened.tls.clone() }
    };
    opened.iter().map(state).collect()
}

/// Accepts connections on all listeners, and says so on standard error. Each serves its routes.
///
/// # Errors
/// Returns an error if there is no thread for health checks.
pub(crate) fn start(
    opened: Vec<(Opened, Router)>,
    states: &[ListenerState],
    stages: &Stages,
) -> Result<Listeners, Failure> {
    let (mut listeners, mut lines) = (Vec::new(), Vec::new());
    for ((Opened { kind, bound, tls }, router), state) in opened.into_iter().zip(states) {
        lines.push(format!("listening: {kind} {bound}"));
        if let Some(tls) = &tls {
            tokio::spawn(Arc::clone(tls).follow());
        }
        let served = Served { router, stages: stages.clone(), tls };
        let listener = Listener { bound, connections: Arc::clone(&state.connections), served };
        if kind == Kind::Health {
            answer_health(listener)?;
        } else {
            listeners.push(listener);
        }
    }
    let listeners = Listeners::start(listeners);
    lines.iter().for_each(complain);
    Ok(listeners)
}

/// Answers health checks on a separate listener until the process ends. It uses a separate thread,
/// because the other threads may be overloaded.
fn answer_health(listener: Listener) -> Result<(), Failure> {
    let failure = |error: io::Error| {
        Failure::usage(format_args!("can't answer health checks: {error}; leave out --health"))
    };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failure)?;
    let answer = async move {
        let listener = Listener { bound: listener.bound.moved_here()?, ..listener };
        listener.accept(std::future::pending::<()>()).await;
        Ok::<_, io::Error>(())
    };
    let thread = std::thread::Builder::new().name("health".to_owned());
    thread
        .spawn(move || {
            if let Err(error) = runtime.block_on(answer) {
                tracing::error!("can't answer health checks: {error}");
            }
        })
        .map_err(failure)?;
    Ok(())
}
