//! The page at `/`.

use std::hash::{BuildHasher, RandomState};

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY,
    X_FRAME_OPTIONS,
};
use axum::response::{IntoResponse, Response};

const PAGE: &str = include_str!("page.html");

/// `GET /`: a single file that loads nothing and runs only its own script.
pub(super) async fn page() -> Response {
    let nonce = nonce();
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let fields: [(HeaderName, &str); 5] = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, &policy),
        (REFERRER_POLICY, "no-referrer"),
        (X_FRAME_OPTIONS, "DENY"),
    ];
    (fields, PAGE.replace("{{nonce}}", &nonce)).into_response()
}

/// Returns a random value that other sites can't know.
fn nonce() -> String {
    let random = || RandomState::new().hash_one(());
    format!("{:016x}{:016x}", random(), random())
}
