//! Access control for admin calls: those that change state for an operator, or show keys.

use std::net::IpAddr;

use axum::http::header::{AUTHORIZATION, FORWARDED, HOST, HeaderName, ORIGIN, VIA};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, Uri};

use super::error::ApiError;

/// Decides which requests may make admin calls.
///
/// If there is a token, requests must carry it. Otherwise they must come from a program on this
/// machine. That is a loopback peer, without header fields of a proxy, and not a page of another
/// site in a browser.
#[derive(Clone)]
pub(crate) struct Guard {
    token: Option<String>,
}

impl Guard {
    /// Creates the guard of a service with this token.
    pub(crate) const fn new(token: Option<String>) -> Self {
        Self { token }
    }

    /// Returns `true` if admin calls are open to every program on this machine.
    pub(crate) const fn is_open(&self) -> bool {
        self.token.is_none()
    }

    /// Admits a request, or returns an error that says what it lacks.
    pub(super) fn check(
        &self,
        peer: Option<IpAddr>,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<(), ApiError> {
        let Some(token) = &self.token else {
            from_this_machine(peer, headers)?;
            return not_from_a_page(uri, headers);
        };
        let mut given = headers.get_all(AUTHORIZATION).iter();
        match (given.next(), given.next()) {
            (Some(given), None) if is_bearer(given.as_bytes(), token) => Ok(()),
            (Some(_), None) => Err(unauthorized("the admin token is wrong")),
            (Some(_), Some(_)) => Err(unauthorized("Authorization is given twice: send it once")),
            (None, _) => Err(unauthorized(
                "this call needs the admin token: send `Authorization: Bearer TOKEN`",
            )),
        }
    }
}

fn unauthorized(message: &str) -> ApiError {
    ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
}

fn forbidden(message: impl Into<String>) -> ApiError {
    ApiError::new(StatusCode::FORBIDDEN, "forbidden", message)
}

/// Compares a token in constant time.
fn is_bearer(given: &[u8], token: &str) -> bool {
    let Some((scheme, given)) = given.split_at_checked(7) else {
        return false;
    };
    let token = token.as_bytes();
    let difference = given.iter().zip(token).fold(0, |difference, (a, b)| difference | (a ^ b));
    scheme.eq_ignore_ascii_case(b"Bearer ") && given.len() == token.len() && difference == 0
}

/// The end of a refusal that a token would have prevented.
const SET_A_TOKEN: &str = "set SLUICEGATE_ADMIN_TOKEN or --admin-token-file where it starts, and send \
                           `Authorization: Bearer TOKEN`";

/// Refuses requests that are detectably from other machines. A proxy on this machine that adds no
/// header field can't be distinguished from a local program.
fn from_this_machine(peer: Option<IpAddr>, headers: &HeaderMap) -> Result<(), ApiError> {
    if !peer.is_some_and(|peer| peer.to_canonical().is_loopback()) {
        return Err(forbidden(format!(
            "this call comes from another machine, and the service has no admin token: {SET_A_TOKEN}"
        )));
    }
    match headers.keys().find(|name| is_of_a_proxy(name)) {
        None => Ok(()),
        Some(name) => Err(forbidden(format!(
            "this call was forwarded (it has the field `{name}`), and the service has no admin token: \
             {SET_A_TOKEN}"
        ))),
    }
}

fn is_of_a_proxy(name: &HeaderName) -> bool {
    *name == FORWARDED
        || *name == VIA
        || name == "x-real-ip"
        || name.as_str().starts_with("x-forwarded")
}

/// Refuses requests that pages of other sites send through a browser on this machine.
fn not_from_a_page(uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = uri.authority().map(Authority::as_str).or_else(|| text(HOST));
    let other_origin = text(ORIGIN)
        .is_some_and(|origin| origin.strip_prefix("http://").is_none_or(|from| Some(from) != host));
    if other_origin || !host.is_none_or(is_loopback) {
        return Err(forbidden(
            "the request comes from a page of another site, or its Host isn't this machine's: use \
             the loopback address, or an admin token",
        ));
    }
    Ok(())
}

/// Returns `true` if a `Host` names this machine.
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
    use axum::http::HeaderValue;
    use axum::response::IntoResponse as _;

    use super::*;

    const HERE: &str = "127.0.0.1";

    fn status(guard: &Guard, peer: &str, fields: &[(&str, &str)]) -> Option<u16> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            let name: HeaderName = name.parse().unwrap();
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        let checked = guard.check(peer.parse().ok(), &Uri::from_static("/v1/recent"), &headers);
        checked.err().map(|error| error.into_response().status().as_u16())
    }

    #[test]
    fn a_token_is_needed_from_everywhere() {
        let guard = Guard::new(Some("secret".to_owned()));
        for peer in [HERE, "::1", "192.0.2.1", "unknown"] {
            assert_eq!(status(&guard, peer, &[]), Some(401), "{peer}");
            assert_eq!(status(&guard, peer, &[("host", "localhost")]), Some(401), "{peer}");
            for wrong in ["Bearer secre", "Bearer secrets", "Basic secret", "secret", "Bearer ", ""]
            {
                assert_eq!(status(&guard, peer, &[("authorization", wrong)]), Some(401), "{wrong}");
            }
            for right in ["Bearer secret", "bearer secret"] {
                let field = ("authorization", right);
                assert_eq!(status(&guard, peer, &[field]), None, "{peer} {right}");
                assert_eq!(status(&guard, peer, &[field, ("via", "1.1 proxy")]), None);
                assert_eq!(status(&guard, peer, &[field, field]), Some(401), "twice");
            }
        }
    }

    #[test]
    fn without_a_token_only_programs_on_this_machine_make_admin_calls() {
        let guard = Guard::new(None);
        for peer in [HERE, "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(status(&guard, peer, &[]), None, "{peer}");
        }
        for peer in ["192.0.2.1", "::ffff:192.0.2.1", "2001:db8::1", "unknown"] {
            assert_eq!(status(&guard, peer, &[]), Some(403), "{peer}");
            assert_eq!(status(&guard, peer, &[("authorization", "Bearer ")]), Some(403), "{peer}");
        }
        for name in [
            "Forwarded",
            "X-Forwarded-For",
            "X-Forwarded-Proto",
            "X-Forwarded-Prefix",
            "X-Real-IP",
            "Via",
        ] {
            assert_eq!(status(&guard, HERE, &[(name, "")]), Some(403), "{name}");
        }
    }

    #[test]
    fn without_a_token_pages_of_other_sites_are_refused() {
        let guard = Guard::new(None);
        for host in ["127.0.0.1:8080", "localhost:8080", "LOCALHOST", "[::1]:8080", "127.9.9.9"] {
            assert_eq!(status(&guard, HERE, &[("host", host)]), None, "{host}");
        }
        for rebound in ["evil.example:8080", "127.0.0.1.evil.example", ""] {
            assert_eq!(status(&guard, HERE, &[("host", rebound)]), Some(403), "{rebound}");
        }
        let local = ("host", "127.0.0.1:8080");
        let same = ("origin", "http://127.0.0.1:8080");
        assert_eq!(status(&guard, HERE, &[local, same]), None);
        for origin in
            ["http://evil.example", "null", "https://127.0.0.1:8080", "http://127.0.0.1:9"]
        {
            let fields = [local, ("origin", origin)];
            assert_eq!(status(&guard, HERE, &fields), Some(403), "{origin}");
        }
        let absolute = Uri::from_static("http://evil.example/v1/recent");
        assert!(guard.check(HERE.parse().ok(), &absolute, &HeaderMap::new()).is_err());
    }
}
