//! The settings of the store. It has one process, so they end with it.

use std::future::ready;

use sluicegate_core::for_stores::{Changed, Keeping, Mark, News, SettingChange, Settings};
use sluicegate_core::{BoxFuture, Error};

use crate::store::MemoryStore;

impl Settings for MemoryStore {
    fn keeping(&self) -> Keeping {
        Keeping::Process
    }

    fn change<'a>(
        &'a self,
        change: SettingChange<'a>,
    ) -> BoxFuture<'a, Result<Option<Changed>, Error>> {
        Box::pin(ready(self.registry().settings.change(change, self.now())))
    }

    fn news<'a>(&'a self, since: &'a Mark) -> BoxFuture<'a, Result<News, Error>> {
        Box::pin(ready(Ok(self.registry().settings.news(since, self.now()))))
    }

    fn log<'a>(
        &'a self,
        before: Option<&'a Mark>,
        count: usize,
    ) -> BoxFuture<'a, Result<Vec<Changed>, Error>> {
        Box::pin(ready(Ok(self.registry().settings.log(before, count))))
    }
}
