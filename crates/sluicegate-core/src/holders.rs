//! A page of those who have something in flight.

use crate::book::Book;
use crate::cursor::Cursor;
use crate::failure::{RequestError, RequestErrorKind};
use crate::hold::HoldId;
use crate::holder::Holder;
use crate::kernel::Rule;
use crate::limit::{Identity, Limit};
use crate::page::Page;
use crate::record::Record;
use crate::time::Span;

/// A page of those who have something in flight of a key, in the order of their ends.
///
/// Who is there from the first page to the last is on one of them, once, unless it was renewed meanwhile:
/// then it may be listed once more, further on, or, renewed for less, not at all.
///
/// ```
/// use sluicegate_core::{HoldId, Holder, Holders, Span};
///
/// let holder = Holder::new(HoldId::from_bytes([7; 16]), Span::SECOND, []);
/// let page = Holders::new(vec![holder.clone()], None, 3);
/// assert_eq!((page.holders(), page.next(), page.waiting()), (&[holder][..], None, 3));
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Holders {
    holders: Vec<Holder>,
    next: Option<Cursor>,
    waiting: u64,
}

impl Holders {
    /// A page. For stores.
    #[must_use]
    pub const fn new(holders: Vec<Holder>, next: Option<Cursor>, waiting: u64) -> Self {
        Self { holders, next, waiting }
    }

    /// The page of a book at `now`, in µs since the epoch. For stores.
    ///
    /// # Errors
    /// [`RequestErrorKind::Invalid`] for a cursor of another list.
    pub fn of_book(
        limit: &Limit,
        book: &Book,
        page: &Page<'_>,
        now: u64,
    ) -> Result<Self, RequestError> {
        let after = page.cursor().map(|cursor| cursor.holder(limit)).transpose()?;
        // Who has ended is gone, whatever its id.
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
        Ok(Self { holders, next, waiting: book.waiting_at(now) })
    }

    /// The page of a stored value, as of which a store has one per subject. For stores.
    ///
    /// # Errors
    /// Like [`Holders::of_book`].
    pub fn of_value(
        limit: &Limit,
        value: &[u8],
        page: &Page<'_>,
        now: u64,
    ) -> Result<Self, RequestError> {
        Self::of_book(limit, &Record::decode(value).book().0, page, now)
    }

    /// A holder of these units, which ends at a time; `None` if nothing of it is in flight. For stores.
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
        let ends_in = Span::from_micros(until.saturating_sub(now)).unwrap_or(Span::MAX);
        let holder = Holder::new(id, ends_in, held);
        is_in_flight.then_some(holder)
    }

    /// Checks whether a limit has such a list, and this page of it. For stores.
    ///
    /// # Errors
    /// [`RequestErrorKind::Unsupported`] for a limit that counts nothing in flight, and for several limits
    /// that are decided together; `Invalid` for a time that lacks, or is too many.
    pub fn validate(limit: &Limit, page: &Page<'_>, is_injected: bool) -> Result<(), RequestError> {
        page.validate(limit, is_injected)?;
        if limit.has_permits() {
            return Ok(());
        }
        let message = format!(
            "limit `{}` counts nothing in flight, so that nobody is listed: only a limit with a \
             `concurrency` policy lists what its keys hold",
            limit.name()
        );
        Err(RequestError::new(RequestErrorKind::Unsupported, message))
    }

    /// The error of a store that has no such list. For stores.
    #[cold]
    #[must_use]
    pub fn unsupported(limit: &Limit) -> RequestError {
        let message =
            format!("limit `{}` is in a store that doesn't list what is in flight", limit.name());
        RequestError::new(RequestErrorKind::Unsupported, message)
    }

    /// Those on this page: at most as many as were asked for, and maybe fewer or none although there are
    /// more.
    #[must_use]
    pub fn holders(&self) -> &[Holder] {
        &self.holders
    }

    /// Where the next page begins; `None` if this was the last.
    #[must_use]
    pub const fn next(&self) -> Option<&Cursor> {
        self.next.as_ref()
    }

    /// How many wait for what is in flight, in the limit's queue.
    #[must_use]
    pub const fn waiting(&self) -> u64 {
        self.waiting
    }
}
