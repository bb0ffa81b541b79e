//! A request with what the libraries above tower know of it.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderName, Request};
use tollgate_http::RequestView;

/// A request, and what its extensions say of it in the words of axum and tonic.
///
/// What the application itself says ([`Peer`](tollgate_http::Peer),
/// [`MatchedRoute`](tollgate_http::MatchedRoute)) goes before what a library found out.
pub(super) struct View<'r, B>(pub(super) &'r Request<B>);

impl<B> RequestView for View<'_, B> {
    fn method(&self) -> &str {
        self.0.method().as_str()
    }

    fn path(&self) -> &str {
        self.0.uri().path()
    }

    fn query(&self) -> Option<&str> {
        self.0.uri().query()
    }

    fn authority(&self) -> Option<&str> {
        RequestView::authority(self.0)
    }

    fn each_field<'r>(&'r self, name: &HeaderName, line: &mut dyn FnMut(&'r [u8])) {
        RequestView::each_field(self.0, name, line);
    }

    fn peer(&self) -> Option<IpAddr> {
        RequestView::peer(self.0).or_else(|| connected(self.0).map(|address| address.ip()))
    }

    fn user(&self) -> Option<&[u8]> {
        RequestView::user(self.0)
    }

    fn route(&self) -> Option<&str> {
        RequestView::route(self.0).or_else(|| matched(self.0))
    }
}

/// The other end of the connection, as the server noted it.
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

/// The route that the router found.
#[cfg_attr(not(feature = "axum"), expect(unused_variables))]
fn matched<B>(request: &Request<B>) -> Option<&str> {
    #[cfg(feature = "axum")]
    if let Some(path) = request.extensions().get::<axum::extract::MatchedPath>() {
        return Some(path.as_str());
    }
    None
}
