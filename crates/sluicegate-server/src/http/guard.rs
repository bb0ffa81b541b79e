//! Access to the service over HTTP: the credentials and the origin of a request.

use std::net::IpAddr;

use axum::http::header::{AUTHORIZATION, FORWARDED, HOST, HeaderName, ORIGIN, VIA};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, Uri};

use super::error::ApiError;
use crate::access::{Access, Call, Caller, Presented, PresentedToken, Refusal, RefusalKind};
use crate::serving::Client;

/// Returns the caller of a request, if it may make calls of this kind.
///
/// # Errors
/// Returns 401 or 403 with the reason.
pub(super) fn admit(access: &Access, head: &Parts, call: Call) -> Result<Caller, ApiError> {
    presented(head, |presented| access.admit(presented, call)).map_err(ApiError::from)
}

/// The field with the token of a proxy that asks about a request of its client, whose `Authorization` it passes on.
const PROXY_TOKEN: HeaderName = HeaderName::from_static("sluicegate-token");

/// Returns the caller of a request by a proxy, if it may take units.
///
/// # Errors
/// Returns 401 or 403 with the reason.
pub(super) fn admit_proxy(access: &Access, head: &Parts) -> Result<Caller, ApiError> {
    let token = token_of_proxy(&head.headers);
    presented_as(head, token, |presented| access.admit(presented, Call::Take))
        .map_err(|refusal| explained(refusal, "Sluicegate-Token: TOKEN"))
}

/// Calls `decide` with the credentials and the origin of a request.
pub(crate) fn presented<T>(head: &Parts, decide: impl FnOnce(&Presented<'_>) -> T) -> T {
    presented_as(head, token(&head.headers), decide)
}

fn presented_as<T>(
    head: &Parts,
    token: PresentedToken<'_>,
    decide: impl FnOnce(&Presented<'_>) -> T,
) -> T {
    let is_local = || {
        let peer = head.extensions.get::<Client>().map(Client::peer);
        from_this_machine(peer, &head.headers)?;
        not_from_a_page(&head.uri, &head.headers)
    };
    decide(&Presented { token, certificate: head.extensions.get(), is_local: &is_local })
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        explained(refusal, "Authorization: Bearer TOKEN")
    }
}

/// Returns the error of a refusal, with the field that a caller without a token has to send.
fn explained(Refusal { kind, message }: Refusal, field: &str) -> ApiError {
    let unauthorized = |message| ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", message);
    match kind {
        RefusalKind::Missing => unauthorized(format!("{message}: send `{field}`")),
        RefusalKind::Wrong => unauthorized(message),
        RefusalKind::Forbidden => ApiError::new(StatusCode::FORBIDDEN, "forbidden", message),
    }
}

/// Returns the token of a request.
fn token(headers: &HeaderMap) -> PresentedToken<'_> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    match (given.next(), given.next()) {
        (None, _) => PresentedToken::None,
        (Some(_), Some(_)) => {
            PresentedToken::Malformed("Authorization is given twice: send it once")
        }
        (Some(given), None) => match given.as_bytes().split_at_checked(7) {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case(b"Bearer ") => {
                PresentedToken::One(token)
            }
            _ => PresentedToken::Malformed(
                "Authorization has no token: send `Authorization: Bearer TOKEN`",
            ),
        },
    }
}

/// Returns the token of a proxy.
fn token_of_proxy(headers: &HeaderMap) -> PresentedToken<'_> {
    let mut given = headers.get_all(&PROXY_TOKEN).iter();
    match (given.next(), given.next()) {
        (None, _) => PresentedToken::None,
        (Some(token), None) => PresentedToken::One(token.as_bytes()),
        (Some(_), Some(_)) => PresentedToken::Malformed(
            "Sluicegate-Token is given twice: make the proxy replace the field of its client",
        ),
    }
}

/// The end of a refusal that a token would have prevented.
const SET_A_TOKEN: &str = "set SLUICEGATE_ADMIN_TOKEN or --admin-token-file where it starts, and send \
                           `Authorization: Bearer TOKEN`";

/// Refuses requests that are detectably from other machines. A proxy on this machine that adds no
/// header field can't be distinguished from a local program.
fn from_this_machine(peer: Option<IpAddr>, headers: &HeaderMap) -> Result<(), String> {
    if !peer.is_some_and(|peer| peer.to_canonical().is_loopback()) {
        return Err(format!(
            "this call comes from another machine, and the service has no admin token: {SET_A_TOKEN}"
        ));
    }
    match headers.keys().find(|name| is_of_a_proxy(name)) {
        None => Ok(()),
        Some(name) => Err(format!(
            "this call was forwarded (it has the field `{name}`), and the service has no admin token: \
             {SET_A_TOKEN}"
        )),
    }
}

fn is_of_a_proxy(name: &HeaderName) -> bool {
    *name == FORWARDED
        || *name == VIA
        || name == "x-real-ip"
        || name.as_str().starts_with("x-forwarded")
}

/// Refuses requests that pages of other sites send through a browser on this machine.
fn not_from_a_page(uri: &Uri, headers: &HeaderMap) -> Result<(), String> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = uri.authority().map(Authority::as_str).or_else(|| text(HOST));
    let other_origin = text(ORIGIN)
        .is_some_and(|origin| origin.strip_prefix("http://").is_none_or(|from| Some(from) != host));
    if other_origin || !host.is_none_or(is_loopback) {
        return Err("the request comes from a page of another site, or its Host isn't this machine's: use the \
                    loopback address, or an admin token"
            .to_owned());
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
    use axum::http::{HeaderValue, Request};
    use axum::response::IntoResponse as _;
    use sluicegate::{Config, Registry};

    use super::*;
    use crate::access::Tokens;

    const HERE: &str = "127.0.0.1";

    fn access(admin: Option<&str>) -> Access {
        let registry = Registry::open(&Config::default()).unwrap();
        Access::new(Tokens::new(admin).unwrap(), registry)
    }

    fn head(uri: &str, fields: &[(&str, &str)]) -> Parts {
        let mut request = Request::get(uri);
        for (name, value) in fields {
            request = request.header(*name, HeaderValue::from_str(value).unwrap());
        }
        request.body(()).unwrap().into_parts().0
    }

    /// Returns the status of an administrative call that is refused.
    fn status(access: &Access, fields: &[(&str, &str)]) -> Option<u16> {
        let admitted = admit(access, &head("/v1/recent", fields), Call::Inspect);
        admitted.err().map(|error| error.into_response().status().as_u16())
    }

    /// Returns `true` if a request with these fields is of a program on this machine.
    fn is_local(peer: &str, fields: &[(&str, &str)]) -> bool {
        let head = head("/v1/recent", fields);
        from_this_machine(peer.parse().ok(), &head.headers).is_ok()
            && not_from_a_page(&head.uri, &head.headers).is_ok()
    }

    #[test]
    fn a_token_is_in_one_field_with_its_scheme() {
        let access = access(Some("secret"));
        assert_eq!(status(&access, &[]), Some(401));
        assert_eq!(status(&access, &[("host", "localhost")]), Some(401));
        for wrong in [
            "Bearer secre",
            "Bearer secrets",
            "Basic secret",
            "secret",
            "Bearer ",
            "",
            "Bearer  secret",
        ] {
            assert_eq!(status(&access, &[("authorization", wrong)]), Some(401), "{wrong}");
        }
        for right in ["Bearer secret", "bearer secret"] {
            let field = ("authorization", right);
            assert_eq!(status(&access, &[field]), None, "{right}");
            assert_eq!(status(&access, &[field, ("via", "1.1 proxy")]), None);
            assert_eq!(status(&access, &[field, field]), Some(401), "twice");
        }
    }

    #[test]
    fn without_a_token_a_request_without_a_peer_is_refused() {
        let access = access(None);
        assert_eq!(status(&access, &[]), Some(403));
        assert_eq!(status(&access, &[("authorization", "Bearer ")]), Some(403));
        let check = admit(&access, &head("/v1/check", &[]), Call::Take);
        assert!(matches!(check, Ok(Caller::Anyone)));
    }

    #[test]
    fn programs_on_this_machine_are_loopback_peers_without_fields_of_a_proxy() {
        for peer in [HERE, "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert!(is_local(peer, &[]), "{peer}");
        }
        for peer in ["192.0.2.1", "::ffff:192.0.2.1", "2001:db8::1", "unknown"] {
            assert!(!is_local(peer, &[]), "{peer}");
        }
        for name in [
            "Forwarded",
            "X-Forwarded-For",
            "X-Forwarded-Proto",
            "X-Forwarded-Prefix",
            "X-Real-IP",
            "Via",
        ] {
            assert!(!is_local(HERE, &[(name, "")]), "{name}");
        }
    }

    #[test]
    fn pages_of_other_sites_are_no_programs_on_this_machine() {
        for host in ["127.0.0.1:8080", "localhost:8080", "LOCALHOST", "[::1]:8080", "127.9.9.9"] {
            assert!(is_local(HERE, &[("host", host)]), "{host}");
        }
        for rebound in ["evil.example:8080", "127.0.0.1.evil.example", ""] {
            assert!(!is_local(HERE, &[("host", rebound)]), "{rebound}");
        }
        let local = ("host", "127.0.0.1:8080");
        assert!(is_local(HERE, &[local, ("origin", "http://127.0.0.1:8080")]));
        for origin in
            ["http://evil.example", "null", "https://127.0.0.1:8080", "http://127.0.0.1:9"]
        {
            assert!(!is_local(HERE, &[local, ("origin", origin)]), "{origin}");
        }
        let absolute = head("http://evil.example/v1/recent", &[]);
        assert!(not_from_a_page(&absolute.uri, &absolute.headers).is_err());
    }
}
