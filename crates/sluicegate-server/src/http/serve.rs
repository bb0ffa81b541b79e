//! Listening, and stopping without dropping what is in flight.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use sluicegate::{Registry, Store as _, Watch, WatchOptions};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::MissedTickBehavior;
use tracing_subscriber::EnvFilter;

use super::guard::Guard;
use super::router::router;
use super::service::Service;
use crate::cli::ServeArgs;
use crate::output::{Exit, Failure, complain, say};

/// How many connections are open at once; more wait to be accepted.
const MOST_CONNECTIONS: usize = 10_000;

/// How long a connection may be idle, or take to send a request's head.
const HEAD_PATIENCE: Duration = Duration::from_secs(60);

/// Runs the service until a signal stops it.
///
/// # Errors
/// If it can't start. An unreachable store doesn't prevent that: it may come up later.
pub(crate) async fn serve(args: ServeArgs) -> Result<Exit, Failure> {
    // A token from a file often ends with a line break.
    let admin_token = args.admin_token.map(|token| token.trim().to_owned());
    if admin_token.as_ref().is_some_and(String::is_empty) {
        return Err(Failure::usage(
            "--admin-token (or SLUICEGATE_ADMIN_TOKEN) is empty: leave it out, or give a token",
        ));
    }
    let mut config = args.setup.config()?;
    let store = args.setup.store_url()?;
    if let Some(listen) = args.listen {
        config.listen = listen;
    }
    let registry = Registry::builder_from(&config).map_err(Failure::usage)?;
    let wanted = config.listen;
    let cannot_listen = |error: io::Error| {
        Failure::usage(format_args!(
            "can't listen on {wanted}: {error}; choose another address with --listen"
        ))
    };
    let listener = TcpListener::bind(wanted).await.map_err(cannot_listen)?;
    let address = listener.local_addr().map_err(cannot_listen)?;
    log_to_stderr();
    // The command line takes precedence over the file, even when the file changes.
    let (file, listen) = (args.setup.config.filter(|file| can_be_followed(file)), args.listen);
    let watch = |registry: &Registry| {
        let options = WatchOptions::default().adjust(move |config| {
            config.store = store.clone().unwrap_or_else(|| config.store.clone());
            config.listen = listen.unwrap_or(config.listen);
        });
        file.map(|file| registry.watch_with(file, options))
    };
    let service = Arc::new(Service::new(registry, Guard::new(address, admin_token), watch));
    tokio::spawn(connect(service.registry.clone()));
    tokio::spawn(sweep(service.registry.clone()));
    // Before printing the address: from then on, a signal stops the service gracefully.
    let no_signals =
        |error: io::Error| Failure::usage(format_args!("can't wait for signals: {error}"));
    let stop = StopSignals::new().map_err(no_signals)?;
    tokio::spawn(reload(signal(SignalKind::hangup()).map_err(no_signals)?, service.watch.clone()));
    say(format_args!("listening on http://{address}"));
    run(listener, router(service), stop, args.shutdown_timeout.into()).await;
    Ok(Exit::Allowed)
}

/// Whether a config file can be read again: a pipe is empty after the first time.
fn can_be_followed(file: &Path) -> bool {
    let is_file = file.metadata().is_ok_and(|about| about.is_file());
    if !is_file {
        complain(format_args!(
            "note: {} is no file that can be read again: changes of it will not be noticed",
            file.display()
        ));
    }
    is_file
}

/// Logs go to standard error.
fn log_to_stderr() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(io::stderr)
        // If the reader of the log is gone, reporting that would panic.
        .log_internal_errors(false);
    // An existing subscriber stays.
    let _ = subscriber.try_init();
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

async fn run(listener: TcpListener, router: Router, mut stop: StopSignals, patience: Duration) {
    let connections = GracefulShutdown::new();
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let (stream, permit) = tokio::select! {
            accepted = accept(&listener, &room) => accepted,
            () = stop.next() => break,
        };
        let _ = stream.set_nodelay(true);
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_PATIENCE)
            // A client may close its sending side and still wait for the response.
            .half_close(true)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router.clone()));
        let connection = connections.watch(connection);
        tokio::spawn(async move {
            // Ignore clients that went away.
            let _ = connection.await;
            drop(permit);
        });
    }
    drop(listener);
    tokio::select! {
        () = connections.shutdown() => {}
        () = tokio::time::sleep(patience) => complain(format_args!(
            "note: stopped with requests in flight after waiting {} ms for them",
            patience.as_millis()
        )),
        () = stop.next() => {
            complain("note: stopped with requests in flight, because a second signal asked for it");
        }
    }
}

/// Accepts the next connection, once there is room for one.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> (TcpStream, Option<OwnedSemaphorePermit>) {
    /// How long to wait when the system has no more files or memory for connections.
    const PAUSE: Duration = Duration::from_millis(100);
    // Nobody closes the semaphore.
    let permit = Arc::clone(room).acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, _peer)) => return (stream, permit),
            Err(error) if is_of_one_client(&error) => {}
            Err(error) => {
                tracing::error!("can't accept a connection: {error}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Whether a client gave up before it was accepted.
fn is_of_one_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
    )
}

/// Connects to the store, so that the first request doesn't have to. `/readyz` reports whether the
/// store is there.
async fn connect(registry: Registry) {
    let _ = registry.store().ping().await;
}

/// Lets an idle embedded store release memory.
async fn sweep(registry: Registry) {
    let store = registry.store();
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    seconds.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        seconds.tick().await;
        store.maintain();
    }
}

/// SIGTERM and SIGINT: the first asks for a graceful stop, the second for an immediate one.
struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
