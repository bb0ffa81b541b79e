//! The URL of a service.

use std::cell::Cell;
use std::fmt;
use std::str::FromStr;

use url::{ParseError, Position, Url};

/// The URL of a service: `http://HOST[:PORT]` or `https://HOST[:PORT]`. It may have a path in front
/// of the service's own paths.
///
/// ```
/// use sluicegate_client::ServiceUrl;
///
/// let url: ServiceUrl = "https://example.org/limits/".parse()?;
/// assert_eq!(url.to_string(), "https://example.org/limits");
/// let error = "limits.example.org".parse::<ServiceUrl>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "not the URL of a service (it has no scheme): write http://HOST:PORT or https://HOST:PORT"
/// );
/// # Ok::<(), sluicegate_client::UrlError>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ServiceUrl(Url);

/// An error for text that isn't a service URL. The message says what to write and never contains a
/// password.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UrlError(String);

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UrlError {}

impl ServiceUrl {
    pub(crate) fn is_encrypted(&self) -> bool {
        self.0.scheme() == "https"
    }

    /// Returns the host name or address; an IPv6 address has no brackets.
    pub(crate) fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default().trim_matches(['[', ']'])
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.port_or_known_default().unwrap_or_default()
    }

    /// Returns the host and port, as in the header field `Host`.
    pub(crate) fn authority(&self) -> &str {
        &self.0[Position::BeforeHost..Position::AfterPort]
    }

    /// Returns the path, without a trailing slash.
    pub(crate) fn path(&self) -> &str {
        self.0.path().trim_end_matches('/')
    }
}

impl FromStr for ServiceUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        const EXAMPLE: &str = "write http://HOST:PORT or https://HOST:PORT";
        let wrong = |why: &dyn fmt::Display| {
            UrlError(format!("not the URL of a service ({why}): {EXAMPLE}"))
        };
        // The parser repairs some mistakes silently; report them instead.
        let repaired = Cell::new(None);
        let note = |violation| repaired.set(Some(violation));
        let parsed = Url::options().syntax_violation_callback(Some(&note)).parse(text);
        let url = parsed.map_err(|error| match error {
            ParseError::RelativeUrlWithoutBase => wrong(&"it has no scheme"),
            error => wrong(&error),
        })?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong(&"it has another scheme"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong(&"one takes no user or password"));
        }
        if url.query().or(url.fragment()).is_some() {
            return Err(wrong(&"one takes nothing after `?` or `#`"));
        }
        if url.port().is_none() && text.trim_end_matches('/').ends_with(':') {
            return Err(wrong(&"it has no port after the `:`"));
        }
        match repaired.get() {
            Some(violation) => Err(wrong(&violation)),
            None => Ok(Self(url)),
        }
    }
}

impl fmt::Display for ServiceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_host_and_maybe_a_port_and_a_path() {
        for (text, is_encrypted, host, port, authority, path) in [
            ("http://127.0.0.1:8080", false, "127.0.0.1", 8080, "127.0.0.1:8080", ""),
            ("http://limits/", false, "limits", 80, "limits", ""),
            ("https://example.org/limits/", true, "example.org", 443, "example.org", "/limits"),
            ("http://[::1]:8080", false, "::1", 8080, "[::1]:8080", ""),
        ] {
            let url: ServiceUrl = text.parse().unwrap();
            assert_eq!((url.is_encrypted(), url.host(), url.port()), (is_encrypted, host, port));
            assert_eq!((url.authority(), url.path()), (authority, path));
            assert_eq!(url.to_string(), text.trim_end_matches('/'));
        }
    }

    #[test]
    fn what_is_no_url_of_a_service_says_what_to_write_and_no_password() {
        for (text, why) in [
            ("", "no scheme"),
            ("limits", "no scheme"),
            ("limits:8080", "another scheme"),
            ("redis://h", "another scheme"),
            ("unix:/a", "another scheme"),
            ("http://", "empty host"),
            ("http://:80", "empty host"),
            ("http://h:", "no port"),
            ("http://h:99999", "invalid port"),
            ("http://user:hunter2@h", "no user or password"),
            ("http://:hunter2@h", "no user or password"),
            ("http://@h", "authentication"),
            ("http://h/?a=hunter2", "nothing after `?`"),
            ("http://h/#hunter2", "nothing after `?`"),
            ("http://h h", "domain"),
            ("http://h\n", "ignored"),
            ("http:h", "expected //"),
        ] {
            let message = text.parse::<ServiceUrl>().unwrap_err().to_string();
            assert!(message.contains(why), "{text}: {message}");
            assert!(message.contains("http://HOST:PORT"), "{text}: {message}");
            assert!(!message.contains("hunter2"), "{message}");
        }
    }
}
