//! The extractor that protects admin calls.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::error::ApiError;
use super::service::Service;
use crate::serving::Client;

/// Proof that a request may make admin calls. A handler with this argument refuses all other
/// requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Admin;

impl FromRequestParts<Arc<Service>> for Admin {
    type Rejection = ApiError;

    async fn from_request_parts(
        parts: &mut Parts,
        service: &Arc<Service>,
    ) -> Result<Self, ApiError> {
        let peer = parts.extensions.get::<Client>().map(Client::peer);
        service.guard.check(peer, &parts.uri, &parts.headers)?;
        Ok(Self)
    }
}
