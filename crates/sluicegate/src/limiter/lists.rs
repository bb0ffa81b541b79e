//! Lists holders, banned keys, and keys.

use sluicegate_core::{
    BannedKey, Error, Holder, ListedKey, Listing, OpenedLimit as _, Page, Store,
};

use super::Limiter;
use crate::ask::Ask;

impl<S: Store> Limiter<S> {
    pub(crate) async fn list_holders(
        &self,
        ask: &Ask<'_>,
        page: Page<'_>,
    ) -> Result<Listing<Holder>, Error> {
        let page = page.at(ask.time().or(page.time()));
        self.noted(self.inner.opened.holders(ask.key(), page).await)
    }

    pub(crate) async fn list_bans(&self, page: Page<'_>) -> Result<Listing<BannedKey>, Error> {
        self.noted(self.inner.opened.bans(page).await)
    }

    pub(crate) async fn list_keys(
        &self,
        prefix: &[u8],
        page: Page<'_>,
    ) -> Result<Listing<ListedKey>, Error> {
        self.noted(self.inner.opened.keys(prefix, page).await)
    }

    /// Returns the store's list, and notes a failure of the store.
    fn noted<T>(&self, listed: Result<T, Error>) -> Result<T, Error> {
        if let Err(Error::Store(error)) = &listed {
            self.note_failure(error);
        }
        listed
    }
}
