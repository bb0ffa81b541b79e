//! The call that most requests are for, which is found without the router.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::Method;
use axum::response::Response;
use sluicegate::store::Operation;

use super::decide::admission_of;
use super::error::ApiError;
use super::message::{checked, not_encoded};
use super::query;
use super::service::Service;
use crate::serving::Routes;

/// Returns the routes of a router that has the call too.
pub(crate) fn routes(router: Router, service: Arc<Service>) -> Routes {
    Routes::with_frequent(router, Method::POST, "/v1/check", move |request| {
        let service = Arc::clone(&service);
        Box::pin(checked(request, async move |request| check(&service, request).await))
    })
}

async fn check(service: &Service, request: Request) -> Result<Response, ApiError> {
    let request = query::none(not_encoded(request).await?).await?;
    admission_of(service, Operation::Check, request).await
}
