//! The hold in a request body.

use serde::Deserialize;
use sluicegate::decision::{HoldId, Holding};
use sluicegate::error::HoldIdError;

use super::body::{Object, some, span_of};
use super::error::ApiError;

/// The hold of the units: `"30s"`, or `{"for":"30s","id":"…"}` with an id from the client.
///
/// With its own id, a client can settle even if the answer was lost.
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
    /// Lifetime of the hold. By default, the limit's own hold time, for a limit with permits.
    #[serde(default, rename = "for", deserialize_with = "some")]
    lasts: Option<String>,
    id: String,
}

impl HoldBody {
    pub(super) fn holding(&self) -> Result<Holding, ApiError> {
        match self {
            Self::For(lasts) => Ok(Holding::lasting(span_of("hold", lasts)?.into())),
            Self::As(Object(HoldFields { lasts, id })) => {
                let id: HoldId = id.parse().map_err(|error: HoldIdError| {
                    ApiError::malformed(format!("`hold`: {error}"))
                })?;
                let holding = match lasts {
                    Some(lasts) => Holding::lasting(span_of("for", lasts)?.into()),
                    None => Holding::as_needed(),
                };
                Ok(holding.under(id))
            }
        }
    }
}
