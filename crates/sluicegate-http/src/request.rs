//! A common view of requests from different libraries.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::HeaderName;
use http::header::HOST;

/// The parts of a request that keys are made of.
///
/// Implemented for [`http::Request`] and [`http::request::Parts`], the types of axum, hyper and tonic
/// (where metadata are header fields). These read the peer, the user and the route from the
/// extensions [`Peer`], [`User`] and [`MatchedRoute`]. For other libraries, implement the trait.
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
    /// Returns the method, as sent: `GET`.
    fn method(&self) -> &str;

    /// Returns the path as sent, without the query: `/cart`.
    fn path(&self) -> &str;

    /// Returns the query as sent, without the question mark.
    fn query(&self) -> Option<&str>;

    /// Returns the host and port in the request target, as sent over HTTP/2 and to proxies. It takes
    /// precedence over the field `Host`.
    fn authority(&self) -> Option<&str>;

    /// Calls `line` with the value of each field line named `name`, in order.
    fn each_field<'r>(&'r self, name: &HeaderName, line: &mut dyn FnMut(&'r [u8]));

    /// Returns the value of a field that was sent once, or with the same value each time.
    ///
    /// ```
    /// use http::{Request, header::HOST};
    /// use sluicegate_http::RequestView;
    ///
    /// let request = Request::get("/").header("host", "a.example").body(())?;
    /// assert_eq!(RequestView::field(&request, &HOST), Some(&b"a.example"[..]));
    /// # Ok::<(), http::Error>(())
    /// ```
    fn field<'r>(&'r self, name: &HeaderName) -> Option<&'r [u8]> {
        single_value(self, name).ok()
    }

    /// Returns the length of the body in bytes, as the client announces it: the cost of an upload
    /// before it is read. Returns `None` if the client doesn't announce one, or sends the body in
    /// chunks, whose total length is unknown.
    ///
    /// ```
    /// use http::Request;
    /// use sluicegate_http::RequestView;
    ///
    /// let request = |length| Request::put("/").header("content-length", length).body(());
    /// assert_eq!(request("1500")?.content_length(), Some(1_500));
    /// assert_eq!(request("+15")?.content_length(), None);
    /// # Ok::<(), http::Error>(())
    /// ```
    fn content_length(&self) -> Option<u64> {
        let mut has_chunks = false;
        self.each_field(&http::header::TRANSFER_ENCODING, &mut |_| has_chunks = true);
        let digits = self.field(&http::header::CONTENT_LENGTH).filter(|_| !has_chunks)?;
        let digits = digits.iter().all(u8::is_ascii_digit).then_some(digits)?;
        std::str::from_utf8(digits).ok()?.parse().ok()
    }

    /// Returns the address at the other end of the connection, of a client or a proxy.
    fn peer(&self) -> Option<IpAddr>;

    /// Returns the user that the application identified.
    fn user(&self) -> Option<&User>;

    /// Returns the pattern of the route that the request matched: `/users/{id}`.
    fn route(&self) -> Option<&str>;
}

/// The peer of the connection that the request came from: an extension of the request.
///
/// A connection over a Unix socket has no such address. If its peer is a proxy on the same machine,
/// set a loopback address.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Peer(pub SocketAddr);

/// The user that the application identified: an extension of the request. The name may be any
/// bytes.
#[derive(Clone, Eq, Hash, PartialEq)]
pub struct User(Arc<[u8]>);

impl User {
    /// Returns the user with this name.
    #[must_use]
    pub fn new(name: impl AsRef<[u8]>) -> Self {
        Self(name.as_ref().into())
    }

    /// Returns the name.
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

/// The pattern of the route that the request matched, such as `/users/{id}`: an extension of the
/// request.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct MatchedRoute(Arc<str>);

impl MatchedRoute {
    /// Returns the route with this pattern.
    #[must_use]
    pub fn new(pattern: impl Into<Arc<str>>) -> Self {
        Self(pattern.into())
    }

    /// Returns the pattern.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// `Parts` has fields where `Request` has methods.
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

        fn user(&$self) -> Option<&User> {
            $extensions.get()
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

/// Returns the value of a field whose lines are all equal, trimmed.
///
/// Programs differ in which of several lines they read, so a request must not choose its key by
/// adding a line.
pub(crate) fn single_value<'r>(
    request: &'r (impl RequestView + ?Sized),
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

/// The reason why there is no single value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum NotSingle {
    Absent,
    Ambiguous,
}

/// Returns the requested host, as sent.
pub(crate) fn host(request: &dyn RequestView) -> Result<&[u8], NotSingle> {
    match request.authority() {
        Some(authority) => Ok(authority.as_bytes()),
        None => single_value(request, &HOST),
    }
}

/// Returns the name of a host, without user, port and final period. The name of a name is itself,
/// even if a client sent several ports or periods.
pub(crate) fn host_name(host: &[u8]) -> &[u8] {
    let mut name = host.rsplit(|&byte| byte == b'@').next().unwrap_or_default();
    loop {
        let port = name.iter().rposition(|&byte| byte == b':');
        let shorter = match port.and_then(|at| name.split_at_checked(at)) {
            Some((before, port)) if port.iter().skip(1).all(u8::is_ascii_digit) => before,
            _ => name,
        };
        let shorter = shorter.strip_suffix(b".").unwrap_or(shorter);
        if shorter.len() == name.len() {
            return name;
        }
        name = shorter;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_believed_if_it_is_the_only_one_and_nothing_comes_in_chunks() {
        for (fields, length) in [
            (&[][..], None),
            (&[("content-length", "15")][..], Some(15)),
            (&[("content-length", " 15 ")], Some(15)),
            (&[("content-length", "15"), ("content-length", "15")], Some(15)),
            (&[("content-length", "15"), ("content-length", "16")], None),
            (&[("content-length", "15"), ("transfer-encoding", "chunked")], None),
            (&[("content-length", "15, 15")], None),
            (&[("content-length", "-15")], None),
            (&[("content-length", "")], None),
            (&[("content-length", "18446744073709551615")], Some(u64::MAX)),
            (&[("content-length", "18446744073709551616")], None),
        ] {
            let mut request = http::Request::put("/");
            for (name, value) in fields {
                request = request.header(*name, *value);
            }
            assert_eq!(request.body(()).unwrap().content_length(), length, "{fields:?}");
        }
    }

    fn host_of(target: &str, lines: &[&str]) -> Option<String> {
        let mut request = http::Request::get(target);
        for line in lines {
            request = request.header(HOST, *line);
        }
        let request = request.body(()).unwrap();
        host(&request).ok().map(|host| String::from_utf8(host_name(host).to_vec()).unwrap())
    }

    #[test]
    fn the_host_is_that_of_the_target_or_else_of_the_field() {
        for (target, lines, host) in [
            ("/", &["shop.example"][..], Some("shop.example")),
            ("/", &["shop.example:8080"], Some("shop.example")),
            ("/", &["shop.example."], Some("shop.example")),
            ("/", &["shop.example.:80"], Some("shop.example")),
            ("/", &["shop.example:80.:1.."], Some("shop.example")),
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
            let user = view.user().map(|user| user.as_bytes().to_vec());
            (texts, query, lines, view.peer(), user, view.route().map(str::to_owned))
        };
        let whole = shown(&request);
        assert_eq!(whole.2, [b"1", b"2"]);
        assert_eq!(whole.4.as_deref(), Some(&b"alice"[..]));
        let (parts, _) = request.into_parts();
        assert_eq!(shown(&parts), whole);
    }
}
