//! The grammar of specs, per algorithm, and a reader for specs.

use std::time::Duration;

use crate::algorithm::{Algorithm, LogTier};
use crate::did_you_mean::did_you_mean;
use crate::error::{PolicyError, SpanError};
use crate::number::MAX_EXACT;
use crate::rate::{Rate, parse_count};
use crate::time::Span;

use super::parameters::{Amount, COMMON, OptionWord};
use super::problem::Problem;
use super::words::{Word, split};

/// The grammar of one algorithm's specs.
#[derive(Debug)]
pub(crate) struct Grammar {
    pub(crate) word: &'static str,
    /// The amount after the keyword.
    pub(crate) amount: Amount,
    pub(crate) options: &'static [OptionWord],
    pub(crate) example: &'static str,
    /// Builds the algorithm from a spec.
    pub(crate) read: fn(&Reader<'_>) -> Result<Algorithm, Problem>,
}

/// A spec split into known words. Kernels read their parameters from it.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    word: Word<'a>,
    grammar: &'static Grammar,
    quota: Quota<'a>,
    options: Options<'a>,
}

impl Grammar {
    fn option(&self, word: &str) -> Option<&'static OptionWord> {
        self.all_options().find(|option| option.word == word)
    }

    /// Returns the algorithm's own options, then the common ones.
    fn all_options(&self) -> impl Iterator<Item = &'static OptionWord> {
        self.options.iter().chain(&COMMON)
    }

    /// Returns the options as `burst N, cost N, shadow, charge_denied, as NAME`.
    fn usage(&self) -> String {
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

impl<'a> Reader<'a> {
    /// Splits a spec by the grammar of its algorithm.
    pub(crate) fn new(spec: &'a str, grammars: &[&'static Grammar]) -> Result<Self, Problem> {
        let words = split(spec);
        let mut words = words.iter().copied();
        let Some(word) = words.next() else {
            let message = "the spec is empty: write one such as `token_bucket 100/s burst 200`";
            return Err(Problem::at_column(0, message));
        };
        let Some(&grammar) = grammars.iter().find(|grammar| grammar.word == word.text) else {
            return Err(unknown_algorithm(word, grammars));
        };
        let Some(quota) = words.next() else {
            let amount = match grammar.amount {
                Amount::Rate => "a rate",
                Amount::Number => "a number",
            };
            let message = format!("`{}` needs {amount}: write `{}`", grammar.word, grammar.example);
            return Err(Problem::at(word, message));
        };
        let quota = Quota::split(quota, grammar)?;
        let options = Options::collect(words, grammar, grammars)?;
        Ok(Self { word, grammar, quota, options })
    }

    /// Returns the grammar of the spec's algorithm.
    pub(crate) const fn grammar(&self) -> &'static Grammar {
        self.grammar
    }

    /// Returns N/PERIOD as a rate.
    pub(crate) fn rate(&self) -> Result<Rate, Problem> {
        self.quota.rate()
    }

    /// Returns the N of N/PERIOD.
    pub(crate) fn count(&self) -> Result<u64, Problem> {
        self.quota.count()
    }

    /// Returns the PERIOD of N/PERIOD as a length of time.
    pub(crate) fn period(&self) -> Result<Duration, Problem> {
        self.quota.period()
    }

    /// Returns the PERIOD of N/PERIOD as it is written.
    pub(crate) const fn period_word(&self) -> Word<'a> {
        self.quota.period
    }

    /// Returns N/PERIOD as a limit and a window.
    pub(crate) fn tier(&self) -> Result<LogTier, Problem> {
        self.quota.tier()
    }

    /// Returns N/PERIOD and each value of `option`, as limits and windows.
    pub(crate) fn tiers(&self, option: &str) -> Result<Vec<LogTier>, Problem> {
        let quotas = self.quotas(option)?;
        quotas.iter().map(Quota::tier).collect()
    }

    /// Returns the flag itself, if the spec has it.
    pub(crate) fn flag(&self, word: &str) -> Option<Word<'a>> {
        self.options.0.iter().find(|given| given.option.word == word).map(|given| given.word)
    }

    /// Returns the word after `option`.
    pub(crate) fn value(&self, option: &str) -> Option<Word<'a>> {
        self.options.values(option).next()
    }

    /// Returns the number after `option`.
    pub(crate) fn number(&self, option: &str) -> Result<Option<u64>, Problem> {
        self.value(option).map(whole_number).transpose()
    }

    /// Returns the length of time after `option`.
    pub(crate) fn time(&self, option: &str) -> Result<Option<Duration>, Problem> {
        self.value(option).map(time).transpose()
    }

    /// Returns the error for a missing required option.
    pub(crate) fn missing(&self, usage: &str) -> Problem {
        let message = format!(
            "`{}` needs `{usage}`: add it, as in `{}`",
            self.grammar.word, self.grammar.example
        );
        Problem::at(self.word, message)
    }

    /// Locates the word that an error is about. An error about a list doesn't name the element: it
    /// is the first one that `alone` refuses.
    pub(crate) fn locate(
        &self,
        error: &PolicyError,
        alone: impl Fn(LogTier) -> Result<(), PolicyError>,
    ) -> Problem {
        if let Some(value) = self.value(error.parameter) {
            return Problem::at(value, error.to_string());
        }
        let repeated = self.options.0.iter().find(|given| given.option.repeatable);
        if let Some(ParsedOption { option, .. }) = repeated {
            for quota in self.quotas(option.word).unwrap_or_default() {
                if let Err(error) = quota.tier().map_or(Ok(()), &alone) {
                    return quota.locate(&error);
                }
            }
        }
        self.quota.locate(error)
    }

    fn quotas(&self, option: &str) -> Result<Vec<Quota<'a>>, Problem> {
        let mut quotas = vec![self.quota];
        for word in self.options.values(option) {
            quotas.push(Quota::split(word, self.grammar)?);
        }
        Ok(quotas)
    }
}

fn unknown_algorithm(word: Word<'_>, grammars: &[&'static Grammar]) -> Problem {
    let known = || grammars.iter().map(|grammar| grammar.word);
    let mut options = grammars.iter().flat_map(|grammar| grammar.options);
    let hint = if options.any(|option| option.word == word.text) {
        // A list in YAML splits at each comma.
        "it is an option: write it after the rate of its policy, without a comma".to_owned()
    } else {
        did_you_mean(word.text, known()).unwrap_or_else(|| {
            let names: Vec<&str> = known().collect();
            format!("write one of {}", names.join(", "))
        })
    };
    Problem::at(word, format!("unknown algorithm `{}`: {hint}", word.shown()))
}

/// N/PERIOD, split.
#[derive(Clone, Copy, Debug)]
struct Quota<'a> {
    whole: Word<'a>,
    count: Word<'a>,
    period: Word<'a>,
}

impl<'a> Quota<'a> {
    fn split(whole: Word<'a>, grammar: &Grammar) -> Result<Self, Problem> {
        if grammar.amount == Amount::Number {
            if whole.text.contains('/') {
                let message = format!(
                    "`{}` is a rate, but `{}` counts requests in flight: write a whole number, as in `{}`",
                    whole.shown(),
                    grammar.word,
                    grammar.example
                );
                return Err(Problem::at(whole, message));
            }
            return Ok(Self { whole, count: whole, period: whole });
        }
        let Some((count, period)) = whole.split_once('/') else {
            let message = format!(
                "`{}` is not N/PERIOD: write a whole number, a slash and a period, as in `{}`",
                whole.shown(),
                grammar.example
            );
            return Err(Problem::at(whole, message));
        };
        if period.text.is_empty() {
            let message = format!(
                "`{}` has no period: write one after the slash, as in `{}`",
                whole.shown(),
                grammar.example
            );
            return Err(Problem::at(whole, message));
        }
        Ok(Self { whole, count, period })
    }

    fn count(&self) -> Result<u64, Problem> {
        if self.count.text.contains('.') {
            let message = format!(
                "`{}` is not a whole number: write a longer period instead, such as 1/2s for 0.5/s",
                self.count.shown()
            );
            return Err(Problem::at(self.count, message));
        }
        whole_number(self.count)
    }

    fn period(&self) -> Result<Duration, Problem> {
        time(self.period)
    }

    fn rate(&self) -> Result<Rate, Problem> {
        let (count, per) = (self.count()?, self.period()?);
        Rate::new(count, per).map_err(|error| self.locate(&error))
    }

    fn tier(&self) -> Result<LogTier, Problem> {
        Ok(LogTier { limit: self.count()?, window: self.period()? })
    }

    /// Locates the half of the quota that an error is about.
    fn locate(&self, error: &PolicyError) -> Problem {
        let word = match error.parameter {
            "limit" => self.count,
            "period" | "window" => self.period,
            _ => self.whole,
        };
        Problem::at(word, error.to_string())
    }
}

/// Parses a whole number from 0 to 2^53 − 1.
pub(crate) fn whole_number(word: Word<'_>) -> Result<u64, Problem> {
    parse_count("", word.text).map_err(|_| {
        let message = format!("`{}` is not a whole number from 0 to {MAX_EXACT}", word.shown());
        Problem::at(word, message)
    })
}

fn time(word: Word<'_>) -> Result<Duration, Problem> {
    // The longest span has 18 characters. The error quotes the word, so it must not be very long.
    if word.location.width > 40 {
        return Err(Problem::at(word, format!("`{}` is not a length of time", word.shown())));
    }
    let span: Result<Span, SpanError> = word.text.parse();
    span.map(Duration::from).map_err(|error| Problem::at(word, error.to_string()))
}

/// An option in a spec, and its value.
#[derive(Clone, Copy, Debug)]
struct ParsedOption<'a> {
    option: &'static OptionWord,
    word: Word<'a>,
    value: Option<Word<'a>>,
}

#[derive(Debug)]
struct Options<'a>(Vec<ParsedOption<'a>>);

impl<'a> Options<'a> {
    fn collect(
        mut words: impl Iterator<Item = Word<'a>>,
        grammar: &Grammar,
        grammars: &[&'static Grammar],
    ) -> Result<Self, Problem> {
        let mut given: Vec<ParsedOption<'a>> = Vec::new();
        while let Some(word) = words.next() {
            let option =
                grammar.option(word.text).ok_or_else(|| unknown_option(word, grammar, grammars))?;
            if !option.repeatable && given.iter().any(|earlier| earlier.word.text == word.text) {
                let message = format!("`{}` is set twice: keep one", word.text);
                return Err(Problem::at(word, message));
            }
            let value = match option.value {
                None => None,
                Some((placeholder, example)) => Some(words.next().ok_or_else(|| {
                    let option = word.text;
                    let message = format!(
                        "`{option}` needs a value: write `{option} {placeholder}`, such as `{option} {example}`"
                    );
                    Problem::at(word, message)
                })?),
            };
            given.push(ParsedOption { option, word, value });
        }
        Ok(Self(given))
    }

    fn values(&self, word: &str) -> impl Iterator<Item = Word<'a>> {
        self.0.iter().filter(move |given| given.option.word == word).filter_map(|given| given.value)
    }
}

fn unknown_option(word: Word<'_>, grammar: &Grammar, grammars: &[&'static Grammar]) -> Problem {
    let usage = || format!("`{}` takes {}", grammar.word, grammar.usage());
    let elsewhere = |text: &str| {
        grammars.iter().any(|other| other.options.iter().any(|option| option.word == text))
    };
    let shown = word.shown();
    let joined = word.split_once('=').or_else(|| word.split_once(':'));
    let message = match joined {
        Some((option, value)) if grammar.option(option.text).is_some() => {
            format!("unknown word `{shown}`: write `{} {}`", option.text, value.shown())
        }
        _ if elsewhere(word.text) => {
            format!("`{shown}` doesn't go with `{}`: {}", grammar.word, usage())
        }
        _ if word.text.contains('/') => {
            format!("`{shown}` is a second rate: remove one; {}", usage())
        }
        _ => {
            let candidates = grammar.all_options().map(|option| option.word);
            let hint = did_you_mean(word.text, candidates).unwrap_or_else(usage);
            format!("unknown word `{shown}`: {hint}")
        }
    };
    Problem::at(word, message)
}
