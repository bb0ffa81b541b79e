//! Starts the service.

use std::path::Path;
use std::sync::Arc;

use sluicegate::Registry;
use sluicegate::config::{ListenerConfig, ListenersConfig, LoggedKeys, Watch, WatchOptions};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::access::Tokens;
use crate::cli::ServeArgs;
use crate::decisions::{DecisionLog, Recorder};
use crate::http::{Readiness, Seal, Secrets, Service, frequent, router};
use crate::listening::{self, Opened};
use crate::logging::{self, LOG_LEVEL};
use crate::output::{Exit, Failure, complain};
#[cfg(feature = "resp")]
use crate::resp::Resp;
use crate::running::{Running, no_signals};
use crate::serving::stop::Patience;
use crate::serving::{Answering, Kind, Listeners, PassedSockets, Routes, Tls, TlsNames};
use crate::simulate::Sources;
use crate::supervisor;
use crate::traces::Traces;

/// Runs the service until a signal stops it.
///
/// # Errors
/// Returns an error if the service can't start. An unreachable store isn't an error, because it may
/// become reachable later.
pub(crate) async fn serve(args: ServeArgs, mut passed: PassedSockets) -> Result<Exit, Failure> {
    let tokens = Tokens::new(args.admin_token.read()?.as_deref()).map_err(Failure::usage)?;
    let seal = seal(args.token_key.as_deref())?;
    let mut config = args.setup.config()?;
    let store = args.setup.store_url()?;
    args.listeners.apply(&mut config.listeners);
    args.decision_log.apply(&mut config.decision_log);
    args.recorder.apply(&mut config.recorder);
    let mut registry = Registry::builder_from(&config).map_err(Failure::usage)?;
    let traces = Traces::from_environment().map_err(Failure::usage)?;
    let opened = open(&config.listeners, &mut passed).await?;
    let has_admin = config.listeners.admin.is_some();
    // The files of sockets are removed at the end, however it comes.
    let _files: Vec<_> = opened.iter().filter_map(Opened::file).collect();
    logging::start(LOG_LEVEL, args.log_format, traces.as_ref());
    let log = DecisionLog::open(&config.decision_log, || seal.log_key())?;
    if let Some(log) = &log {
        registry = registry.observer(log.clone());
    }
    let recorder = Recorder::new(config.recorder.size).map(Arc::new);
    if let Some(recorder) = &recorder {
        registry = registry.observer(recorder.clone());
    }
    let sources = Sources {
        recorder,
        log: config.decision_log.file.clone().filter(|file| file != Path::new("-")),
        has_hashes: config.decision_log.keys == LoggedKeys::Hashed,
    };
    let more_metrics = log.iter().map(|log| log.collector()).collect();
    // The command line takes precedence over the file, even after the file changes.
    let file = args.setup.config.filter(|file| can_be_followed(file));
    let (listeners, decision_log, recorder) = (args.listeners, args.decision_log, args.recorder);
    let caps = args.setup.caps.get();
    let watch = |registry: &Registry| {
        let options = WatchOptions::default().caps(caps).adjust(move |config| {
            config.store = store.clone().unwrap_or_else(|| config.store.clone());
            listeners.apply(&mut config.listeners);
            decision_log.apply(&mut config.decision_log);
            recorder.apply(&mut config.recorder);
        });
        file.map(|file| registry.watch_with(file, options))
    };
    let secrets = Secrets { tokens, seal };
    let readiness = Readiness::new(!args.ready_without_store);
    let running = Running::new(
        args.name,
        registry,
        &config,
        secrets,
        readiness,
        &opened,
        more_metrics,
        watch,
    )
    .await?;
    // The registry has all that it needs, and a config with very many limits uses much memory.
    drop(config);
    let service = Arc::clone(&running.service);
    if let Some(log) = &log {
        service.overview.set_log(Arc::clone(log));
    }
    service.simulator.set(sources);
    let hangup = signal(SignalKind::hangup()).map_err(|error| no_signals(&error))?;
    tokio::spawn(reload(hangup, service.watch.clone()));
    if service.access.is_open() {
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
    let last = async {
        let log = async {
            if let Some(log) = log {
                log.finish().await;
            }
        };
        let traces = async {
            if let Some(traces) = traces {
                traces.end().await;
            }
        };
        tokio::join!(log, traces);
    };
    Ok(running.serve(listeners, patience, last).await)
}

/// Opens all listeners of the configuration.
async fn open(
    listeners: &ListenersConfig,
    passed: &mut PassedSockets,
) -> Result<Vec<Opened>, Failure> {
    if cfg!(not(feature = "resp")) && listeners.resp.is_some() {
        return Err(Failure::usage(
            "this program doesn't speak Redis' protocol: leave out --resp, or build it with the feature `resp`",
        ));
    }
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
        #[cfg(feature = "resp")]
        (Kind::Resp, listeners.resp.as_ref()),
        (Kind::Http, Some(&listeners.http)),
    ] {
        let Some(ListenerConfig { address, tls, .. }) = listener else { continue };
        let new = Opened::new(kind, kind.option(), address, passed, None).await?;
        let tls = tls.clone().map(|tls| Tls::new(TlsNames::in_file(kind), tls)).transpose();
        opened.push(new.tls(tls.map_err(Failure::usage)?));
    }
    Ok(opened)
}

/// Accepts connections on all listeners.
async fn listen(
    opened: Vec<Opened>,
    has_admin: bool,
    service: &Arc<Service>,
) -> Result<Listeners, Failure> {
    let mut served = Vec::new();
    for opened in opened {
        let service = Arc::clone(service);
        let answering = match opened.kind {
            Kind::Http if has_admin => {
                let router = router::for_clients(Arc::clone(&service));
                Answering::Http(frequent::routes(router, service))
            }
            Kind::Metrics => Answering::Http(Routes::new(router::metrics(service))),
            Kind::Health => Answering::Http(Routes::new(router::health(service))),
            Kind::Grpc => Answering::Http(grpc(service).await?),
            #[cfg(feature = "resp")]
            Kind::Resp => Answering::Other(Arc::new(Resp::new(service))),
            _ => {
                let router = router::all(Arc::clone(&service));
                Answering::Http(frequent::routes(router, service))
            }
        };
        served.push((opened, answering));
    }
    listening::start(served, &service.listeners, &service.stages)
}

#[cfg(feature = "envoy")]
async fn grpc(service: Arc<Service>) -> Result<Routes, Failure> {
    crate::grpc::routes(service).await.map_err(Failure::usage)
}

/// Returns no routes: without the feature, no gRPC listener is opened.
#[cfg(not(feature = "envoy"))]
#[expect(clippy::unused_async, reason = "the signature of the function with the feature")]
async fn grpc(_: Arc<Service>) -> Result<Routes, Failure> {
    Ok(Routes::new(axum::Router::new()))
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
        supervisor::reloading();
        let Some(watch) = &watch else {
            tracing::warn!("there is no config file to read again: --config names one");
            supervisor::ready("Serving without a config file");
            continue;
        };
        let seen = watch.status().attempts();
        watch.reload();
        let status = watch.changed(seen).await;
        supervisor::ready(match status.last_error {
            None => "Serving; the config file is in force",
            Some(_) => {
                "Serving by an older configuration: the log says why the file is not in force"
            }
        });
    }
}
