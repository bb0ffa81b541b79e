//! Request bodies: JSON objects of bounded size, read strictly.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::StatusCode;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use sluicegate::error::SpanError;
use sluicegate::store::Span;

use super::error::ApiError;

/// Maximum size of a body, in bytes, unless a call needs more.
const MOST_BYTES: usize = 64 * 1024;

/// Time limit for a client to send its body.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reads a body to its end. `example` is a valid body of this form, for messages.
///
/// # Errors
/// Returns an error if the body is too large, too slow, or not a JSON object of this form.
pub(super) async fn read<T: DeserializeOwned>(body: Body, example: &str) -> Result<T, ApiError> {
    read_up_to(MOST_BYTES, body, example).await
}

/// Reads a body of at most `most` bytes to its end.
///
/// # Errors
/// See [`read`].
pub(super) async fn read_up_to<T: DeserializeOwned>(
    most: usize,
    body: Body,
    example: &str,
) -> Result<T, ApiError> {
    let bytes = match tokio::time::timeout(PATIENCE, to_bytes(body, most)).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(error)) if is_too_large(&error) => {
            return Err(ApiError::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "too_large",
                format!("the body is larger than {most} bytes, the maximum of this call"),
            ));
        }
        Ok(Err(_)) => return Err(ApiError::malformed("the body broke off")),
        Err(_) => {
            return Err(ApiError::new(
                StatusCode::REQUEST_TIMEOUT,
                "too_slow",
                format!("the body did not arrive within {} seconds", PATIENCE.as_secs()),
            ));
        }
    };
    parse(&bytes, example)
}

/// Parses the bytes of a body.
///
/// # Errors
/// Returns an error if they aren't a JSON object of this form.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8], example: &str) -> Result<T, ApiError> {
    match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{') => {}
        Some(_) => {
            return Err(ApiError::malformed(format!(
                "the body is not a JSON object: send {example}"
            )));
        }
        None => return Err(ApiError::malformed(format!("the body is empty: send {example}"))),
    }
    match serde_json::from_slice(bytes) {
        Ok(Object(read)) => Ok(read),
        Err(error) => Err(ApiError::malformed(format!("the body: {error}"))),
    }
}

/// Reads an optional field that must not be `null`.
pub(super) fn some<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// Parses the length of time in a field.
pub(super) fn span_of(field: &str, text: &str) -> Result<Span, ApiError> {
    // The longest span has 18 characters. Longer texts are cut in errors.
    let text: String = text.chars().take(40).collect();
    text.parse().map_err(|error: SpanError| ApiError::malformed(format!("`{field}`: {error}")))
}

/// A value that must be a JSON object. A derived reader would also accept an array of the fields in
/// order.
#[derive(Debug)]
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData)).map(Self)
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

fn is_too_large(error: &axum::Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        if error.is::<http_body_util::LengthLimitError>() {
            return true;
        }
        source = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use axum::body::{Bytes, HttpBody};
    use hyper::body::Frame;

    use super::*;

    /// A body that is announced and never arrives.
    struct Endless;

    impl HttpBody for Endless {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            Poll::Pending
        }
    }

    /// A client that announces a body and sends nothing holds its connection for ten seconds.
    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_is_not_waited_for() {
        let reading = read::<serde_json::Value>(Body::new(Endless), "{}");
        let error = tokio::time::timeout(Duration::from_secs(11), reading).await;
        let error = error.expect("it waits for more than ten seconds").unwrap_err();
        assert!(format!("{error:?}").contains("too_slow"), "{error:?}");
    }

    #[test]
    fn fields_in_order_are_no_object() {
        #[derive(Debug, Deserialize)]
        struct Pair {
            _one: u64,
        }
        assert!(serde_json::from_str::<Object<Pair>>(r#"{"_one":1}"#).is_ok());
        assert!(serde_json::from_str::<Pair>("[1]").is_ok(), "what this is for");
        let error = serde_json::from_str::<Object<Pair>>("[1]").unwrap_err();
        assert!(error.to_string().contains("an object"), "{error}");
    }
}
