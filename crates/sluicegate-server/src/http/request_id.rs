//! The id of a request, in its body or in the header field `Idempotency-Key`.

use axum::http::{HeaderMap, HeaderName, HeaderValue};

use super::error::ApiError;

/// A structured string per the IETF draft, such as `"8e03978e"`, or the id without quotes.
const FIELD: HeaderName = HeaderName::from_static("idempotency-key");

/// Returns the id of a request, if it has one. Body and header field may both contain it, if they
/// are equal.
///
/// # Errors
/// Returns an error if they differ, or the header field isn't a valid id.
pub(super) fn find(headers: &HeaderMap, body: Option<String>) -> Result<Option<String>, ApiError> {
    let mut fields = headers.get_all(FIELD).iter();
    let Some(field) = fields.next() else { return Ok(body) };
    if fields.next().is_some() {
        return Err(ApiError::malformed("Idempotency-Key stands there twice: send it once"));
    }
    let id = read(field).ok_or_else(|| {
        ApiError::malformed(
            "Idempotency-Key is not an id: send 1 to 255 printable ASCII characters, in double \
             quotes or without any",
        )
    })?;
    if body.as_ref().is_some_and(|body| *body != id) {
        return Err(ApiError::malformed(
            "Idempotency-Key and `request_id` differ: send one of them, or the same in both",
        ));
    }
    Ok(Some(id))
}

fn read(field: &HeaderValue) -> Option<String> {
    let text = field.to_str().ok()?.trim_matches([' ', '\t']);
    let Some(quoted) = text.strip_prefix('"') else {
        let is_bare =
            !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"');
        return is_bare.then(|| text.to_owned());
    };
    let (mut id, mut rest) = (String::new(), quoted.chars());
    loop {
        match rest.next()? {
            '"' => break,
            '\\' => id.push(rest.next().filter(|next| ['"', '\\'].contains(next))?),
            plain if plain == ' ' || plain.is_ascii_graphic() => id.push(plain),
            _ => return None,
        }
    }
    (rest.as_str().is_empty() && !id.is_empty()).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(fields: &[&'static str], body: Option<&str>) -> Result<Option<String>, String> {
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append(FIELD, HeaderValue::from_static(field));
        }
        find(&headers, body.map(str::to_owned)).map_err(|error| format!("{error:?}"))
    }

    #[test]
    fn the_field_is_a_string_in_quotes_or_bare() {
        for (field, id) in [
            ("abc-1", "abc-1"),
            (r#""abc 1""#, "abc 1"),
            (r#" "a\"b\\c" "#, r#"a"b\c"#),
            ("8e03978e-40d5-43dd-bc93-6894a57f9324", "8e03978e-40d5-43dd-bc93-6894a57f9324"),
        ] {
            assert_eq!(found(&[field], None), Ok(Some(id.to_owned())), "{field}");
            assert_eq!(found(&[field], Some(id)), Ok(Some(id.to_owned())), "{field}");
            assert!(found(&[field], Some("other")).unwrap_err().contains("differ"), "{field}");
        }
        assert_eq!(found(&[], Some("x")), Ok(Some("x".to_owned())));
        assert_eq!(found(&[], None), Ok(None));
    }

    #[test]
    fn what_is_no_id_is_refused() {
        for field in ["", "  ", "\"\"", "\"a", "\"a\"b", "a b", "a\"", r#""a\b""#, "\"a\"; p=1"] {
            assert!(found(&[field], None).unwrap_err().contains("is not an id"), "{field}");
        }
        assert!(found(&["a", "a"], None).unwrap_err().contains("twice"));
    }
}
