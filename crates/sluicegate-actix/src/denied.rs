//! Denials as responses of actix-web.

use std::error::Error;
use std::fmt;

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, ResponseError};

use crate::response::{response_of, status_of};

/// A denial that actix-web turns into a response: the error of a handler with `#[limit(…)]`, or of
/// one that asks a limit itself.
///
/// The response is the one that the middleware would send: 429 with `Retry-After`, the response
/// fields and a problem body (RFC 9457); 403 for a blocked key, 400 for a missing one, 503 if the
/// store failed, 500 for a mistake in the program.
///
/// ```
/// use actix_web::{App, test, web};
/// use sluicegate::limit;
/// use sluicegate_actix::Denied;
///
/// #[limit("gcra 1/min", key = "{phone}")]
/// async fn code(phone: web::Path<String>) -> Result<String, Denied> {
///     Ok(format!("sent a code to {phone}"))
/// }
///
/// # actix_web::rt::System::new().block_on(async {
/// let app = App::new().route("/code/{phone}", web::get().to(code));
/// let app = test::init_service(app).await;
/// let visit = || test::call_service(&app, test::TestRequest::get().uri("/code/555").to_request());
/// assert_eq!(visit().await.status(), 200);
/// let denied = visit().await;
/// assert_eq!(denied.status(), 429);
/// assert_eq!(denied.headers().get("retry-after").unwrap(), "60");
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct Denied(pub sluicegate::Denied);

impl From<sluicegate::Denied> for Denied {
    fn from(denied: sluicegate::Denied) -> Self {
        Self(denied)
    }
}

/// For `?` on what a handler asks of a gate: 503 if the store failed, 500 for a mistake in the
/// program.
///
/// ```
/// use sluicegate::{Ask, Gate};
/// use sluicegate_actix::Denied;
///
/// async fn settle(llm: &Gate, tokens: u64) -> Result<(), Denied> {
///     llm.charge(Ask::new("acme").cost_of("tokens", tokens)).await?;
///     Ok(())
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let registry = sluicegate::Registry::open(&sluicegate::Config::default())?;
/// let mistaken = settle(&registry.gate("lm"), 300).await.unwrap_err();
/// assert_eq!(mistaken.0.problem().status(), 500);
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl From<sluicegate::Error> for Denied {
    fn from(error: sluicegate::Error) -> Self {
        Self(error.into())
    }
}

/// For `?` on a store itself, such as a ping: 503.
///
/// ```
/// use sluicegate::{StoreError, StoreErrorKind};
/// use sluicegate_actix::Denied;
///
/// let denied = Denied::from(StoreError::new(StoreErrorKind::Timeout, "too slow"));
/// assert_eq!(denied.0.problem().status(), 503);
/// ```
impl From<sluicegate::StoreError> for Denied {
    fn from(error: sluicegate::StoreError) -> Self {
        Self(error.into())
    }
}

impl ResponseError for Denied {
    fn status_code(&self) -> StatusCode {
        status_of(self.0.problem().status())
    }

    fn error_response(&self) -> HttpResponse {
        response_of(self.0.to_response())
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Denied {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}
