//! The keys of a request, as configured.

use std::error::Error;
use std::fmt;

use sluicegate_core::LimitName;
use sluicegate_http::{Key, KeyExtractor as _, KeyOutcome, MissingComponent, RequestView};
use smallvec::SmallVec;

use super::super::resolved::Resolved;
use super::Gate;
use crate::ask::Ask;
use crate::config_file::LimitConfig;
use crate::denied::Denied;

impl Gate {
    /// Returns the keys of a request: one per limit, from the limit's `key` in the current configuration.
    ///
    /// A limit that is not in force is not asked. Neither is one with `missing_key: skip` if the request lacks its key.
    ///
    /// ```
    /// use sluicegate::{Config, Registry, http::User};
    ///
    /// let config = "limits: {api: {key: user, missing_key: refuse, policies: [gcra 10/s]}}";
    /// let registry = Registry::open(&Config::parse(config, "limits.yaml")?)?;
    /// let api = registry.gate("api");
    /// let request = http::Request::get("/").extension(User::new("alice")).body(())?;
    /// let keys = api.keys(&request)?;
    /// assert!(api.check(keys.ask().cost(2)).now()?.is_allowed());
    ///
    /// let nobody = http::Request::new(());
    /// let missing = api.keys(&nobody).unwrap_err();
    /// assert_eq!(missing.to_string(), "limit `api`: the request has no known user");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the request lacks a part of a limit's key, and the limit refuses such requests.
    pub fn keys(&self, request: &dyn RequestView) -> Result<RequestKeys, MissingKey> {
        RequestKeys::made_by(&self.resolved(), &mut |_, config| {
            config.missing_key.resolve(config.key.key(request))
        })
    }
}

/// The keys of a request, one per limit of a [`Gate`].
#[derive(Clone, Debug)]
pub struct RequestKeys(SmallVec<[Option<Key>; 2]>);

impl RequestKeys {
    pub(super) fn made_by(
        resolved: &Resolved,
        make: &mut dyn FnMut(usize, &LimitConfig) -> KeyOutcome,
    ) -> Result<Self, MissingKey> {
        let mut keys = Self(SmallVec::new());
        for (index, part) in resolved.parts.iter().enumerate() {
            let Some(known) = part.in_force() else {
                keys.0.push(None);
                continue;
            };
            let config = &known.opened.config;
            keys.0.push(match make(index, config) {
                KeyOutcome::Limit(key) => Some(key),
                KeyOutcome::Refuse(missing) => {
                    return Err(MissingKey { limit: config.limit.name().clone(), missing });
                }
                // `Skip`, and variants that a later version may add.
                _ => None,
            });
        }
        Ok(keys)
    }

    /// Returns the keys as an [`Ask`], at the policies' own costs.
    pub fn ask(&self) -> Ask<'_> {
        self.ask_with(|_, ask| ask)
    }

    /// Returns the keys as an [`Ask`], each changed by `terms`, for example to set costs. `terms` gets the index
    /// of the limit in the gate, and is not called for limits that are not asked.
    pub fn ask_with<'a>(&'a self, terms: impl Fn(usize, Ask<'a>) -> Ask<'a>) -> Ask<'a> {
        let asks = self.0.iter().enumerate().map(|(index, key)| match key {
            Some(key) => terms(index, Ask::from_key(key)),
            None => Ask::nothing(),
        });
        asks.reduce(Ask::and).unwrap_or(Ask::nothing())
    }

    /// Returns the keys, in the order of the gate's limits; `None` for a limit that is not asked.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<&Key>> {
        self.0.iter().map(Option::as_ref)
    }
}

/// A request that lacks a part of a limit's key, although the limit refuses such requests. The HTTP status is 400.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MissingKey {
    limit: LimitName,
    missing: MissingComponent,
}

impl MissingKey {
    /// Returns the limit.
    #[must_use]
    pub const fn limit(&self) -> &LimitName {
        &self.limit
    }

    /// Returns the missing part.
    #[must_use]
    pub const fn missing(&self) -> &MissingComponent {
        &self.missing
    }
}

impl fmt::Display for MissingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "limit `{}`: {}", self.limit, self.missing)
    }
}

impl Error for MissingKey {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.missing)
    }
}

impl From<MissingKey> for Denied {
    fn from(missing: MissingKey) -> Self {
        Self::lacking(missing.limit.as_str(), missing.missing)
    }
}
