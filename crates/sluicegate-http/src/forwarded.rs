//! Requests that a proxy describes to a service that decides about them.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use http::HeaderName;
use http::header::HOST;

use crate::client_address::ClientAddress;
use crate::request::{RequestView, User, single_value};

static X_FORWARDED_METHOD: HeaderName = HeaderName::from_static("x-forwarded-method");
static X_FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
static X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
static X_ORIGINAL_METHOD: HeaderName = HeaderName::from_static("x-original-method");
static X_ORIGINAL_URI: HeaderName = HeaderName::from_static("x-original-uri");

/// The header fields in which a proxy describes a request to a service that decides about it.
///
/// Only one family ever counts, because proxies pass the other one on as the client sent it. Parses from and prints as
/// `x-forwarded` or `x-original`.
///
/// ```
/// use sluicegate_http::ForwardedFields;
///
/// assert_eq!("x-original".parse(), Ok(ForwardedFields::XOriginal));
/// assert_eq!(ForwardedFields::default().to_string(), "x-forwarded");
/// assert!("forwarded".parse::<ForwardedFields>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum ForwardedFields {
    /// `X-Forwarded-Method`, `X-Forwarded-Uri` and `X-Forwarded-Host`, as Caddy and Traefik write them.
    #[default]
    XForwarded,
    /// `X-Original-Method` and `X-Original-URI`, which nginx is often configured to write. The host is that of the call
    /// itself.
    XOriginal,
}

impl ForwardedFields {
    const WORDS: [(&'static str, Self); 2] =
        [("x-forwarded", Self::XForwarded), ("x-original", Self::XOriginal)];

    const fn method(self) -> &'static HeaderName {
        match self {
            Self::XForwarded => &X_FORWARDED_METHOD,
            Self::XOriginal => &X_ORIGINAL_METHOD,
        }
    }

    const fn uri(self) -> &'static HeaderName {
        match self {
            Self::XForwarded => &X_FORWARDED_URI,
            Self::XOriginal => &X_ORIGINAL_URI,
        }
    }
}

impl fmt::Display for ForwardedFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Self::WORDS.iter().find(|(_, fields)| fields == self);
        f.write_str(word.map_or("", |(word, _)| word))
    }
}

impl FromStr for ForwardedFields {
    type Err = ForwardedFieldsError;

    fn from_str(text: &str) -> Result<Self, ForwardedFieldsError> {
        let found = Self::WORDS.iter().find(|(word, _)| *word == text);
        found
            .map(|(_, fields)| *fields)
            .ok_or_else(|| ForwardedFieldsError(text.chars().take(40).collect()))
    }
}

/// A [`ForwardedFields`] failed to parse.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ForwardedFieldsError(String);

impl fmt::Display for ForwardedFieldsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown word `{}`: write x-forwarded or x-original", self.0.escape_debug())
    }
}

impl Error for ForwardedFieldsError {}

/// The request of a client, as its proxy describes it in a call of its own: the view that keys are made of.
///
/// A part that the proxy doesn't describe is missing, and so is one that it describes in two ways. Fields that have no
/// part in the description, such as cookies, are those of the call.
///
/// ```
/// use sluicegate_http::{AddressHeader, ClientAddress, ForwardedFields, ForwardedRequest};
/// use sluicegate_http::{KeyExpression, KeyExtractor, Peer};
///
/// let address = ClientAddress::behind(["10.0.0.0/8".parse()?], AddressHeader::XForwardedFor);
/// let call = http::Request::get("/v1/auth/login")
///     .extension(Peer("10.0.0.7:443".parse()?)) // the proxy
///     .header("x-forwarded-for", "6.6.6.6, 198.51.100.7") // the client made up the first
///     .header("x-forwarded-method", "POST")
///     .header("x-forwarded-uri", "/login?next=/cart")
///     .body(())?;
/// let request = ForwardedRequest::described(&call, ForwardedFields::XForwarded, &address);
/// let key = "ip+method+path".parse::<KeyExpression>()?.with_client_address(address);
/// assert_eq!(key.key(&request)?.as_bytes(), b"198.51.100.7|POST|/login");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ForwardedRequest<'r> {
    /// The call of the proxy.
    call: &'r dyn RequestView,
    method: Cow<'r, str>,
    path: Cow<'r, str>,
    query: Option<Cow<'r, str>>,
    host: Host,
}

/// The source of the requested host.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Host {
    Unknown,
    XForwarded,
    OfCall,
}

impl<'r> ForwardedRequest<'r> {
    /// Returns the request that the header `fields` of a call describe.
    ///
    /// They count only if the peer of the call is one of the trusted proxies of `address`. Otherwise the method, the
    /// path, the query and the host are missing.
    #[must_use]
    pub fn described(
        call: &'r dyn RequestView,
        fields: ForwardedFields,
        address: &ClientAddress,
    ) -> Self {
        let is_trusted = call.peer().is_some_and(|peer| address.trusts(peer));
        let value = |name| single_value(call, name).ok().filter(|_| is_trusted);
        let (path, query) = target(value(fields.uri()).unwrap_or_default());
        let method = String::from_utf8_lossy(value(fields.method()).unwrap_or_default());
        let host = match fields {
            _ if !is_trusted => Host::Unknown,
            ForwardedFields::XForwarded => Host::XForwarded,
            ForwardedFields::XOriginal => Host::OfCall,
        };
        Self { call, method, path, query, host }
    }

    /// Returns the request whose path and query follow a prefix in the path of a call. Its method and host are those of
    /// the call.
    ///
    /// ```
    /// use sluicegate_http::{ForwardedRequest, RequestView};
    ///
    /// let call = http::Request::post("/v1/authz/login/cart?item=7").body(())?;
    /// let request = ForwardedRequest::after_prefix(&call, "/cart", Some("item=7"));
    /// assert_eq!((request.method(), request.path(), request.query()), ("POST", "/cart", Some("item=7")));
    /// # Ok::<(), http::Error>(())
    /// ```
    #[must_use]
    pub fn after_prefix(call: &'r dyn RequestView, path: &'r str, query: Option<&'r str>) -> Self {
        let (method, path, query) = (call.method().into(), path.into(), query.map(Cow::Borrowed));
        Self { call, method, path, query, host: Host::OfCall }
    }
}

/// Splits a request target as [`http::Uri`] does. It may be a whole URL, and have any bytes.
fn target(text: &[u8]) -> (Cow<'_, str>, Option<Cow<'_, str>>) {
    let before = |text: &[u8], mark: u8| text.iter().position(|&byte| byte == mark);
    // A server ignores a fragment, so it must not make another key.
    let text = before(text, b'#').map_or(text, |end| text.get(..end).unwrap_or(text));
    let (path, query) = match before(text, b'?').and_then(|at| text.split_at_checked(at)) {
        Some((path, query)) => (path, query.get(1..)),
        None => (text, None),
    };
    let scheme = path.windows(3).position(|part| part == b"://");
    let path = match scheme.filter(|_| !path.starts_with(b"/")) {
        Some(at) => {
            let after = path.get(at + 3..).unwrap_or_default();
            let start = before(after, b'/').and_then(|start| after.get(start..));
            start.unwrap_or(b"/")
        }
        None => path,
    };
    (String::from_utf8_lossy(path), query.map(String::from_utf8_lossy))
}

impl RequestView for ForwardedRequest<'_> {
    fn method(&self) -> &str {
        &self.method
    }

    fn path(&self) -> &str {
        &self.path
    }

    fn query(&self) -> Option<&str> {
        self.query.as_deref()
    }

    fn authority(&self) -> Option<&str> {
        if self.host == Host::OfCall { self.call.authority() } else { None }
    }

    fn each_field<'r>(&'r self, name: &HeaderName, line: &mut dyn FnMut(&'r [u8])) {
        match self.host {
            Host::Unknown if *name == HOST => {}
            // Proxies differ in which element of a list they read, so several are ambiguous.
            Host::XForwarded if *name == HOST => {
                self.call.each_field(&X_FORWARDED_HOST, &mut |list| {
                    list.split(|&byte| byte == b',').for_each(&mut *line);
                });
            }
            _ => self.call.each_field(name, line),
        }
    }

    fn peer(&self) -> Option<IpAddr> {
        self.call.peer()
    }

    fn user(&self) -> Option<&User> {
        self.call.user()
    }

    fn route(&self) -> Option<&str> {
        None
    }
}

impl fmt::Debug for ForwardedRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForwardedRequest")
            .field("method", &self.method)
            .field("path", &self.path)
            .field("query", &self.query)
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;
    use crate::client_address::AddressHeader;
    use crate::extractor::KeyExtractor as _;
    use crate::key_expression::KeyExpression;
    use crate::request::Peer;

    const PROXY: &str = "10.0.0.7:1";

    /// Returns the parts of a key; a missing part is `-`.
    fn parts(peer: &str, fields: ForwardedFields, lines: &[(&str, &[u8])]) -> String {
        let mut call = Request::get("/v1/auth/l?a=call").extension(Peer(peer.parse().unwrap()));
        for (name, value) in lines {
            call = call.header(*name, *value);
        }
        let (head, ()) = call.body(()).unwrap().into_parts();
        let address =
            ClientAddress::behind(["10.0.0.0/8".parse().unwrap()], AddressHeader::XForwardedFor);
        let request = ForwardedRequest::described(&head, fields, &address);
        let part = |text: &str| {
            let key: KeyExpression = text.parse().unwrap();
            let key = key.with_client_address(address.clone()).key(&request);
            key.map_or("-".to_owned(), |key| String::from_utf8_lossy(key.as_bytes()).into_owned())
        };
        ["ip", "method", "host", "path", "query:a", "header:x-a"].map(part).join(" ")
    }

    const BOTH: [(&str, &[u8]); 8] = [
        ("x-forwarded-for", b"6.6.6.6, 192.0.2.1"),
        ("x-forwarded-method", b"PUT"),
        ("x-forwarded-uri", b"/f?a=f"),
        ("x-forwarded-host", b"F.example:1"),
        ("x-original-method", b"GET"),
        ("x-original-uri", b"/o?a=o"),
        ("host", b"o.example"),
        ("x-a", b"own"),
    ];

    #[test]
    fn one_family_of_fields_describes_the_request() {
        let (forwarded, original) = (ForwardedFields::XForwarded, ForwardedFields::XOriginal);
        assert_eq!(parts(PROXY, forwarded, &BOTH), "192.0.2.1 PUT f.example /f f own");
        assert_eq!(parts(PROXY, original, &BOTH), "192.0.2.1 GET o.example /o o own");
        // The fields of the other family never replace missing ones.
        assert_eq!(parts(PROXY, forwarded, &BOTH[4..]), "10.0.0.7 - - - - own");
        let without = [&BOTH[..4], &BOTH[6..]].concat();
        assert_eq!(parts(PROXY, original, &without), "192.0.2.1 - o.example - - own");
    }

    #[test]
    fn nothing_counts_from_a_peer_that_is_not_trusted() {
        for fields in [ForwardedFields::XForwarded, ForwardedFields::XOriginal] {
            assert_eq!(parts("192.0.2.9:1", fields, &BOTH), "192.0.2.9 - - - - own");
        }
    }

    #[test]
    fn a_field_that_is_there_twice_is_missing() {
        for (added, expected) in [
            (("x-forwarded-method", &b"GET"[..]), "192.0.2.1 - f.example /f f own"),
            (("x-forwarded-method", b"PUT"), "192.0.2.1 PUT f.example /f f own"),
            (("x-forwarded-uri", b"/g"), "192.0.2.1 PUT f.example - - own"),
            (("x-forwarded-host", b"g"), "192.0.2.1 PUT - /f f own"),
            (("x-a", b"g"), "192.0.2.1 PUT f.example /f f -"),
        ] {
            let lines = [&BOTH[..], &[added]].concat();
            assert_eq!(parts(PROXY, ForwardedFields::XForwarded, &lines), expected, "{added:?}");
        }
        let list = [("x-forwarded-host", &b"evil.example, f.example"[..])];
        assert_eq!(parts(PROXY, ForwardedFields::XForwarded, &list), "10.0.0.7 - - - - -");
    }

    #[test]
    fn a_target_has_a_path_whatever_its_bytes_are() {
        for (text, path, query) in [
            (&b"/a?b"[..], "/a", Some("b")),
            (b"/a", "/a", None),
            (b"/a?", "/a", Some("")),
            (b"/a?b?c", "/a", Some("b?c")),
            (b"/a#1", "/a", None),
            (b"/a#1?b", "/a", None),
            (b"/a?b#1", "/a", Some("b")),
            (b"/a<b>?\"", "/a<b>", Some("\"")),
            (b"/\xff?\xff", "/\u{fffd}", Some("\u{fffd}")),
            (b"http://host:1/a?b", "/a", Some("b")),
            (b"http://host?b", "/", Some("b")),
            (b"http://host/a://b/c", "/a://b/c", None),
            (b"/http://host/a", "/http://host/a", None),
            (b"*", "*", None),
            (b"", "", None),
        ] {
            let (own_path, own_query) = target(text);
            assert_eq!((&*own_path, own_query.as_deref()), (path, query), "{own_path}");
        }
    }
}
