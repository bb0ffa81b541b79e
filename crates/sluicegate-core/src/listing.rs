//! A page of a list.

use std::time::Duration;

use crate::banned_key::BannedKey;
use crate::book::Book;
use crate::cursor::Cursor;
use crate::failure::{RequestError, RequestErrorKind};
use crate::hold::HoldId;
use crate::holder::Holder;
use crate::kernel::Rule;
use crate::limit::{Identity, Limit};
use crate::listed_key::ListedKey;
use crate::page::Page;
use crate::record::Record;

/// A page of a limit's list: the [holders](Holder) of a key, the [banned keys](BannedKey), or all
/// [keys](ListedKey) with a state.
///
/// Holders are in the order of their ends. A page has at most the requested number of them. A
/// holder that exists from the first page to the last is listed exactly once. One that is renewed
/// meanwhile can be listed a second time. If it is renewed for less, it can be missing.
///
/// Keys are in no particular order. A page before the last may have fewer entries than
/// requested, or none. A store examines a limited number of keys for each page. Only the last page
/// has no [next](Listing::next). On a server, a page may have more entries than requested. A key
/// can be on two pages if the server's table grows or shrinks meanwhile.
///
/// ```
/// use std::time::Duration;
///
/// use sluicegate_core::{BannedKey, HoldId, Holder, ListedKey, Listing};
///
/// let holder = Holder::new(HoldId::from_bytes([7; 16]), Duration::from_secs(1), []);
/// let page = Listing::new(vec![holder.clone()], None).with_waiting(3);
/// assert_eq!((page.entries(), page.next(), page.waiting()), (&[holder][..], None, 3));
///
/// let banned = BannedKey::new(ListedKey::of(b"mallory"), Duration::from_secs(60), Duration::ZERO);
/// let page = Listing::new(vec![banned.clone()], None);
/// assert_eq!(page.entries(), [banned]);
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Listing<T> {
    entries: Vec<T>,
    next: Option<Cursor>,
    waiting: u64,
}

impl<T> Listing<T> {
    /// Makes a page. For stores.
    #[must_use]
    pub const fn new(entries: Vec<T>, next: Option<Cursor>) -> Self {
        Self { entries, next, waiting: 0 }
    }

    /// Returns the entries of this page.
    #[must_use]
    pub fn entries(&self) -> &[T] {
        &self.entries
    }

    /// Returns the cursor of the next page; `None` if this is the last page.
    #[must_use]
    pub const fn next(&self) -> Option<&Cursor> {
        self.next.as_ref()
    }
}

impl<T: Listed> Listing<T> {
    /// Checks that a limit has such a list, and the page. For stores.
    ///
    /// # Errors
    /// Returns [`RequestErrorKind::Unsupported`] for a limit without such a list, and for several
    /// limits that are decided together. Returns `Invalid` for a page without a time where time is
    /// injected, and for one with a time where it is not.
    pub fn validate(limit: &Limit, page: &Page<'_>, is_injected: bool) -> Result<(), RequestError> {
        page.validate(limit, is_injected)?;
        if T::is_listed(limit) {
            return Ok(());
        }
        let message = format!(
            "limit `{}` has no list of {}: only a limit with a {} has one",
            limit.name(),
            T::PLURAL,
            T::SOURCE
        );
        Err(RequestError::new(RequestErrorKind::Unsupported, message))
    }

    /// Returns the error of a store without such a list. For stores.
    #[cold]
    #[must_use]
    pub fn unsupported(limit: &Limit) -> RequestError {
        let message =
            format!("limit `{}` is in a store without lists of {}", limit.name(), T::PLURAL);
        RequestError::new(RequestErrorKind::Unsupported, message)
    }
}

impl<T> Default for Listing<T> {
    fn default() -> Self {
        Self::new(Vec::new(), None)
    }
}

impl Listing<Holder> {
    /// Sets the number of waiting requests. For stores.
    #[must_use]
    pub const fn with_waiting(mut self, waiting: u64) -> Self {
        self.waiting = waiting;
        self
    }

    /// Returns the number of requests that wait in the limit's queue.
    #[must_use]
    pub const fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Returns the page of a book at `now`, in µs since the epoch. For stores.
    ///
    /// # Errors
    /// Returns [`RequestErrorKind::Invalid`] for a cursor of another list.
    pub fn of_book(
        limit: &Limit,
        book: &Book,
        page: &Page<'_>,
        now: u64,
    ) -> Result<Self, RequestError> {
        let after = page.cursor().map(|cursor| cursor.holder(limit)).transpose()?;
        // Skip holders that have ended by now.
        let ended = (now, HoldId::from_bytes([u8::MAX; HoldId::BYTES]));
        let mut live = book.live_after(after.map_or(ended, |after| after.max(ended))).filter_map(
            |(id, until, units)| {
                Some(((until, id), Self::holder(limit, (until, id), now, &units)?))
            },
        );
        let (mut holders, mut last) = (Vec::new(), None);
        for (place, holder) in live.by_ref().take(page.count()) {
            holders.push(holder);
            last = Some(place);
        }
        let next = live.next().and(last).map(Cursor::after_holder);
        Ok(Self::new(holders, next).with_waiting(book.waiting_at(now)))
    }

    /// Returns the page of a stored value; a store has one value for each subject. For stores.
    ///
    /// # Errors
    /// Returns the errors of [`Listing::of_book`].
    pub fn of_value(
        limit: &Limit,
        value: &[u8],
        page: &Page<'_>,
        now: u64,
    ) -> Result<Self, RequestError> {
        Self::of_book(limit, &Record::decode(value).book().0, page, now)
    }

    /// Returns the holder of these units, which ends at a time; `None` if it has no unit in flight.
    /// For stores.
    pub fn holder(
        limit: &Limit,
        (until, id): (u64, HoldId),
        now: u64,
        units: &(impl Iterator<Item = (Identity, u64)> + Clone),
    ) -> Option<Holder> {
        let mut is_in_flight = false;
        let held = limit.members().iter().filter_map(|member| {
            let (_, units) = units.clone().find(|(identity, _)| *identity == member.identity())?;
            is_in_flight |= matches!(member.policy().rule(), Rule::Permits(_));
            Some((member.name().clone(), units))
        });
        let ends_in = Duration::from_micros(until.saturating_sub(now));
        let holder = Holder::new(id, ends_in, held);
        is_in_flight.then_some(holder)
    }
}

/// An entry of a list.
pub trait Listed {
    /// The name of several entries.
    const PLURAL: &str;
    /// The part of a limit that makes such a list.
    const SOURCE: &str;

    /// Returns whether a limit has such a list.
    fn is_listed(limit: &Limit) -> bool;
}

impl Listed for Holder {
    const PLURAL: &str = "holders";
    const SOURCE: &str = "`concurrency` policy";

    fn is_listed(limit: &Limit) -> bool {
        limit.has_permits()
    }
}

impl Listed for BannedKey {
    const PLURAL: &str = "banned keys";
    const SOURCE: &str = "`ban`";

    fn is_listed(limit: &Limit) -> bool {
        limit.has_bans()
    }
}

impl Listed for ListedKey {
    const PLURAL: &str = "keys";
    const SOURCE: &str = "policy";

    fn is_listed(_: &Limit) -> bool {
        true
    }
}
