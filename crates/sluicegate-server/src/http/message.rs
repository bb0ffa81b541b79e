//! Checks requests against the rules of HTTP.

use axum::extract::Request;
use axum::http::header::{CONTENT_ENCODING, HOST, X_CONTENT_TYPE_OPTIONS};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Version};
use axum::response::{IntoResponse, Response};

use super::asked::shown;
use super::error::ApiError;

/// Answers a request that names one host by a call, or refuses one that two programs could interpret differently.
///
/// HTTP/1.0 may omit `Host`: RFC 9112, section 3.2. In HTTP/2, the request target has it instead: RFC 9113, section
/// 8.3.1.
pub(super) async fn checked<F>(request: Request, call: impl FnOnce(Request) -> F) -> Response
where
    F: Future<Output: IntoResponse>,
{
    let mut response = match one_host(&request) {
        Ok(()) => call(request).await.into_response(),
        Err(error) => error.into_response(),
    };
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn one_host(request: &Request) -> Result<(), ApiError> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let (host, another) = (hosts.next(), hosts.next());
    if another.is_some() {
        return Err(ApiError::malformed("the request has two Host fields: send one"));
    }
    let Some(host) = host else {
        return match request.version() {
            Version::HTTP_09 | Version::HTTP_10 => Ok(()),
            Version::HTTP_2 if request.uri().authority().is_some() => Ok(()),
            _ => Err(ApiError::malformed("the request has no Host field: send one")),
        };
    };
    let said = || shown(&String::from_utf8_lossy(host.as_bytes()));
    let is_valid = |host: &HeaderValue| {
        let text = host.as_bytes();
        text.is_empty() || (Authority::try_from(text).is_ok() && !text.contains(&b'@'))
    };
    if !is_valid(host) {
        return Err(ApiError::malformed(format!(
            "the Host field `{}` isn't HOST or HOST:PORT",
            said()
        )));
    }
    // The request target is a whole URL.
    match request.uri().authority() {
        Some(named) if !host.as_bytes().eq_ignore_ascii_case(named.as_str().as_bytes()) => {
            Err(ApiError::malformed(format!(
                "the request is for `{}`, and its Host field names `{}`: name one host",
                shown(named.as_str()),
                said()
            )))
        }
        _ => Ok(()),
    }
}

/// Forwards a request, or refuses one whose body is encoded: the service doesn't decode it.
///
/// # Errors
/// Returns an error if the request has an encoded body.
pub(super) async fn not_encoded(request: Request) -> Result<Request, ApiError> {
    if *request.method() == Method::POST {
        check_encoding(request.headers())?;
    }
    Ok(request)
}

fn check_encoding(headers: &HeaderMap) -> Result<(), ApiError> {
    let codings = headers.get_all(CONTENT_ENCODING).iter();
    let encoded = codings.into_iter().find(|it| !it.as_bytes().eq_ignore_ascii_case(b"identity"));
    match encoded {
        None => Ok(()),
        Some(coding) => Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_encoding",
            format!(
                "the body has the Content-Encoding `{}`: send it without one",
                shown(&String::from_utf8_lossy(coding.as_bytes()))
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn problem(version: Version, target: &str, fields: &[(&str, &str)]) -> Option<String> {
        let mut request = Request::builder().version(version).uri(target);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).unwrap();
        one_host(&request).err().map(|error| format!("{error:?}"))
    }

    #[test]
    fn a_request_names_one_host() {
        let asked = |fields: &[(&str, &str)]| problem(Version::HTTP_11, "/", fields);
        for host in ["", "a", "a:80", "127.0.0.1:8080", "[::1]:8080", "a_b.example"] {
            assert_eq!(asked(&[("host", host)]), None, "{host}");
        }
        for (fields, words) in [
            (&[][..], "no Host"),
            (&[("host", "a"), ("host", "b")], "two Host"),
            (&[("host", "a"), ("host", "a")], "two Host"),
            (&[("host", "a b")], "isn't HOST"),
            (&[("host", "a, b")], "isn't HOST"),
            (&[("host", "u@a")], "isn't HOST"),
            (&[("host", "a/b")], "isn't HOST"),
        ] {
            let problem = asked(fields).unwrap_or_default();
            assert!(problem.contains(words), "{fields:?}: {problem}");
        }
        assert_eq!(problem(Version::HTTP_10, "/", &[]), None, "it may omit it");
        assert!(problem(Version::HTTP_10, "/", &[("host", "a"), ("host", "b")]).is_some());
        assert_eq!(problem(Version::HTTP_2, "http://a:80/", &[]), None);
        assert!(problem(Version::HTTP_2, "/", &[]).is_some());
        let whole = "http://a:80/v1/limits";
        assert_eq!(problem(Version::HTTP_11, whole, &[("host", "A:80")]), None);
        assert!(problem(Version::HTTP_11, whole, &[("host", "b")]).is_some());
    }
}
