//! Denials as responses of axum.

use axum::response::{IntoResponse, Response};
use sluicegate::middleware::denied_type;

denied_type! {
    /// A denial that axum turns into a response.
    ///
    /// It is the error of a handler with `#[limit(…)]`, or of one that checks a limit itself. The
    /// response is the one that the layer would send:
    ///
    /// - 429 with `Retry-After`, the response fields and a problem body (RFC 9457),
    /// - 403 for a blocked key, 400 for a missing one,
    /// - 409 for a request id that was used for another request,
    /// - 503 if the store failed,
    /// - 500 for a mistake in the program.
    ///
    /// ```
    /// use axum::{Router, extract::Path, routing::get};
    /// use sluicegate::limit;
    /// use sluicegate_tower::Denied;
    /// # use tower::ServiceExt as _;
    ///
    /// #[limit("gcra 1/min", key = "{phone}")]
    /// async fn code(Path(phone): Path<String>) -> Result<String, Denied> {
    ///     Ok(format!("sent a code to {phone}"))
    /// }
    ///
    /// let router: Router = Router::new().route("/code/{phone}", get(code));
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let visit = || {
    ///     let request = http::Request::get("/code/555").body(axum::body::Body::empty());
    ///     router.clone().oneshot(request.unwrap())
    /// };
    /// assert_eq!(visit().await?.status(), 200);
    /// let denied = visit().await?;
    /// assert_eq!((denied.status().as_u16(), &denied.headers()["retry-after"]), (429, &"60".parse()?));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub struct Denied in sluicegate_tower;
}

impl IntoResponse for Denied {
    fn into_response(self) -> Response {
        self.0.to_response()
    }
}
