//! Starts the service.

use std::ffi::OsStr;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sluicegate::Registry;
use sluicegate::config::{ListenAddress, ListenHost};
use sluicegate::config::{Watch, WatchOptions};
use sluicegate::store::Store as _;
use sluicegate_core::printable;
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::MissedTickBehavior;
use tracing_subscriber::EnvFilter;

use super::connections::{Connections, PerAddress};
use super::file_limit::most_connections;
use super::listener::Listener;
use super::readiness::Readiness;
use super::router;
use super::seal::Seal;
use super::service::{Bounds, Secrets, Service};
use super::stage::Stages;
use super::stop::{self, Patience};
use super::turns::Turns;
use super::waiting::Waiting;
use crate::access::Tokens;
use crate::cli::ServeArgs;
use crate::output::{Exit, Failure, complain, say};
use crate::signals::StopSignals;

/// Runs the service until a signal stops it.
///
/// # Errors
/// Returns an error if the service can't start. An unreachable store isn't an error, because it may
/// become reachable later.
pub(crate) async fn serve(args: ServeArgs) -> Result<Exit, Failure> {
    let tokens = Tokens::new(args.admin_token.read()?.as_deref()).map_err(Failure::usage)?;
    let seal = seal(args.token_key.as_deref())?;
    let mut config = args.setup.config()?;
    let store = args.setup.store_url()?;
    if let Some(listen) = &args.listen {
        config.listen = listen.clone();
    }
    let registry = Registry::builder_from(&config).map_err(Failure::usage)?;
    let (socket, address) = listen(&config.listen, "--listen").await?;
    let health = match &args.health {
        Some(address) => Some(listen(address, "--health").await?),
        None => None,
    };
    log_to_stderr();
    // The command line takes precedence over the file, even after the file changes.
    let (file, listen) = (args.setup.config.filter(|file| can_be_followed(file)), args.listen);
    let caps = args.setup.caps.get();
    let watch = |registry: &Registry| {
        let options = WatchOptions::default().caps(caps).adjust(move |config| {
            config.store = store.clone().unwrap_or_else(|| config.store.clone());
            config.listen = listen.clone().unwrap_or_else(|| config.listen.clone());
        });
        file.map(|file| registry.watch_with(file, options))
    };
    let (stage, stages) = Stages::new();
    let settings = config.service.clone();
    let turns = Turns::new(settings.max_requests);
    let secrets = Secrets { tokens, seal };
    let per_address = settings.max_connections_per_address;
    let most = most_connections(settings.max_connections.get());
    let waiting = Waiting::new(settings.max_waiting.get(), most);
    let bounds = Bounds { turns, waiting };
    let readiness = Readiness::new(!args.ready_without_store);
    let connections = |registry: &Registry| {
        let bound = |most| PerAddress { most, registry: registry.clone() };
        Connections::new(most, per_address.map(bound))
    };
    let service =
        Service::new(registry, secrets, bounds, readiness, stages.clone(), connections, watch);
    let service = Arc::new(service);
    // The registry has all that it needs, and a config with very many limits uses much memory.
    drop(config);
    // Ping before the first probe, so a reachable store is reported.
    service.readiness.ping(&service.registry).await;
    tokio::spawn(Arc::clone(&service.readiness).watch(service.registry.clone()));
    tokio::spawn(sweep(service.registry.clone()));
    // Before printing the address: from then on, a signal stops the service gracefully.
    let no_signals =
        |error: io::Error| Failure::usage(format_args!("can't wait for signals: {error}"));
    let signals = StopSignals::new().map_err(no_signals)?;
    tokio::spawn(reload(signal(SignalKind::hangup()).map_err(no_signals)?, service.watch.clone()));
    if let Some((socket, address)) = health {
        answer_health(socket, Arc::clone(&service))?;
        say(format_args!("health on http://{address}"));
    }
    say(format_args!("listening on http://{address}"));
    if service.access.is_open() {
        complain(
            "note: no admin token is set, so every program on this machine can make admin calls, \
             such as bans, resets and lists of keys. Set SLUICEGATE_ADMIN_TOKEN or \
             --admin-token-file before a proxy or tunnel forwards to this port. Without a \
             Forwarded, X-Forwarded-*, X-Real-IP or Via field, forwarded requests look like those \
             of a local program",
        );
    }
    let connections = Arc::clone(&service.connections);
    let listener = Listener { socket, connections, router: router::all(service), stages };
    let patience = Patience { drain: args.drain.into(), shutdown: args.shutdown_timeout.into() };
    stop::run(listener, stage, signals, patience).await;
    Ok(Exit::Allowed)
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

/// Listens on an address from an option.
async fn listen(
    wanted: &ListenAddress,
    option: &str,
) -> Result<(TcpListener, SocketAddr), Failure> {
    let failure = |error: io::Error| {
        Failure::usage(format_args!(
            "can't listen on {wanted}: {error}; choose another address with {option}"
        ))
    };
    let socket = bind(wanted).await.map_err(failure)?;
    let address = socket.local_addr().map_err(failure)?;
    Ok((socket, address))
}

/// Binds an address. An address in use is an error, so two services never share one.
async fn bind(wanted: &ListenAddress) -> io::Result<TcpListener> {
    let port = wanted.port();
    let address = match wanted.host() {
        ListenHost::Ip(address) => SocketAddr::new(*address, port),
        ListenHost::Name(name) => {
            let mut found = tokio::net::lookup_host((&**name, port)).await?;
            let first = found.next();
            let ipv4 = first.into_iter().chain(found).find(SocketAddr::is_ipv4);
            let none = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
            ipv4.or(first).ok_or_else(none)?
        }
        _ => return bind_all(port).await,
    };
    TcpListener::bind(address).await
}

/// Binds a port on all addresses, or on all IPv4 addresses if the system lacks IPv6.
async fn bind_all(port: u16) -> io::Result<TcpListener> {
    let both = || {
        let socket = TcpSocket::new_v6()?;
        socket2::SockRef::from(&socket).set_only_v6(false)?;
        // As in `TcpListener::bind`: a restart can use the port immediately.
        socket.set_reuseaddr(true)?;
        socket.bind((Ipv6Addr::UNSPECIFIED, port).into())?;
        socket.listen(1024)
    };
    match both() {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await
        }
        bound => bound,
    }
}

/// Answers health checks on a separate listener until the process ends. It uses a separate thread,
/// because the other threads may be overloaded.
fn answer_health(socket: TcpListener, service: Arc<Service>) -> Result<(), Failure> {
    /// Few clients send health checks.
    const MOST_CONNECTIONS: usize = 32;
    let failure = |error: io::Error| {
        Failure::usage(format_args!("can't answer health checks: {error}; leave out --health"))
    };
    let socket = socket.into_std().map_err(failure)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failure)?;
    let answer = async move {
        let socket = TcpListener::from_std(socket)?;
        let stages = service.stages.clone();
        let connections = Connections::new(MOST_CONNECTIONS, None);
        let router = router::health(service);
        Listener { socket, connections, router, stages }.accept(std::future::pending::<()>()).await;
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

/// Logs go to standard error.
fn log_to_stderr() {
    let wanted = std::env::var_os(EnvFilter::DEFAULT_ENV).filter(|wanted| !wanted.is_empty());
    let filter = wanted.and_then(|wanted| log_filter(&wanted));
    let filter = filter.unwrap_or_else(|| EnvFilter::new(LOG_LEVEL));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(io::stderr)
        // If the reader of the log is gone, reporting it would panic.
        .log_internal_errors(false);
    // Keep an existing subscriber.
    let _ = subscriber.try_init();
}

/// Default level of the log, if `RUST_LOG` isn't set.
const LOG_LEVEL: &str = "info";

/// Parses `RUST_LOG`. If it is invalid, standard error says so.
fn log_filter(wanted: &OsStr) -> Option<EnvFilter> {
    let wanted = wanted.to_string_lossy();
    let filter = EnvFilter::builder().parse(&wanted);
    if let Err(error) = &filter {
        complain(format_args!(
            "note: {} is `{}`, which is ignored ({error}), so the level is {LOG_LEVEL}: write a \
             level (debug) or levels of modules (info,sluicegate=debug)",
            EnvFilter::DEFAULT_ENV,
            printable(&wanted)
        ));
    }
    filter.ok()
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
