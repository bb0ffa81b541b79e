//! Lists of units in flight, of banned keys, and of all keys.

use sluicegate_core::for_stores::{Driver, Post, Posted};
use sluicegate_core::{BannedKey, Error, Holder, ListedKey, Listing, Page, Request, Timestamp};

use super::ScriptLimit;
use crate::bans;
use crate::board;
use crate::call::ScriptCall;
use crate::holders;
use crate::link::Deadline;
use crate::resp::{Command, Value};
use crate::scan::Scan;
use crate::store::NAME;

impl ScriptLimit {
    pub(crate) async fn list_holders(
        &self,
        key: &[u8],
        page: Page<'_>,
    ) -> Result<Listing<Holder>, Error> {
        Driver::check_request(NAME)?;
        Listing::<Holder>::validate(&self.limit, &page, self.is_injected)?;
        let at = page.time().map(Timestamp::as_micros);
        let program = holders::listing(&self.limit, &page, at)?;
        let write_keys = |words: &mut Command| self.write_hold_keys(&Request::check(key), words);
        let call = ScriptCall::new(write_keys, &program);
        let said = self.store.ask_errand(call, Deadline::after(self.patience)).await?;
        holders::read(&self.limit, &page, said.rest)
    }

    pub(crate) async fn exchange(
        &self,
        key: &[u8],
        post: Option<Post<'_>>,
    ) -> Result<Vec<Posted>, Error> {
        Driver::check_request(NAME)?;
        post.map_or(Ok(()), |post| post.validate(&self.limit))?;
        let Some(name) = self.keys.first() else { return Ok(Vec::new()) };
        let write_keys = |words: &mut Command| {
            let mut written = Vec::with_capacity(64);
            name.write_board(key, &mut written);
            words.word(&written);
        };
        let call = ScriptCall::new(write_keys, &board::exchange(post));
        let said = self.store.ask_errand(call, Deadline::after(self.patience)).await?;
        board::read(said.rest)
    }

    pub(crate) async fn list_bans(&self, page: Page<'_>) -> Result<Listing<BannedKey>, Error> {
        Driver::check_request(NAME)?;
        Listing::<BannedKey>::validate(&self.limit, &page, self.is_injected)?;
        let Some(key) = self.keys.first() else { return Ok(Listing::<BannedKey>::default()) };
        let deadline = Deadline::after(self.patience);
        bans::list(&self.store, (&self.limit, key), &page, deadline).await
    }

    pub(crate) async fn list_keys(
        &self,
        prefix: &[u8],
        page: Page<'_>,
    ) -> Result<Listing<ListedKey>, Error> {
        Driver::check_request(NAME)?;
        Listing::<ListedKey>::validate(&self.limit, &page, self.is_injected)?;
        let Some(key) = self.keys.first() else { return Ok(Listing::<ListedKey>::default()) };
        let deadline = Deadline::after(self.patience);
        let scanned = (&self.limit, key.subjects_pattern(prefix));
        let mut scan = Scan::begin(&self.store, scanned, &page, deadline).await?;
        while let Some(step) = scan.step().await? {
            let subjects = step.names.iter().filter_map(|name| match name {
                Value::Bytes(name) => key.subject(name),
                _ => None,
            });
            let mut subjects: Vec<_> = subjects.collect();
            // A server may name a key twice in a step.
            subjects.sort_unstable();
            subjects.dedup();
            scan.add(step.next(), subjects);
        }
        Ok(scan.listing())
    }
}
