//! The template constants of the Lua files, with values from the Rust code that defines them.

use sluicegate_core::for_stores::{
    Asked, BanState, Book, Leasing, Line, Pace, Pause, Post, Repeats,
};
use sluicegate_core::kernel::bucket::Bucket;
use sluicegate_core::kernel::{
    Bound, HEAD_BYTES, ID_BYTES, Kernel as _, LISTED_FROM, Leased, NUMBER_BYTES, Slot, retention,
};
use sluicegate_core::{Ban, HoldId, MAX_EXACT, RequestId, Span};

use crate::ban;
use crate::board;
use crate::constant::{Constant, Words, size, whole};
use crate::format::{Format, Item};
use crate::hold;
use crate::holders;
use crate::inline;
use crate::line;
use crate::once;
use crate::program::{self, OPERATIONS};
use crate::program_frame;
use crate::refusal;
use crate::reply::verdict;
use crate::twin::{Lane, MODULES, Module, PAIR, SHAPER, SMOOTH};

/// The beginning of an entry with a length.
const LISTED_HEAD: Format = Format(&[&[Item::Whole(HEAD_BYTES)], LENGTH]);
/// The entry of a subject's denials and bans.
const BAN_ENTRY: Format =
    Format(&[&[Item::Whole(HEAD_BYTES)], LENGTH, &[Item::Numbers(BanState::NUMBERS)]]);
/// The beginning of a bucket with held units: its state, the second bound, and the number of leased slots.
const HELD_BUCKET: Format = Format(&[&[Item::Whole(HEAD_BYTES)], LENGTH, &[Item::Numbers(5)]]);
/// A bucket with held units up to its first slot.
const HELD_FIRST_SLOT: Format = Format(&[
    &[Item::Whole(HEAD_BYTES)],
    LENGTH,
    &[Item::Numbers(5), Item::Numbers(Slot::NUMBERS)],
]);
/// The beginning of the entry that counts a subject's records.
const TALLY: Format = Format(&[&[Item::Whole(HEAD_BYTES)], LENGTH, &[Item::Numbers(2)]]);
const LENGTH: &[Item] = &[Item::Whole(2)];

const STORED: Words = &[
    ("MAX", whole(MAX_EXACT)),
    ("NUMBER", Constant::Format(Format(&[&[Item::Numbers(1)]]))),
    ("NUMBER_SIZE", size(NUMBER_BYTES)),
    ("PAIR", Constant::Format(PAIR)),
    ("PAIR_SIZE", size(PAIR.size())),
    ("ID_SIZE", size(ID_BYTES)),
    ("HEAD_SIZE", size(HEAD_BYTES)),
    ("LENGTH", Constant::Format(Format(&[LENGTH]))),
    ("LISTED_FROM", whole(LISTED_FROM as u64)),
    ("LISTED_HEAD_SIZE", size(LISTED_HEAD.size())),
    ("FIXED_SIZES", Constant::FixedSizes),
    ("LEASE_SLOTS", size(Leased::MAX_SLOTS)),
    ("LEASE_SLOT", Constant::Format(Format(&[&[Item::Numbers(Slot::NUMBERS)]]))),
    ("LEASE_SLOT_SIZE", size(Slot::NUMBERS * NUMBER_BYTES)),
    ("LEASE_RETENTION", whole(retention(Leased::LONGEST.as_micros()) as u64)),
    ("LONGEST_LEASE", whole(Leased::LONGEST.as_micros())),
    ("HELD_SLOTS", size(Bound::MAX_SLOTS)),
    ("LONGEST_HELD", whole(Bound::LONGEST.as_micros())),
    ("LEASE_SHARE", whole(Leasing::SHARE)),
    ("LEASE_AHEAD", whole(Leasing::SLOTS_AHEAD)),
    ("WHOLE_RATE", whole(Pace::WHOLE)),
    // Under injected time the server's clock doesn't show how long a key is useful.
    ("INJECTED_LIFE", whole(Span::HOUR.as_micros())),
];

const HOLDS: Words = &[
    ("HELD_BY_TIME", whole(1)),
    ("HELD_HEAD", Constant::Format(hold::RECORD)),
    ("HELD_HEAD_SIZE", size(hold::RECORD.size())),
    ("HELD_RECORD", Constant::Format(hold::WHOLE_RECORD)),
    ("HELD_MEMBER", Constant::Format(hold::MEMBER)),
    ("TALLY_KIND", whole(hold::TALLY_KIND as u64)),
    ("TALLY_HEAD", head_of(hold::TALLY_KIND)),
    ("TALLY", Constant::Format(TALLY)),
    ("TALLY_SIZE", size(TALLY.size())),
    ("TALLY_GROUPS", size(hold::GROUPS)),
    ("HELD_BUCKET", Constant::Format(HELD_BUCKET)),
    ("HELD_FIRST_SLOT", Constant::Format(HELD_FIRST_SLOT)),
    ("HELD_BUCKET_SIZE", size(HELD_BUCKET.size())),
    ("HELD_NUMBERS_SIZE", size(HELD_BUCKET.size() - LISTED_HEAD.size())),
    (
        "BUCKET_TO_HELD",
        whole(((Bucket::HELD_KIND - Bucket::FIXED.kind) as u64) << (8 * (HEAD_BYTES - 1))),
    ),
    ("HELD_ENTRY", Constant::Format(hold::ENTRY_OF_ONE)),
    ("HELD_ENTRY_LEFT", Constant::Format(hold::ENTRY_OF_BUCKET)),
    ("HELD_ENTRY_SIZE", size(hold::ENTRY_OF_ONE.size())),
    ("HELD_SETTLED", Constant::Format(hold::SETTLED_ONE)),
    ("HELD_SETTLED_ENTRY", Constant::Format(hold::SETTLED_ENTRY)),
    ("HELD_GIVEN", Constant::Format(hold::GIVEN)),
    ("HOLD_NUMBERS", Constant::Format(hold::HOLD_NUMBERS)),
    ("INDEXED", whole(hold::INDEXED as u64)),
    ("HOLD_ID", Constant::Format(hold::ID)),
    ("HELD_UNITS", Constant::Format(hold::UNITS)),
    ("HELD_UNITS_SIZE", size(hold::UNITS.size())),
    ("HOLD_HEAD_SIZE", size(hold::HEAD.size())),
    ("HOLDS_MOST", size(Book::MOST)),
    ("AS_CHARGED", whole(hold::AS_CHARGED)),
    ("HOLD_UNKNOWN", Constant::Whole(hold::UNKNOWN)),
    ("HOLD_SETTLED", Constant::Whole(hold::SETTLED)),
    ("HOLD_LIVE", Constant::Whole(hold::LIVE)),
    ("HOLD_WAITED", Constant::Whole(hold::WAITED)),
    ("TICKET_BY_TIME", whole(8)),
    ("TICKET_BY_PLACE", whole(9)),
    ("TICKET_BY_ID", whole(10)),
    ("TICKET_TIME", Constant::Format(hold::TICKET_TIME)),
    ("TICKET_PLACE", Constant::Format(hold::TICKET_PLACE)),
    ("TICKET_ID", Constant::Format(hold::TICKET_ID)),
    ("TICKETS_LOOKED_THROUGH", size(Book::LOOKED_THROUGH)),
    ("HOLDS_ENDED", size(Book::ENDED)),
    ("HOLDS_RETURNED", size(Book::RETURNED)),
    ("RETURNING_KIND", whole(hold::RETURNING_KIND as u64)),
    ("HOLDS_LOOKED_THROUGH", size(Book::LOOKED_THROUGH)),
];

const INLINED: Words = &[
    ("INLINE_KIND", whole(inline::KIND as u64)),
    ("INLINE_HEAD", head_of(inline::KIND)),
    ("INLINE", Constant::Format(inline::ENTRY)),
    ("INLINE_SIZE", size(inline::ENTRY.size())),
    ("INLINE_ID_SIZE", size(HoldId::BYTES)),
    ("INLINE_RECORD", Constant::Format(inline::AFTER_ID)),
    ("INLINE_RECORD_SIZE", size(inline::RECORD.size())),
    ("INLINE_NAMED", Constant::Format(inline::RECORD)),
    ("INLINE_GRANT", Constant::Format(inline::GRANT)),
    ("INLINE_GRANT_SIZE", size(inline::GRANT.size())),
    ("INLINE_GIVEN", Constant::Format(inline::GIVEN)),
    ("INLINE_GRANTED_FIRST", Constant::Format(inline::GRANTED_FIRST)),
    ("INLINE_GRANTED_LENGTH", size(inline::GRANTED_FIRST.size() - LISTED_HEAD.size())),
    ("INLINE_SETTLED_FIRST", Constant::Format(inline::SETTLED_FIRST)),
    ("INLINE_SETTLED_LENGTH", size(inline::SETTLED_FIRST.size() - LISTED_HEAD.size())),
    ("INLINE_GIVEN_SIZE", size(inline::GIVEN.size())),
    ("INLINE_MOST", size(inline::MOST)),
    ("INLINE_LONG", whole(Span::DAY.as_micros())),
    ("INLINE_WITH_ENTRIES", whole(inline::WITH_ENTRIES as u64)),
    ("INLINE_GRANTED", whole(inline::GRANTED as u64)),
    ("INLINE_SETTLED", whole(inline::SETTLED as u64)),
];

const IDS: Words = &[
    ("ONCE_LANE", whole(program_frame::ONCE as u64)),
    ("LANE_PLACE", size(program_frame::LANE + 1)),
    ("ONCE", Constant::Format(once::ONCE)),
    ("ONCE_SIZE", size(once::ONCE.size())),
    ("ONCE_ALONE", Constant::Format(once::ALONE)),
    ("ONCE_HEAD", Constant::Format(once::HEAD)),
    ("ONCE_HEAD_SIZE", size(once::HEAD.size())),
    ("KNOWN_KIND", whole(once::KNOWN_KIND as u64)),
    ("KNOWN_HEAD", head_of(once::KNOWN_KIND)),
    ("KNOWN", Constant::Format(once::KNOWN)),
    ("KNOWN_SIZE", size(once::KNOWN.size())),
    ("KNOWN_NEWEST", Constant::Format(once::KNOWN_NEWEST)),
    ("ASKED_SIZE", size(Asked::BYTES)),
    ("KNOWN_ID", Constant::Format(once::KNOWN_ID)),
    ("KNOWN_ID_SIZE", size(once::KNOWN_ID.size())),
    ("KNOWN_MOST", size(once::KNOWN_MOST)),
    ("REMEMBERED", Constant::Format(once::REMEMBERED)),
    ("REQUEST_ID_SIZE", size(RequestId::BYTES)),
    ("NO_WORD", whole(once::NO_WORD as u64)),
    ("IDS", Constant::Format(once::IDS)),
    ("IDS_SIZE", size(once::IDS.size())),
    ("IDS_MOST", size(Repeats::MOST)),
    ("IDS_GROUPS", size(once::GROUPS)),
    ("IDS_LONGEST", whole(once::LONGEST)),
];

const REFUSALS: Words = &[
    ("BANS", whole(ban::BANS as u64)),
    ("BAN", Constant::Format(ban::BAN)),
    ("BAN_SIZE", size(ban::BAN.size())),
    ("DOUBLING", whole(ban::DOUBLING as u64)),
    ("ASKED", whole(ban::ASKED as u64)),
    ("BAN_KIND", whole(BanState::KIND as u64)),
    ("BAN_HEAD", head_of(BanState::KIND)),
    ("BAN_ENTRY", Constant::Format(BAN_ENTRY)),
    ("BAN_ENTRY_SIZE", size(BAN_ENTRY.size())),
    ("BAN_MOST_DENIALS", whole(Ban::MOST_DENIALS)),
    ("BAN_LONGEST", whole(Ban::LONGEST.as_secs() * 1_000_000)),
    ("PAUSE_KIND", whole(Pause::KIND as u64)),
    ("REFUSED", Constant::Format(refusal::REFUSED)),
];

const LINES: Words = &[
    ("TURN", whole(1)),
    ("RESERVED", whole(2)),
    ("PLACE_NAME_SIZE", size(line::NAME.size())),
    ("PLACE_HEAD_SIZE", size(line::HEAD.size())),
    ("PLACE_IN_PROGRAM", Constant::Format(line::IN_PROGRAM)),
    ("PLACE_IN_PROGRAM_SIZE", size(line::IN_PROGRAM.size())),
    ("TURNS_MOST", size(Line::TURNS)),
    ("PLACES_MOST", size(Line::MOST)),
    ("PLACES_ENDED", size(Line::ENDED)),
];

const PROGRAM: Words = &[
    ("GENERAL_LANE", whole(Lane::General as u64)),
    ("SHORTEST_LANE", whole(Lane::Shortest as u64)),
    ("CANCEL_LANE", whole(Lane::Cancel as u64)),
    ("HOLD_LANE", whole(Lane::Hold as u64)),
    ("TAKE_LANE", whole(Lane::Take as u64)),
    ("RELEASE_LANE", whole(Lane::Release as u64)),
    ("CHANGE_LANE", whole(Lane::Change as u64)),
    ("SETTLE_LANE", whole(Lane::Settle as u64)),
    ("READY_LANE", whole(Lane::Ready as u64)),
    ("HOLDERS_LANE", whole(Lane::Holders as u64)),
    ("BOARD_LANE", whole(Lane::Board as u64)),
    ("BOARD_ENTRY", Constant::Format(board::ENTRY)),
    ("BOARD_MOST", size(Post::MOST)),
    ("HOLDERS_ASKED", Constant::Format(holders::ASKED)),
    ("HOLDERS_HEAD", Constant::Format(holders::HEAD)),
    ("INJECTED", whole(program_frame::INJECTED as u64)),
    ("TIMES", Constant::Format(Format(&[program_frame::TIMES_ITEMS]))),
    ("ERRAND", size(program::START.size() + 1)),
    ("WORD_LENGTH", Constant::Format(program::WORD_LENGTH)),
    ("WORD_LENGTH_SIZE", size(program::WORD_LENGTH.size())),
    // Positions count from 1.
    ("PROGRAM_HEAD", Constant::Format(program_frame::HEAD)),
    ("PROGRAM_END", Constant::Format(program_frame::END)),
    ("PROGRAM_END_SIZE", size(program_frame::END.size())),
    ("PROGRAM_FRAME", size(program_frame::HEAD.size() + program_frame::END.size())),
    ("FIRST_POLICY", size(program_frame::HEAD.size() + 1)),
    ("FIRST_TRAITS", size(program::START.size() + 1)),
    ("POLICY", Constant::Format(program::POLICY)),
    ("POLICY_TRAITS", Constant::Format(program::TRAITS)),
    ("POLICY_OWN", Constant::Format(program::OWN)),
    ("POLICY_BRIEF", size(program::POLICY.size())),
    ("POLICY_FURTHER", Constant::Format(program::FURTHER)),
    ("POLICY_SIZE", size(program::WHOLE_POLICY.size())),
    ("PROGRAM_LEASING", Constant::Format(program::LEASING_HEAD)),
    ("LEASING", whole(program::LEASING as u64)),
    ("SHADOW", whole(program::SHADOW as u64)),
    ("CHARGE_DENIED", whole(program::CHARGE_DENIED as u64)),
    ("COUNT_DENIED", whole(program::COUNT_DENIED as u64)),
    ("SHAPER", whole(SHAPER as u64)),
    ("SMOOTH", whole(SMOOTH as u64)),
    ("NEXT_PART", whole(program::NEXT_PART as u64)),
    ("RETURNS", whole(program::RETURNS as u64)),
    ("HELD", whole(hold::HELD as u64)),
    ("HOLD", Constant::Format(hold::HOLD)),
    ("HOLD_SIZE", size(hold::HOLD.size())),
    ("WAITING", whole(hold::WAITING as u64)),
    ("TICKET", Constant::Format(hold::TICKET)),
    ("TICKET_SIZE", size(hold::TICKET.size())),
];

const REPLY: Words = &[
    ("ALLOWED", Constant::Whole(verdict::ALLOWED)),
    ("DENIED", Constant::Whole(verdict::DENIED)),
    ("OVERFLOW", Constant::Whole(verdict::OVERFLOW)),
    ("ASK_AGAIN", Constant::Whole(verdict::ASK_AGAIN)),
    ("FULL", Constant::Whole(verdict::FULL)),
    ("IN_USE", Constant::Whole(verdict::IN_USE)),
    ("REPEATED", Constant::Whole(verdict::REPEATED)),
    ("ASKS_OTHERWISE", Constant::Whole(verdict::ASKS_OTHERWISE)),
    ("FULL_OF_IDS", Constant::Whole(verdict::FULL_OF_IDS)),
    ("READING", Constant::Format(verdict::READING)),
    ("READING_NEVER", whole(verdict::NEVER)),
    ("QUEUED", Constant::Format(hold::QUEUED)),
    ("NOT_QUEUED", whole(hold::NOT_QUEUED as u64)),
    ("IN_QUEUE", whole(hold::IN_QUEUE as u64)),
    ("QUEUE_FULL", whole(hold::QUEUE_FULL as u64)),
];

const GROUPS: [Words; 8] = [STORED, HOLDS, INLINED, IDS, REFUSALS, LINES, PROGRAM, REPLY];

/// Returns the head of an entry without a policy: the kind is the first byte, and the retention, 0, the last
/// one.
const fn head_of(kind: u8) -> Constant {
    whole((kind as u64) << (8 * (HEAD_BYTES - 1)))
}

/// Returns the value of a template constant; `None` if there is no such constant.
pub(super) const fn find(word: &str) -> Option<Constant> {
    let mut operations: &[(&str, _)] = &OPERATIONS;
    while let [(name, operation), others @ ..] = operations {
        if is_same(name, word) {
            return Some(whole(operation.code() as u64));
        }
        operations = others;
    }
    let mut groups: &[Words] = &GROUPS;
    while let [group, others @ ..] = groups {
        if let Some(constant) = find_in(group, word) {
            return Some(constant);
        }
        groups = others;
    }
    let mut modules: &[Module] = &MODULES;
    while let [module, others @ ..] = modules {
        if let Some(constant) = find_in(module.words, word) {
            return Some(constant);
        }
        // Every module has `NAME_KIND`, `NAME_ENTRY`, `NAME_SIZE` and `NAME_LENGTH`.
        let (name, word) = (module.name.as_bytes(), word.as_bytes());
        if let Some((start, end)) = word.split_at_checked(name.len())
            && is_capitalised(start, name)
        {
            match end {
                b"_KIND" => return Some(whole(module.kind.kind as u64)),
                b"_ENTRY" => return Some(Constant::Entry(module.kind)),
                b"_SIZE" => return Some(size(module.kind.bytes())),
                b"_LENGTH" => return Some(Constant::Length(module.kind.bytes())),
                _ => {}
            }
        }
        modules = others;
    }
    None
}

const fn find_in(mut words: Words, word: &str) -> Option<Constant> {
    while let [(name, constant), others @ ..] = words {
        if is_same(name, word) {
            return Some(*constant);
        }
        words = others;
    }
    None
}

/// Returns whether `capitals` is `name` in upper case. Both have the same length.
const fn is_capitalised(capitals: &[u8], name: &[u8]) -> bool {
    let mut at = 0;
    while at < name.len() {
        if capitals[at] != name[at].to_ascii_uppercase() {
            return false;
        }
        at += 1;
    }
    true
}

pub(super) const fn is_same(one: &str, other: &str) -> bool {
    let (mut one, mut other) = (one.as_bytes(), other.as_bytes());
    while let ([a, rest_of_one @ ..], [b, rest_of_other @ ..]) = (one, other) {
        if *a != *b {
            return false;
        }
        (one, other) = (rest_of_one, rest_of_other);
    }
    one.is_empty() && other.is_empty()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::super::token::{is_capital, tokens};
    use super::*;

    /// Building the script already checks that every constant has a value.
    #[test]
    fn every_constant_is_used_by_a_script() {
        let mut used = BTreeSet::new();
        for file in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/lua")).unwrap() {
            let text = fs::read_to_string(file.unwrap().path()).unwrap();
            used.extend(tokens(&text).filter(|word| is_capital(word)).map(ToOwned::to_owned));
        }
        let groups = GROUPS.into_iter().chain(MODULES.map(|module| module.words));
        let groups = groups.flatten().map(|(word, _)| *word);
        let known: Vec<&str> = groups.chain(OPERATIONS.iter().map(|(word, _)| *word)).collect();
        let unused: Vec<_> = known.iter().filter(|word| !used.contains(**word)).collect();
        assert!(unused.is_empty(), "{unused:?}");
        assert_eq!(BTreeSet::from_iter(&known).len(), known.len(), "a word has one value");
    }

    /// Numbers that are also documented, which no compiler compares.
    #[test]
    fn constants_are_what_the_stored_format_says() {
        let said = |word| find(word).unwrap().to_string();
        assert_eq!(said("BUCKET_ENTRY"), "'>I6I7I7I7'");
        assert_eq!(said("BUCKET_SIZE"), "27");
        assert_eq!(said("RING_START"), "'>I6I2I7I7I7I7'");
        for size in ["[1] = 27,", "[2] = 34,", "[3] = 27,", "[4] = 34,", "[5] = 41,"] {
            assert!(said("FIXED_SIZES").contains(size), "{size}");
        }
        assert_eq!(said("MAX"), "9007199254740991");
        assert_eq!(said("INJECTED_LIFE"), "3600000000");
        assert_eq!(said("LOG_ENTRIES"), "65536");
        assert_eq!([said("ID_SIZE"), said("HEAD_SIZE"), said("LISTED_FROM")], ["5", "6", "128"]);
        // With another position, a ring would be rewritten each time, with the same answers.
        assert_eq!(said("RING_FIRST_PAIR"), "23");
    }
}
