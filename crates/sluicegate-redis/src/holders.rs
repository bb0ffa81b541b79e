//! Lists of the holders of units in flight: the query in a program, and the reply.
//!
//! | bytes | query, in the program of an auxiliary command (`lua/auxiliary.lua`) |
//! | --- | --- |
//! | 2 | maximum number of holders |
//! | 7 | end of the hold after which to begin, µs since the epoch; 0 for the first page |
//! | 16 | its id |
//!
//! | bytes | reply |
//! | --- | --- |
//! | 7 | the time of the list, µs since the epoch |
//! | 7 | number of waiters |
//! | 4, … | each: its member of the set, after its length |

use bytes::{Buf as _, Bytes};
use sluicegate_core::for_stores::Identity;
use sluicegate_core::kernel::{ID_BYTES, NUMBER_BYTES};
use sluicegate_core::record::read_numbers;
use sluicegate_core::{Cursor, Error, HoldId, Holder, Limit, Listing, Page, RequestError};

use crate::format::{Format, Item};
use crate::program::errand;
use crate::program_frame::{inject, push};
use crate::reply_frame::take_word;
use crate::twin::Lane;
use crate::unexpected::nonsense;

/// The query of a page.
pub(crate) const ASKED: Format =
    Format(&[&[Item::Whole(2), Item::Numbers(1), Item::Text(HoldId::BYTES)]]);
/// The beginning of a reply.
pub(crate) const HEAD: Format = Format(&[&[Item::Numbers(2)]]);

/// Returns the program that lists a page. It requests one entry more than the page has, to show whether there
/// are more. `at` is the time of the list, in µs, unless it is the server's.
///
/// # Errors
/// Returns an error for a cursor of another list.
pub(crate) fn listing(
    limit: &Limit,
    page: &Page<'_>,
    at: Option<u64>,
) -> Result<Vec<u8>, RequestError> {
    let (until, id) = match page.cursor() {
        Some(cursor) => cursor.holder(limit)?,
        None => (0, HoldId::from_bytes([0; HoldId::BYTES])),
    };
    let mut program = errand(Lane::Holders);
    inject(at, &mut program);
    let count = u16::try_from(page.count() + 1).unwrap_or(u16::MAX);
    program.extend_from_slice(&count.to_be_bytes());
    push(&mut program, until);
    program.extend_from_slice(&id.to_bytes());
    Ok(program)
}

/// Parses a page.
///
/// # Errors
/// Returns an error if the reply is malformed.
pub(crate) fn read(
    limit: &Limit,
    page: &Page<'_>,
    mut said: Bytes,
) -> Result<Listing<Holder>, Error> {
    let cut_short = || nonsense("a list cut short");
    let head = said.get(..HEAD.size()).and_then(read_numbers).ok_or_else(cut_short)?;
    let &[now, waiting] = &head[..] else { return Err(cut_short()) };
    said.advance(HEAD.size());
    let (mut holders, mut last, mut has_more) = (Vec::new(), None, false);
    for listed in 0.. {
        if said.is_empty() {
            break;
        }
        let member = take_word(&mut said).ok_or_else(cut_short)?;
        if listed == page.count() {
            has_more = true;
            break;
        }
        let (place, holder) = read_member(limit, now, &member).ok_or_else(cut_short)?;
        // A holder of a removed policy holds no listed units.
        holders.extend(holder);
        last = Some(place);
    }
    let next = last.filter(|_| has_more).map(Cursor::after_holder);
    Ok(Listing::new(holders, next).with_waiting(waiting))
}

/// Parses a member of the set: its end and id, and the holder.
fn read_member(limit: &Limit, now: u64, member: &[u8]) -> Option<((u64, HoldId), Option<Holder>)> {
    let (_sort, rest) = member.split_first()?;
    let (until, rest) = rest.split_at_checked(NUMBER_BYTES)?;
    let until = *read_numbers(until)?.first()?;
    let (id, mut entries) = rest.split_first_chunk()?;
    let mut units = Vec::new();
    while !entries.is_empty() {
        let (policy, rest) = entries.split_first_chunk::<ID_BYTES>()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (entry, rest) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
        entries = rest;
        if entry.is_empty() {
            // This entry means that the record is given back at its end.
            continue;
        }
        // The units come first.
        let held = read_numbers(entry.get(..NUMBER_BYTES)?)?;
        let [_kind, identity @ ..] = *policy;
        units.push((Identity::from_bytes(identity), *held.first()?));
    }
    let place = (until, HoldId::from_bytes(*id));
    Some((place, Listing::<Holder>::holder(limit, place, now, &units.into_iter())))
}
