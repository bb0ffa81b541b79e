//! TLS of a listener.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use sluicegate::config::{ClientCertificates, TlsConfig};
use sluicegate_core::printable;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::client::verify_server_name;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

use super::client_certificate::ClientCertificate;
use super::protocol::Protocol;
use super::socket::Wire;
use super::tls_names::TlsNames;

/// TLS of a listener, by the current contents of its files.
#[derive(Debug)]
pub(crate) struct Tls {
    names: TlsNames,
    files: TlsConfig,
    /// The name that the certificates of clients must have; `None` for any.
    client_name: Option<ServerName<'static>>,
    current: RwLock<Arc<ServerConfig>>,
    followed: Mutex<Followed>,
    applied: AtomicU64,
    failed: AtomicU64,
    is_stale: AtomicBool,
    /// Unix time in seconds at which the first certificate of the chain in force expires.
    expires: AtomicI64,
}

/// A client that has completed the handshake.
pub(super) struct Accepted {
    pub(super) stream: Box<TlsStream<Wire>>,
    /// The protocol that the client and the service have agreed on.
    pub(super) protocol: Option<Protocol>,
    pub(super) certificate: Option<ClientCertificate>,
}

/// The results of reading the files again, and whether an old content is in force.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct TlsStatus {
    pub(super) applied: u64,
    pub(super) failed: u64,
    pub(super) is_stale: bool,
    /// Unix time in seconds at which the first certificate of the chain in force expires.
    pub(super) expires: i64,
}

/// The contents that were seen.
#[derive(Debug)]
struct Followed {
    /// The contents that are in force or were refused.
    known: Seen,
    /// New contents, which take effect once they are seen twice.
    pending: Option<Seen>,
}

/// The contents of the files, or why they can't be read.
type Seen = Result<Contents, String>;

#[derive(Debug, Eq, PartialEq)]
struct Contents {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl Tls {
    /// Time limit of a handshake.
    const PATIENCE: Duration = Duration::from_secs(10);
    /// Pause between two looks at the files.
    const PAUSE: Duration = Duration::from_millis(500);

    /// Reads the files of a listener.
    ///
    /// # Errors
    /// Returns a message that says which file is wrong, and why.
    pub(crate) fn new(names: TlsNames, files: TlsConfig) -> Result<Self, String> {
        let told = |why: String| format!("{}: {why}: name one that is right", names.tls);
        let contents = Contents::read(&names, &files).map_err(told)?;
        let current = contents.server_config(&names, &files).map_err(told)?;
        let expires = AtomicI64::new(contents.expires());
        Ok(Self {
            names,
            files,
            client_name: None,
            current: RwLock::new(Arc::new(current)),
            followed: Mutex::new(Followed { known: Ok(contents), pending: None }),
            applied: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            is_stale: AtomicBool::new(false),
            expires,
        })
    }

    /// Requires that the certificates of clients have a name. Without certificates of clients, it has no effect.
    #[cfg(feature = "envoy")]
    pub(crate) fn for_clients_named(self, name: ServerName<'static>) -> Self {
        Self { client_name: Some(name), ..self }
    }

    /// Reads the files again whenever they change. Never completes.
    ///
    /// They are compared at intervals. So every kind of change is noticed, on every file system. Files
    /// may be written, renamed into place, or behind a link that is swapped.
    pub(crate) async fn follow(self: Arc<Self>) {
        loop {
            tokio::time::sleep(Self::PAUSE).await;
            let this = Arc::clone(&self);
            // A panic was reported already; the next look may succeed.
            let _ = tokio::task::spawn_blocking(move || this.look()).await;
        }
    }

    pub(super) fn status(&self) -> TlsStatus {
        TlsStatus {
            applied: self.applied.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            is_stale: self.is_stale.load(Ordering::Relaxed),
            expires: self.expires.load(Ordering::Relaxed),
        }
    }

    /// Completes the handshake of a client. Returns `None` if it fails or takes too long.
    pub(super) async fn accept(&self, wire: Wire) -> Option<Accepted> {
        let current = Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner));
        let handshake = TlsAcceptor::from(current).accept(wire);
        let stream = tokio::time::timeout(Self::PATIENCE, handshake).await.ok()?.ok()?;
        let (_, connection) = stream.get_ref();
        let protocol = connection.alpn_protocol().map(|name| match name {
            HTTP2 => Protocol::Http2,
            _ => Protocol::Http1,
        });
        let certificate = connection.peer_certificates().and_then(<[_]>::first);
        if !self.is_named_right(certificate) {
            return None;
        }
        let certificate = certificate.map(ClientCertificate::of);
        Some(Accepted { stream: Box::new(stream), protocol, certificate })
    }

    /// Returns whether the certificate of a client, if there is one, has the required name.
    fn is_named_right(&self, certificate: Option<&CertificateDer<'_>>) -> bool {
        let (Some(name), Some(certificate)) = (&self.client_name, certificate) else { return true };
        ParsedCertificate::try_from(certificate)
            .is_ok_and(|certificate| verify_server_name(&certificate, name).is_ok())
    }

    /// Reads the files, and applies new contents that were read twice in a row: before that, they
    /// may still be written.
    fn look(&self) {
        let Self { names, files, .. } = self;
        let seen = Contents::read(names, files);
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        if followed.known == seen {
            followed.pending = None;
            return;
        }
        if followed.pending.as_ref() != Some(&seen) {
            followed.pending = Some(seen);
            return;
        }
        followed.pending = None;
        let made = seen.as_ref().map_err(Clone::clone);
        let made = made
            .and_then(|contents| Ok((contents.server_config(names, files)?, contents.expires())));
        match made {
            Ok((next, expires)) => {
                self.expires.store(expires, Ordering::Relaxed);
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
                tracing::info!("{}: the changed files are in force", names.tls);
                self.applied.fetch_add(1, Ordering::Relaxed);
                self.is_stale.store(false, Ordering::Relaxed);
            }
            Err(why) => {
                tracing::error!("{}: {why}; the old files stay in force", names.tls);
                self.failed.fetch_add(1, Ordering::Relaxed);
                self.is_stale.store(true, Ordering::Relaxed);
            }
        }
        followed.known = seen;
    }
}

/// The names of the protocols in a handshake.
const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

impl Contents {
    fn read(names: &TlsNames, files: &TlsConfig) -> Result<Self, String> {
        let authorities = files.clients.authorities();
        Ok(Self {
            cert: read(names.cert, &files.cert)?,
            key: read(names.key, &files.key)?,
            client_ca: authorities.map(|it| read(names.client_ca, it)).transpose()?,
        })
    }

    /// Returns the Unix time in seconds at which the first certificate of the chain expires; 0 if none can be parsed.
    fn expires(&self) -> i64 {
        let chain = CertificateDer::pem_slice_iter(&self.cert).filter_map(Result::ok);
        let ends = chain.filter_map(|certificate| {
            let (_, certificate) = X509Certificate::from_der(&certificate).ok()?;
            Some(certificate.validity().not_after.timestamp())
        });
        ends.min().unwrap_or(0)
    }

    fn server_config(&self, names: &TlsNames, files: &TlsConfig) -> Result<ServerConfig, String> {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let builder = match (&self.client_ca, files.clients.authorities()) {
            (Some(bytes), Some(file)) => {
                let unusable = |why: &str| unusable(names.client_ca, file, why);
                let mut roots = RootCertStore::empty();
                for certificate in certificates(names.client_ca, file, bytes)? {
                    roots.add(certificate).map_err(|error| unusable(&error.to_string()))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = match files.clients {
                    ClientCertificates::Required(_) => verifier,
                    _ => verifier.allow_unauthenticated(),
                };
                let verifier = verifier.build().map_err(|error| unusable(&error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
            _ => builder.with_no_client_auth(),
        };
        let chain = certificates(names.cert, &files.cert, &self.cert)?;
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|error| unusable(names.key, &files.key, &reason(&error, "private key")))?;
        let mut config = builder.with_single_cert(chain, key).map_err(|error| {
            let why = format!("doesn't go with the certificate of `{}` ({error})", names.cert);
            unusable(names.key, &files.key, &why)
        })?;
        config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
        Ok(config)
    }
}

fn certificates(
    field: &str,
    file: &Path,
    bytes: &[u8],
) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    match certificates {
        Ok(certificates) if certificates.is_empty() => {
            Err(unusable(field, file, "has no certificate in PEM"))
        }
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(unusable(field, file, &reason(&error, "certificate"))),
    }
}

/// Reads a file of bounded size.
fn read(field: &str, file: &Path) -> Result<Vec<u8>, String> {
    use std::io::Read as _;

    /// More bytes than any list of certificates has.
    const MOST: u64 = 4 * 1024 * 1024;
    let mut bytes = Vec::new();
    let read = std::fs::File::open(file).and_then(|file| file.take(MOST).read_to_end(&mut bytes));
    read.map_err(|error| unusable(field, file, &format!("can't be read ({error})")))?;
    Ok(bytes)
}

fn reason(error: &pem::Error, wanted: &str) -> String {
    match error {
        pem::Error::NoItemsFound => format!("has no {wanted} in PEM"),
        error => format!("has no valid {wanted} in PEM ({error})"),
    }
}

fn unusable(field: &str, file: &Path, why: &str) -> String {
    let file = file.to_string_lossy();
    format!("the file of `{field}`, {}, {why}", printable(&file))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use sluicegate::Config;
    use sluicegate_testkit::servers::{Authority, Certificate};
    use tempfile::TempDir;

    use super::*;
    use crate::serving::Kind;

    struct Files {
        folder: TempDir,
        authority: Authority,
    }

    impl Files {
        fn new() -> Self {
            Self { folder: tempfile::tempdir().unwrap(), authority: Authority::new().unwrap() }
        }

        fn issue(&self, label: &str) -> Certificate {
            self.authority.certificate(label, &["localhost"]).unwrap()
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn copy(&self, from: &Path, name: &str) {
            fs::copy(from, self.path(name)).unwrap();
        }

        fn config(&self, more: &str) -> TlsConfig {
            let (cert, key) = (self.path("cert"), self.path("key"));
            let (cert, key) = (cert.display(), key.display());
            let text = format!(
                "listeners: {{http: {{address: ':0', tls: {{cert: {cert}, key: {key}{more}}}}}}}\n\
                 limits: {{a: {{policies: [gcra 1/s]}}}}"
            );
            Config::parse(&text, "c.yaml").unwrap().listeners.http.tls.unwrap()
        }
    }

    fn status(tls: &Tls) -> (u64, u64, bool) {
        let TlsStatus { applied, failed, is_stale, .. } = tls.status();
        (applied, failed, is_stale)
    }

    #[test]
    fn changed_files_take_effect_once_they_are_whole_and_go_together() {
        let files = Files::new();
        let (first, second) = (files.issue("first"), files.issue("second"));
        files.copy(first.certificate_file(), "cert");
        files.copy(first.key_file(), "key");
        let tls = Tls::new(TlsNames::in_file(Kind::Http), files.config("")).unwrap();
        let look_twice = || [tls.look(), tls.look()];
        look_twice();
        assert_eq!(status(&tls), (0, 0, false));
        assert!(tls.status().expires > 1_700_000_000, "it is valid until after 2023");
        // The new key isn't there yet, and is half written then.
        files.copy(second.certificate_file(), "cert");
        tls.look();
        assert_eq!(status(&tls), (0, 0, false), "it may still be written");
        tls.look();
        assert_eq!(status(&tls), (0, 1, true));
        look_twice();
        assert_eq!(status(&tls), (0, 1, true), "a failure counts once");
        let key = fs::read(second.key_file()).unwrap();
        fs::write(files.path("key"), &key[..key.len() / 2]).unwrap();
        look_twice();
        assert_eq!(status(&tls), (0, 2, true));
        fs::write(files.path("key"), &key).unwrap();
        look_twice();
        assert_eq!(status(&tls), (1, 2, false));
        fs::remove_file(files.path("cert")).unwrap();
        look_twice();
        look_twice();
        assert_eq!(status(&tls), (1, 3, true));
        files.copy(second.certificate_file(), "cert");
        look_twice();
        assert_eq!(status(&tls), (2, 3, false));
    }

    #[test]
    fn a_wrong_file_is_named_with_what_it_lacks() {
        let files = Files::new();
        let (one, other) = (files.issue("one"), files.issue("other"));
        let problem =
            |more: &str| Tls::new(TlsNames::in_file(Kind::Grpc), files.config(more)).err();
        assert!(problem("").unwrap().contains("the file of `cert`"));
        files.copy(one.certificate_file(), "cert");
        assert!(problem("").unwrap().contains("can't be read (No such file"));
        files.copy(one.certificate_file(), "key");
        assert!(problem("").unwrap().contains("has no private key in PEM"));
        files.copy(other.key_file(), "key");
        assert!(problem("").unwrap().contains("doesn't go with the certificate"));
        files.copy(one.key_file(), "key");
        assert_eq!(problem(""), None);
        let ca = |file: &Path| format!(", client_ca: {}", file.display());
        assert_eq!(problem(&ca(files.authority.certificate_file())), None);
        let wrong = problem(&ca(one.key_file())).unwrap();
        assert!(
            wrong.contains("`client_ca`") && wrong.contains("no certificate in PEM"),
            "{wrong}"
        );
        files.copy(one.key_file(), "cert");
        assert!(problem("").unwrap().contains("has no certificate in PEM"));
    }
}
