//! Lists of what is held, and who is banned.

use sluicegate_core::{
    BannedKey, BannedKeys, Book, Cursor, Error, Holders, ListedKey, Page, RequestError, Span,
};

use crate::opened::MemoryLimit;

/// So many slots are looked at for a page, and a shard more: they take a few milliseconds.
const LOOKED_AT: usize = 65_536;

impl MemoryLimit {
    /// A page of those who have something in flight of a key.
    pub(crate) fn list_holders(&self, key: &[u8], page: &Page<'_>) -> Result<Holders, Error> {
        Holders::validate(self.limit(), page, self.is_injected())?;
        let fingerprint = self.store().fingerprint(key);
        let Some(table) = self.books().first().map(|opened| &opened.table) else {
            return Ok(Holders::default());
        };
        let shard = table.lock(fingerprint);
        let now = self.now(page.time()).micros;
        let shelf = shard.find(fingerprint).ok().and_then(|index| shard.cell(index).shelf());
        let nothing = Book::default();
        let book = shelf.map_or(&nothing, |shelf| &shelf.book);
        Ok(Holders::of_book(self.limit(), book, page, now)?)
    }

    /// A page of the keys that are banned: shard by shard, and in each in the order of the keys.
    pub(crate) fn list_bans(&self, page: &Page<'_>) -> Result<BannedKeys, Error> {
        BannedKeys::validate(self.limit(), page, self.is_injected())?;
        let now = self.now(page.time());
        let (mut place, mut after) = match page.cursor() {
            Some(cursor) => self.place_of(cursor)?,
            None => (0, None),
        };
        let table = self.books().first().map(|opened| &opened.table);
        let Some((table, ban)) = table.zip(self.limit().ban(0)) else {
            return Ok(BannedKeys::default());
        };
        let (mut listed, mut looked_at) = (Vec::new(), 0);
        while let Some(shard) = table.lock_at(place) {
            looked_at += shard.cells().len();
            let shelves = shard.cells().filter_map(|cell| cell.shelf());
            let banned = shelves.filter_map(|shelf| shelf.banned(ban, now));
            let banned = banned.filter(|(key, _)| after.as_ref().is_none_or(|after| *key > after));
            let mut banned: Vec<_> = banned.map(|(key, rest)| (key.clone(), rest)).collect();
            drop(shard);
            banned.sort_unstable();
            let left = page.count() - listed.len();
            if banned.len() > left {
                banned.truncate(left);
                after = banned.last().map(|(key, _)| key.clone()).or(after);
            } else {
                (place, after) = (place + 1, None);
            }
            listed.extend(banned.into_iter().map(|(key, rest)| {
                BannedKey::new(key, Span::from_micros(rest).unwrap_or(Span::MAX))
            }));
            if after.is_some() || looked_at > LOOKED_AT {
                return Ok(BannedKeys::new(listed, Some(cursor(place, after.as_ref()))));
            }
        }
        Ok(BannedKeys::new(listed, None))
    }

    fn place_of(&self, cursor: &Cursor) -> Result<(usize, Option<ListedKey>), RequestError> {
        let foreign = || cursor.foreign(self.limit());
        let (place, after) = cursor.place(self.limit())?;
        let place = usize::try_from(place).map_err(|_| foreign())?;
        let after = match after.split_first() {
            None => None,
            Some((&WHOLE, key)) => Some(ListedKey::Whole(key.into())),
            Some((&HASHED, hash)) => {
                Some(ListedKey::Hashed(hash.try_into().map_err(|_| foreign())?))
            }
            Some(_) => return Err(foreign()),
        };
        Ok((place, after))
    }
}

// How a cursor has a key.
const WHOLE: u8 = 0;
const HASHED: u8 = 1;

fn cursor(place: usize, after: Option<&ListedKey>) -> Cursor {
    let after = match after {
        None => Vec::new(),
        Some(ListedKey::Hashed(hash)) => [&[HASHED][..], hash].concat(),
        Some(key) => [&[WHOLE][..], key.whole().unwrap_or_default()].concat(),
    };
    Cursor::at_place(place as u64, &after)
}
