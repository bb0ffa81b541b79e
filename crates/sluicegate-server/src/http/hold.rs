//! How a body says what is to be held, and by which token.

use serde::Deserialize;
use sluicegate::decision::{HoldId, Holding};
use sluicegate::error::HoldIdError;

use super::body::{Object, some, span_of};
use super::error::ApiError;

/// For how long what is taken is held: `"30s"`; or `{"for":"30s","id":"…"}`, under an id that the client
/// makes, so that it can settle though the answer was lost.
#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "`hold` is a length of time such as \"30s\", or {\"for\":\"30s\",\"id\":\"32 hexadecimal digits\"}"
)]
pub(super) enum HoldBody {
    For(String),
    As(Object<HoldFields>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HoldFields {
    /// As long as the limit says where it counts what is in flight.
    #[serde(default, rename = "for", deserialize_with = "some")]
    lasts: Option<String>,
    id: String,
}

impl HoldBody {
    pub(super) fn holding(&self) -> Result<Holding, ApiError> {
        match self {
            Self::For(lasts) => Ok(Holding::lasting(span_of("hold", lasts)?)),
            Self::As(Object(HoldFields { lasts, id })) => {
                let id: HoldId = id.parse().map_err(|error: HoldIdError| {
                    ApiError::malformed(format!("`hold`: {error}"))
                })?;
                let holding = match lasts {
                    Some(lasts) => Holding::lasting(span_of("for", lasts)?),
                    None => Holding::as_needed(),
                };
                Ok(holding.under(id))
            }
        }
    }
}
