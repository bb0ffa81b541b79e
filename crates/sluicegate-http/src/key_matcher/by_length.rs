//! Tables of beginnings: of texts, or of addresses.

use std::collections::HashMap;
use std::hash::Hash;

/// Values by beginnings, for finding the values of all beginnings of a text or an address.
#[derive(Clone, Debug)]
pub(super) struct ByLength<B, V>(Vec<(usize, HashMap<B, V>)>);

impl<B: Eq + Hash, V: Default> ByLength<B, V> {
    /// Returns the value of a beginning that is `length` long.
    pub(super) fn entry(&mut self, length: usize, beginning: B) -> &mut V {
        let at = match self.0.binary_search_by_key(&length, |(length, _)| *length) {
            Ok(at) => at,
            Err(at) => {
                self.0.insert(at, (length, HashMap::new()));
                at
            }
        };
        self.0[at].1.entry(beginning).or_default()
    }

    /// Returns the values of the beginnings of up to `longest`. `find` looks up the beginning of one
    /// length.
    pub(super) fn up_to<'v>(
        &'v self,
        longest: usize,
        find: impl Fn(&'v HashMap<B, V>, usize) -> Option<&'v V>,
    ) -> impl Iterator<Item = &'v V> {
        let fitting = self.0.iter().take_while(move |(length, _)| *length <= longest);
        fitting.filter_map(move |(length, table)| find(table, *length))
    }
}

impl<B, V> Default for ByLength<B, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}
