//! One request of a log, in the form that every format yields.

use std::ops::BitOr;

use sluicegate_core::Cost;

/// A request that a line describes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Record<'l> {
    /// Time in the line, in µs since the epoch.
    pub(crate) time: u64,
    /// The request's cost, if the line states one.
    pub(crate) cost: Option<Cost>,
    /// The request's duration in µs, if the line states one.
    pub(crate) duration: Option<u64>,
    /// The decision of a service, if the line is of its decision log.
    pub(crate) then: Then,
    pub(crate) texts: [&'l [u8]; Field::ALL.len()],
}

/// The data in a line about its request, without texts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stated {
    /// Start of the request, or the time in its line if the line has no duration; in µs since the
    /// epoch.
    pub(crate) start: u64,
    pub(crate) cost: Option<Cost>,
    /// Duration in µs.
    pub(crate) duration: Option<u64>,
    pub(crate) then: Then,
}

/// The decision of a service about a request. The default is a check that was allowed and isn't of a sample.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Then {
    /// Whether the request was denied.
    pub(crate) was_denied: bool,
    /// Whether the request takes what there is, up to its cost.
    pub(crate) is_take: bool,
    /// The share of such requests that the log has. It is in millionths, if the request stands for the others too; 0 if it
    /// stands for itself.
    pub(crate) sample: u32,
}

/// A text of a request that can be part of a key.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Field {
    /// Client's address or name, or the key that the line brings.
    Host,
    User,
    Method,
    /// Path as logged, with its query.
    Path,
    Status,
    Agent,
}

/// A set of texts that a reader needs of each line.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Fields(u8);

/// The moment of a request that a log's times state.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Moment {
    Start,
    End,
}

impl Field {
    /// Every field, with its name in key expressions.
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
    /// All texts.
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
    /// Returns the data of the request. `moment` is the moment that the log's times state.
    pub(crate) const fn stated(&self, moment: Moment) -> Stated {
        let Self { time, cost, duration, then, .. } = *self;
        let start = match (moment, duration) {
            (Moment::End, Some(duration)) => time.saturating_sub(duration),
            _ => time,
        };
        Stated { start, cost, duration, then }
    }

    /// Sets a text.
    pub(crate) const fn set(&mut self, field: Field, text: &'l [u8]) {
        self.texts[field as usize] = text;
    }

    /// Returns a text, or an empty one if the line lacks it or the reader didn't want it.
    pub(crate) const fn text(&self, field: Field) -> &'l [u8] {
        self.texts[field as usize]
    }
}
