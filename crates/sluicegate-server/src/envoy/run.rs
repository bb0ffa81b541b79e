//! Runs the service.

use std::sync::Arc;

use prometheus_client::collector::Collector;
use sluicegate::config::DecisionLogConfig;
use sluicegate::testing::SystemClock;
use sluicegate_envoy::incumbent::{Environment, LoadOptions, RuleSource};
use sluicegate_envoy::service::{RateLimits, XdsClient, routes as grpc_routes};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::cli::RunArgs;
use super::counters::Counters;
use super::files::RuleFiles;
use super::listeners::{self, waits_for_rules};
use super::loads::Loads;
use super::plane::{Plane, PlaneCollector};
use super::pushes;
use super::routes::{self, Shared};
use super::stores::Stores;
use crate::access::Tokens;
use crate::decisions::DecisionLog;
use crate::grpc;
use crate::http::{Readiness, Seal, Secrets, router};
use crate::listening::{self, Opened};
use crate::logging::{self, LogFormat};
use crate::output::{Exit, Failure};
use crate::running::{Running, no_signals};
use crate::serving::stop::Patience;
use crate::serving::{Answering, Kind, PassedSockets, Routes};
use crate::supervisor;
use crate::traces::Traces;

/// Runs the service until a signal stops it.
///
/// # Errors
/// Returns an error if the service can't start. Files that can't be used and an unreachable store aren't errors, because
/// they may become usable later.
pub(super) async fn run(args: RunArgs, mut passed: PassedSockets) -> Result<Exit, Failure> {
    let environment = environment()?;
    let tokens = Tokens::new(args.admin_token.read()?.as_deref()).map_err(Failure::usage)?;
    let stores = Stores::new(args.store.as_deref(), &environment)?;
    let (config, mut registry) = (stores.config(), stores.registry()?);
    let loads = Arc::new(Loads::default());
    let client = match &environment.source {
        RuleSource::Xds(plane) => {
            let client = XdsClient::new((**plane).clone(), environment.settings.merge_domains);
            Some((client.map_err(Failure::usage)?, Plane::new(Arc::clone(&loads))))
        }
        _ => None,
    };
    let traces = Traces::from_environment().map_err(Failure::usage)?;
    let opened = listeners::open(&args, &environment, &loads, &mut passed).await?;
    // The files of sockets are removed at the end, however it comes.
    let _files: Vec<_> = opened.iter().filter_map(Opened::file).collect();
    let of_environment = if environment.logs_json { LogFormat::Json } else { LogFormat::Text };
    let log_format = args.log_format.unwrap_or(of_environment);
    logging::start(&environment.log_level, log_format, traces.as_ref());
    tracing::warn!("the store is {stores}");
    for warning in &environment.warnings {
        tracing::warn!("{warning}");
    }
    let seal = Seal::random().map_err(Failure::usage)?;
    let mut log = DecisionLogConfig::default();
    args.decision_log.apply(&mut log);
    let log = DecisionLog::open(&log, || seal.log_key())?;
    if let Some(log) = &log {
        registry = registry.observer(log.clone());
    }
    let secrets = Secrets { tokens, seal };
    let readiness = Readiness::new(false);
    let plane = client.as_ref().map(|(_, plane)| PlaneCollector(Arc::clone(plane)));
    let more: Vec<Box<dyn Collector>> = plane.into_iter().map(|it| Box::new(it) as _).collect();
    let more = more.into_iter().chain(log.iter().map(|log| log.collector())).collect();
    let running =
        Running::new(None, registry, &config, secrets, readiness, &opened, more, |_| None).await?;
    let service = Arc::clone(&running.service);
    let counters = args.incumbent_metrics.then(|| Arc::new(Counters::default()));
    let counted = counters.clone();
    let limits = RateLimits::with(
        service.registry.clone(),
        config,
        environment.settings.clone(),
        SystemClock::default(),
        move |decided| {
            if let Some(counters) = &counted {
                counters.count(decided);
            }
        },
    );
    let hangup = signal(SignalKind::hangup()).map_err(|error| no_signals(&error))?;
    if let Some((client, plane)) = client {
        tokio::spawn(pushes::follow(client, limits.clone(), plane));
        tokio::spawn(nothing_to_reload(hangup));
    } else {
        let merge_domains = environment.settings.merge_domains;
        let options = LoadOptions { merge_domains, strict: args.strict_compat };
        let files = RuleFiles::new(&environment.files, args.config, options, Arc::clone(&loads));
        files.load(&limits);
        tokio::spawn(files.follow(limits.clone(), hangup));
    }
    let waits_for_rules = waits_for_rules(&environment);
    let needs_rules = environment.needs_rules || waits_for_rules;
    let shared = Shared {
        limits,
        loads,
        service: Arc::clone(&service),
        counters,
        needs_rules,
        waits_for_rules,
    };
    let mut served = Vec::new();
    for opened in opened {
        let routes = match opened.kind {
            Kind::Grpc => grpc(&shared).await?,
            Kind::Http => Routes::new(routes::http(shared.clone())),
            Kind::Debug => Routes::new(routes::debug(shared.clone())),
            Kind::Metrics => Routes::new(routes::metrics(shared.clone())),
            _ => Routes::new(router::all(Arc::clone(&service))),
        };
        served.push((opened, Answering::Http(routes)));
    }
    let listeners = listening::start(served, &service.listeners, &service.stages)?;
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

/// Answers every SIGHUP: a control plane sends its rules without being asked.
async fn nothing_to_reload(mut hangup: Signal) {
    while hangup.recv().await.is_some() {
        supervisor::reloading();
        tracing::warn!("there are no files to read again: the rules come from a control plane");
        supervisor::ready("Serving by the rules of a control plane");
    }
}

fn environment() -> Result<Environment, Failure> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())
    };
    Environment::read(std::env::vars_os().map(text))
        .map_err(|errors| Failure::usages(errors.problems()))
}

/// Returns the routes of the gRPC listener.
async fn grpc(shared: &Shared) -> Result<Routes, Failure> {
    let guard = grpc::InTurns(Arc::clone(&shared.service));
    let routed = grpc_routes(shared.limits.clone(), guard).await.map_err(Failure::usage)?;
    Ok(grpc::served(routed, Arc::clone(&shared.service)))
}
