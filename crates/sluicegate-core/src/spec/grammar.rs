//! Which words an algorithm's spec has.

use crate::algorithm::Algorithm;

use super::problem::Problem;
use super::reader::Reader;

/// What the spec of one algorithm looks like.
#[derive(Debug)]
pub(crate) struct Grammar {
    pub(crate) word: &'static str,
    pub(crate) options: &'static [OptionWord],
    pub(crate) example: &'static str,
    /// Makes the algorithm of the words.
    pub(crate) read: fn(&Reader<'_>) -> Result<Algorithm, Problem>,
}

/// A word after the rate.
#[derive(Debug)]
pub(crate) struct OptionWord {
    pub(super) word: &'static str,
    /// What the word after it is, and an example of it; a flag has none.
    pub(super) value: Option<(&'static str, &'static str)>,
    pub(super) repeatable: bool,
}

impl OptionWord {
    /// A word with a value after it.
    pub(crate) const fn value(
        word: &'static str,
        placeholder: &'static str,
        example: &'static str,
    ) -> Self {
        Self { word, value: Some((placeholder, example)), repeatable: false }
    }

    /// A word by itself.
    pub(crate) const fn flag(word: &'static str) -> Self {
        Self { word, value: None, repeatable: false }
    }

    /// The same word, which may come more than once.
    pub(crate) const fn repeatable(mut self) -> Self {
        self.repeatable = true;
        self
    }
}

/// What every algorithm takes.
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
