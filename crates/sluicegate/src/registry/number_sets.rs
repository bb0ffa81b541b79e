//! The different sets of numbers by which a limit counts its keys.

use std::sync::Arc;

use rpds::HashTrieMapSync;
use sluicegate_core::{Limit, Member};

use crate::limiter::Limiter;

/// A limiter for each set of numbers. Keys with the same numbers share one.
#[derive(Clone, Debug)]
pub(super) struct NumberSets {
    /// The first one has the limit's own numbers.
    limiters: Arc<Vec<Limiter>>,
    /// The index of each by the text of its numbers.
    by_text: HashTrieMapSync<Box<str>, u32>,
}

impl NumberSets {
    /// Makes the sets of a limit whose own numbers this limiter has.
    pub(super) fn new(own: Limiter) -> Self {
        let by_text = HashTrieMapSync::default().insert(text_of(own.limit()), 0);
        Self { limiters: Arc::new(vec![own]), by_text }
    }

    /// Returns the limiters. The first one has the limit's own numbers.
    pub(super) fn limiters(&self) -> &[Limiter] {
        &self.limiters
    }

    /// Returns the limiter with the limit's own numbers.
    pub(super) fn own(&self) -> &Limiter {
        &self.limiters[0]
    }

    /// Returns the limiter with these numbers, if there is one.
    pub(super) fn find(&self, numbers: &Limit) -> Option<&Limiter> {
        self.limiters.get(usize::try_from(*self.by_text.get(&*text_of(numbers))?).ok()?)
    }

    /// Returns the index of these numbers. New ones get a limiter.
    pub(super) fn index_of(
        &mut self,
        numbers: &Limit,
        open: impl FnOnce(&Limit) -> Limiter,
    ) -> u32 {
        let text = text_of(numbers);
        if let Some(index) = self.by_text.get(&text) {
            return *index;
        }
        let index = u32::try_from(self.limiters.len()).unwrap_or(0);
        Arc::make_mut(&mut self.limiters).push(open(numbers));
        self.by_text.insert_mut(text, index);
        index
    }
}

/// Returns text that equal sets of numbers have.
fn text_of(limit: &Limit) -> Box<str> {
    let policy = |member: &Member| member.policy().to_string();
    limit.members().iter().map(policy).collect::<Vec<_>>().join("\n").into()
}
