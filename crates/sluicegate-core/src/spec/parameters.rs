//! The parameters after an algorithm's keyword in a spec: its amount, and options.

/// The amount after an algorithm's keyword.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Amount {
    /// N/PERIOD.
    Rate,
    /// N.
    Number,
}

/// An option: a word after the rate.
#[derive(Debug)]
pub(crate) struct OptionWord {
    pub(super) word: &'static str,
    /// The placeholder for its value, and an example; `None` for a flag.
    pub(super) value: Option<(&'static str, &'static str)>,
    pub(super) repeatable: bool,
}

impl OptionWord {
    /// Creates an option followed by a value.
    pub(crate) const fn value(
        word: &'static str,
        placeholder: &'static str,
        example: &'static str,
    ) -> Self {
        Self { word, value: Some((placeholder, example)), repeatable: false }
    }

    /// Creates an option without a value.
    pub(crate) const fn flag(word: &'static str) -> Self {
        Self { word, value: None, repeatable: false }
    }

    /// Allows the option more than once.
    pub(crate) const fn repeatable(mut self) -> Self {
        self.repeatable = true;
        self
    }
}

/// The options of every algorithm.
pub(super) const COMMON: [OptionWord; 4] = [
    OptionWord::value("cost", "N", "5"),
    OptionWord::flag("shadow"),
    OptionWord::flag("charge_denied"),
    OptionWord::value("as", "NAME", "per-day"),
];
