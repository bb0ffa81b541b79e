//! Access control for calls that change state or show keys.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, StatusCode};

use super::error::ApiError;

/// Guards the calls that give units back, forget keys or show them.
#[derive(Clone)]
pub(super) struct Guard {
    token: Option<String>,
    loopback: bool,
}

impl Guard {
    /// The guard of a service that listens on `address`.
    pub(super) fn new(address: SocketAddr, token: Option<String>) -> Self {
        Self { token, loopback: address.ip().to_canonical().is_loopback() }
    }

    /// Admits a request, or says what it lacks.
    pub(super) fn check(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        match (&self.token, headers.get(AUTHORIZATION)) {
            // A wrong token is always refused, since its sender relies on it.
            (Some(token), Some(given)) => {
                is_bearer(given.as_bytes(), token).then_some(()).ok_or_else(|| {
                    ApiError::new(
                        StatusCode::UNAUTHORIZED,
                        "unauthorized",
                        "the admin token is wrong",
                    )
                })
            }
            _ if self.loopback => from_this_machine(headers),
            (Some(_), None) => Err(ApiError::new(
                StatusCode::UNAUTHORIZED,
                "unauthorized",
                "this call needs the admin token: send `Authorization: Bearer TOKEN`",
            )),
            (None, _) => Err(ApiError::new(
                StatusCode::FORBIDDEN,
                "forbidden",
                "the service is reachable from other machines and has no admin token: start it with \
                 --admin-token or SLUICEGATE_ADMIN_TOKEN, or with --listen on a loopback address",
            )),
        }
    }
}

/// Compares in constant time.
fn is_bearer(given: &[u8], token: &str) -> bool {
    let Some((scheme, given)) = given.split_at_checked(7) else {
        return false;
    };
    let token = token.as_bytes();
    let difference = given.iter().zip(token).fold(0, |difference, (a, b)| difference | (a ^ b));
    scheme.eq_ignore_ascii_case(b"Bearer ") && given.len() == token.len() && difference == 0
}

/// Detects requests that pages of other sites send through a browser on this machine.
fn from_this_machine(headers: &HeaderMap) -> Result<(), ApiError> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text(HOST);
    let other_origin = text(ORIGIN)
        .is_some_and(|origin| origin.strip_prefix("http://").is_none_or(|from| Some(from) != host));
    if other_origin || !host.is_none_or(is_loopback) {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "forbidden",
            "the request comes from a page of another site or by a name that is not this machine's: \
             use the loopback address, or an admin token",
        ));
    }
    Ok(())
}

/// Whether a `Host` names this machine.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, _)) => name,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn status(guard: &Guard, headers: &[(HeaderName, &str)]) -> Option<u16> {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap()))
            .collect();
        guard
            .check(&headers)
            .err()
            .map(|error| axum::response::IntoResponse::into_response(error).status().as_u16())
    }

    #[test]
    fn other_machines_need_a_token_and_a_service_without_one_says_how_to_get_it() {
        let token = Guard::new(([0, 0, 0, 0], 80).into(), Some("secret".to_owned()));
        assert_eq!(status(&token, &[]), Some(401));
        for wrong in ["Bearer secre", "Bearer secrets", "Basic secret", "secret", "Bearer ", ""] {
            assert_eq!(status(&token, &[(AUTHORIZATION, wrong)]), Some(401), "{wrong}");
        }
        assert_eq!(status(&token, &[(AUTHORIZATION, "Bearer secret")]), None);
        assert_eq!(status(&token, &[(AUTHORIZATION, "bearer secret")]), None);
        let none = Guard::new(([0, 0, 0, 0], 80).into(), None);
        assert_eq!(status(&none, &[]), Some(403));
        assert_eq!(status(&none, &[(AUTHORIZATION, "Bearer ")]), Some(403));
    }

    #[test]
    fn on_loopback_only_pages_of_others_are_kept_out() {
        let guard = Guard::new("[::ffff:127.0.0.1]:80".parse().unwrap(), None);
        assert_eq!(status(&guard, &[]), None);
        for host in ["127.0.0.1:8080", "localhost:8080", "LOCALHOST", "[::1]:8080", "127.9.9.9"] {
            assert_eq!(status(&guard, &[(HOST, host)]), None, "{host}");
        }
        assert_eq!(status(&guard, &[(HOST, "evil.example:8080")]), Some(403), "a rebound name");
        assert_eq!(status(&guard, &[(HOST, "127.0.0.1.evil.example")]), Some(403));
        let local = (HOST, "127.0.0.1:8080");
        assert_eq!(status(&guard, &[local.clone(), (ORIGIN, "http://127.0.0.1:8080")]), None);
        for origin in
            ["http://evil.example", "null", "https://127.0.0.1:8080", "http://127.0.0.1:9"]
        {
            assert_eq!(status(&guard, &[local.clone(), (ORIGIN, origin)]), Some(403), "{origin}");
        }
        let token = Guard::new(([127, 0, 0, 1], 80).into(), Some("secret".to_owned()));
        assert_eq!(status(&token, &[]), None);
        assert_eq!(status(&token, &[(AUTHORIZATION, "Bearer wrong")]), Some(401));
    }
}
