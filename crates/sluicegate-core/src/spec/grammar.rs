//! The grammar of specs, per algorithm.

use crate::algorithm::Algorithm;

use super::problem::Problem;
use super::reader::Reader;

/// The grammar of one algorithm's specs.
#[derive(Debug)]
pub(crate) struct Grammar {
    pub(crate) word: &'static str,
    /// What follows it.
    pub(crate) amount: Amount,
    pub(crate) options: &'static [OptionWord],
    pub(crate) example: &'static str,
    /// Builds the algorithm from a spec.
    pub(crate) read: fn(&Reader<'_>) -> Result<Algorithm, Problem>,
}

/// What follows the word of an algorithm.
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
    /// An option followed by a value.
    pub(crate) const fn value(
        word: &'static str,
        placeholder: &'static str,
        example: &'static str,
    ) -> Self {
        Self { word, value: Some((placeholder, example)), repeatable: false }
    }

    /// An option without a value.
    pub(crate) const fn flag(word: &'static str) -> Self {
        Self { word, value: None, repeatable: false }
    }

    /// The same option, allowed more than once.
    pub(crate) const fn repeatable(mut self) -> Self {
        self.repeatable = true;
        self
    }
}

/// The options of every algorithm.
const COMMON: [OptionWord; 4] = [
    OptionWord::value("cost", "N", "5"),
    OptionWord::flag("shadow"),
    OptionWord::flag("charge_denied"),
    OptionWord::value("as", "NAME", "per-day"),
];

impl Grammar {
    pub(super) fn option(&self, word: &str) -> Option<&'static OptionWord> {
        self.all_options().find(|option| option.word == word)
    }

    /// The algorithm's own options, then the common ones.
    pub(super) fn all_options(&self) -> impl Iterator<Item = &'static OptionWord> {
        self.options.iter().chain(&COMMON)
    }

    /// `burst N, cost N, shadow, charge_denied, as NAME`.
    pub(super) fn usage(&self) -> String {
        let usages: Vec<String> = self
            .all_options()
            .map(|option| match option.value {
                Some((placeholder, _)) => format!("`{} {placeholder}`", option.word),
                None => format!("`{}`", option.word),
            })
            .collect();
        usages.join(", ")
    }
}
