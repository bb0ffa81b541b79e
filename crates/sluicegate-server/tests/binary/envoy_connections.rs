//! Tests the connections of `sluicegate envoy`: TLS, and their maximum age.

use std::fs;
use std::path::Path;
use std::time::Duration;

use sluicegate_envoy::service::protos::rate_limit_descriptor::Entry;
use sluicegate_envoy::service::protos::rate_limit_service_client::RateLimitServiceClient;
use sluicegate_envoy::service::protos::{RateLimitDescriptor, RateLimitRequest};
use sluicegate_testkit::servers::{Authority, Certificate as Issued};
use sluicegate_testkit::wait::until_async;
use tempfile::TempDir;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::envoy::start;
use crate::streams::Streams;
use crate::support::{Service, binary};

const CHECK: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// A folder with the files of the listener, and the authority that has signed them.
struct Files {
    folder: TempDir,
    authority: Authority,
}

impl Files {
    fn new() -> Self {
        let files =
            Self { folder: tempfile::tempdir().unwrap(), authority: Authority::new().unwrap() };
        files.use_certificate(&files.issue("rls.test"));
        files
    }

    fn issue(&self, name: &str) -> Issued {
        self.authority.certificate(name, &[name]).unwrap()
    }

    fn use_certificate(&self, certificate: &Issued) {
        fs::copy(certificate.certificate_file(), self.folder.path().join("cert.pem")).unwrap();
        fs::copy(certificate.key_file(), self.folder.path().join("key.pem")).unwrap();
    }

    /// Starts the service with TLS, and more variables.
    fn start(&self, more: &[(&str, &str)]) -> Service {
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        let (cert, key) = (path("cert.pem"), path("key.pem"));
        let fixed = [
            ("GRPC_SERVER_USE_TLS", "true"),
            ("GRPC_SERVER_TLS_CERT", cert.as_str()),
            ("GRPC_SERVER_TLS_KEY", key.as_str()),
        ];
        start(&[&fixed, more].concat(), &[])
    }

    /// Asks as a client that trusts the authority, and expects a name of the service.
    async fn ask(
        &self,
        service: &Service,
        name: &str,
        client: Option<&Issued>,
    ) -> Result<(), String> {
        let read = |path: &Path| fs::read(path).unwrap();
        let trusted = Certificate::from_pem(read(self.authority.certificate_file()));
        let mut tls = ClientTlsConfig::new().ca_certificate(trusted).domain_name(name);
        if let Some(client) = client {
            let key = read(client.key_file());
            tls = tls.identity(Identity::from_pem(read(client.certificate_file()), key));
        }
        let endpoint = Endpoint::from_shared(format!("https://{}", service.address_of("grpc")));
        let endpoint = endpoint.unwrap().timeout(Duration::from_secs(60)).tls_config(tls).unwrap();
        let channel = endpoint.connect().await.map_err(|error| format!("{error:?}"))?;
        let entry = Entry { key: "user".to_owned(), value: "alice".to_owned() };
        let request = RateLimitRequest {
            domain: "shop".to_owned(),
            descriptors: vec![RateLimitDescriptor { entries: vec![entry], ..Default::default() }],
            ..Default::default()
        };
        let answer = RateLimitServiceClient::new(channel).should_rate_limit(request).await;
        answer.map(|_| ()).map_err(|status| status.to_string())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rate_limit_service_has_the_certificate_of_the_variables_and_reads_it_again() {
    let files = Files::new();
    let service = files.start(&[]);
    files.ask(&service, "rls.test", None).await.unwrap();
    assert!(files.ask(&service, "other.test", None).await.is_err());
    let plain = Streams::try_to_connect(service.address_of("grpc")).await;
    if let Ok(plain) = plain {
        assert!(plain.post(CHECK, "").await.is_err(), "a client without TLS");
    }
    assert_eq!(service.get("/healthcheck").status, 200, "the other listeners are plain");
    files.use_certificate(&files.issue("other.test"));
    until_async("the new certificate", async || files.ask(&service, "other.test", None).await)
        .await;
    assert!(files.ask(&service, "rls.test", None).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_need_a_certificate_of_the_authority_with_the_name() {
    let files = Files::new();
    // It removes the files of its certificates when dropped.
    let foreign = Authority::new().unwrap();
    let stranger = foreign.certificate("edge.test", &["edge.test"]).unwrap();
    let [edge, other] = ["edge.test", "other.test"].map(|name| files.issue(name));
    let address = files.authority.certificate("address", &["192.0.2.7"]).unwrap();
    let authority = files.authority.certificate_file().to_str().unwrap();
    let ca = ("GRPC_CLIENT_TLS_CACERT", authority);
    for (variables, accepted) in [
        (vec![ca], [true, true, true]),
        (vec![ca, ("GRPC_CLIENT_TLS_SAN", "edge.test")], [true, false, false]),
        (vec![ca, ("GRPC_CLIENT_TLS_SAN", "192.0.2.7")], [false, false, true]),
    ] {
        let service = files.start(&variables);
        for (client, is_accepted) in [&edge, &other, &address].into_iter().zip(accepted) {
            let asked = files.ask(&service, "rls.test", Some(client)).await;
            assert_eq!(asked.is_ok(), is_accepted, "{variables:?}: {asked:?}");
        }
        for client in [None, Some(&stranger)] {
            assert!(files.ask(&service, "rls.test", client).await.is_err(), "{variables:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_authority_for_clients_is_in_force_without_a_restart() {
    let files = Files::new();
    let foreign = Authority::new().unwrap();
    let [own, other] = [&files.authority, &foreign]
        .map(|authority| authority.certificate("edge", &["edge.test"]).unwrap());
    let file = files.folder.path().join("ca.pem");
    fs::copy(files.authority.certificate_file(), &file).unwrap();
    let service = files.start(&[("GRPC_CLIENT_TLS_CACERT", file.to_str().unwrap())]);
    files.ask(&service, "rls.test", Some(&own)).await.unwrap();
    assert!(files.ask(&service, "rls.test", Some(&other)).await.is_err());
    fs::copy(foreign.certificate_file(), &file).unwrap();
    until_async("the other authority", async || {
        files.ask(&service, "rls.test", Some(&other)).await
    })
    .await;
    assert!(files.ask(&service, "rls.test", Some(&own)).await.is_err());
}

#[test]
fn files_and_names_that_cannot_be_used_are_named_by_their_variables() {
    let files = Files::new();
    let path = |name: &str| files.folder.path().join(name).display().to_string();
    let (cert, key, none) = (path("cert.pem"), path("key.pem"), path("none.pem"));
    let ca = files.authority.certificate_file().to_str().unwrap();
    for (cert, key, more, said) in [
        (&cert, &none, &[][..], "the file of `GRPC_SERVER_TLS_KEY`, "),
        (&key, &key, &[], "the file of `GRPC_SERVER_TLS_CERT`, "),
        (&cert, &key, &[("GRPC_CLIENT_TLS_CACERT", key.as_str())], "`GRPC_CLIENT_TLS_CACERT`, "),
        (
            &cert,
            &key,
            &[("GRPC_CLIENT_TLS_CACERT", ca), ("GRPC_CLIENT_TLS_SAN", "a b")],
            "GRPC_CLIENT_TLS_SAN must be a DNS name or an address, but is `a b`",
        ),
    ] {
        let mut command = binary();
        let ports = ["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--debug", "127.0.0.1:0"];
        command.arg("envoy").args(ports).envs([
            ("GRPC_SERVER_USE_TLS", "true"),
            ("GRPC_SERVER_TLS_CERT", cert),
            ("GRPC_SERVER_TLS_KEY", key),
        ]);
        let output = command.envs(more.iter().copied()).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(said), "{stderr}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_connection_ends_and_its_streams_have_a_grace() {
    let variables =
        [("GRPC_MAX_CONNECTION_AGE", "300ms"), ("GRPC_MAX_CONNECTION_AGE_GRACE", "300ms")];
    let service = start(&variables, &[]);
    let streams = until_async("an answer", async || {
        // A slow machine may need longer than the age.
        let streams = Streams::connect(service.address_of("grpc")).await;
        match streams.post(CHECK, "").await {
            Ok(_) => Ok(streams),
            Err(error) => Err(error),
        }
    })
    .await;
    // It ends without an error, because the client gets a GOAWAY.
    streams.closed().await.unwrap();
    let busy = until_async("a stream", async || {
        let streams = Streams::connect(service.address_of("grpc")).await;
        match streams.begin("POST", CHECK, false).await {
            Ok(stream) => Ok((streams, stream)),
            Err(error) => Err(error),
        }
    })
    .await;
    let (streams, (response, _sending)) = busy;
    assert!(response.await.is_err(), "its body never came");
    let _ = streams.closed().await;
    let endless = start(&[("GRPC_MAX_CONNECTION_AGE", "0")], &[]);
    let streams = Streams::connect(endless.address_of("grpc")).await;
    assert!(streams.post(CHECK, "").await.is_ok());
}
