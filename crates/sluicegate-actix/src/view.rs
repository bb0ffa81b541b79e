//! Requests and responses of actix-web, as seen by limits.

use std::cell::OnceCell;
use std::net::IpAddr;

use actix_web::dev::ServiceResponse;
use actix_web::{Error, HttpMessage as _, HttpRequest};
use http::{HeaderName, StatusCode};
use sluicegate::http::{MatchedRoute, Peer, RequestView, User};
use sluicegate::middleware::{Charge, ResponseView};

/// A request. Its extensions are copied at the first access.
pub(super) struct View<'r> {
    request: &'r HttpRequest,
    user: OnceCell<Option<User>>,
    route: OnceCell<Option<String>>,
}

impl<'r> View<'r> {
    pub(super) const fn new(request: &'r HttpRequest) -> Self {
        Self { request, user: OnceCell::new(), route: OnceCell::new() }
    }
}

impl RequestView for View<'_> {
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
        self.request.uri().authority().map(actix_web::http::uri::Authority::as_str)
    }

    fn each_field<'r>(&'r self, name: &HeaderName, line: &mut dyn FnMut(&'r [u8])) {
        self.request.headers().get_all(name.as_str()).for_each(|value| line(value.as_bytes()));
    }

    fn peer(&self) -> Option<IpAddr> {
        let told = self.request.extensions().get::<Peer>().map(|peer| peer.0);
        told.or_else(|| self.request.peer_addr()).map(|address| address.ip())
    }

    fn user(&self) -> Option<&User> {
        self.user.get_or_init(|| self.request.extensions().get::<User>().cloned()).as_ref()
    }

    fn route(&self) -> Option<&str> {
        let found = || {
            let told = self.request.extensions().get::<MatchedRoute>().cloned();
            told.map(|route| route.as_str().to_owned()).or_else(|| self.request.match_pattern())
        };
        self.route.get_or_init(found).as_deref()
    }
}

/// The response of an application, with any body.
pub(super) struct Answer<'r, B>(pub(super) &'r Result<ServiceResponse<B>, Error>);

impl<B> ResponseView for Answer<'_, B> {
    fn status(&self) -> StatusCode {
        let status = match self.0 {
            Ok(response) => response.status(),
            Err(error) => error.as_response_error().status_code(),
        };
        // Both libraries accept the same status codes.
        StatusCode::from_u16(status.as_u16()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn field(&self, name: &HeaderName) -> Option<&[u8]> {
        let value = self.0.as_ref().ok()?.headers().get(name.as_str())?;
        Some(value.as_bytes())
    }

    fn charge(&self) -> Option<Charge> {
        let response = self.0.as_ref().ok()?.response();
        response.extensions().get::<Charge>().cloned()
    }
}
