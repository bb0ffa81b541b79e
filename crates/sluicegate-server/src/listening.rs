//! Opens the sockets of listeners, and serves routes on them.

use std::fmt::Display;
use std::io;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use sluicegate::Registry;
use sluicegate::config::{ListenAddress, TlsConfig};

use crate::output::{Failure, complain};
use crate::serving::{
    Connections, FEW_CONNECTIONS, Kind, Listener, ListenerState, Listeners, PassedSockets,
    PerAddress, Reserved, Served, SocketFile, Stages, Tls, most_connections,
};

/// A listener whose address is bound.
pub(crate) struct Opened {
    pub(crate) kind: Kind,
    socket: Reserved,
    tls: Option<Arc<Tls>>,
    /// The moment at which it accepts connections; `None` if that is the start.
    opens: Option<Opens>,
}

/// A future that completes when a listener opens.
pub(crate) type Opens = Pin<Box<dyn Future<Output = ()> + Send>>;

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
        let socket = reserve(option, address, passed).await?;
        let bound = socket.listen().map_err(|error| cannot(option, address, &error))?;
        let tls = tls.map(|tls| Tls::new(kind, tls)).transpose();
        let tls = tls.map_err(|why| {
            Failure::usage(format_args!("listeners.{kind}.tls: {why}: name one that is right"))
        })?;
        Ok(Self { kind, socket: Reserved::Listening(bound), tls, opens: None })
    }

    /// Binds an address whose clients are refused until `opens` completes.
    ///
    /// # Errors
    /// Returns an error that names the address, and what to change.
    #[cfg(feature = "envoy")]
    pub(crate) async fn later(
        kind: Kind,
        option: &str,
        address: &ListenAddress,
        passed: &mut PassedSockets,
        opens: Opens,
    ) -> Result<Self, Failure> {
        let socket = reserve(option, address, passed).await?;
        Ok(Self { kind, socket, tls: None, opens: Some(opens) })
    }

    /// Returns the file of the socket, if there is one. It is removed when the last owner drops it.
    pub(crate) fn file(&self) -> Option<Arc<SocketFile>> {
        self.socket.file()
    }

    /// Returns whether only probes or scrapers connect.
    const fn has_few_clients(&self) -> bool {
        matches!(self.kind, Kind::Metrics | Kind::Health)
    }
}

async fn reserve(
    option: &str,
    address: &ListenAddress,
    passed: &mut PassedSockets,
) -> Result<Reserved, Failure> {
    Reserved::new(address, passed).await.map_err(|why| cannot(option, address, &why))
}

fn cannot(option: &str, address: &ListenAddress, why: &dyn Display) -> Failure {
    Failure::usage(format_args!(
        "can't listen on {address}: {why}; choose another address with {option}"
    ))
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
    let (mut listeners, mut lines, mut later) = (Vec::new(), Vec::new(), Vec::new());
    for ((Opened { kind, socket, tls, opens }, router), state) in opened.into_iter().zip(states) {
        let line = format!("listening: {kind} {socket}");
        if let Some(tls) = &tls {
            tokio::spawn(Arc::clone(tls).follow());
        }
        let served = Served { router, stages: stages.clone(), tls };
        let connections = Arc::clone(&state.connections);
        if let Some(opens) = opens {
            later.push((line, socket, connections, served, opens));
            continue;
        }
        let bound = socket.listen().map_err(Failure::usage)?;
        let listener = Listener { bound, connections, served };
        if kind == Kind::Health {
            answer_health(listener)?;
        } else {
            listeners.push(listener);
        }
        lines.push(line);
    }
    let mut listeners = Listeners::start(listeners);
    lines.iter().for_each(complain);
    for (line, socket, connections, served, opens) in later {
        listeners.start_later(Arc::clone(&connections), async move {
            opens.await;
            match socket.listen() {
                Ok(bound) => {
                    complain(line);
                    Some(Listener { bound, connections, served })
                }
                Err(error) => {
                    tracing::error!("{line}: another process has the address: {error}");
                    None
                }
            }
        });
    }
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
