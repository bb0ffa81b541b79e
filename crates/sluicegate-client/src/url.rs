//! Where a service is.

use std::fmt;
use std::str::FromStr;

use hyper::Uri;

/// The URL of a service: `http://HOST[:PORT]` or `https://HOST[:PORT]`, maybe with a path in front of
/// those of the service.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ServiceUrl {
    pub(crate) is_encrypted: bool,
    /// A name or an address; one of IPv6 without its brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The host and port as they were written: what the service is told.
    pub(crate) authority: String,
    /// Without a slash at the end.
    pub(crate) path: String,
}

/// Text that is not the URL of a service. The message says what to write.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UrlError(String);

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UrlError {}

impl FromStr for ServiceUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        read(text).map_err(|problem| UrlError(format!("the URL of the service: {problem}")))
    }
}

fn read(text: &str) -> Result<ServiceUrl, String> {
    const EXAMPLE: &str = "write http://HOST:PORT or https://HOST:PORT";
    let uri: Uri = text.parse().map_err(|_| EXAMPLE.to_owned())?;
    let is_encrypted = match uri.scheme_str() {
        Some("http") => false,
        Some("https") => true,
        _ => return Err(EXAMPLE.to_owned()),
    };
    let authority = uri.authority().ok_or_else(|| EXAMPLE.to_owned())?;
    if authority.as_str().contains('@') {
        return Err(format!("takes no user or password: {EXAMPLE}"));
    }
    if uri.query().is_some() {
        return Err(format!("takes no options after `?`: {EXAMPLE}"));
    }
    let host = authority.host();
    let port = match authority.as_str().strip_prefix(host) {
        Some("") if is_encrypted => 443,
        Some("") => 80,
        _ => authority.port_u16().ok_or_else(|| EXAMPLE.to_owned())?,
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() {
        return Err(EXAMPLE.to_owned());
    }
    Ok(ServiceUrl {
        is_encrypted,
        host: host.to_owned(),
        port,
        authority: authority.to_string(),
        path: uri.path().trim_end_matches('/').to_owned(),
    })
}

impl fmt::Display for ServiceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_host_and_maybe_a_port_and_a_path() {
        for (text, is_encrypted, host, port, path) in [
            ("http://127.0.0.1:8080", false, "127.0.0.1", 8080, ""),
            ("http://limits/", false, "limits", 80, ""),
            ("https://example.org/limits/", true, "example.org", 443, "/limits"),
            ("http://[::1]:8080", false, "::1", 8080, ""),
        ] {
            let url: ServiceUrl = text.parse().unwrap();
            assert_eq!((url.is_encrypted, &*url.host, url.port), (is_encrypted, host, port));
            assert_eq!(url.path, path);
            assert_eq!(url.to_string(), text.trim_end_matches('/'));
        }
    }

    #[test]
    fn what_is_no_url_of_a_service_says_what_to_write_and_no_password() {
        for text in [
            "",
            "limits",
            "limits:8080",
            "redis://h",
            "http://",
            "http://:80",
            "http://h:",
            "http://h:99999",
            "http://user:hunter2@h",
            "http://h/?a=hunter2",
            "http://h h",
            "unix:/a",
        ] {
            let message = text.parse::<ServiceUrl>().unwrap_err().to_string();
            assert!(message.contains("http://HOST:PORT"), "{text}: {message}");
            assert!(!message.contains("hunter2"), "{message}");
        }
    }
}
