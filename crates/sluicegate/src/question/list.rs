//! Lists of holders, bans and keys, for operators of a service.

use sluicegate_core::{
    BannedKey, Decision, Error, HoldId, Holder, ListedKey, Listing, Page, Request,
};

use super::{AboutKey, AtOnce, Refines, Target, Verb};
use crate::ask::Ask;

/// A page of the holders of a key. The answer is a [`Listing`] of [`Holder`]s.
#[derive(Clone, Debug)]
pub struct ToListHolders<'k, 'p> {
    pub(crate) ask: Ask<'k>,
    pub(crate) page: Page<'p>,
}

impl<T: Target> Verb<T> for ToListHolders<'_, '_> {
    type Output = Listing<Holder>;
    type Error = Error;

    async fn later(self, target: &T) -> Result<Self::Output, Self::Error> {
        let (limiter, ask) = target.holding(self.ask)?;
        limiter.list_holders(&ask, self.page).await
    }
}

impl<'a> Refines<'a> for ToListHolders<'a, '_> {
    fn refine(self, change: impl FnOnce(Ask<'a>) -> Ask<'a>) -> Self {
        Self { ask: change(self.ask), ..self }
    }
}

/// A page of banned keys. The answer is a [`Listing`] of [`BannedKey`]s.
#[derive(Clone, Debug)]
pub struct ToListBans<'a>(pub(crate) Page<'a>);

impl<T: Target> Verb<T> for ToListBans<'_> {
    type Output = Listing<BannedKey>;
    type Error = Error;

    async fn later(self, target: &T) -> Result<Self::Output, Self::Error> {
        target.listing()?.list_bans(self.0).await
    }
}

/// A page of the keys with a stored state. The answer is a [`Listing`] of [`ListedKey`]s.
#[derive(Clone, Debug)]
pub struct ToListKeys<'k, 'p> {
    pub(crate) prefix: &'k [u8],
    pub(crate) page: Page<'p>,
}

impl<T: Target> Verb<T> for ToListKeys<'_, '_> {
    type Output = Listing<ListedKey>;
    type Error = Error;

    async fn later(self, target: &T) -> Result<Self::Output, Self::Error> {
        target.listing()?.list_keys(self.prefix, self.page).await
    }
}

/// The end of another caller's hold. The answer is a [`Decision`].
#[derive(Clone, Debug)]
pub struct ToRevoke<'a> {
    pub(crate) ask: Ask<'a>,
    pub(crate) id: HoldId,
}

impl<T: Target> Verb<T> for ToRevoke<'_> {
    type Output = Decision;
    type Error = Error;

    fn at_once(&self, target: &T) -> Option<Result<Self::Output, Self::Error>> {
        match target.holding(self.ask.clone()) {
            Ok((limiter, ask)) => limiter.settle_at_once(release(&ask, &ask.also(), self.id)),
            Err(error) => Some(Err(error)),
        }
    }

    async fn later(self, target: &T) -> Result<Self::Output, Self::Error> {
        let (limiter, ask) = target.holding(self.ask)?;
        limiter.settle_later(release(&ask, &ask.also(), self.id)).await
    }
}

impl AtOnce for ToRevoke<'_> {}

impl<'a> Refines<'a> for ToRevoke<'a> {
    fn refine(self, change: impl FnOnce(Ask<'a>) -> Ask<'a>) -> Self {
        Self { ask: change(self.ask), ..self }
    }
}

/// Makes the request that revokes a hold. The caller doesn't know its usage.
fn release<'r>(ask: &'r Ask<'_>, also: &'r [&'r [u8]], id: HoldId) -> Request<'r> {
    Request::settle(ask.key(), id, &[]).also(also).at(ask.time())
}

impl AboutKey for ToListHolders<'_, '_> {
    fn key(&self) -> Option<&[u8]> {
        Some(self.ask.key())
    }

    fn wants_admission(&self) -> bool {
        false
    }
}

impl AboutKey for ToListBans<'_> {
    fn key(&self) -> Option<&[u8]> {
        None
    }

    fn wants_admission(&self) -> bool {
        false
    }
}

impl AboutKey for ToListKeys<'_, '_> {
    fn key(&self) -> Option<&[u8]> {
        None
    }

    fn wants_admission(&self) -> bool {
        false
    }
}

impl AboutKey for ToRevoke<'_> {
    fn key(&self) -> Option<&[u8]> {
        Some(self.ask.key())
    }

    fn wants_admission(&self) -> bool {
        false
    }
}
