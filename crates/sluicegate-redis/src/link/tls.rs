//! TLS: the trusted authorities, the client certificate, and the problem of a failed handshake.

use std::io;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sluicegate_core::printable;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::ResolvesClientCert;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{
    AlertDescription, CertificateError, ClientConfig, Error, RootCertStore, SignatureScheme,
};

use super::endpoint::Endpoint;
use super::problem::Problem;
use crate::access::TlsOptions;
use crate::redis_url::Place;

/// Time after which a port that doesn't answer the handshake is probed without TLS. A server without TLS may
/// wait endlessly for the end of a supposed command.
const SILENCE: Duration = Duration::from_millis(250);
/// Maximum time of that probe.
const PROBE: Duration = Duration::from_millis(100);

/// An encrypted stream.
#[derive(Debug)]
pub(super) struct Encrypted {
    pub(super) stream: TlsStream<TcpStream>,
    identity: Arc<Identity>,
}

impl Encrypted {
    /// Returns the problem of a stream that broke before its first use. In TLS 1.3, a server rejects a
    /// client's certificate after the handshake.
    pub(super) fn problem(&self, error: &io::Error, endpoint: &Endpoint) -> Option<Problem> {
        problem(error, &self.identity, endpoint)
    }
}

/// Encrypts a stream, with the current contents of the files.
pub(super) async fn encrypt(
    stream: TcpStream,
    options: &TlsOptions,
    endpoint: &Endpoint,
) -> Result<Encrypted, Problem> {
    let name = server_name(options, &endpoint.place)?;
    let options = options.clone();
    let reading = tokio::task::spawn_blocking(move || configuration(&options)).await;
    let (configuration, identity) =
        reading.map_err(|_| Problem::unusable_tls("the files could not be read"))??;
    let connector = TlsConnector::from(Arc::new(configuration));
    let mut handshake = pin!(connector.connect(name, stream));
    let outcome = match tokio::time::timeout(SILENCE, &mut handshake).await {
        Ok(outcome) => outcome,
        Err(_) if is_plain(&endpoint.place).await => return Err(Problem::plain_port(endpoint)),
        // The server is slow or far away.
        Err(_) => handshake.await,
    };
    match outcome {
        Ok(stream) => Ok(Encrypted { stream, identity }),
        Err(error) => Err(match problem(&error, &identity, endpoint) {
            Some(problem) => problem,
            None if is_plain(&endpoint.place).await => Problem::plain_port(endpoint),
            None => Problem::broken(error),
        }),
    }
}

/// Returns whether the port answers as Redis does without TLS.
pub(super) async fn is_plain(place: &Place) -> bool {
    let Place::Tcp(host) = place else { return false };
    let asking = async {
        let mut stream = TcpStream::connect((host.name.as_str(), host.port)).await?;
        stream.write_all(b"PING\r\n").await?;
        stream.read_u8().await
    };
    matches!(tokio::time::timeout(PROBE, asking).await, Ok(Ok(b'+' | b'-')))
}

/// Returns the name that the server's certificate must have.
fn server_name(options: &TlsOptions, place: &Place) -> Result<ServerName<'static>, Problem> {
    let name = match (&options.server_name, place) {
        (Some(name), _) => name.clone(),
        (None, Place::Tcp(host)) => host.name.clone(),
        (None, Place::Unix(_)) => String::new(),
    };
    ServerName::try_from(name.clone()).map_err(|_| {
        Problem::unusable_tls(&format!(
            "`{}` isn't a valid name for a certificate: write `server_name`",
            printable(&name)
        ))
    })
}

/// Reads the files.
fn configuration(options: &TlsOptions) -> Result<(ClientConfig, Arc<Identity>), Problem> {
    let provider = Arc::new(ring::default_provider());
    let identity = Arc::new(Identity::read(options, &provider)?);
    let configuration = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Problem::unusable_tls(&error.to_string()))?
        .with_root_certificates(authorities(options.ca.as_deref())?)
        .with_client_cert_resolver(Arc::clone(&identity) as _);
    Ok((configuration, identity))
}

fn authorities(file: Option<&Path>) -> Result<RootCertStore, Problem> {
    let mut trusted = RootCertStore::empty();
    let Some(file) = file else {
        let found = rustls_native_certs::load_native_certs();
        // Some of a system's many certificates may be of an unknown kind.
        trusted.add_parsable_certificates(found.certs);
        if trusted.is_empty() {
            return Err(Problem::unusable_tls(
                "this system trusts no authority: install its certificates, or name the file of one with `ca`",
            ));
        }
        return Ok(trusted);
    };
    for certificate in certificates("ca", file)? {
        trusted.add(certificate).map_err(|error| unusable("ca", file, &error.to_string()))?;
    }
    Ok(trusted)
}

fn certificates(option: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, Problem> {
    let certificates: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    match certificates {
        Ok(certificates) if certificates.is_empty() => {
            Err(unusable(option, file, "holds no certificate in PEM"))
        }
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(unusable(option, file, &reason(&error, "certificate"))),
    }
}

fn reason(error: &tokio_rustls::rustls::pki_types::pem::Error, what: &str) -> String {
    use tokio_rustls::rustls::pki_types::pem::Error;
    match error {
        Error::Io(error) => format!("can't be read ({error})"),
        Error::NoItemsFound => format!("holds no {what} in PEM"),
        error => format!("holds no {what} in PEM that can be understood ({error})"),
    }
}

fn unusable(option: &str, file: &Path, why: &str) -> Problem {
    Problem::unusable_tls(&format!(
        "the file of `{option}`, {}, {why}: name one that is right",
        printable(&file.to_string_lossy())
    ))
}

/// The client certificate, for servers that request one.
#[derive(Debug)]
struct Identity {
    key: Option<Arc<CertifiedKey>>,
    /// Whether the server requested a certificate.
    is_asked: AtomicBool,
}

impl Identity {
    fn read(options: &TlsOptions, provider: &CryptoProvider) -> Result<Self, Problem> {
        let key = match (&options.cert, &options.key) {
            (Some(cert), Some(key)) => {
                let chain = certificates("cert", cert)?;
                let private = PrivateKeyDer::from_pem_file(key)
                    .map_err(|error| unusable("key", key, &reason(&error, "private key")))?;
                let key = CertifiedKey::from_der(chain, private, provider).map_err(|error| {
                    unusable(
                        "key",
                        key,
                        &format!("does not go with the certificate of `cert` ({error})"),
                    )
                })?;
                Some(Arc::new(key))
            }
            _ => None,
        };
        Ok(Self { key, is_asked: AtomicBool::new(false) })
    }
}

impl ResolvesClientCert for Identity {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.is_asked.store(true, Ordering::Relaxed);
        self.key.clone()
    }

    fn has_certs(&self) -> bool {
        self.key.is_some()
    }
}

/// Returns the problem, if the error is a TLS error or the server seems to want another certificate.
fn problem(error: &io::Error, identity: &Identity, endpoint: &Endpoint) -> Option<Problem> {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<Error>());
    let is_asked = identity.is_asked.load(Ordering::Relaxed);
    let text = match cause {
        Some(Error::InvalidCertificate(why)) => of_certificate(why, endpoint),
        Some(Error::AlertReceived(alert)) => of_alert(*alert, is_asked, identity.key.is_some()),
        Some(Error::PeerIncompatible(_)) => VERSIONS.to_owned(),
        // The answer was not TLS.
        Some(Error::InvalidMessage(_)) => return None,
        Some(error) => format!("failed the TLS handshake: {error}"),
        // The server's alert about a certificate gets lost if it closes the connection immediately.
        None if is_asked => of_our_certificate(identity.key.is_some(), "broke the connection"),
        None => return None,
    };
    Some(Problem::unavailable(format!("{text}; nothing was charged")))
}

const VERSIONS: &str =
    "speaks none of the versions and ciphers of TLS that we do: let it offer TLS 1.2 or 1.3";

fn of_certificate(why: &CertificateError, endpoint: &Endpoint) -> String {
    use CertificateError as E;
    let ca = endpoint.tls.as_ref().and_then(|tls| tls.ca.as_deref());
    match why {
        // The latter occurs if the authority's name matches and its key doesn't.
        E::UnknownIssuer | E::BadSignature => {
            let trusted = match ca {
                Some(file) => format!("the authorities of {}", printable(&file.to_string_lossy())),
                None => "the authorities that this system trusts".to_owned(),
            };
            format!(
                "has a certificate that none of {trusted} has signed: name the file with the certificate of the one that has, `?ca=FILE`"
            )
        }
        E::Expired | E::ExpiredContext { .. } => {
            "has a certificate that has expired: renew it there, if this machine's clock is right".to_owned()
        }
        E::NotValidYet | E::NotValidYetContext { .. } => {
            "has a certificate that isn't valid yet: look at the clocks of that machine and of this one".to_owned()
        }
        E::NotValidForNameContext { expected, presented } => {
            let presented: Vec<String> = presented.iter().map(|name| printable(name)).collect();
            let presented = match presented.is_empty() {
                true => "no name".to_owned(),
                false => presented.join(", "),
            };
            format!(
                "has a certificate for {presented}, not for `{}`: write a host of the certificate, or `?server_name=NAME`",
                expected.to_str()
            )
        }
        why => format!("has a certificate that can't be accepted ({why}): give it another one"),
    }
}

fn of_alert(alert: AlertDescription, is_asked: bool, has_key: bool) -> String {
    use AlertDescription as A;
    match alert {
        A::CertificateRequired => of_our_certificate(has_key, "said that it must have one"),
        A::ProtocolVersion | A::InsufficientSecurity => VERSIONS.to_owned(),
        A::UnrecognisedName => {
            "knows no server of that name: write another one, `?server_name=NAME`".to_owned()
        }
        alert if is_asked => of_our_certificate(has_key, &format!("answered {alert:?}")),
        alert => format!("refused the TLS handshake ({alert:?}): its log may say why"),
    }
}

fn of_our_certificate(has_key: bool, then: &str) -> String {
    if has_key {
        format!(
            "asked for a client certificate, got that of `cert`, and {then}: name one that is valid and that it trusts"
        )
    } else {
        format!(
            "asked for a client certificate, got none, and {then}: name one and its key, `?cert=FILE&key=FILE`"
        )
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Future as _, poll_fn};
    use std::task::Poll;

    use bytes::BytesMut;
    use sluicegate_testkit::servers::{Authority, Server, available};
    use tokio::net::TcpSocket;
    use tokio::sync::oneshot;
    use tokio::time::Instant;

    use super::super::connection::Connection;
    use super::super::handshake::Talk;
    use super::super::send_queue::{Caller, Told, Waiting};
    use super::super::shared_queue::SharedQueue;
    use super::super::stream::Stream;
    use super::*;
    use crate::call::Call;
    use crate::resp::{Command, Reader};

    /// Before, calls that the full socket held back were never sent: there was nothing else to write, so the
    /// stream was never flushed.
    #[tokio::test]
    async fn calls_that_the_socket_has_no_room_for_are_sent_when_it_has() {
        let authority = Authority::new().unwrap();
        let certificate = authority.certificate("server", &["127.0.0.1"]).unwrap();
        let with_tls = |binary| Server::builder(binary).tls(&certificate, None).start().ok();
        let mut server = available().unwrap().iter().find_map(with_tls).unwrap();
        let ca = authority.certificate_file().display();
        let port = server.tls_port().unwrap();
        let url = format!("rediss://127.0.0.1:{port}?ca={ca}").parse().unwrap();
        let endpoint = Endpoint::new(&url).unwrap();

        let socket = TcpSocket::new_v4().unwrap();
        socket.set_send_buffer_size(4 << 10).unwrap();
        let stream = socket.connect(([127, 0, 0, 1], port).into()).await.unwrap();
        let options = endpoint.tls.clone().unwrap();
        let encrypted = encrypt(stream, &options, &endpoint).await.unwrap();
        let stream = Stream::Tls(Box::new(encrypted));
        let (reader, input) = (Reader::default(), BytesMut::new());
        let talk = Talk { stream, reader, input, host: None };

        let patience = Duration::from_secs(60);
        let shared = SharedQueue::new(crate::link::Server::new(endpoint), 1, None);
        // The answer to an unknown command is short.
        let command = Command::of(&[b"NONE", &[b'x'; 32 << 10]]);
        let answers: Vec<_> = (0..64)
            .map(|_| {
                let (answer, answered) = oneshot::channel();
                let deadline = Instant::now() + patience;
                let caller = Caller { answer, deadline, patience, was_late: false };
                let waiting = Waiting { call: Call::Command(command.clone()), caller, batch: None };
                assert!(shared.queue().enter(waiting, Instant::now()).is_ok());
                answered
            })
            .collect();
        server.pause().unwrap();
        let mut serving = pin!(Connection::new(&shared, talk).serve());
        poll_fn(|context| {
            assert!(serving.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
        server.resume().unwrap();
        let all = async {
            for answer in answers {
                assert!(matches!(answer.await.unwrap(), Told::Value(_)));
            }
        };
        let mut all = pin!(all);
        let answered = poll_fn(|context| {
            assert!(serving.as_mut().poll(context).is_pending());
            all.as_mut().poll(context)
        });
        tokio::time::timeout(Duration::from_secs(10), answered).await.expect("all are answered");
    }
}
