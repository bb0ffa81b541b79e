//! The query of a request, parsed strictly.

use axum::extract::Request;
use axum::http::Uri;
use sluicegate::admin::{Cursor, Page};

use super::asked::shown;
use super::error::ApiError;
use super::percent::bytes_of;

/// The fields of a query: `?limit=jobs&key=acme`.
#[derive(Debug)]
pub(super) struct Query {
    fields: Vec<(String, String)>,
    /// Example of a valid request, for messages.
    example: &'static str,
}

/// Forwards a request to a call without query parameters.
///
/// # Errors
/// Returns an error if the request has query parameters: ignoring them silently would mislead.
pub(super) async fn none(request: Request) -> Result<Request, ApiError> {
    let pairs = request.uri().query().unwrap_or_default().split('&');
    match pairs.into_iter().find(|pair| !pair.is_empty()) {
        None => Ok(request),
        Some(pair) => Err(ApiError::malformed(format!(
            "the query has the unknown field `{}`: {} takes no fields in its URL",
            shown(pair.split('=').next().unwrap_or_default()),
            request.uri().path()
        ))),
    }
}

impl Query {
    /// Reads the fields. Each may appear once.
    ///
    /// # Errors
    /// Returns an error for an unknown field, a repeated field, or a value that isn't text.
    pub(super) fn read(uri: &Uri, known: &[&str], example: &'static str) -> Result<Self, ApiError> {
        let mut fields: Vec<(String, String)> = Vec::new();
        let pairs = uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        for pair in pairs {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = text(name)?;
            if !known.contains(&name.as_str()) {
                return Err(ApiError::malformed(format!(
                    "the query has the unknown field `{}`: send {example}",
                    shown(&name)
                )));
            }
            if fields.iter().any(|(other, _)| *other == name) {
                return Err(ApiError::malformed(format!("the query has `{name}` twice")));
            }
            fields.push((name, text(value)?));
        }
        Ok(Self { fields, example })
    }

    /// Returns a field.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// Returns a required field.
    pub(super) fn need(&self, name: &str) -> Result<&str, ApiError> {
        self.get(name).ok_or_else(|| {
            ApiError::malformed(format!("the query lacks `{name}`: send {}", self.example))
        })
    }

    /// Returns a field that is a whole number.
    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, ApiError> {
        let Some(given) = self.get(name) else { return Ok(None) };
        let digits = Some(given).filter(|given| given.bytes().all(|byte| byte.is_ascii_digit()));
        digits.and_then(|digits| digits.parse().ok()).map(Some).ok_or_else(|| {
            ApiError::malformed(format!(
                "`{name}` is `{}`, but must be a whole number",
                shown(given)
            ))
        })
    }

    /// Returns the cursor of the requested page.
    pub(super) fn after(&self) -> Result<Option<Cursor>, ApiError> {
        let after = self.get("after").map(str::parse).transpose();
        after.map_err(|error| ApiError::malformed(format!("`after`: {error}")))
    }

    /// Returns the requested page, starting at the cursor.
    pub(super) fn page<'a>(&self, after: Option<&'a Cursor>) -> Result<Page<'a>, ApiError> {
        let page = match self.get("count") {
            None => Page::first(),
            Some(count) => {
                let number = Some(count)
                    .filter(|count| count.bytes().all(|byte| byte.is_ascii_digit()))
                    .and_then(|count| count.parse().ok());
                let page = number.and_then(|count| Page::of(count).ok());
                page.ok_or_else(|| {
                    ApiError::malformed(format!(
                        "`count` is `{}`, but must be a whole number from 1 to {}",
                        shown(count),
                        Page::MOST
                    ))
                })?
            }
        };
        Ok(after.map_or(page, |after| page.after(after)))
    }
}

/// Decodes a part of a query.
fn text(encoded: &str) -> Result<String, ApiError> {
    let bytes = bytes_of(&encoded.replace('+', " "));
    let bytes = bytes.map_err(|why| ApiError::malformed(format!("the query: {why}")))?;
    String::from_utf8(bytes).map_err(|_| ApiError::malformed("the query isn't valid UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<Query, String> {
        let uri: Uri = format!("/v1/holders?{query}").parse().unwrap();
        Query::read(&uri, &["limit", "key", "after", "count"], "/v1/holders?limit=jobs&key=acme")
            .map_err(|error| format!("{error:?}"))
    }

    #[test]
    fn fields_are_decoded_and_each_is_known_and_there_once() {
        let query = read("key=a%26b+%c3%A9%25&limit=jobs&&count=7").unwrap();
        assert_eq!((query.need("key").unwrap(), query.get("limit")), ("a&b é%", Some("jobs")));
        assert_eq!((query.get("after"), query.need("after").is_err()), (None, true));
        assert_eq!(query.page(None).unwrap().count(), 7);
        assert_eq!(read("key").unwrap().get("key"), Some(""), "an empty key is one");
        for (query, words) in [
            ("keys=a", "unknown field `keys`"),
            ("key=a&key=a", "`key` twice"),
            ("k%65y=a&key=a", "`key` twice"),
            ("key=%", "two digits"),
            ("key=%4", "two digits"),
            ("key=%+4", "two digits"),
            ("key=%ff", "UTF-8"),
        ] {
            let error = read(query).unwrap_err();
            assert!(error.contains(words), "{query}: {error}");
        }
    }

    #[test]
    fn a_page_has_from_one_to_a_thousand_entries_and_begins_at_a_cursor() {
        for count in ["0", "1001", "-1", "+1", "1.5", "", "99999999999999999999999", "x"] {
            let query = read(&format!("count={}", count.replace('+', "%2b"))).unwrap();
            let error = format!("{:?}", query.page(None).unwrap_err());
            assert!(error.contains("from 1 to 1000"), "{count}: {error}");
        }
        assert_eq!(read("count=1000").unwrap().page(None).unwrap().count(), 1_000);
        for after in ["", "a%20b", "%00", "a%2fb", &"a".repeat(256)] {
            assert!(read(&format!("after={after}")).unwrap().after().is_err(), "{after}");
        }
        assert_eq!(read("after=0a.1").unwrap().after().unwrap().unwrap().as_str(), "0a.1");
    }
}
