//! Responses in the types of actix-web.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use sluicegate::http::PreparedFields;

/// Converts a response to actix-web's types.
pub(super) fn response_of(standard: http::Response<String>) -> HttpResponse {
    let (parts, body) = standard.into_parts();
    let mut response = HttpResponse::new(status_of(parts.status));
    for (name, value) in &parts.headers {
        append(response.headers_mut(), name.as_str(), value.as_bytes());
    }
    response.set_body(body).map_into_boxed_body()
}

/// Adds response fields to existing ones.
pub(super) fn write(fields: PreparedFields, headers: &mut HeaderMap) {
    if fields.is_empty() {
        return;
    }
    let names: Vec<&http::HeaderName> = fields.names().collect();
    let mut merged = http::HeaderMap::with_capacity(2 * names.len());
    for name in names.iter().copied() {
        for value in headers.get_all(name.as_str()) {
            if let Ok(value) = http::HeaderValue::from_bytes(value.as_bytes()) {
                merged.append(name, value);
            }
        }
    }
    fields.write(&mut merged);
    for name in names {
        drop(headers.remove(name.as_str()));
        for value in merged.get_all(name) {
            append(headers, name.as_str(), value.as_bytes());
        }
    }
}

fn append(headers: &mut HeaderMap, name: &str, value: &[u8]) {
    // Both libraries accept the same names and values.
    if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_bytes(value)) {
        headers.append(name, value);
    }
}

pub(super) fn status_of(status: http::StatusCode) -> StatusCode {
    StatusCode::from_u16(status.as_u16()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}
