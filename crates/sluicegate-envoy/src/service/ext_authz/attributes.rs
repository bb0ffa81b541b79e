//! The attributes of a request, as a view that keys are made of.

use std::net::IpAddr;

use http::HeaderName;
use sluicegate::http::{RequestView, User};

use crate::protos::envoy::config::core::v3::HeaderMap;
use crate::protos::envoy::service::auth::v3::AttributeContext;
use crate::protos::envoy::service::auth::v3::attribute_context::HttpRequest;

/// A request, as Envoy describes it.
pub(super) struct Attributes<'m> {
    http: Option<&'m HttpRequest>,
    peer: Option<IpAddr>,
    user: Option<User>,
}

impl<'m> Attributes<'m> {
    pub(super) fn new(message: &'m AttributeContext) -> Self {
        let source = message.source.as_ref();
        let address = source.and_then(|it| it.address.as_ref()?.socket_address.as_ref());
        let principal = source.map(|it| it.principal.as_str()).filter(|name| !name.is_empty());
        Self {
            http: message.request.as_ref().and_then(|request| request.http.as_ref()),
            peer: address.and_then(|it| it.address.parse().ok()),
            user: principal.map(User::new),
        }
    }

    fn target(&self) -> (&'m str, Option<&'m str>) {
        let target = self.http.map_or("", |http| http.path.as_str());
        match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        }
    }
}

impl RequestView for Attributes<'_> {
    fn method(&self) -> &str {
        self.http.map_or("", |http| http.method.as_str())
    }

    fn path(&self) -> &str {
        self.target().0
    }

    fn query(&self) -> Option<&str> {
        self.target().1
    }

    fn authority(&self) -> Option<&str> {
        self.http.map(|http| http.host.as_str()).filter(|host| !host.is_empty())
    }

    fn each_field<'r>(&'r self, name: &HeaderName, line: &mut dyn FnMut(&'r [u8])) {
        let Some(http) = self.http else { return };
        if let Some(value) = http.headers.get(name.as_str()) {
            line(value.as_bytes());
            return;
        }
        let lines = http.header_map.as_ref().map_or(&[][..], |HeaderMap { headers }| headers);
        for header in lines.iter().filter(|header| header.key == name.as_str()) {
            // The filter writes one of both.
            let raw = header.raw_value.as_slice();
            line(if raw.is_empty() { header.value.as_bytes() } else { raw });
        }
    }

    fn peer(&self) -> Option<IpAddr> {
        self.peer
    }

    fn user(&self) -> Option<&User> {
        self.user.as_ref()
    }

    fn route(&self) -> Option<&str> {
        None
    }
}
