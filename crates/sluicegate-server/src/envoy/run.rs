//! Runs the service.

use std::sync::Arc;

use axum::Router;
use sluicegate::config::{ListenAddress, Password, StoreUrl};
use sluicegate::testing::SystemClock;
use sluicegate::{Config, Registry};
use sluicegate_envoy::incumbent::{Environment, LoadOptions, Redis, RuleSource};
use sluicegate_envoy::service::{RateLimits, Routed, XdsClient, routes as grpc_routes};
use tokio::signal::unix::{SignalKind, signal};

use super::cli::RunArgs;
use super::counters::Counters;
use super::files::RuleFiles;
use super::loads::Loads;
use super::pushes;
use super::routes::{self, Shared};
use crate::access::Tokens;
use crate::grpc;
use crate::http::{Readiness, Seal, Secrets, router};
use crate::listening::{self, Opened};
use crate::logging::log_to_stderr_at;
use crate::output::{Exit, Failure, complain};
use crate::running::{Running, no_signals};
use crate::serving::stop::Patience;
use crate::serving::{Kind, PassedSockets};

/// Runs the service until a signal stops it.
///
/// # Errors
/// Returns an error if the service can't start. Files that can't be used and an unreachable store aren't errors, because
/// they may become usable later.
pub(super) async fn run(args: RunArgs, mut passed: PassedSockets) -> Result<Exit, Failure> {
    let environment = environment()?;
    let tokens = Tokens::new(args.admin_token.read()?.as_deref()).map_err(Failure::usage)?;
    let config = config(args.store.as_deref(), environment.redis.as_ref())?;
    let registry = Registry::builder_from(&config).map_err(Failure::usage)?;
    let client = match &environment.source {
        RuleSource::Xds(plane) => {
            let merge_domains = environment.settings.merge_domains;
            Some(XdsClient::new((**plane).clone(), merge_domains).map_err(Failure::usage)?)
        }
        _ => None,
    };
    let loads = Arc::new(Loads::default());
    let opened = open(&args, &environment, &loads, &mut passed).await?;
    // The files of sockets are removed at the end, however it comes.
    let _files: Vec<_> = opened.iter().filter_map(Opened::file).collect();
    log_to_stderr_at(&environment.log_level, environment.logs_json);
    tracing::warn!("the store is {}", config.store);
    for warning in &environment.warnings {
        tracing::warn!("{warning}");
    }
    let secrets = Secrets { tokens, seal: Seal::random().map_err(Failure::usage)? };
    let readiness = Readiness::new(false);
    let running = Running::new(registry, &config, secrets, readiness, &opened, |_| None).await?;
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
    if let Some(client) = client {
        tokio::spawn(pushes::follow(client, limits.clone(), Arc::clone(&loads)));
    } else {
        let merge_domains = environment.settings.merge_domains;
        let options = LoadOptions { merge_domains, strict: args.strict_compat };
        let files = RuleFiles::new(&environment.files, args.config, options, Arc::clone(&loads));
        files.load(&limits);
        tokio::spawn(files.follow(limits.clone(), hangup));
    }
    let needs_rules = environment.needs_rules || waits_for_rules(&environment);
    let shared = Shared { limits, loads, service: Arc::clone(&service), counters, needs_rules };
    let mut served = Vec::new();
    for opened in opened {
        let router = match opened.kind {
            Kind::Grpc => grpc(&shared).await?,
            Kind::Http => routes::http(shared.clone()),
            Kind::Debug => routes::debug(shared.clone()),
            Kind::Metrics => routes::metrics(shared.clone()),
            _ => router::all(Arc::clone(&service)),
        };
        served.push((opened, router));
    }
    let listeners = listening::start(served, &service.listeners, &service.stages)?;
    let patience = Patience { drain: args.drain.into(), shutdown: args.shutdown_timeout.into() };
    running.serve(listeners, patience).await;
    Ok(Exit::Allowed)
}

fn environment() -> Result<Environment, Failure> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())
    };
    Environment::read(std::env::vars_os().map(text))
        .map_err(|errors| Failure::usages(errors.problems()))
}

/// Returns whether the gRPC listener opens with the first rules.
fn waits_for_rules(environment: &Environment) -> bool {
    matches!(&environment.source, RuleSource::Xds(plane) if !plane.starts_without_rules)
}

/// Returns the configuration without the limits of rules: the store.
fn config(store: Option<&str>, redis: Option<&Redis>) -> Result<Config, Failure> {
    let mut config = Config::default();
    config.limits.clear();
    match (store, redis) {
        (Some(store), _) => config.store = crate::setup::store_url(store)?,
        (None, Some(redis)) => {
            config.store = redis.url.parse().map_err(|error| {
                Failure::usage(format_args!("REDIS_URL and REDIS_TYPE: {error}"))
            })?;
            let access = &mut config.redis.access;
            access.user.clone_from(&redis.user);
            access.password = redis.password.clone().map(Password::Text);
            access.ca = redis.ca.as_ref().map(Into::into);
            access.cert = redis.cert.as_ref().map(Into::into);
            access.key = redis.key.as_ref().map(Into::into);
        }
        (None, None) => config.store = StoreUrl::Memory,
    }
    Ok(config)
}

/// Opens the listeners: those of the command line, or else of the environment.
async fn open(
    args: &RunArgs,
    environment: &Environment,
    loads: &Arc<Loads>,
    passed: &mut PassedSockets,
) -> Result<Vec<Opened>, Failure> {
    let address = |given: &Option<ListenAddress>, variable: &str, text: &str| match given {
        Some(address) => Ok(address.clone()),
        None => text
            .parse()
            .map_err(|error| Failure::usage(format_args!("{variable}: `{text}` {error}"))),
    };
    let mut opened = Vec::new();
    if let Some(admin) = &args.admin {
        opened.push(Opened::new(Kind::Admin, "--admin", admin, None, passed).await?);
    }
    // HTTP is last: once its line is printed, all are.
    for (kind, option, given, variables, text) in [
        (Kind::Debug, "--debug", &args.debug, "DEBUG_HOST", &environment.debug),
        (Kind::Grpc, "--grpc", &args.grpc, "GRPC_HOST or GRPC_UDS", &environment.grpc),
        (Kind::Http, "--http", &args.http, "HOST", &environment.http),
    ] {
        let address = address(given, variables, text)?;
        if kind == Kind::Grpc && waits_for_rules(environment) {
            let loads = Arc::clone(loads);
            let opens = Box::pin(async move { loads.first().await });
            opened.push(Opened::later(kind, option, &address, passed, opens).await?);
        } else {
            opened.push(Opened::new(kind, option, &address, None, passed).await?);
        }
    }
    let is_asked_for = args.metrics.is_some() || environment.wants_metrics;
    let text = environment.metrics.as_deref();
    if let Some(text) = text.or_else(|| args.metrics.is_some().then_some("")) {
        let address = address(&args.metrics, "PROMETHEUS_ADDR", text)?;
        match Opened::new(Kind::Metrics, "--metrics", &address, None, passed).await {
            Ok(metrics) => opened.insert(0, metrics),
            Err(failure) if is_asked_for => return Err(failure),
            // Prometheus itself has this port too.
            Err(failure) => complain(format_args!(
                "note: no metrics, because the service {}",
                failure.message()
            )),
        }
    }
    Ok(opened)
}

/// Returns the routes of the gRPC listener.
async fn grpc(shared: &Shared) -> Result<Router, Failure> {
    let guard = grpc::InTurns(Arc::clone(&shared.service));
    let Routed { routes, health } =
        grpc_routes(shared.limits.clone(), guard).await.map_err(Failure::usage)?;
    tokio::spawn(grpc::report(health, Arc::clone(&shared.service)));
    Ok(routes.into_axum_router())
}
