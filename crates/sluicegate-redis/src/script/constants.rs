//! The words in capitals of the Lua files: what each stands for, from the Rust that defines it.

use std::fmt;

use sluicegate_core::kernel::bucket::Bucket;
use sluicegate_core::kernel::counter::Counter;
use sluicegate_core::kernel::log::Log;
use sluicegate_core::kernel::warm_up::WarmUp;
use sluicegate_core::kernel::window::FixedWindow;
use sluicegate_core::kernel::{HEAD_BYTES, ID_BYTES, LISTED_FROM, NUMBER_BYTES};
use sluicegate_core::record::{FIXED_KINDS, numbers_of};
use sluicegate_core::{MAX_EXACT, Span};

use crate::format::{Format, Item};
use crate::program::{self, Lane, OPERATIONS};
use crate::{reply, twin};

/// What a word stands for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    /// A whole number.
    Whole(i64),
    /// A format of `struct`.
    Format(Format),
    /// A table from the kinds of fixed length to the bytes of their entries.
    FixedSizes,
}

/// The words, in groups.
type Words = &'static [(&'static str, Value)];

const fn size(bytes: usize) -> Value {
    whole(bytes as u64)
}

const fn whole(number: u64) -> Value {
    assert!(number <= 1 << 55, "a double has to hold it");
    #[expect(clippy::cast_possible_wrap, reason = "far below")]
    Value::Whole(number as i64)
}

/// The format of an entry of a kind that always has as many numbers.
macro_rules! entry {
    ($kind:expr) => {
        Format(&[&[
            Item::Whole(HEAD_BYTES),
            Item::Numbers(match numbers_of($kind) {
                Some(numbers) => numbers,
                None => panic!("a kind of fixed length"),
            }),
        ]])
    };
}

const BUCKET: Format = entry!(Bucket::KIND);
const WARM_UP: Format = entry!(WarmUp::KIND);
const WINDOW: Format = entry!(FixedWindow::KIND);
const COUNTER: Format = entry!(Counter::KIND);
const LOG: Format = entry!(Log::HEAD_KIND);

const KINDS: Words = &[
    ("BUCKET_KIND", whole(Bucket::KIND as u64)),
    ("BUCKET_ENTRY", Value::Format(BUCKET)),
    ("BUCKET_SIZE", size(BUCKET.size())),
    ("WARM_UP_KIND", whole(WarmUp::KIND as u64)),
    ("WARM_UP_ENTRY", Value::Format(WARM_UP)),
    ("WINDOW_KIND", whole(FixedWindow::KIND as u64)),
    ("WINDOW_ENTRY", Value::Format(WINDOW)),
    ("WINDOW_SIZE", size(WINDOW.size())),
    ("FIRST_ADMITTED", whole(twin::FIRST_ADMITTED)),
    ("ALIGNED", whole(twin::ALIGNED)),
    ("COUNTER_KIND", whole(Counter::KIND as u64)),
    ("COUNTER_ENTRY", Value::Format(COUNTER)),
    ("COUNTER_SIZE", size(COUNTER.size())),
    ("LOG_KIND", whole(Log::HEAD_KIND as u64)),
    ("LOG_ENTRY", Value::Format(LOG)),
    ("LOG_SIZE", size(LOG.size())),
    ("LOG_ENTRIES", size(Log::MAX_ENTRIES)),
    ("LOG_SLACK", size(LOG_SLACK)),
    ("RING_KIND", whole(Log::RING_KIND as u64)),
    ("RING_HEAD", Value::Format(RING_HEAD)),
    ("RING_HEAD_SIZE", size(RING_HEAD.size())),
    ("RING_START", Value::Format(RING_START)),
    ("RING_START_SIZE", size(RING_START.size())),
    ("RING_FIRST_PAIR", size(RING_HEAD.size() + 1)),
];

/// So many entries of a log may have left before it is worth writing it anew.
const LOG_SLACK: usize = 64;

/// What begins an entry that says how long it is.
const LISTED_HEAD: Format = Format(&[HEAD, LENGTH]);
const HEAD: &[Item] = &[Item::Whole(HEAD_BYTES)];
const LENGTH: &[Item] = &[Item::Whole(2)];
/// Newest time and base of a ring; stamp and running total; limit and window of a strategy.
const TWO_NUMBERS: &[Item] = &[Item::Numbers(2)];
const PAIR: Format = Format(&[TWO_NUMBERS]);
const RING_HEAD: Format = Format(&[HEAD, LENGTH, TWO_NUMBERS]);
const RING_START: Format = Format(&[HEAD, LENGTH, TWO_NUMBERS, TWO_NUMBERS]);

const STORED: Words = &[
    ("MAX", whole(MAX_EXACT)),
    ("NUMBER", Value::Format(Format(&[&[Item::Numbers(1)]]))),
    ("NUMBER_SIZE", size(NUMBER_BYTES)),
    ("PAIR", Value::Format(PAIR)),
    ("PAIR_SIZE", size(PAIR.size())),
    ("ID_SIZE", size(ID_BYTES)),
    ("HEAD_SIZE", size(HEAD_BYTES)),
    ("LENGTH", Value::Format(Format(&[LENGTH]))),
    ("LISTED_FROM", whole(LISTED_FROM as u64)),
    ("LISTED_HEAD_SIZE", size(LISTED_HEAD.size())),
    ("FIXED_SIZES", Value::FixedSizes),
    // Under injected time the server's clock says nothing about how long a key is of use.
    ("INJECTED_LIFE", whole(Span::HOUR.as_micros())),
];

const PROGRAM: Words = &[
    ("GENERAL_LANE", whole(Lane::General as u64)),
    ("SHORTEST_LANE", whole(Lane::Shortest as u64)),
    ("PROGRAM_START", Value::Format(program::START)),
    ("PROGRAM_END", Value::Format(program::END)),
    ("PROGRAM_END_SIZE", size(program::END.size())),
    ("PROGRAM_FRAME", size(program::HEAD.size() + program::END.size())),
    // Positions count from 1.
    ("FIRST_POLICY", size(program::HEAD.size() + 1)),
    ("FIRST_TRAITS", size(program::START.size() + 1)),
    ("POLICY", Value::Format(program::POLICY)),
    ("POLICY_TRAITS", Value::Format(program::TRAITS)),
    ("POLICY_FURTHER", size(program::POLICY.size())),
    ("POLICY_WHOLE", Value::Format(program::WHOLE_POLICY)),
    ("POLICY_SIZE", size(program::WHOLE_POLICY.size())),
    ("SHADOW", whole(program::SHADOW as u64)),
    ("CHARGE_DENIED", whole(program::CHARGE_DENIED as u64)),
    ("SHAPER", whole(program::SHAPER as u64)),
    ("SMOOTH", whole(program::SMOOTH as u64)),
    ("NEXT_PART", whole(program::NEXT_PART as u64)),
];

const REPLY: Words = &[
    ("ALLOWED", Value::Whole(reply::ALLOWED)),
    ("DENIED", Value::Whole(reply::DENIED)),
    ("OVERFLOW", Value::Whole(reply::OVERFLOW)),
    ("ASK_AGAIN", Value::Whole(reply::ASK_AGAIN)),
    ("READING", Value::Format(reply::READING)),
    ("READING_NEVER", whole(reply::NEVER)),
];

const GROUPS: [Words; 4] = [KINDS, STORED, PROGRAM, REPLY];

/// What a word stands for; `None` for a word that is none of these.
pub(super) const fn find(word: &str) -> Option<Value> {
    let mut operations: &[(&str, _)] = &OPERATIONS;
    while let [(name, action), others @ ..] = operations {
        if is_same(name, word) {
            return Some(whole(action.code() as u64));
        }
        operations = others;
    }
    let mut groups: &[Words] = &GROUPS;
    while let [group, others @ ..] = groups {
        let mut group = *group;
        while let [(name, value), rest @ ..] = group {
            if is_same(name, word) {
                return Some(*value);
            }
            group = rest;
        }
        groups = others;
    }
    None
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

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(number) => write!(f, "{number}"),
            Self::Format(format) => write!(f, "'{format}'"),
            Self::FixedSizes => {
                f.write_str("{")?;
                for (kind, numbers) in FIXED_KINDS {
                    write!(f, " [{kind}] = {},", HEAD_BYTES + numbers * NUMBER_BYTES)?;
                }
                f.write_str(" }")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::super::template::next_word;
    use super::*;

    /// That every word has a value is seen to when a template is made.
    #[test]
    fn every_constant_is_used_by_a_script() {
        let mut used = BTreeSet::new();
        for file in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/lua")).unwrap() {
            let text = fs::read_to_string(file.unwrap().path()).unwrap();
            let words = std::iter::successors(next_word(&text), |(_, rest)| next_word(rest));
            used.extend(words.map(|(word, _)| word.to_owned()));
        }
        let groups = GROUPS.iter().flat_map(|group| group.iter().map(|(word, _)| *word));
        let known: Vec<&str> = groups.chain(OPERATIONS.iter().map(|(word, _)| *word)).collect();
        let unused: Vec<_> = known.iter().filter(|word| !used.contains(**word)).collect();
        assert!(unused.is_empty(), "{unused:?}");
        assert_eq!(BTreeSet::from_iter(&known).len(), known.len(), "a word has one value");
    }

    /// Numbers that no compiler compares with what they are documented as.
    #[test]
    fn constants_are_what_the_stored_format_says() {
        let said = |word| find(word).unwrap().to_string();
        assert_eq!(said("BUCKET_ENTRY"), "'>I6I7I7I7'");
        assert_eq!(said("BUCKET_SIZE"), "27");
        assert_eq!(said("RING_START"), "'>I6I2I7I7I7I7'");
        assert_eq!(said("FIXED_SIZES"), "{ [1] = 27, [2] = 34, [3] = 27, [4] = 34, [5] = 41, }");
        assert_eq!(said("MAX"), "9007199254740991");
        assert_eq!(said("INJECTED_LIFE"), "3600000000");
        assert_eq!(said("LOG_ENTRIES"), "65536");
        assert_eq!([said("ID_SIZE"), said("HEAD_SIZE"), said("LISTED_FROM")], ["5", "6", "128"]);
        // Were it another place, a ring would be written anew each time, with the same answers.
        assert_eq!(said("RING_FIRST_PAIR"), "23");
    }
}
