//! The actions on a hold from the command line.

use serde_json::{Value, json};
use sluicegate::decision::HoldToken;
use sluicegate::store::Span;
use sluicegate::{Decision, Error, Registry, Usage};

use crate::cost::UsedUnits;

/// An action on a hold.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum HoldVerb {
    Cancel,
    Release,
    Renew { lasts: Span },
    Settle { used: UsedUnits },
}

impl HoldVerb {
    /// Returns the service call for the action: path and body.
    pub(super) fn call(&self, hold: &str) -> (&'static str, Value) {
        let hold = hold.trim();
        match self {
            Self::Cancel => ("/v1/cancel", json!({"hold": hold})),
            Self::Release => ("/v1/release", json!({"hold": hold})),
            Self::Renew { lasts } => ("/v1/renew", json!({"hold": hold, "for": lasts.to_string()})),
            Self::Settle { used } => {
                let used = match used {
                    UsedUnits::Same(units) => json!(units),
                    UsedUnits::Each(each) => each.iter().cloned().collect(),
                };
                ("/v1/settle", json!({"hold": hold, "used": used}))
            }
        }
    }

    /// Performs the action in the store.
    ///
    /// # Errors
    /// Returns an error if the store failed, or the token belongs to other limits.
    pub(super) async fn ask(
        &self,
        registry: &Registry,
        token: &HoldToken,
    ) -> Result<Decision, Error> {
        match self {
            Self::Cancel => registry.settle(token, Usage::nothing()).await,
            Self::Release => registry.settle(token, Usage::as_charged()).await,
            Self::Renew { lasts } => registry.renew(token, (*lasts).into()).await,
            Self::Settle { used } => registry.settle(token, used.usage()).await,
        }
    }
}
