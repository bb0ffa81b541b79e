//! Which words there are, and which go with which.

use crate::time::Span;

/// What one algorithm takes.
#[derive(Debug)]
pub(super) struct Grammar {
    pub(super) word: &'static str,
    pub(super) options: &'static [OptionWord],
    pub(super) example: &'static str,
}

/// A word after the rate.
#[derive(Debug)]
pub(super) struct OptionWord {
    pub(super) word: &'static str,
    /// What the word after it is, and an example of it; a flag has none.
    pub(super) value: Option<(&'static str, &'static str)>,
    pub(super) repeatable: bool,
}

const fn value(word: &'static str, placeholder: &'static str, example: &'static str) -> OptionWord {
    OptionWord { word, value: Some((placeholder, example)), repeatable: false }
}

const fn flag(word: &'static str) -> OptionWord {
    OptionWord { word, value: None, repeatable: false }
}

const AND: OptionWord =
    OptionWord { word: "and", value: Some(("N/PERIOD", "1000/h")), repeatable: true };

const BURST: &[OptionWord] = &[value("burst", "N", "20")];

pub(super) const GRAMMARS: [Grammar; 10] = [
    Grammar { word: "token_bucket", options: BURST, example: "token_bucket 100/s burst 200" },
    Grammar { word: "gcra", options: BURST, example: "gcra 10/s burst 5" },
    Grammar {
        word: "leaky_bucket",
        options: &[value("capacity", "N", "20")],
        example: "leaky_bucket 5/s capacity 20",
    },
    Grammar {
        word: "fixed_window",
        options: &[flag("aligned"), value("calendar", "ZONE", "Asia/Tokyo")],
        example: "fixed_window 1000/h",
    },
    Grammar {
        word: "sliding_window",
        options: &[value("slices", "N", "60")],
        example: "sliding_window 1000/h slices 60",
    },
    Grammar { word: "sliding_counter", options: &[], example: "sliding_counter 1000/h" },
    Grammar { word: "sliding_log", options: &[AND], example: "sliding_log 10/s and 1000/h" },
    Grammar {
        word: "smooth",
        options: &[value("burst", "SPAN", "1s"), value("start", "empty|full", "full")],
        example: "smooth 5/s burst 1s start empty",
    },
    Grammar {
        word: "warmup",
        options: &[value("over", "SPAN", "10s")],
        example: "warmup 5/s over 10s",
    },
    Grammar {
        word: "shaper",
        options: &[value("queue", "N", "100")],
        example: "shaper 5/s queue 100",
    },
];

/// What every algorithm takes.
pub(super) const COMMON: [OptionWord; 4] = [
    value("cost", "N", "5"),
    flag("shadow"),
    flag("charge_denied"),
    value("as", "NAME", "per-day"),
];

/// What a fresh key of [`crate::Algorithm::Smooth`] can save up unless the spec says otherwise.
pub(super) const SMOOTH_BURST: Span = Span::SECOND;

impl Grammar {
    pub(super) fn of(word: &str) -> Option<&'static Self> {
        GRAMMARS.iter().find(|grammar| grammar.word == word)
    }

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

/// 60 slices if each lasts whole milliseconds, else 10 if they do.
pub(super) fn default_slices(window: Span) -> Option<u64> {
    [60, 10].into_iter().find(|&slices| divides(window, slices))
}

/// Whether `slices` slices of `window` last whole milliseconds.
pub(super) fn divides(window: Span, slices: u64) -> bool {
    !window.is_zero() && window.as_micros().is_multiple_of(slices * Span::MILLISECOND.as_micros())
}
