//! Opens the sockets of listeners, and serves them.

use std::fmt::Display;
use std::io;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;

use sluicegate::Registry;
use sluicegate::config::ListenAddress;

use crate::output::{Failure, complain};
use crate::serving::{
    Answering, ConnectionAge, Connections, FEW_CONNECTIONS, Kind, Listener, ListenerState,
    Listeners, PassedSockets, PerAddress, Reserved, Served, SocketFile, Stages, Tls,
    most_connections,
};

/// A listener whose address is bound.
pub(crate) struct Opened {
    pub(crate) kind: Kind,
    socket: Reserved,
    tls: Option<Arc<Tls>>,
    /// The maximum age of connections over HTTP/2.
    age: ConnectionAge,
    /// The moment at which it accepts connections; `None` if that is the start.
    opens: Option<Opens>,
}

/// A future that completes when a listener opens.
pub(crate) type Opens = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Opened {
    /// Binds an address. `option` sets it on the command line. With `opens`, clients are refused until that completes.
    ///
    /// # Errors
    /// Returns an error that names the address, and what to change.
    pub(crate) async fn new(
        kind: Kind,
        option: &str,
        address: &ListenAddress,
        passed: &mut PassedSockets,
        opens: Option<Opens>,
    ) -> Result<Self, Failure> {
        let cannot = |why: &dyn Display| {
            Failure::usage(format_args!(
                "can't listen on {address}: {why}; choose another address with {option}"
            ))
        };
        let mut socket = Reserved::new(address, passed).await.map_err(|why| cannot(&why))?;
        if opens.is_none() {
            socket = Reserved::Listening(socket.listen().map_err(|error| cannot(&error))?);
        }
        Ok(Self { kind, socket, tls: None, age: ConnectionAge::default(), opens })
    }

    /// Encrypts its connections.
    pub(crate) fn tls(self, tls: Option<Tls>) -> Self {
        Self { tls: tls.map(Arc::new), ..self }
    }

    /// Bounds the age of its connections.
    #[cfg(feature = "envoy")]
    pub(crate) fn max_age(self, age: ConnectionAge) -> Self {
        Self { age, ..self }
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

/// Accepts connections on all listeners, and says so on standard error.
///
/// # Errors
/// Returns an error if there is no thread for health checks.
pub(crate) fn start(
    opened: Vec<(Opened, Answering)>,
    states: &[ListenerState],
    stages: &Stages,
) -> Result<Listeners, Failure> {
    let (mut listeners, mut lines, mut later) = (Vec::new(), Vec::new(), Vec::new());
    for ((Opened { kind, socket, tls, age, opens }, answering), state) in
        opened.into_iter().zip(states)
    {
        let line = format!("listening: {kind} {socket}");
        if let Some(tls) = &tls {
            tokio::spawn(Arc::clone(tls).follow());
        }
        let served = Served { answering, stages: stages.clone(), tls, age };
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
