//! Tests of TLS ports with correct certificates, and with every kind of wrong ones.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use sluicegate_testkit::servers::{Authority, Certificate, Server, ServerError, available};

/// Starts a server with TLS, using any program that was built with it.
fn start(certificate: &Certificate, clients: Option<&Authority>) -> Server {
    let mut without = Vec::new();
    for binary in available().unwrap() {
        match Server::builder(&binary).tls(certificate, clients).start() {
            Ok(server) => return server,
            Err(ServerError::Start { log, .. }) if log.contains("Failed finding TLS support") => {
                without.push(binary.to_string());
            }
            Err(error) => panic!("{error}"),
        }
    }
    panic!("no server here was built with TLS: {without:?}");
}

/// Returns the server's answer to PING from a client that trusts this authority.
fn ping(
    server: &Server,
    authority: &Path,
    name: &str,
    own: Option<&Certificate>,
) -> io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority).unwrap()).unwrap();
    let builder = ClientConfig::builder().with_root_certificates(roots);
    let config = match own {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let certificate = CertificateDer::from_pem_file(own.certificate_file()).unwrap();
            let key = PrivateKeyDer::from_pem_file(own.key_file()).unwrap();
            builder.with_client_auth_cert(vec![certificate], key).unwrap()
        }
    };
    let name = name.to_owned().try_into().unwrap();
    let client = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = TcpStream::connect(("127.0.0.1", server.tls_port().unwrap()))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut stream = BufReader::new(StreamOwned::new(client, stream));
    stream.get_mut().write_all(b"PING\r\n")?;
    let mut line = String::new();
    stream.read_line(&mut line)?;
    Ok(line)
}

#[test]
fn whoever_trusts_the_authority_and_calls_the_right_name_is_answered() {
    let (authority, stranger) = (Authority::new().unwrap(), Authority::new().unwrap());
    let certificate = authority.certificate("server", &["redis.example", "127.0.0.1"]).unwrap();
    let server = start(&certificate, None);
    let trusted = authority.certificate_file();
    for name in ["redis.example", "127.0.0.1"] {
        assert_eq!(ping(&server, trusted, name, None).unwrap(), "+PONG\r\n");
    }
    // Its other port works as usual.
    assert_eq!(server.cli(&["PING"]).unwrap(), "PONG");
    let error = ping(&server, trusted, "other.example", None).unwrap_err().to_string();
    assert!(error.contains("not valid for name"), "{error}");
    let error = ping(&server, stranger.certificate_file(), "127.0.0.1", None).unwrap_err();
    assert!(error.to_string().contains("UnknownIssuer"), "{error}");
}

#[test]
fn an_expired_certificate_is_refused_by_clients() {
    let authority = Authority::new().unwrap();
    let server = start(&authority.expired("server", &["127.0.0.1"]).unwrap(), None);
    let error = ping(&server, authority.certificate_file(), "127.0.0.1", None).unwrap_err();
    assert!(error.to_string().contains("expired"), "{error}");
}

#[test]
fn clients_must_have_a_certificate_if_the_server_says_so() {
    let (authority, clients) = (Authority::new().unwrap(), Authority::new().unwrap());
    let certificate = authority.certificate("server", &["127.0.0.1"]).unwrap();
    let server = start(&certificate, Some(&clients));
    let trusted = authority.certificate_file();
    let own = clients.certificate("client", &[]).unwrap();
    assert_eq!(ping(&server, trusted, "127.0.0.1", Some(&own)).unwrap(), "+PONG\r\n");
    for wrong in [None, Some(&certificate)] {
        let outcome = ping(&server, trusted, "127.0.0.1", wrong);
        assert!(outcome.as_ref().is_err() || outcome.as_ref().unwrap().is_empty(), "{outcome:?}");
    }
}
