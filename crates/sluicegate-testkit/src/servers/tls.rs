//! Certificates for servers with a TLS port.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};

use super::error::ServerError;
use super::folder::Folder;

/// A test's own certificate authority. Its files are in a folder that is removed with it, so it
/// must outlive the servers that read them.
///
/// The kit finds servers with and without TLS: Debian's Redis supports it; the Valkey of the Python
/// wheel was built without it.
///
/// ```
/// use sluicegate_testkit::servers::Authority;
///
/// let authority = Authority::new()?;
/// let certificate = authority.certificate("server", &["localhost", "127.0.0.1"])?;
/// assert!(authority.certificate_file().is_file() && certificate.key_file().is_file());
/// # Ok::<(), sluicegate_testkit::servers::ServerError>(())
/// ```
#[derive(Debug)]
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: Folder,
    file: PathBuf,
}

/// A certificate and its key, in files of its [`Authority`].
#[derive(Debug, Clone)]
pub struct Certificate {
    file: PathBuf,
    key_file: PathBuf,
    authority_file: PathBuf,
}

impl Authority {
    /// Creates a new authority. A client that trusts one authority trusts no other.
    ///
    /// # Errors
    /// Returns an error if its files can't be written.
    pub fn new() -> Result<Self, ServerError> {
        let mut wanted = CertificateParams::default();
        wanted.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        wanted.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let folder = Folder::new().map_err(ServerError::io("make the authority's folder"))?;
        // A unique name: with two authorities of one name, clients report a bad signature.
        let name = folder.path().to_string_lossy().into_owned();
        wanted.distinguished_name.push(DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(wanted, new_key()?).map_err(failed)?;
        let file = write(&folder, "authority.pem", &issuer.pem())?;
        Ok(Self { issuer, folder, file })
    }

    /// Returns the file with its own certificate, which clients and servers trust.
    #[must_use]
    pub fn certificate_file(&self) -> &Path {
        &self.file
    }

    /// Issues a certificate for these host names, IP addresses and URIs, valid for servers and
    /// clients. `label` names its files and its holder.
    ///
    /// # Errors
    /// Returns an error if a name is invalid, or if the files can't be written.
    pub fn certificate(&self, label: &str, names: &[&str]) -> Result<Certificate, ServerError> {
        self.issue(label, names, (2020, 4096))
    }

    /// Issues a certificate that has expired.
    ///
    /// # Errors
    /// Returns the errors of [`certificate`](Self::certificate).
    pub fn expired(&self, label: &str, names: &[&str]) -> Result<Certificate, ServerError> {
        self.issue(label, names, (2000, 2001))
    }

    fn issue(
        &self,
        label: &str,
        names: &[&str],
        (first_year, last_year): (i32, i32),
    ) -> Result<Certificate, ServerError> {
        let names = names.iter().map(|&name| name.to_owned());
        let (uris, names): (Vec<_>, Vec<_>) = names.partition(|name| name.contains("://"));
        let mut wanted = CertificateParams::new(names).map_err(failed)?;
        for uri in uris {
            wanted.subject_alt_names.push(SanType::URI(uri.try_into().map_err(failed)?));
        }
        wanted.distinguished_name.push(DnType::CommonName, label);
        wanted.not_before = date_time_ymd(first_year, 1, 1);
        wanted.not_after = date_time_ymd(last_year, 1, 1);
        wanted.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = new_key()?;
        let certificate = wanted.signed_by(&key, &self.issuer).map_err(failed)?;
        Ok(Certificate {
            file: write(&self.folder, &format!("{label}.pem"), &certificate.pem())?,
            key_file: write(&self.folder, &format!("{label}.key"), &key.serialize_pem())?,
            authority_file: self.file.clone(),
        })
    }
}

impl Certificate {
    /// Returns the file with the certificate, in PEM.
    #[must_use]
    pub fn certificate_file(&self) -> &Path {
        &self.file
    }

    /// Returns the file with its private key, in PEM.
    #[must_use]
    pub fn key_file(&self) -> &Path {
        &self.key_file
    }

    /// Returns the file with the certificate of the authority that signed it.
    #[must_use]
    pub fn authority_file(&self) -> &Path {
        &self.authority_file
    }
}

fn new_key() -> Result<KeyPair, ServerError> {
    KeyPair::generate().map_err(failed)
}

fn write(folder: &Folder, name: &str, text: &str) -> Result<PathBuf, ServerError> {
    folder.write(name, text).map_err(ServerError::io("write a certificate"))
}

fn failed(error: rcgen::Error) -> ServerError {
    ServerError::io("make a certificate")(std::io::Error::other(error))
}
