//! The application's own response to a refused request.

use std::sync::Arc;

use actix_web::HttpResponse;
use sluicegate::Denied;

/// A function that makes a response from the denial and the standard response.
pub(crate) type DeniedResponse = Arc<dyn Fn(&Denied, HttpResponse) -> HttpResponse + Send + Sync>;
