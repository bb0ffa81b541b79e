//! Tests the listeners' TLS.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::process::Signal;
use sluicegate_testkit::servers::{Authority, Certificate};
use sluicegate_testkit::wait::{until, until_async};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::streams::Streams;
use crate::support::{Client, File, Service, sluicegate};

const CHECK: &str = r#"{"limit":"demo","key":"a"}"#;
const PEER: &str = "127.0.0.1";

/// A folder with the files of a listener's TLS, which are links that tests swap.
pub(crate) struct Files {
    folder: TempDir,
    pub(crate) authority: Authority,
}

impl Files {
    pub(crate) fn new() -> Self {
        let files =
            Self { folder: tempfile::tempdir().unwrap(), authority: Authority::new().unwrap() };
        files.use_certificate(&files.issue("first"));
        files
    }

    pub(crate) fn issue(&self, label: &str) -> Certificate {
        self.authority.certificate(label, &[PEER]).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Swaps the links to the files.
    fn use_certificate(&self, certificate: &Certificate) {
        for (file, name) in
            [(certificate.key_file(), "key.pem"), (certificate.certificate_file(), "cert.pem")]
        {
            let next = self.path("next");
            std::os::unix::fs::symlink(file, &next).unwrap();
            fs::rename(next, self.path(name)).unwrap();
        }
    }

    /// Returns a config whose listener has TLS, with `more` fields of it.
    pub(crate) fn config(&self, listener: &str, more: &str) -> File {
        let (cert, key) = (self.path("cert.pem"), self.path("key.pem"));
        let (cert, key) = (cert.display(), key.display());
        let tls = format!("{{cert: {cert}, key: {key}{more}}}");
        let text = format!(
            "listeners: {{{listener}: {{address: \"127.0.0.1:0\", tls: {tls}}}}}\n\
             service: {{max_connections: 30}}\n\
             limits: {{demo: {{policies: [\"token_bucket 1000/s burst 1000\"]}}}}"
        );
        File::new("limits.yaml", &text)
    }

    /// Connects, with the certificate of a client if there is one.
    pub(crate) async fn connect(
        &self,
        address: SocketAddr,
        protocols: &[&[u8]],
        client: Option<&Certificate>,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        for certificate in read(self.authority.certificate_file()) {
            roots.add(certificate).unwrap();
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match client {
            Some(client) => {
                let key = PrivateKeyDer::from_pem_file(client.key_file()).unwrap();
                config.with_client_auth_cert(read(client.certificate_file()), key).unwrap()
            }
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let stream = TcpStream::connect(address).await?;
        let name = ServerName::try_from(PEER).unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }
}

pub(crate) fn read(file: &Path) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_file_iter(file).unwrap().map(Result::unwrap).collect()
}

/// Sends a request over HTTP/1.1, and returns the status.
async fn status(stream: &mut TlsStream<TcpStream>) -> std::io::Result<u16> {
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await?;
    let mut answer = [0; 4096];
    let mut count = 0;
    while !answer[..count].ends_with(b"}") {
        let read = stream.read(&mut answer[count..]).await?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        count += read;
    }
    let text = String::from_utf8_lossy(&answer[..count]).into_owned();
    Ok(text.split(' ').nth(1).unwrap().parse().unwrap())
}

fn certificate_of(stream: &TlsStream<TcpStream>) -> CertificateDer<'static> {
    stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_handshake_chooses_the_version_of_http() {
    let files = Files::new();
    let file = files.config("admin", "");
    let service = Service::start(&["--config", file.path(), "--drain", "0s"]);
    let address = service.address_of("admin");
    for protocols in [&[][..], &[&b"http/1.1"[..]]] {
        let mut stream = files.connect(address, protocols, None).await.unwrap();
        for _ in 0..3 {
            assert_eq!(status(&mut stream).await.unwrap(), 200, "{protocols:?}");
        }
    }
    // The service prefers HTTP/2. A client may speak it without having agreed on it.
    for protocols in [&[][..], &[&b"http/1.1"[..], b"h2"]] {
        let stream = files.connect(address, protocols, None).await.unwrap();
        let agreed = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        assert_eq!(agreed, (!protocols.is_empty()).then(|| b"h2".to_vec()));
        let streams = Streams::over(stream).await;
        assert_eq!(streams.post("/v1/check", CHECK).await.unwrap().status, 200);
        let recent = streams.get("/v1/recent").await.unwrap();
        assert_eq!(recent.status, 200, "a program on this machine: {recent:?}");
    }
    assert_eq!(service.get("/healthz").status, 200, "the other listener is plain");
    let mut plain = Client::connect(address).unwrap();
    assert!(plain.get("/healthz").is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_files_are_used_for_new_connections_and_old_ones_stay() {
    let files = Files::new();
    let file = files.config("admin", "");
    let mut service =
        Service::start(&["--config", file.path(), "--metrics", "127.0.0.1:0", "--drain", "0s"]);
    let log = service.follow_its_log();
    let address = service.address_of("admin");
    let mut metrics = Client::connect(service.address_of("metrics")).unwrap();
    let mut metric = |name: &str| {
        let body = metrics.get("/metrics").unwrap().body;
        let line = body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {body}")).to_owned()
    };
    let mut old = files.connect(address, &[], None).await.unwrap();
    let first = certificate_of(&old);
    let second = files.issue("second");
    files.use_certificate(&second);
    until_async("the new certificate is used", async || {
        let stream = files.connect(address, &[], None).await.unwrap();
        if certificate_of(&stream) == read(second.certificate_file())[0] { Ok(()) } else { Err(()) }
    })
    .await;
    assert_eq!(status(&mut old).await.unwrap(), 200);
    assert_eq!(certificate_of(&old), first);
    let applied = "sluicegate_tls_reloads_total{listener=\"admin\",outcome=\"applied\"}";
    let failed = "sluicegate_tls_reloads_total{listener=\"admin\",outcome=\"failed\"}";
    let stale = "sluicegate_tls_stale{listener=\"admin\"}";
    assert_eq!((&*metric(failed), &*metric(stale)), ("0", "0"));
    assert_ne!(metric(applied), "0");
    // Half of a file, in place of a link.
    let half = fs::read(files.issue("third").certificate_file()).unwrap();
    fs::remove_file(files.path("cert.pem")).unwrap();
    fs::write(files.path("cert.pem"), &half[..half.len() / 2]).unwrap();
    until("it is noticed", || if metric(stale) == "1" { Ok(()) } else { Err(()) });
    assert_eq!(metric(failed), "1");
    let mut stream = files.connect(address, &[], None).await.unwrap();
    assert_eq!(certificate_of(&stream), read(second.certificate_file())[0]);
    assert_eq!(status(&mut stream).await.unwrap(), 200);
    let said = log.lock().unwrap().clone();
    assert_eq!(said.matches("the old files stay in force").count(), 1, "{said}");
    assert!(said.contains("listeners.admin.tls: the file of `cert`"), "{said}");
    fs::remove_file(files.path("cert.pem")).unwrap();
    files.use_certificate(&second);
    until("it is right again", || if metric(stale) == "0" { Ok(()) } else { Err(()) });
    service.signal(Signal::TERM);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_present_certificates_where_they_are_asked_for() {
    let files = Files::new();
    let (own, foreign) = (files.issue("client"), Authority::new().unwrap());
    let stranger = foreign.certificate("client", &["client"]).unwrap();
    let ca = format!(", client_ca: {}", files.authority.certificate_file().display());
    for (more, without) in [(ca.clone(), false), (format!("{ca}, required: false"), true)] {
        let file = files.config("admin", &more);
        let service = Service::start(&["--config", file.path(), "--drain", "0s"]);
        let address = service.address_of("admin");
        // In TLS 1.3, the client learns of a refusal only when it reads.
        let is_served =
            async |client: Option<&Certificate>| match files.connect(address, &[], client).await {
                Ok(mut stream) => status(&mut stream).await.is_ok(),
                Err(_) => false,
            };
        assert!(is_served(Some(&own)).await);
        assert_eq!(is_served(None).await, without, "{more}");
        assert!(!is_served(Some(&stranger)).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn handshakes_that_stall_are_bounded_and_stop_nobody() {
    let files = Files::new();
    let file = files.config("admin", "");
    let service =
        Service::start(&["--config", file.path(), "--metrics", "127.0.0.1:0", "--drain", "0s"]);
    let address = service.address_of("admin");
    let mut busy = files.connect(address, &[], None).await.unwrap();
    let mut stalled = Vec::new();
    for number in 0..200 {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        match number % 3 {
            0 => {}
            // The head of a record that is longer than what follows.
            1 => stream.write_all(&[22, 3, 1, 1, 0, 1, 0]).unwrap(),
            _ => stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap(),
        }
        stalled.push(stream);
        if number % 20 == 0 {
            // Once this one is served, all earlier ones are accepted.
            let mut next = files.connect(address, &[], None).await.unwrap();
            assert_eq!(status(&mut next).await.unwrap(), 200, "{number}");
            assert_eq!(status(&mut busy).await.unwrap(), 200, "{number}");
        }
    }
    let mut metrics = Client::connect(service.address_of("metrics")).unwrap();
    let page = metrics.get("/metrics").unwrap().body;
    let open = page.lines().find_map(|line| {
        line.strip_prefix("sluicegate_connections{listener=\"admin\"} ")?.parse::<u64>().ok()
    });
    assert!(open.unwrap() <= 30, "{page}");
    // The first ones were closed for later ones.
    let _ = stalled[0].read(&mut [0; 64]);
    assert_eq!(service.get("/healthz").status, 200);
}

#[test]
fn wrong_files_are_an_error_at_the_start() {
    let files = Files::new();
    fs::remove_file(files.path("key.pem")).unwrap();
    let file = files.config("grpc", "");
    let refused = sluicegate(&["serve", "--config", file.path(), "--listen", "127.0.0.1:0"]);
    assert_eq!(refused.status, 2, "{refused:?}");
    let words =
        format!("listeners.grpc.tls: the file of `key`, {}", files.path("key.pem").display());
    assert!(refused.stderr.contains(&words), "{refused:?}");
}
