//! Lists of holders and of banned keys.

use std::time::Duration;

use sluicegate_core::for_stores::{Book, Post, Posted};
use sluicegate_core::{BannedKey, Cursor, Error, Holder, ListedKey, Listing, Page, RequestError};

use crate::opened::MemoryLimit;
use crate::shards::Range;

/// Number of slots to examine for a page, rounded up to whole shards.
const LOOKED_AT: usize = 65_536;

impl MemoryLimit {
    /// Returns a page of the holders of a key's units in flight.
    pub(crate) fn list_holders(
        &self,
        key: &[u8],
        page: &Page<'_>,
    ) -> Result<Listing<Holder>, Error> {
        Listing::<Holder>::validate(self.limit(), page, self.is_injected())?;
        let fingerprint = self.store().fingerprint(key);
        let Some(table) = self.books().first().map(|opened| &opened.table) else {
            return Ok(Listing::<Holder>::default());
        };
        let shard = table.lock(fingerprint);
        let now = self.now(page.time()).micros;
        let shelf = shard.find(fingerprint).ok().and_then(|index| shard.cell(index).shelf());
        let nothing = Book::default();
        let book = shelf.map_or(&nothing, |shelf| &shelf.book);
        Ok(Listing::<Holder>::of_book(self.limit(), book, page, now)?)
    }

    /// Puts an entry on the board of a key, and returns the board.
    pub(crate) fn exchange_posts(
        &self,
        key: &[u8],
        post: Option<Post<'_>>,
    ) -> Result<Vec<Posted>, Error> {
        post.map_or(Ok(()), |post| post.validate(self.limit()))?;
        let registry = self.registry();
        let now = registry.clock.now().as_micros();
        Ok(registry.boards.exchange((self.limit().name(), key), post, now))
    }

    /// Returns a page of the banned keys: shard by shard, and within a shard in the order of the
    /// keys.
    pub(crate) fn list_bans(&self, page: &Page<'_>) -> Result<Listing<BannedKey>, Error> {
        Listing::<BannedKey>::validate(self.limit(), page, self.is_injected())?;
        let now = self.now(page.time());
        let table = self.books().first().map(|opened| &opened.table);
        let Some((table, ban)) = table.zip(self.limit().ban(0)) else {
            return Ok(Listing::<BannedKey>::default());
        };
        let shards = table.shards();
        let (mut range, mut after) = match page.cursor() {
            Some(cursor) => self.place_of(cursor)?,
            None => (shards.range(0), None),
        };
        let (mut listed, mut looked_at) = (Vec::new(), 0);
        loop {
            // List a shard that was divided since the last page as if it were whole.
            let (mut banned, mut next) = (Vec::new(), Some(range.start()));
            while let Some(at) = next.filter(|at| range.has_place(*at)) {
                let (shard, part) = shards.lock_with_range(at);
                looked_at += shard.cells().len();
                let shelves = shard.cells().filter_map(|cell| cell.shelf());
                let here = shelves.filter_map(|shelf| shelf.banned(ban, now));
                let here = here.filter(|(key, ..)| after.as_ref().is_none_or(|after| *key > after));
                banned.extend(here.map(|(key, rest, age)| (key.clone(), rest, age)));
                next = part.end();
            }
            banned.sort_unstable();
            let left = page.count() - listed.len();
            let is_cut = banned.len() > left;
            banned.truncate(left);
            let last = banned.last().map(|(key, ..)| key.clone());
            listed.extend(banned.into_iter().map(|(key, rest, age)| {
                BannedKey::new(key, Duration::from_micros(rest), Duration::from_micros(age))
            }));
            after = last.or(after).filter(|_| is_cut);
            range = match next {
                _ if is_cut => range,
                Some(next) => shards.range(next),
                None => return Ok(Listing::new(listed, None)),
            };
            if is_cut || looked_at > LOOKED_AT {
                return Ok(Listing::new(listed, Some(cursor(range, after.as_ref()))));
            }
        }
    }

    fn place_of(&self, cursor: &Cursor) -> Result<(Range, Option<ListedKey>), RequestError> {
        let foreign = || cursor.foreign(self.limit());
        let (place, after) = cursor.place(self.limit())?;
        let range = Range::of_code(place).ok_or_else(foreign)?;
        let after = match after.split_first() {
            None => None,
            Some((&WHOLE, key)) => Some(ListedKey::Whole(key.into())),
            Some((&HASHED, hash)) => {
                Some(ListedKey::Hashed(hash.try_into().map_err(|_| foreign())?))
            }
            Some(_) => return Err(foreign()),
        };
        Ok((range, after))
    }
}

// Kinds of a cursor's key.
const WHOLE: u8 = 0;
const HASHED: u8 = 1;

fn cursor(range: Range, after: Option<&ListedKey>) -> Cursor {
    let after = match after {
        None => Vec::new(),
        Some(ListedKey::Hashed(hash)) => [&[HASHED][..], hash].concat(),
        Some(key) => [&[WHOLE][..], key.whole().unwrap_or_default()].concat(),
    };
    Cursor::at_place(range.code(), &after)
}
