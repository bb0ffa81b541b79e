//! The listeners of the service.

use std::sync::Arc;

use sluicegate::config::{ClientCertificates, ListenAddress, TlsConfig};
use sluicegate_core::printable;
use sluicegate_envoy::incumbent::{Environment, GrpcListener, GrpcTls, RuleSource};
use tokio_rustls::rustls::pki_types::ServerName;

use super::cli::RunArgs;
use super::loads::Loads;
use crate::listening::{Opened, Opens};
use crate::output::{Failure, complain};
use crate::serving::{ConnectionAge, Kind, PassedSockets, Tls, TlsNames};

/// Opens the listeners: those of the command line, or else of the environment.
///
/// # Errors
/// Returns an error if an address or a file for TLS can't be used.
pub(super) async fn open(
    args: &RunArgs,
    environment: &Environment,
    loads: &Arc<Loads>,
    passed: &mut PassedSockets,
) -> Result<Vec<Opened>, Failure> {
    let mut opened = Vec::new();
    if let Some(admin) = &args.admin {
        opened.push(Opened::new(Kind::Admin, "--admin", admin, passed, None).await?);
    }
    // HTTP is last: once its line is printed, all are.
    for (kind, option, given, variables, text) in [
        (Kind::Debug, "--debug", &args.debug, "DEBUG_HOST", &environment.debug),
        (Kind::Grpc, "--grpc", &args.grpc, "GRPC_HOST or GRPC_UDS", &environment.grpc.address),
        (Kind::Http, "--http", &args.http, "HOST", &environment.http),
    ] {
        let address = address(given.as_ref(), variables, text)?;
        let opens = (kind == Kind::Grpc && waits_for_rules(environment)).then(|| {
            let loads = Arc::clone(loads);
            Box::pin(async move { loads.first().await }) as Opens
        });
        let mut new = Opened::new(kind, option, &address, passed, opens).await?;
        if kind == Kind::Grpc {
            let GrpcListener { tls, max_connection_age, max_connection_age_grace, .. } =
                &environment.grpc;
            let age = ConnectionAge::new(*max_connection_age, *max_connection_age_grace);
            new = new.tls(tls.as_ref().map(self::tls).transpose()?).max_age(age);
        }
        opened.push(new);
    }
    let is_asked_for = args.metrics.is_some() || environment.wants_metrics;
    let text = environment.metrics.as_deref();
    if let Some(text) = text.or_else(|| args.metrics.is_some().then_some("")) {
        let address = address(args.metrics.as_ref(), "PROMETHEUS_ADDR", text)?;
        match Opened::new(Kind::Metrics, "--metrics", &address, passed, None).await {
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

/// Returns whether the gRPC listener opens with the first rules.
pub(super) fn waits_for_rules(environment: &Environment) -> bool {
    matches!(&environment.source, RuleSource::Xds(plane) if !plane.starts_without_rules)
}

/// Returns the address of the command line, or that of variables.
fn address(
    given: Option<&ListenAddress>,
    variables: &str,
    text: &str,
) -> Result<ListenAddress, Failure> {
    match given {
        Some(address) => Ok(address.clone()),
        None => text
            .parse()
            .map_err(|error| Failure::usage(format_args!("{variables}: `{text}` {error}"))),
    }
}

/// Reads the files for TLS of the gRPC listener.
fn tls(files: &GrpcTls) -> Result<Tls, Failure> {
    let clients = match &files.client_ca {
        Some(authority) => ClientCertificates::Required(authority.into()),
        None => ClientCertificates::Ignored,
    };
    let names = TlsNames {
        tls: "GRPC_SERVER_USE_TLS".to_owned(),
        cert: "GRPC_SERVER_TLS_CERT",
        key: "GRPC_SERVER_TLS_KEY",
        client_ca: "GRPC_CLIENT_TLS_CACERT",
    };
    let config = TlsConfig::new((&files.cert).into(), (&files.key).into(), clients);
    let tls = Tls::new(names, config).map_err(Failure::usage)?;
    let Some(name) = &files.client_name else { return Ok(tls) };
    match ServerName::try_from(name.clone()) {
        Ok(name) => Ok(tls.for_clients_named(name)),
        Err(_) => Err(Failure::usage(format_args!(
            "GRPC_CLIENT_TLS_SAN must be a DNS name or an address, but is `{}`",
            printable(name)
        ))),
    }
}
