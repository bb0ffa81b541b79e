//! Denials as responses of actix-web.

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, ResponseError};
use sluicegate::middleware::denied_type;

use crate::response::{response_of, status_of};

denied_type! {
    /// A denial that actix-web turns into a response.
    ///
    /// It is the error of a handler with `#[limit(…)]`, or of one that checks a limit itself. The
    /// response is the one that the middleware would send:
    ///
    /// - 429 with `Retry-After`, the response fields and a problem body (RFC 9457),
    /// - 403 for a blocked key, 400 for a missing one,
    /// - 409 for a request id that was used for another request,
    /// - 503 if the store failed,
    /// - 500 for a mistake in the program.
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
    pub struct Denied in sluicegate_actix;
}

impl ResponseError for Denied {
    fn status_code(&self) -> StatusCode {
        status_of(self.0.problem().status())
    }

    fn error_response(&self) -> HttpResponse {
        response_of(self.0.to_response())
    }
}
