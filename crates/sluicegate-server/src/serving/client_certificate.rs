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

#[cfg(test)]
mod tests {
    use sluicegate_testkit::servers::Authority;
    use tokio_rustls::rustls::pki_types::pem::PemObject as _;

    use super::*;

    #[test]
    fn a_certificate_has_its_alternative_names_or_else_its_common_name() {
        let authority = Authority::new().unwrap();
        let uri = "spiffe://example.org/gateway";
        for (names, expected) in [
            (&["gateway.example", "10.0.0.1", uri][..], &["gateway.example", uri][..]),
            (&[uri], &[uri]),
            (&["10.0.0.1"], &["gateway"]),
            (&[], &["gateway"]),
        ] {
            let certificate = authority.certificate("gateway", names).unwrap();
            let read = CertificateDer::from_pem_file(certificate.certificate_file()).unwrap();
            assert_eq!(*ClientCertificate::of(&read).names, *expected, "{names:?}");
        }
        let broken = CertificateDer::from(vec![0x30, 0x03, 0x02]);
        assert!(ClientCertificate::of(&broken).names.is_empty());
    }
}
