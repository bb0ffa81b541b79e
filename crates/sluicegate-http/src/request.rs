//! One view on a request, whichever library it came in with.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::HeaderName;
use http::header::HOST;

/// What of a request can make a key.
///
/// Implemented for [`http::Request`] and [`http::request::Parts`], which is what axum, hyper and
/// tower's form of tonic have (metadata are header fields there); other libraries implement it in
/// a few lines. What a connection or an application knows of a request is read from its
/// extensions there: [`Peer`], [`User`] and [`MatchedRoute`].
///
/// ```
/// use std::net::SocketAddr;
/// use sluicegate_http::{Peer, RequestView};
///
/// let request = http::Request::get("https://shop.example/cart?item=7")
///     .extension(Peer(SocketAddr::from(([192, 0, 2, 1], 4711))))
///     .body(())?;
/// let view: &dyn RequestView = &request;
/// assert_eq!((view.method(), view.path(), view.query()), ("GET", "/cart", Some("item=7")));
/// assert_eq!(view.peer(), Some([192, 0, 2, 1].into()));
/// # Ok::<(), http::Error>(())
/// ```
pub trait RequestView {
    /// The method, as sent: `GET`.
    fn method(&self) -> &str;

    /// The path as sent, without the query: `/cart`.
    fn path(&self) -> &str;

    /// The query as sent, without the question mark.
    fn query(&self) -> Option<&str>;

    /// The host and port that the request target names, as HTTP/2 and proxies send it. It goes
    /// before the field `Host`.
    fn authority(&self) -> Option<&str>;

    /// Shows the value of every field line of a name, in order.
    fn each_field<'r>(&'r self, name: &HeaderName, line: &mut dyn FnMut(&'r [u8]));

    /// The address at the other end of the connection: a client's or a proxy's.
    fn peer(&self) -> Option<IpAddr>;

    /// Who the application says is asking.
    fn user(&self) -> Option<&[u8]>;

    /// The route that was found for the request, as the application wrote it: `/users/{id}`.
    fn route(&self) -> Option<&str>;
}

/// The peer of the connection that a request came in on: an extension of the request.
///
/// A server on a Unix socket has none; whoever knows that the peer is a proxy on this machine
/// says so with a loopback address.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Peer(pub SocketAddr);

/// Who is asking, as the application found out: an extension of the request. Any bytes.
#[derive(Clone, Eq, Hash, PartialEq)]
pub struct User(Arc<[u8]>);

impl User {
    /// A user of this name.
    #[must_use]
    pub fn new(name: impl AsRef<[u8]>) -> Self {
        Self(name.as_ref().into())
    }

    /// The name.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "User(\"{}\")", self.0.escape_ascii())
    }
}

/// The route that was found for a request, as the application wrote it (`/users/{id}`): an
/// extension of the request.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct MatchedRoute(Arc<str>);

impl MatchedRoute {
    /// A route of this pattern.
    #[must_use]
    pub fn new(pattern: impl Into<Arc<str>>) -> Self {
        Self(pattern.into())
    }

    /// The pattern.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The same for both: one has its parts as fields, one behind methods.
macro_rules! view_of_http {
    ($self:ident, $method:expr, $uri:expr, $headers:expr, $extensions:expr) => {
        fn method(&$self) -> &str {
            $method.as_str()
        }

        fn path(&$self) -> &str {
            $uri.path()
        }

        fn query(&$self) -> Option<&str> {
            $uri.query()
        }

        fn authority(&$self) -> Option<&str> {
            $uri.authority().map(http::uri::Authority::as_str)
        }

        fn each_field<'r>(&'r $self, name: &HeaderName, line: &mut dyn FnMut(&'r [u8])) {
            $headers.get_all(name).iter().for_each(|value| line(value.as_bytes()));
        }

        fn peer(&$self) -> Option<IpAddr> {
            $extensions.get::<Peer>().map(|peer| peer.0.ip())
        }

        fn user(&$self) -> Option<&[u8]> {
            $extensions.get().map(User::as_bytes)
        }

        fn route(&$self) -> Option<&str> {
            $extensions.get().map(MatchedRoute::as_str)
        }
    };
}

impl RequestView for http::request::Parts {
    view_of_http!(self, self.method, self.uri, self.headers, self.extensions);
}

impl<B> RequestView for http::Request<B> {
    view_of_http!(self, self.method(), self.uri(), self.headers(), self.extensions());
}

/// The only value that all lines of a field have.
///
/// Programs differ in which of several lines they read: a request with different ones must not
/// choose its key by adding a line.
pub(crate) fn single_value<'r>(
    request: &'r dyn RequestView,
    name: &HeaderName,
) -> Result<&'r [u8], NotSingle> {
    let mut only = Err(NotSingle::Absent);
    request.each_field(name, &mut |line| {
        let line = line.trim_ascii();
        only = match only {
            Err(NotSingle::Absent) => Ok(line),
            Ok(first) if first == line => Ok(first),
            _ => Err(NotSingle::Ambiguous),
        };
    });
    only
}

/// Why there isn't one value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum NotSingle {
    Absent,
    Ambiguous,
}

/// The name of the host that is asked, without user, port and final dot, in whatever case.
pub(crate) fn host(request: &dyn RequestView) -> Result<&[u8], NotSingle> {
    let host = match request.authority() {
        Some(authority) => authority.as_bytes(),
        None => single_value(request, &HOST)?,
    };
    let host = host.rsplit(|&byte| byte == b'@').next().unwrap_or_default();
    let port = host.iter().rposition(|&byte| byte == b':');
    let host = match port.and_then(|at| host.split_at_checked(at)) {
        Some((name, port)) if port.iter().skip(1).all(u8::is_ascii_digit) => name,
        _ => host,
    };
    Ok(host.strip_suffix(b".").unwrap_or(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host_of(target: &str, lines: &[&str]) -> Option<String> {
        let mut request = http::Request::get(target);
        for line in lines {
            request = request.header(HOST, *line);
        }
        let request = request.body(()).unwrap();
        host(&request).ok().map(|host| String::from_utf8(host.to_vec()).unwrap())
    }

    #[test]
    fn the_host_is_that_of_the_target_or_else_of_the_field() {
        for (target, lines, host) in [
            ("/", &["shop.example"][..], Some("shop.example")),
            ("/", &["shop.example:8080"], Some("shop.example")),
            ("/", &["shop.example."], Some("shop.example")),
            ("/", &["shop.example.:80"], Some("shop.example")),
            ("/", &["[2001:db8::1]:80"], Some("[2001:db8::1]")),
            ("/", &["[2001:db8::1]"], Some("[2001:db8::1]")),
            ("/", &["a", "a"], Some("a")),
            ("/", &["a", "b"], None),
            ("/", &[], None),
            ("http://shop.example/", &["other"], Some("shop.example")),
            ("http://u1@shop.example:1/", &[], Some("shop.example")),
        ] {
            assert_eq!(host_of(target, lines).as_deref(), host, "{target} {lines:?}");
        }
    }

    #[test]
    fn both_forms_of_a_request_show_the_same() {
        let request = http::Request::put("/a?b=c")
            .header("x-a", "1")
            .header("x-a", "2")
            .extension(Peer(([127, 0, 0, 1], 80).into()))
            .extension(User::new("alice"))
            .extension(MatchedRoute::new("/{a}"))
            .body("body")
            .unwrap();
        let shown = |view: &dyn RequestView| {
            let mut lines = Vec::new();
            view.each_field(&HeaderName::from_static("x-a"), &mut |line| lines.push(line.to_vec()));
            let texts = [view.method(), view.path()].map(str::to_owned);
            let query = view.query().map(str::to_owned);
            let user = view.user().map(<[u8]>::to_vec);
            (texts, query, lines, view.peer(), user, view.route().map(str::to_owned))
        };
        let whole = shown(&request);
        assert_eq!(whole.2, [b"1", b"2"]);
        assert_eq!(whole.4.as_deref(), Some(&b"alice"[..]));
        let (parts, _) = request.into_parts();
        assert_eq!(shown(&parts), whole);
    }
}
