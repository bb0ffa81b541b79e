//! The gates of limits, alone and together.

use axum::http::StatusCode;
use sluicegate::config::Switch;
use sluicegate::{Gate, Registry};

use super::asked::{Asked, shown};
use super::error::ApiError;
use super::given::{GivenByLimit, Wanted};
use super::open_gates::{OpenGates, open};
use crate::access::{Call, Caller};

/// Finds the gates for requests, for callers that have the right to use their limits.
#[derive(Debug)]
pub(crate) struct Gates {
    registry: Registry,
    open: OpenGates<String>,
}

impl Gates {
    pub(super) fn new(registry: Registry) -> Self {
        Self { registry, open: OpenGates::new() }
    }

    /// Returns the gate of the limits that a request names.
    ///
    /// # Errors
    /// Returns an error if the caller lacks the right for one of the limits, or if one doesn't exist.
    /// Also if the request gives policies that form no limit, or the service takes none.
    pub(super) fn find(&self, asked: &Asked) -> Result<Gate, ApiError> {
        self.find_all(&asked.caller, asked.call, &asked.limits())
    }

    /// Returns the gate of a limit of the configuration.
    ///
    /// # Errors
    /// Returns an error if the caller lacks the right for the limit, or if it doesn't exist.
    #[cfg(feature = "resp")]
    pub(crate) fn named(&self, caller: &Caller, call: Call, name: &str) -> Result<Gate, ApiError> {
        self.find_all(caller, call, &[Wanted { name, given: None }])
    }

    /// Returns an error unless the caller may settle holds of these limits.
    ///
    /// # Errors
    /// Returns an error if the caller lacks the right for one of the limits.
    #[cfg(feature = "resp")]
    pub(crate) fn may_settle(&self, caller: &Caller, limits: &[&str]) -> Result<(), ApiError> {
        self.settling(caller, limits, &GivenByLimit::default()).map(drop)
    }

    /// Returns the gate of these limits.
    ///
    /// # Errors
    /// See [`Gates::find`].
    pub(super) fn find_all(
        &self,
        caller: &Caller,
        call: Call,
        wanted: &[Wanted<'_>],
    ) -> Result<Gate, ApiError> {
        for limit in wanted {
            self.permit(caller, call, *limit)?;
        }
        let has_policies = wanted.iter().any(|limit| limit.given.is_some());
        if has_policies && self.registry.limits_in_requests() != Switch::On {
            return Err(ApiError::new(
                StatusCode::BAD_REQUEST,
                "unsupported",
                "the service takes no `policies` from requests: set `limits_in_requests: true` in its configuration, \
                 or omit them and name a limit that it has",
            ));
        }
        if let [one] = wanted {
            return self.one(*one);
        }
        // A gate that is kept may be of a limit that the configuration no longer has.
        let is_gone = |limit: &&Wanted<'_>| {
            limit.given.is_none() && self.registry.limit_switched(limit.name).is_none()
        };
        if let Some(gone) = wanted.iter().find(is_gone) {
            return Err(unknown(gone.name));
        }
        let joined = |error: sluicegate::error::JoinError| ApiError::malformed(error.to_string());
        if !has_policies {
            return self.registry.together(wanted.iter().map(|limit| limit.name)).map_err(joined);
        }
        // Kept, because a new gate of several limits must open them in the store.
        self.open.of_wanted(wanted, || {
            let gates = wanted.iter().map(|limit| self.one(*limit));
            // The names differ, and all gates belong to one registry.
            let all = gates.reduce(|one, two| one?.and(two?).map_err(joined));
            all.unwrap_or_else(|| Err(unknown("")))
        })
    }

    /// Returns the gate that settles a token of these limits, by the policies that a request gives.
    /// `None` if it gives none: then the registry settles.
    ///
    /// # Errors
    /// Returns an error if the caller lacks the right for one of the limits. Also if there are policies
    /// for another limit, and as [`Gates::find`].
    pub(super) fn settling(
        &self,
        caller: &Caller,
        limits: &[&str],
        given: &GivenByLimit,
    ) -> Result<Option<Gate>, ApiError> {
        let wanted = given.of(limits)?;
        if given.is_empty() {
            for limit in &wanted {
                self.permit(caller, Call::Hold, *limit)?;
            }
            return Ok(None);
        }
        self.find_all(caller, Call::Hold, &wanted).map(Some)
    }

    /// Returns the gate of one limit.
    fn one(&self, wanted: Wanted<'_>) -> Result<Gate, ApiError> {
        let Wanted { name, given } = wanted;
        let Some(given) = given else {
            return self.registry.find(name).ok_or_else(|| unknown(name));
        };
        self.open.of_wanted(&[wanted], || Ok(open(&self.registry, given.limit(name)?)))
    }

    /// Returns an error unless the caller may make this call for a limit.
    ///
    /// A limit with permits always holds what it gives out, so taking from it needs the right to hold.
    fn permit(&self, caller: &Caller, call: Call, wanted: Wanted<'_>) -> Result<(), ApiError> {
        let Wanted { name, given } = wanted;
        let holds = || match given {
            Some(given) => given.limit(name).is_ok_and(|limit| limit.has_permits()),
            None => self.registry.limit(name).is_some_and(|limit| limit.limit.has_permits()),
        };
        let call = match call {
            Call::Take if !caller.can(Call::Hold) && holds() => Call::Hold,
            call => call,
        };
        Ok(caller.may(call, name)?)
    }
}

pub(super) fn unknown(name: &str) -> ApiError {
    ApiError::new(
        StatusCode::NOT_FOUND,
        ApiError::UNKNOWN_LIMIT,
        format!("there is no limit called `{}`: GET /v1/limits lists them", shown(name)),
    )
}
