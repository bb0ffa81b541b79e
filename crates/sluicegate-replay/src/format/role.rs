//! The parts of a line that replay uses.

use crate::record::Field;

/// The meaning of a named part of a line: a JSON path, a column or a group of a pattern.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Role {
    /// Day, if it is separate from the time of day.
    Date,
    /// Time at which the request ended, or was logged.
    Time,
    /// Time at which the request began.
    Start,
    Cost,
    Duration,
    Text(Field),
}

impl Role {
    /// Number of roles.
    pub(crate) const COUNT: usize = 5 + Field::ALL.len();

    /// Returns the role's index, below [`Role::COUNT`].
    pub(crate) const fn index(self) -> usize {
        match self {
            Self::Date => 0,
            Self::Time => 1,
            Self::Start => 2,
            Self::Cost => 3,
            Self::Duration => 4,
            Self::Text(field) => 5 + field as usize,
        }
    }

    /// Returns the field whose text the role is.
    pub(crate) const fn field(self) -> Option<Field> {
        if let Self::Text(field) = self { Some(field) } else { None }
    }

    /// Returns the name of the role in messages and in `--fields`.
    pub(crate) fn name(self) -> &'static str {
        if self == Self::Text(Field::Host) {
            return "key";
        }
        NAMES.iter().find(|(_, role, _)| *role == self).map_or("", |(name, ..)| name)
    }
}

/// The form of a part's text, if it isn't the plain value.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Form {
    #[default]
    Plain,
    /// An address followed by a colon and a port.
    WithPort,
    /// Addresses separated by commas. The last one counts, because a client can't choose it.
    Forwarded,
    /// `METHOD PATH PROTOCOL`: its first word.
    Method,
    /// `METHOD PATH PROTOCOL`: its second word.
    Path,
    /// Milliseconds separated by slashes. The last number is the whole duration.
    Timers,
    /// Number of seconds, or text with a unit such as `1.5ms`.
    Seconds,
    Millis,
    Micros,
    Nanos,
}

/// The names of parts in `--fields` and in the groups of a pattern.
const NAMES: [(&str, Role, Form); 16] = [
    ("time", Role::Time, Form::Plain),
    ("date", Role::Date, Form::Plain),
    ("start", Role::Start, Form::Plain),
    ("key", Role::Text(Field::Host), Form::Plain),
    ("host", Role::Text(Field::Host), Form::Plain),
    ("ip", Role::Text(Field::Host), Form::Plain),
    ("user", Role::Text(Field::User), Form::Plain),
    ("method", Role::Text(Field::Method), Form::Plain),
    ("path", Role::Text(Field::Path), Form::Plain),
    ("status", Role::Text(Field::Status), Form::Plain),
    ("agent", Role::Text(Field::Agent), Form::Plain),
    ("cost", Role::Cost, Form::Plain),
    ("duration", Role::Duration, Form::Seconds),
    ("duration_ms", Role::Duration, Form::Millis),
    ("duration_us", Role::Duration, Form::Micros),
    ("duration_ns", Role::Duration, Form::Nanos),
];

/// Returns the role and the form of a name.
pub(crate) fn named(name: &str) -> Option<(Role, Form)> {
    NAMES.iter().find(|(other, ..)| *other == name).map(|&(_, role, form)| (role, form))
}

/// Returns every name, for messages.
pub(crate) fn names() -> String {
    NAMES.map(|(name, ..)| name).join(", ")
}
