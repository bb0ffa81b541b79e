//! Request bodies, read strictly.

use std::fmt;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::StatusCode;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Unexpected, Visitor};
use sluicegate::{Ask, Cost, Limit, Member};

use super::error::ApiError;

/// The maximum size of a body, in bytes.
const MOST_BYTES: usize = 64 * 1024;

/// How long a client may take to send its body.
const PATIENCE: Duration = Duration::from_secs(10);

/// `{"limit":"…","key":"…","cost":1}`, where the cost is optional, one number, or a map policy →
/// number, in which policies that it doesn't name cost nothing.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AskBody {
    pub(super) limit: String,
    pub(super) key: String,
    #[serde(default)]
    cost: CostBody,
}

#[derive(Debug, Default, PartialEq)]
enum CostBody {
    #[default]
    Own,
    Same(u64),
    Each(Vec<(String, u64)>),
}

impl AskBody {
    /// Reads a body to its end.
    ///
    /// # Errors
    /// If the body is too large, too slow, or not a JSON object of this form.
    pub(super) async fn read(body: Body) -> Result<Self, ApiError> {
        let bytes = match tokio::time::timeout(PATIENCE, to_bytes(body, MOST_BYTES)).await {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(error)) => {
                return Err(if is_too_large(&error) {
                    ApiError::new(
                        StatusCode::PAYLOAD_TOO_LARGE,
                        "too_large",
                        format!("the body is larger than {MOST_BYTES} bytes"),
                    )
                } else {
                    ApiError::malformed("the body broke off")
                });
            }
            Err(_) => {
                return Err(ApiError::new(
                    StatusCode::REQUEST_TIMEOUT,
                    "too_slow",
                    format!("the body did not arrive within {} seconds", PATIENCE.as_secs()),
                ));
            }
        };
        Self::parse(&bytes)
    }

    fn parse(bytes: &[u8]) -> Result<Self, ApiError> {
        // A derived reader would take an array for the fields in order.
        match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
            Some(b'{') => {}
            Some(_) => {
                return Err(ApiError::malformed(format!(
                    "the body is not a JSON object: send {EXAMPLE}"
                )));
            }
            None => return Err(ApiError::malformed(format!("the body is empty: send {EXAMPLE}"))),
        }
        serde_json::from_slice(bytes)
            .map_err(|error| ApiError::malformed(format!("the body: {error}")))
    }

    /// The request; its costs are not validated against a limit yet.
    pub(super) fn ask(&self) -> Ask<'_> {
        let ask = Ask::new(&self.key);
        match &self.cost {
            CostBody::Own => ask,
            CostBody::Same(units) => ask.cost(*units),
            CostBody::Each(each) => {
                each.iter().fold(ask, |ask, (policy, units)| ask.cost_of(policy, *units))
            }
        }
    }

    /// The cost under each policy of the limit.
    pub(super) fn costs(&self, limit: &Limit) -> Vec<u64> {
        let cost = |member: &Member| match &self.cost {
            CostBody::Own => member.policy().cost().get(),
            CostBody::Same(units) => *units,
            CostBody::Each(each) => each
                .iter()
                .find(|(policy, _)| policy == member.name().as_str())
                .map_or(0, |(_, units)| *units),
        };
        limit.members().iter().map(cost).collect()
    }
}

const EXAMPLE: &str = r#"{"limit":"demo","key":"alice","cost":1}"#;

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

impl<'de> Deserialize<'de> for CostBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CostVisitor { least: 1, may_be_map: true })
    }
}

/// One number of a map.
struct Units(u64);

impl<'de> Deserialize<'de> for Units {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.deserialize_any(CostVisitor { least: 0, may_be_map: false })? {
            CostBody::Same(units) => Ok(Self(units)),
            CostBody::Own | CostBody::Each(_) => Err(D::Error::custom("a cost must be a number")),
        }
    }
}

/// Accepts only integers in range (not `1.0` or `1e3`) and maps of them.
struct CostVisitor {
    least: u64,
    may_be_map: bool,
}

impl<'de> Visitor<'de> for CostVisitor {
    type Value = CostBody;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a cost that is a whole number from {} to {}", self.least, Cost::MAX)?;
        if self.may_be_map { f.write_str(", or a map from policy to number") } else { Ok(()) }
    }

    fn visit_u64<E: serde::de::Error>(self, units: u64) -> Result<CostBody, E> {
        if (self.least..=Cost::MAX.get()).contains(&units) {
            Ok(CostBody::Same(units))
        } else {
            Err(E::invalid_value(Unexpected::Unsigned(units), &self))
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<CostBody, A::Error> {
        if !self.may_be_map {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Err(A::Error::invalid_type(Unexpected::Map, &self));
        }
        let mut each: Vec<(String, u64)> = Vec::new();
        while let Some((policy, Units(units))) = map.next_entry::<String, Units>()? {
            // Bounded, so that the search for duplicates stays short.
            if each.len() >= Limit::MAX_POLICIES {
                return Err(A::Error::custom("the cost names more policies than a limit can have"));
            }
            if each.iter().any(|(earlier, _)| *earlier == policy) {
                return Err(A::Error::custom(format!(
                    "the cost of policy `{}` is set twice",
                    policy.escape_debug()
                )));
            }
            each.push((policy, units));
        }
        // It would touch nothing, which nobody asks for on purpose.
        if each.is_empty() {
            return Err(A::Error::custom(
                "the cost names no policy: name one, as in {\"tokens\":1}, or leave the cost out",
            ));
        }
        Ok(CostBody::Each(each))
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use axum::body::{Bytes, HttpBody};
    use hyper::body::Frame;

    use super::*;

    fn cost(json: &str) -> Option<CostBody> {
        AskBody::parse(format!(r#"{{"limit":"l","key":"k","cost":{json}}}"#).as_bytes())
            .ok()
            .map(|body| body.cost)
    }

    /// Of what is to come nothing comes.
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

    /// A client that announces a body and is silent then holds its connection for ten seconds.
    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_is_not_waited_for() {
        let reading = AskBody::read(Body::new(Endless));
        let error = tokio::time::timeout(Duration::from_secs(11), reading).await;
        let error = error.expect("it waits for more than ten seconds").unwrap_err();
        assert!(format!("{error:?}").contains("too_slow"), "{error:?}");
    }

    #[test]
    fn a_cost_is_a_whole_number_or_a_map_of_them() {
        assert_eq!(cost("3"), Some(CostBody::Same(3)));
        assert_eq!(cost("9007199254740991"), Some(CostBody::Same((1 << 53) - 1)));
        assert_eq!(
            cost(r#"{"a":0,"b":2}"#),
            Some(CostBody::Each(vec![("a".into(), 0), ("b".into(), 2)]))
        );
        for malformed in [
            "0",
            "-1",
            "1.5",
            "1.0",
            "1e3",
            "9007199254740992",
            "18446744073709551616",
            "1e400",
            "null",
            "true",
            r#""1""#,
            "[1]",
            r#"{"a":-1}"#,
            r#"{"a":1.5}"#,
            r#"{"a":{"b":1}}"#,
            r#"{"a":null}"#,
            r#"{"a":1,"a":2}"#,
            "{}",
            "NaN",
            "",
        ] {
            assert_eq!(cost(malformed), None, "{malformed}");
        }
    }
}
