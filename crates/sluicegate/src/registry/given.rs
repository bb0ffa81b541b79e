//! Keys that are given in code instead of made from a request, in the form in which limits count them.

use std::borrow::Cow;

use sluicegate_core::{Error, HoldToken, LimitName, Purpose, RequestError, RequestErrorKind};
use sluicegate_http::UnfitKey;
use smallvec::SmallVec;

use super::opened::Opened;
use super::resolved::{Part, Resolved};
use crate::ask::{Ask, Subject};
use crate::config::Switch;

impl Resolved {
    /// Returns whether all keys are in the form in which the limits count them.
    #[inline]
    pub(super) fn counts_as_given(&self, ask: &Ask<'_>) -> bool {
        self.parts.iter().zip(ask.subjects()).all(|(part, subject)| {
            part.known().is_none_or(|known| {
                matches!(counted_key(&known.opened, &subject), Ok(Cow::Borrowed(_)))
            })
        })
    }

    /// Returns the request with its keys in the form in which the limits count them; `None` if they already are. Limits
    /// that aren't asked accept any key.
    pub(super) fn with_counted_keys<'a>(
        &self,
        ask: &Ask<'a>,
        purpose: Purpose,
    ) -> Result<Option<Ask<'a>>, Error> {
        let mut changed: Option<Ask<'a>> = None;
        for (index, (part, subject)) in self.parts.iter().zip(ask.subjects()).enumerate() {
            let Part::Known(known) = part else { continue };
            let is_off = known.switch == Switch::Off && purpose != Purpose::Forget;
            if is_off || subject.is_nothing {
                continue;
            }
            let key =
                counted_key(&known.opened, &subject).map_err(|it| unfit(&known.opened, &it))?;
            if let Cow::Owned(key) = key {
                changed.get_or_insert_with(|| ask.clone()).set_key(index, key);
            }
        }
        Ok(changed)
    }
}

/// Returns the key as the limit counts it. A key that code made from a request, or instead of one, is counted
/// unchanged.
pub(super) fn counted_key<'k>(
    limit: &Opened,
    subject: &Subject<'k>,
) -> Result<Cow<'k, [u8]>, UnfitKey> {
    match subject.made {
        Some(_) => Ok(Cow::Borrowed(subject.key)),
        None => limit.config.key.given(subject.key),
    }
}

#[cold]
pub(super) fn unfit(limit: &Opened, error: &UnfitKey) -> Error {
    let message = format!("limit `{}`: {error}", limit.name());
    RequestError::new(RequestErrorKind::UnfitKey, message).into()
}

impl Resolved {
    /// Returns the token with its keys in the form in which the limits count them. A caller that chose the id itself
    /// makes the token from the key that it gave. A key that doesn't fit is unchanged, because code may have made it.
    pub(super) fn with_counted_token<'t>(&self, token: &'t HoldToken) -> Cow<'t, HoldToken> {
        let counted = |(index, name): (usize, &LimitName)| {
            let given = token.subject(index);
            let mut known = self.parts.iter().filter_map(Part::known);
            let known = known.find(|known| known.opened.name() == name.as_str());
            let key = known.and_then(|known| known.opened.config.key.given(given).ok());
            key.unwrap_or(Cow::Borrowed(given))
        };
        let keys: SmallVec<[Cow<'_, [u8]>; 2]> = token.limits().enumerate().map(counted).collect();
        if keys.iter().all(|key| matches!(key, Cow::Borrowed(_))) {
            return Cow::Borrowed(token);
        }
        HoldToken::new(token.id(), token.limits().cloned().zip(keys))
            .map_or(Cow::Borrowed(token), Cow::Owned)
    }
}
