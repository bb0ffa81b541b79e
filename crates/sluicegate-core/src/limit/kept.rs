//! Limits that stay in memory until the process ends.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use super::{Content, Handle, Limit};

/// The kept limits. Equal limits are kept once.
static KEPT: Mutex<Option<HashSet<&'static Content>>> = Mutex::new(None);

impl Limit {
    /// The maximum number of limits that a process keeps: about a megabyte.
    const MOST_KEPT: usize = 1_024;

    /// Returns this limit without a reference count, if it is among the first 1,024 different
    /// limits.
    ///
    /// Such a limit stays in memory until the process ends. Every decision refers to its limit.
    /// Counting references takes a third of the time of an embedded decision, and more under
    /// contention. A limit that is never dropped needs no count. Stores call this when they open a
    /// limit. A program that keeps creating limits pays for the count from the 1,025th on, and
    /// leaks only the first 1,024.
    #[must_use]
    #[cfg_attr(
        feature = "calendar",
        expect(clippy::mutable_key_type, reason = "the cache of a calendar window isn't hashed")
    )]
    pub fn keep(self) -> Self {
        let Handle::Counted(content) = &self.0 else {
            return self;
        };
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = kept.get_or_insert_default();
        if let Some(known) = kept.get(&**content) {
            return Self(Handle::Kept(known));
        }
        if kept.len() >= Self::MOST_KEPT {
            return self;
        }
        let leaked: &'static Content = Box::leak(Box::new(Content::clone(content)));
        kept.insert(leaked);
        Self(Handle::Kept(leaked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(number: usize) -> Limit {
        Limit::new("kept", [format!("gcra {}/s", number + 1)]).unwrap()
    }

    #[test]
    fn equal_limits_are_kept_once_and_only_so_many_are() {
        assert!(limit(0).keep().is_same(&limit(0).keep()));
        assert_eq!(limit(1).keep(), limit(1));
        for number in 0..2 * Limit::MOST_KEPT {
            assert_eq!(limit(number).keep(), limit(number));
        }
        let kept = KEPT.lock().unwrap();
        assert_eq!(kept.as_ref().map(HashSet::len), Some(Limit::MOST_KEPT));
    }
}
