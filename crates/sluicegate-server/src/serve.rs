//! Starts the service.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use sluicegate::config::{ListenerConfig, ListenersConfig, Watch, WatchOptions};
use sluicegate::store::Store as _;
use sluicegate::{Config, Registry};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::MissedTickBehavior;

use crate::cli::ServeArgs;
use crate::http::{Access, Bounds, Guard, Readiness, Seal, Service, Turns, Waiting, router};
use crate::logging::log_to_stderr;
use crate::output::{Exit, Failure, complain};
use crate::serving::stop::{self, Patience};
use crate::serving::{
    Bound, Connections, FEW_CONNECTIONS, Kind, Listener, ListenerState, Listeners, PassedSockets,
    PerAddress, Served, Stages, Tls, most_connections,
};
use crate::signals::StopSignals;

/// Runs the service until a signal stops it.
///
/// # Errors
/// Returns an error if the service can't start. An unreachable store isn't an error, because it may
/// become reachable later.
pub(crate) async fn serve(args: ServeArgs, mut passed: PassedSockets) -> Result<Exit, Failure> {
    let guard = Guard::new(args.admin_token.read()?);
    let seal = seal(args.token_key.as_deref())?;
    let mut config = args.setup.config()?;
    let store = args.setup.store_url()?;
    args.listeners.apply(&mut config.listeners);
    let registry = Registry::builder_from(&config).map_err(Failure::usage)?;
    let opened = open(&config.listeners, &mut passed).await?;
    let has_admin = config.listeners.admin.is_some();
    // The files of sockets are removed at the end, however it comes.
    let _files: Vec<_> = opened.iter().filter_map(|it| it.bound.file()).collect();
    log_to_stderr();
    // The command line takes precedence over the file, even after the file changes.
    let (file, listeners) =
        (args.setup.config.filter(|file| can_be_followed(file)), args.listeners);
    let caps = args.setup.caps.get();
    let watch = |registry: &Registry| {
        let options = WatchOptions::default().caps(caps).adjust(move |config| {
            config.store = store.clone().unwrap_or_else(|| config.store.clone());
            listeners.apply(&mut config.listeners);
        });
        file.map(|file| registry.watch_with(file, options))
    };
    let (stage, stages) = Stages::new();
    let turns = Turns::new(config.service.max_requests);
    let is_open = guard.is_open();
    let access = Access { guard, seal };
    let most = most_per_listener(&config, &opened);
    let waiting = Waiting::new(config.service.max_waiting.get(), most);
    let bounds = Bounds { turns, waiting };
    let readiness = Readiness::new(!args.ready_without_store);
    let per_address = config.service.max_connections_per_address;
    let states = |registry: &Registry| {
        let state = |opened: &Opened| {
            let bound = |most| PerAddress { most, registry: registry.clone() };
            let connections = match opened.has_few_clients() {
                true => Connections::new(FEW_CONNECTIONS, None),
                false => Connections::new(most, per_address.map(bound)),
            };
            ListenerState { kind: opened.kind, connections, tls: opened.tls.clone() }
        };
        opened.iter().map(state).collect()
    };
    let service = Service::new(registry, access, bounds, readiness, stages, states, watch);
    let service = Arc::new(service);
    // The registry has all that it needs, and a config with very many limits uses much memory.
    drop(config);
    // Ping before the first probe, so a reachable store is reported.
    service.readiness.ping(&service.registry).await;
    tokio::spawn(Arc::clone(&service.readiness).watch(service.registry.clone()));
    tokio::spawn(sweep(service.registry.clone()));
    // Before printing the addresses: from then on, a signal stops the service gracefully.
    let no_signals =
        |error: io::Error| Failure::usage(format_args!("can't wait for signals: {error}"));
    let signals = StopSignals::new().map_err(no_signals)?;
    tokio::spawn(reload(signal(SignalKind::hangup()).map_err(no_signals)?, service.watch.clone()));
    if is_open {
        complain(
            "note: no admin token is set, so every program on this machine can make admin calls, \
             such as bans, resets and lists of keys. Set SLUICEGATE_ADMIN_TOKEN or \
             --admin-token-file before a proxy or tunnel forwards to this port. Without a \
             Forwarded, X-Forwarded-*, X-Real-IP or Via field, forwarded requests look like those \
             of a local program",
        );
    }
    let listeners = listen(opened, has_admin, &service).await?;
    let patience = Patience { drain: args.drain.into(), shutdown: args.shutdown_timeout.into() };
    stop::run(listeners, stage, signals, patience).await;
    Ok(Exit::Allowed)
}

/// A listener whose address is bound.
struct Opened {
    kind: Kind,
    bound: Bound,
    tls: Option<Arc<Tls>>,
}

impl Opened {
    /// Returns whether only probes or scrapers connect.
    const fn has_few_clients(&self) -> bool {
        matches!(self.kind, Kind::Metrics | Kind::Health)
    }
}

/// Binds the addresses of all listeners, and reads the files of their TLS.
async fn open(
    listeners: &ListenersConfig,
    passed: &mut PassedSockets,
) -> Result<Vec<Opened>, Failure> {
    if cfg!(not(feature = "envoy")) && listeners.grpc.is_some() {
        return Err(Failure::usage(
            "this program has no gRPC: leave out --grpc, or build it with the feature `envoy`",
        ));
    }
    let mut opened = Vec::new();
    // HTTP is last: once its line is printed, all are.
    for (kind, listener) in [
        (Kind::Health, listeners.health.as_ref()),
        (Kind::Metrics, listeners.metrics.as_ref()),
        (Kind::Admin, listeners.admin.as_ref()),
        (Kind::Grpc, listeners.grpc.as_ref()),
        (Kind::Http, Some(&listeners.http)),
    ] {
        let Some(ListenerConfig { address, tls, .. }) = listener else { continue };
        let bound = Bound::new(address, passed).await.map_err(|why| {
            let option = kind.option();
            Failure::usage(format_args!(
                "can't listen on {address}: {why}; choose another address with {option}"
            ))
        })?;
        let tls = tls.as_ref().map(|tls| Tls::new(kind, tls)).transpose();
        let tls = tls.map_err(|why| {
            Failure::usage(format_args!("listeners.{kind}.tls: {why}: name one that is right"))
        })?;
        opened.push(Opened { kind, bound, tls });
    }
    Ok(opened)
}

/// Returns the number of connections that each listener for clients may have.
fn most_per_listener(config: &Config, opened: &[Opened]) -> usize {
    let listeners = opened.iter().filter(|opened| !opened.has_few_clients()).count();
    most_connections(config.service.max_connections.get(), listeners)
}

/// Accepts connections on all listeners, and says so on standard error.
async fn listen(
    opened: Vec<Opened>,
    has_admin: bool,
    service: &Arc<Service>,
) -> Result<Listeners, Failure> {
    let (mut listeners, mut lines) = (Vec::new(), Vec::new());
    for (opened, state) in opened.into_iter().zip(&service.listeners) {
        let Opened { kind, bound, tls } = opened;
        lines.push(format!("listening: {kind} {bound}"));
        if let Some(tls) = &tls {
            tokio::spawn(Arc::clone(tls).follow());
        }
        let router = match kind {
            Kind::Http if has_admin => router::for_clients(Arc::clone(service)),
            Kind::Http | Kind::Admin => router::all(Arc::clone(service)),
            Kind::Metrics => router::metrics(Arc::clone(service)),
            Kind::Health => router::health(Arc::clone(service)),
            Kind::Grpc => grpc(service).await?,
        };
        let served = Served { router, stages: service.stages.clone(), tls };
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

#[cfg(feature = "envoy")]
async fn grpc(service: &Arc<Service>) -> Result<Router, Failure> {
    crate::grpc::router(Arc::clone(service)).await.map_err(Failure::usage)
}

/// Returns no routes: without the feature, no gRPC listener is opened.
#[cfg(not(feature = "envoy"))]
#[expect(clippy::unused_async, reason = "the signature of the function with the feature")]
async fn grpc(_: &Arc<Service>) -> Result<Router, Failure> {
    Ok(Router::new())
}

/// Returns the seal that signs tokens.
fn seal(key: Option<&str>) -> Result<Seal, Failure> {
    let Some(key) = key.map(str::trim) else {
        return Seal::random().map_err(Failure::usage);
    };
    if key.len() < Seal::LEAST_KEY {
        return Err(Failure::usage(format_args!(
            "--token-key (or SLUICEGATE_TOKEN_KEY) has {} bytes: give at least {}, made at random, or \
             leave it out",
            key.len(),
            Seal::LEAST_KEY
        )));
    }
    Ok(Seal::with_key(key.as_bytes()))
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

/// Returns `true` if a config file can be read again. A pipe is empty after the first time.
fn can_be_followed(file: &Path) -> bool {
    let is_file = file.metadata().is_ok_and(|about| about.is_file());
    if !is_file {
        complain(format_args!(
            "note: {} isn't a regular file, so changes to it won't be detected",
            file.display()
        ));
    }
    is_file
}

/// Reads the config file again at every SIGHUP.
async fn reload(mut hangup: Signal, watch: Option<Arc<Watch>>) {
    while hangup.recv().await.is_some() {
        match &watch {
            Some(watch) => watch.reload(),
            None => tracing::warn!("there is no config file to read again: --config names one"),
        }
    }
}

/// Makes an idle embedded store release memory in small steps, so no request waits for it.
async fn sweep(registry: Registry) {
    let store = registry.store();
    let mut ticks = tokio::time::interval(Duration::from_millis(10));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        store.maintain();
    }
}
