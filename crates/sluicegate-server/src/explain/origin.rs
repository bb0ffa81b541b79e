//! The origin of a setting: a file, an override at run time, a default or the request.

use sluicegate::config::FilePlace;
use sluicegate_client::json::{Because, NumberOrigin};

/// The origin of a setting.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Origin {
    File(FilePlace),
    Override,
    Default,
    Request,
}

impl Origin {
    /// Returns the place in a file, or a default if no file has the setting.
    pub(super) fn of(place: Option<FilePlace>) -> Self {
        place.map_or(Self::Default, Self::File)
    }

    fn word(&self) -> &'static str {
        match self {
            Self::File(_) => "file",
            Self::Override => "override",
            Self::Default => "default",
            Self::Request => "request",
        }
    }

    fn place(&self) -> Option<&FilePlace> {
        match self {
            Self::File(place) => Some(place),
            _ => None,
        }
    }

    /// Returns a reason with this origin.
    pub(super) fn reason(&self, kind: &'static str, limit: &str, text: String) -> Because {
        let place = self.place();
        Because {
            kind: kind.into(),
            limit: limit.to_owned(),
            policy: None,
            text,
            from: self.word().into(),
            file: place.map(|place| place.file.to_string()),
            line: place.map(|place| place.line),
            column: place.map(|place| place.column),
            numbers: Vec::new(),
        }
    }

    /// Returns a number with this origin.
    pub(super) fn number(&self, name: &'static str, value: &dyn ToString) -> NumberOrigin {
        let place = self.place();
        NumberOrigin {
            name: name.into(),
            value: value.to_string(),
            from: self.word().into(),
            file: place.map(|place| place.file.to_string()),
            line: place.map(|place| place.line),
        }
    }
}
