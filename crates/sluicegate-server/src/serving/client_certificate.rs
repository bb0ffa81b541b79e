//! The certificate that a client has presented.

use std::sync::Arc;

use tokio_rustls::rustls::pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer as _;

/// The verified certificate of a client, in the extensions of its requests.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ClientCertificate {
    /// The names that it is for: its DNS names and URIs, or else its common name.
    pub(crate) names: Arc<[String]>,
}

impl ClientCertificate {
    /// Reads the names of a certificate. One that can't be parsed has none.
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Self {
        let names = match X509Certificate::from_der(certificate) {
            Ok((_, certificate)) => names(&certificate),
            Err(_) => Vec::new(),
        };
        Self { names: names.into() }
    }
}

fn names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let alternative = certificate.subject_alternative_name().ok().flatten();
    let alternative = alternative.iter().flat_map(|names| &names.value.general_names);
    let names = alternative.filter_map(|name| match name {
        GeneralName::DNSName(name) | GeneralName::URI(name) => Some((*name).to_owned()),
        _ => None,
    });
    let names: Vec<String> = names.collect();
    if !names.is_empty() {
        return names;
    }
    let common = certificate.subject().iter_common_name();
    common.filter_map(|name| name.as_str().ok()).map(str::to_owned).collect()
}
