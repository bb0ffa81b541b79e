//! One request of a log, as every format yields it.

use std::ops::BitOr;

use sluicegate_core::Cost;

/// A request that a line describes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Record<'l> {
    /// The time that the line states, in µs since the epoch.
    pub(crate) time: u64,
    /// The request's cost, if the line states one.
    pub(crate) cost: Option<Cost>,
    /// The request's duration in µs, if the line states one.
    pub(crate) duration: Option<u64>,
    pub(crate) texts: [&'l [u8]; Field::ALL.len()],
}

/// What a line states about its request, apart from texts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stated {
    /// The start of the request, or the time that its line states if that has no duration; in µs since the epoch.
    pub(crate) start: u64,
    pub(crate) cost: Option<Cost>,
    /// In µs.
    pub(crate) duration: Option<u64>,
}

/// A text of a request that a key can be made of.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Field {
    /// The client's address or name, or the key that the line brings along.
    Host,
    User,
    Method,
    /// The path as logged, with its query.
    Path,
    Status,
    Agent,
}

/// A set of texts: what a reader needs of each line.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Fields(u8);

/// The moment of a request that a log's time states.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Moment {
    Start,
    End,
}

impl Field {
    /// Every field, with the name that key expressions call it.
    pub(crate) const ALL: [(&'static str, Self); 6] = [
        ("host", Self::Host),
        ("user", Self::User),
        ("method", Self::Method),
        ("path", Self::Path),
        ("status", Self::Status),
        ("agent", Self::Agent),
    ];
}

impl Fields {
    /// Every text.
    pub(crate) const ALL: Self = Self((1 << Field::ALL.len()) - 1);

    pub(crate) const fn has(self, field: Field) -> bool {
        self.0 & 1 << field as u8 != 0
    }

    /// Returns the names of the texts that `others` lacks.
    pub(crate) fn missing_in(self, others: Self) -> Vec<&'static str> {
        let missing = |(_, field): &&(_, Field)| self.has(*field) && !others.has(*field);
        Field::ALL.iter().filter(missing).map(|(name, _)| *name).collect()
    }

    /// Returns `true` if any field of `others` is in this set.
    pub(crate) const fn has_any(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }
}

impl From<Field> for Fields {
    fn from(field: Field) -> Self {
        Self(1 << field as u8)
    }
}

impl BitOr<Field> for Fields {
    type Output = Self;

    fn bitor(self, field: Field) -> Self {
        Self(self.0 | 1 << field as u8)
    }
}

impl FromIterator<Field> for Fields {
    fn from_iter<I: IntoIterator<Item = Field>>(fields: I) -> Self {
        fields.into_iter().fold(Self::default(), |all, field| all | field)
    }
}

impl<'l> Record<'l> {
    /// Returns what is stated, if `moment` is the moment that the log's times state.
    pub(crate) const fn stated(&self, moment: Moment) -> Stated {
        let Self { time, cost, duration, .. } = *self;
        let start = match (moment, duration) {
            (Moment::End, Some(duration)) => time.saturating_sub(duration),
            _ => time,
        };
        Stated { start, cost, duration }
    }

    /// Sets a text.
    pub(crate) const fn set(&mut self, field: Field, text: &'l [u8]) {
        self.texts[field as usize] = text;
    }

    /// Returns a text: empty if the line lacks it, or if the reader wasn't asked for it.
    pub(crate) const fn text(&self, field: Field) -> &'l [u8] {
        self.texts[field as usize]
    }
}
