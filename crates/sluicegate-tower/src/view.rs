//! A view of a request, including the extensions of the libraries above tower.

use std::cell::OnceCell;
use std::net::{IpAddr, SocketAddr};

use http::{HeaderName, Request};
use sluicegate::http::{RequestView, User};

/// A request with the extensions of axum and tonic.
///
/// Extensions that the application sets ([`Peer`](sluicegate::http::Peer),
/// [`MatchedRoute`](sluicegate::http::MatchedRoute)) take precedence over those of a library.
pub(super) struct View<'r, B> {
    request: &'r Request<B>,
    /// Looked up once, because several keys and the handler's caller may need it.
    peer: OnceCell<Option<IpAddr>>,
}

impl<'r, B> View<'r, B> {
    pub(super) const fn of(request: &'r Request<B>) -> Self {
        Self { request, peer: OnceCell::new() }
    }
}

impl<B> RequestView for View<'_, B> {
    fn method(&self) -> &str {
        self.request.method().as_str()
    }

    fn path(&self) -> &str {
        self.request.uri().path()
    }

    fn query(&self) -> Option<&str> {
        self.request.uri().query()
    }

    fn authority(&self) -> Option<&str> {
        RequestView::authority(self.request)
    }

    fn each_field<'r>(&'r self, name: &HeaderName, line: &mut dyn FnMut(&'r [u8])) {
        RequestView::each_field(self.request, name, line);
    }

    fn peer(&self) -> Option<IpAddr> {
        *self.peer.get_or_init(|| {
            let told = RequestView::peer(self.request);
            told.or_else(|| connected(self.request).map(|address| address.ip()))
        })
    }

    fn user(&self) -> Option<&User> {
        RequestView::user(self.request)
    }

    fn route(&self) -> Option<&str> {
        RequestView::route(self.request).or_else(|| matched(self.request))
    }
}

/// Returns the peer of the connection, from the server's extensions.
#[cfg_attr(not(any(feature = "axum", feature = "tonic")), expect(unused_variables))]
fn connected<B>(request: &Request<B>) -> Option<SocketAddr> {
    #[cfg(feature = "axum")]
    if let Some(info) = request.extensions().get::<axum::extract::ConnectInfo<SocketAddr>>() {
        return Some(info.0);
    }
    #[cfg(feature = "tonic")]
    if let Some(info) = request.extensions().get::<tonic::transport::server::TcpConnectInfo>() {
        return info.remote_addr();
    }
    None
}

/// Returns the route that the router matched.
#[cfg_attr(not(feature = "axum"), expect(unused_variables))]
fn matched<B>(request: &Request<B>) -> Option<&str> {
    #[cfg(feature = "axum")]
    if let Some(path) = request.extensions().get::<axum::extract::MatchedPath>() {
        return Some(path.as_str());
    }
    None
}
