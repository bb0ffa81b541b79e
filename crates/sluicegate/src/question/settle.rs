//! Requests that settle holds or renew them.

use sluicegate_core::{Decision, Error, HoldToken, Request, Span};

use super::{AboutKey, AtOnce, Charged, Settles, Verb};
use crate::usage::{Usage, UsedUnits};

/// The end of a hold, for the real usage. The answer is a [`Decision`].
#[derive(Clone, Debug)]
pub struct ToSettle<'t, 'u> {
    pub(crate) token: &'t HoldToken,
    pub(crate) usage: Usage<'u>,
}

impl<T: Settles> Verb<T> for ToSettle<'_, '_> {
    type Output = Decision;
    type Error = Error;

    fn at_once(&self, target: &T) -> Option<Result<Self::Output, Self::Error>> {
        settle_at_once(target, self.token, &self.usage)
    }

    async fn later(self, target: &T) -> Result<Self::Output, Self::Error> {
        settle(target, self.token, &self.usage).await
    }
}

impl AtOnce for ToSettle<'_, '_> {}

/// More time for a hold. The answer is a [`Decision`].
#[derive(Clone, Debug)]
pub struct ToRenew<'a> {
    pub(crate) token: &'a HoldToken,
    pub(crate) lasts: Span,
}

impl<T: Settles> Verb<T> for ToRenew<'_> {
    type Output = Decision;
    type Error = Error;

    fn at_once(&self, target: &T) -> Option<Result<Self::Output, Self::Error>> {
        let charged = match target.charged(self.token) {
            Ok(charged) => charged,
            Err(error) => return Some(Err(error)),
        };
        charged.limiter.settle_at_once(renewal(&charged.token, &charged.subjects(), self.lasts))
    }

    async fn later(self, target: &T) -> Result<Self::Output, Self::Error> {
        let charged = target.charged(self.token)?;
        charged.limiter.settle_later(renewal(&charged.token, &charged.subjects(), self.lasts)).await
    }
}

impl AtOnce for ToRenew<'_> {}

pub(crate) async fn settle<T: Settles>(
    target: &T,
    token: &HoldToken,
    usage: &Usage<'_>,
) -> Result<Decision, Error> {
    let (charged, units) = used(target, token, usage)?;
    let subjects = charged.subjects();
    let request = settlement(&charged.token, &subjects, &units).at(usage.time());
    charged.limiter.settle_later(request).await
}

/// Settles or renews if the store can answer immediately. Otherwise returns `None` and sends nothing.
pub(crate) fn settle_at_once<T: Settles>(
    target: &T,
    token: &HoldToken,
    usage: &Usage<'_>,
) -> Option<Result<Decision, Error>> {
    let (charged, units) = match used(target, token, usage) {
        Ok(used) => used,
        Err(error) => return Some(Err(error)),
    };
    let subjects = charged.subjects();
    let request = settlement(&charged.token, &subjects, &units).at(usage.time());
    charged.limiter.settle_at_once(request)
}

/// Returns the limiter that was charged, and the used units of each of its policies.
fn used<'t, T: Settles>(
    target: &T,
    token: &'t HoldToken,
    usage: &Usage<'_>,
) -> Result<(Charged<'t, T::Store>, UsedUnits), Error> {
    let charged = target.charged(token)?;
    let knows = |limit: Option<&str>, policy: &str| target.knows(limit, policy);
    let units = usage.units(charged.limiter.limit(), knows)?;
    Ok((charged, units))
}

/// Returns the request that settles the holds of these subjects.
fn settlement<'r>(
    token: &HoldToken,
    subjects: &'r [&'r [u8]],
    used: &'r [Option<u64>],
) -> Request<'r> {
    let (key, also) = first_and_rest(subjects);
    Request::settle(key, token.id(), used).also(also)
}

/// Returns the request that renews the holds of these subjects.
fn renewal<'r>(token: &HoldToken, subjects: &'r [&'r [u8]], lasts: Span) -> Request<'r> {
    let (key, also) = first_and_rest(subjects);
    Request::renew(key, token.id(), lasts).also(also)
}

fn first_and_rest<'r>(subjects: &'r [&'r [u8]]) -> (&'r [u8], &'r [&'r [u8]]) {
    subjects.split_first().map_or((&[], &[]), |(key, also)| (*key, also))
}

impl AboutKey for ToSettle<'_, '_> {
    fn key(&self) -> Option<&[u8]> {
        Some(self.token.subject(0))
    }

    fn wants_admission(&self) -> bool {
        false
    }
}

impl AboutKey for ToRenew<'_> {
    fn key(&self) -> Option<&[u8]> {
        Some(self.token.subject(0))
    }

    fn wants_admission(&self) -> bool {
        false
    }
}
