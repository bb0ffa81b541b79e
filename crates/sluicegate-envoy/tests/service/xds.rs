//! Rules from a control plane.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use sluicegate::{Config, MemoryStore, Registry};
use sluicegate_envoy::incumbent::{Descriptor, Environment, Request, RuleSource, Settings};
use sluicegate_envoy::service::protos::{DiscoveryRequest, DiscoveryResponse};
use sluicegate_envoy::service::{RateLimits, XdsClient, XdsEvent};
use sluicegate_testkit::servers::Authority;
use sluicegate_testkit::wait::until_async;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::Status;
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};

use crate::control_plane::{ControlPlane, Stream, TYPE, domain, resource};

const FREE: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

/// A client of a control plane, and its rules. It stops when dropped.
struct Following {
    limits: RateLimits,
    log: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

fn client(address: SocketAddr, more: &[(&str, &str)]) -> Result<XdsClient, String> {
    let address = address.to_string();
    let fixed = [
        ("CONFIG_TYPE", "GRPC_XDS_SOTW"),
        ("CONFIG_GRPC_XDS_SERVER_URL", address.as_str()),
        ("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", "5ms"),
        ("XDS_CLIENT_BACKOFF_MAX_INTERVAL", "10ms"),
    ];
    let own = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
    let is_fixed = |(name, _): &&(&str, &str)| !more.iter().any(|(other, _)| other == name);
    let variables = fixed.iter().filter(is_fixed).chain(more).map(own);
    let environment = Environment::read(variables).map_err(|errors| errors.to_string())?;
    match environment.source {
        RuleSource::Xds(plane) => XdsClient::new(*plane, false).map_err(|error| error.to_string()),
        _ => Err("the rules are in files".to_owned()),
    }
}

impl Following {
    fn start(address: SocketAddr, more: &[(&str, &str)]) -> Self {
        let client = client(address, more).expect("the settings are valid");
        let registry = Registry::builder(MemoryStore::new()).build();
        let mut base = Config::default();
        base.limits.clear();
        let limits = RateLimits::new(registry, base, Settings::default());
        let log = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&log);
        let observe = move |event: &XdsEvent| {
            seen.lock().expect("no test panics here").push(event.to_string());
        };
        let task = tokio::spawn(client.follow(limits.clone(), observe));
        Self { limits, log, task }
    }

    /// Starts a client, and waits for its first request.
    async fn with_stream(more: &[(&str, &str)]) -> (ControlPlane, Self, Stream) {
        let mut plane = ControlPlane::start(FREE).await;
        let following = Self::start(plane.address, more);
        let mut stream = plane.stream().await;
        stream.request().await;
        (plane, following, stream)
    }

    /// Takes one unit. Returns the remaining ones, or `None` without a limit.
    async fn ask(&self, domain: &str, key: &str) -> Option<u32> {
        let entries = vec![(key, "x")];
        let descriptor = Descriptor { entries, ..Descriptor::default() };
        let request = Request { domain, descriptors: vec![descriptor], hits_addend: 0 };
        let decided = self.limits.decide(&request).await.expect("memory doesn't fail");
        let status = &decided.verdict.answer.statuses[0];
        status.current_limit.as_ref().map(|_| status.remaining)
    }

    async fn logs(&self, part: &str) {
        until_async(part, async || {
            let seen = self.log.lock().expect("no test panics here").clone();
            if seen.iter().any(|line| line.contains(part)) { Ok(()) } else { Err(seen) }
        })
        .await;
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns the version, the nonce and the reason of an answer.
fn shown(answer: &DiscoveryRequest) -> (&str, &str, Option<&str>) {
    assert_eq!(answer.type_url, TYPE);
    let reason = answer.error_detail.as_ref().map(|status| status.message.as_str());
    (&answer.version_info, &answer.response_nonce, reason)
}

#[tokio::test]
async fn the_first_request_names_the_node_and_no_version() {
    let mut plane = ControlPlane::start(FREE).await;
    let _following = Following::start(
        plane.address,
        &[
            ("CONFIG_GRPC_XDS_NODE_ID", "edge-1"),
            ("CONFIG_GRPC_XDS_NODE_METADATA", "zone=a"),
            ("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "Authorization:Bearer x:y,team:one"),
        ],
    );
    let mut stream = plane.stream().await;
    let request = stream.request().await;
    assert_eq!(shown(&request), ("", "", None));
    let node = request.node.unwrap();
    let zone = node.metadata.unwrap().fields.remove("zone").unwrap().kind;
    let expected = prost_types::value::Kind::StringValue("a".to_owned());
    assert_eq!((node.id.as_str(), zone), ("edge-1", Some(expected)));
    let header = |name| stream.metadata.get(name).map(|value| value.to_str().unwrap());
    assert_eq!((header("authorization"), header("team")), (Some("Bearer x:y"), Some("one")));
}

#[tokio::test]
async fn a_push_is_the_whole_truth_and_consumed_units_stay() {
    let (_plane, following, mut stream) = Following::with_stream(&[]).await;
    assert_eq!(following.ask("shop", "user").await, None);
    let answer = stream.push("1", vec![domain("shop", &[("user", 5)]), domain("b", &[("k", 2)])]);
    assert_eq!(shown(&answer.await), ("1", "n1", None));
    assert_eq!(following.ask("shop", "user").await, Some(4));
    assert_eq!(following.ask("b", "k").await, Some(1));
    let answer = stream.push("2", vec![domain("shop", &[("user", 10)])]).await;
    assert_eq!(shown(&answer), ("2", "n2", None));
    assert_eq!(following.ask("shop", "user").await, Some(8), "the consumed unit counts");
    assert_eq!(following.ask("b", "k").await, None, "the domain is gone");
    assert_eq!(shown(&stream.push("3", vec![]).await), ("3", "n3", None));
    assert_eq!(following.ask("shop", "user").await, None);
    stream.push("4", vec![domain("shop", &[("user", 5)])]).await;
    assert_eq!(following.ask("shop", "user").await, Some(2), "also while the domain was gone");
}

#[tokio::test]
async fn a_push_with_one_wrong_part_is_refused_whole() {
    let (_plane, following, mut stream) = Following::with_stream(&[]).await;
    let good = || domain("shop", &[("user", 5)]);
    let refused = stream.push("0", vec![domain("", &[])]).await;
    assert_eq!((shown(&refused).0, shown(&refused).1), ("", "n0"), "no version is good yet");
    stream.push("1", vec![good()]).await;
    let typed = |url: &str| prost_types::Any { type_url: url.to_owned(), ..good() };
    for (index, (wrong, reason)) in [
        (domain("", &[("k", 1)]), "has no domain"),
        (resource("b", &[("k", 1)], 0), "has no unit"),
        (domain("b", &[("k", 1), ("k", 2)]), "the key and value `k`"),
        (good(), "the domain `shop`"),
        (prost_types::Any { value: vec![0xff; 9], ..good() }, "isn't a RateLimitConfig"),
        (typed("type.googleapis.com/envoy.config.cluster.v3.Cluster"), "has the type"),
    ]
    .into_iter()
    .enumerate()
    {
        let version = format!("bad{index}");
        let other = domain("other", &[("k", 1)]);
        let answer =
            stream.push(&version, vec![domain("shop", &[("user", 99)]), other, wrong]).await;
        let (last, nonce, said) = shown(&answer);
        assert_eq!((last, nonce), ("1", format!("n{version}").as_str()));
        assert!(said.unwrap().contains(reason), "{said:?}");
        assert_eq!(following.ask("other", "k").await, None, "no part is in force");
    }
    assert_eq!(following.ask("shop", "user").await, Some(4));
    let push = DiscoveryResponse {
        version_info: "x".to_owned(),
        type_url: "type.googleapis.com/envoy.config.cluster.v3.Cluster".to_owned(),
        ..DiscoveryResponse::default()
    };
    stream.send(push).await;
    let answer = stream.request().await;
    assert!(shown(&answer).2.unwrap().starts_with("the push has the type"));
    assert_eq!(following.ask("shop", "user").await, Some(3));
    assert_eq!(shown(&stream.push("2", vec![good()]).await), ("2", "n2", None));
}

#[tokio::test]
async fn a_stream_that_ends_is_opened_again_and_the_last_rules_decide() {
    let (mut plane, following, mut stream) = Following::with_stream(&[]).await;
    stream.push("7", vec![domain("shop", &[("user", 50)])]).await;
    drop(stream);
    let mut stream = plane.stream().await;
    assert_eq!(shown(&stream.request().await), ("", "", None), "the same version may be another");
    let refused = stream.push("8", vec![domain("", &[])]).await;
    assert_eq!(shown(&refused).0, "7", "the last good version is that of the former stream");
    stream.fail(Status::internal("out of order")).await;
    for _ in 0..10 {
        // A server that ends each stream.
        plane.stream().await.request().await;
        assert!(following.ask("shop", "user").await.is_some());
    }
    let address = plane.address;
    plane.stop().await;
    following.logs("out of order").await;
    following.logs("refused").await;
    assert!(following.ask("shop", "user").await.is_some());
    let mut plane = ControlPlane::start(address).await;
    let mut stream = plane.stream().await;
    stream.request().await;
    assert_eq!(shown(&stream.push("1", vec![domain("b", &[("k", 9)])]).await), ("1", "n1", None));
    assert_eq!(following.ask("b", "k").await, Some(8));
}

/// Each stream has a good and a wrong push, and ends in one of several ways.
#[tokio::test]
async fn a_control_plane_that_flaps_leaves_the_last_good_rules_in_force() {
    let (mut plane, following, mut stream) = Following::with_stream(&[]).await;
    for number in 1..=20 {
        let version = number.to_string();
        let most = 1_000 + number;
        let good = stream.push(&version, vec![domain("shop", &[("user", most)])]).await;
        assert_eq!(shown(&good).0, version);
        let wrong = stream.push("wrong", vec![domain("other", &[("k", 1)]), domain("", &[])]).await;
        assert_eq!(shown(&wrong).0, version);
        assert_eq!(following.ask("shop", "user").await, Some(1_000), "each has one unit more");
        assert_eq!(following.ask("other", "k").await, None);
        match number % 3 {
            0 => drop(stream),
            1 => stream.fail(Status::unavailable("going away")).await,
            _ => {
                let address = plane.address;
                drop(stream);
                plane.stop().await;
                plane = ControlPlane::start(address).await;
            }
        }
        stream = plane.stream().await;
        assert_eq!(shown(&stream.request().await), ("", "", None));
    }
}

#[tokio::test]
async fn a_server_that_is_no_control_plane_changes_nothing() {
    use tokio::io::AsyncWriteExt as _;
    let (plane, following, mut stream) = Following::with_stream(&[]).await;
    stream.push("1", vec![domain("shop", &[("user", 50)])]).await;
    let address = plane.address;
    drop(stream);
    plane.stop().await;
    following.logs("the stream has ended").await;
    let listener = TcpListener::bind(address).await.unwrap();
    for nonsense in [&b"HTTP/1.1 200 OK\r\n\r\n"[..], b"\0\0\0", b"", &[0xff; 100_000]] {
        let (mut client, _) = listener.accept().await.unwrap();
        let _ = client.write_all(nonsense).await;
        assert!(following.ask("shop", "user").await.is_some());
    }
}

#[tokio::test]
async fn a_push_beyond_the_size_ends_the_stream() {
    let size = ("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", "10000");
    let (mut plane, following, mut stream) = Following::with_stream(&[size]).await;
    stream.push("1", vec![domain("shop", &[("user", 50)])]).await;
    let long = "x".repeat(20_000);
    let push = DiscoveryResponse { nonce: long, ..DiscoveryResponse::default() };
    stream.send(push).await;
    plane.stream().await;
    following.logs("OutOfRange").await;
    assert_eq!(following.ask("shop", "user").await, Some(49));
}

#[tokio::test]
async fn tls_needs_the_authority_and_the_name() {
    let authority = Authority::new().unwrap();
    let certificate = authority.certificate("plane", &["plane.test"]).unwrap();
    let read = |path: &std::path::Path| std::fs::read(path).unwrap();
    let identity =
        Identity::from_pem(read(certificate.certificate_file()), read(certificate.key_file()));
    let trusted = Certificate::from_pem(read(authority.certificate_file()));
    let tls = ServerTlsConfig::new().identity(identity).client_ca_root(trusted);
    let server = Server::builder().tls_config(tls).unwrap();
    let mut plane = ControlPlane::with(server, FREE).await;
    let variables = [
        ("CONFIG_GRPC_XDS_SERVER_USE_TLS", "true"),
        ("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", authority.certificate_file().to_str().unwrap()),
        ("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", certificate.certificate_file().to_str().unwrap()),
        ("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", certificate.key_file().to_str().unwrap()),
        ("CONFIG_GRPC_XDS_SERVER_TLS_SAN", "plane.test"),
    ];
    let other = Following::start(plane.address, &variables[..4]);
    other.logs("the control plane is unreachable").await;
    let following = Following::start(plane.address, &variables);
    let mut stream = plane.stream().await;
    stream.request().await;
    stream.push("1", vec![domain("shop", &[("user", 5)])]).await;
    assert_eq!(following.ask("shop", "user").await, Some(4));
    assert_eq!(other.ask("shop", "user").await, None);
}

#[tokio::test]
async fn settings_that_cannot_be_used_are_errors_at_the_start() {
    let address = SocketAddr::from(([127, 0, 0, 1], 9));
    for (variables, said) in [
        (&[("CONFIG_GRPC_XDS_SERVER_URL", "plane")][..], "must be HOST:PORT, but is `plane`"),
        (&[("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "a b:secret")], "`a b` isn't the name"),
        (&[("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "a:secret\u{7}")], "the value of `a`"),
        (
            &[
                ("CONFIG_GRPC_XDS_SERVER_USE_TLS", "true"),
                ("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", "/does/not/exist"),
            ],
            "CONFIG_GRPC_XDS_SERVER_TLS_CACERT: /does/not/exist: ",
        ),
    ] {
        let error = client(address, variables).unwrap_err();
        assert!(error.contains(said) && !error.contains("secret"), "{error}");
    }
}
