//! From the words of a spec to a policy.

use crate::calendar::{CalendarUnit, CalendarWindow};
use crate::error::{PolicyError, SpanError};
use crate::name::PolicyName;
use crate::number::{Cost, MAX_EXACT};
use crate::policy::{Algorithm, Policy, Start, Strategy, Window};
use crate::rate::{Rate, parse_count};
use crate::time::Span;

use super::grammar::{GRAMMARS, Grammar, OptionWord, SMOOTH_BURST, default_slices, divides};
use super::words::{Place, Word, did_you_mean, split};

const MAX_SPEC_BYTES: usize = Policy::MAX_SPEC_BYTES;

/// What is wrong with a spec, and where.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) place: Place,
    pub(super) message: String,
}

impl Problem {
    fn at(word: Word<'_>, message: impl Into<String>) -> Self {
        Self { place: word.place, message: message.into() }
    }
}

/// Reads a spec.
pub(super) fn policy(spec: &str) -> Result<Policy, Problem> {
    if spec.len() > MAX_SPEC_BYTES {
        let column = spec.char_indices().take_while(|(at, _)| *at < MAX_SPEC_BYTES).count();
        let message =
            format!("the spec has {} bytes, but may have at most {MAX_SPEC_BYTES}", spec.len());
        return Err(Problem { place: Place { column, width: 1 }, message });
    }
    let words = split(spec);
    let mut words = words.iter().copied();
    let Some(algorithm) = words.next() else {
        let message = "the spec is empty: write one such as `token_bucket 100/s burst 200`";
        return Err(Problem { place: Place { column: 0, width: 1 }, message: message.into() });
    };
    let grammar = Grammar::of(algorithm.text).ok_or_else(|| unknown_algorithm(algorithm))?;
    let Some(quota) = words.next() else {
        let message = format!("`{}` needs a rate: write `{}`", grammar.word, grammar.example);
        return Err(Problem::at(algorithm, message));
    };
    let quota = Quota::split(quota, grammar)?;
    let options = Options::collect(words, grammar)?;
    Reader { word: algorithm, grammar, quota, options }.policy()
}

fn unknown_algorithm(word: Word<'_>) -> Problem {
    let known = || GRAMMARS.iter().map(|grammar| grammar.word);
    let hint = did_you_mean(word.text, known()).unwrap_or_else(|| {
        let names: Vec<&str> = known().collect();
        format!("write one of {}", names.join(", "))
    });
    Problem::at(word, format!("unknown algorithm `{}`: {hint}", word.shown()))
}

/// N/PERIOD, taken apart.
#[derive(Clone, Copy, Debug)]
struct Quota<'a> {
    whole: Word<'a>,
    count: Word<'a>,
    period: Word<'a>,
}

impl<'a> Quota<'a> {
    fn split(whole: Word<'a>, grammar: &Grammar) -> Result<Self, Problem> {
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

    fn period(&self) -> Result<Span, Problem> {
        span(self.period)
    }

    fn rate(&self) -> Result<Rate, Problem> {
        let (count, per) = (self.count()?, self.period()?);
        Rate::new(count, per).map_err(|error| self.locate(&error))
    }

    fn strategy(&self) -> Result<Strategy, Problem> {
        Ok(Strategy { limit: self.count()?, window: self.period()? })
    }

    /// Puts the error under the half that it is about.
    fn locate(&self, error: &PolicyError) -> Problem {
        let word = match error.parameter {
            "limit" => self.count,
            "period" | "window" => self.period,
            _ => self.whole,
        };
        Problem::at(word, error.to_string())
    }
}

fn whole_number(word: Word<'_>) -> Result<u64, Problem> {
    parse_count("", word.text).map_err(|_| {
        let message = format!("`{}` is not a whole number from 0 to {MAX_EXACT}", word.shown());
        Problem::at(word, message)
    })
}

fn span(word: Word<'_>) -> Result<Span, Problem> {
    // The longest span has 18 characters; an error that repeats the word shouldn't be a page long.
    if word.place.width > 40 {
        return Err(Problem::at(word, format!("`{}` is not a length of time", word.shown())));
    }
    word.text.parse().map_err(|error: SpanError| Problem::at(word, error.to_string()))
}

/// A word of the grammar as it was given, and the word after it.
#[derive(Clone, Copy, Debug)]
struct Given<'a> {
    option: &'static OptionWord,
    word: Word<'a>,
    value: Option<Word<'a>>,
}

#[derive(Debug)]
struct Options<'a>(Vec<Given<'a>>);

impl<'a> Options<'a> {
    fn collect(
        mut words: impl Iterator<Item = Word<'a>>,
        grammar: &Grammar,
    ) -> Result<Self, Problem> {
        let mut given: Vec<Given<'a>> = Vec::new();
        while let Some(word) = words.next() {
            let option = grammar.option(word.text).ok_or_else(|| unknown_option(word, grammar))?;
            if !option.repeatable && given.iter().any(|earlier| earlier.word.text == word.text) {
                let message = format!("`{}` is there twice: keep one of them", word.text);
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
            given.push(Given { option, word, value });
        }
        Ok(Self(given))
    }

    fn flag(&self, word: &str) -> Option<Word<'a>> {
        self.0.iter().find(|given| given.option.word == word).map(|given| given.word)
    }

    fn values(&self, word: &str) -> impl Iterator<Item = Word<'a>> {
        self.0.iter().filter(move |given| given.option.word == word).filter_map(|given| given.value)
    }

    fn value(&self, word: &str) -> Option<Word<'a>> {
        self.values(word).next()
    }

    fn number(&self, word: &str) -> Result<Option<u64>, Problem> {
        self.value(word).map(whole_number).transpose()
    }

    fn span(&self, word: &str) -> Result<Option<Span>, Problem> {
        self.value(word).map(span).transpose()
    }
}

fn unknown_option(word: Word<'_>, grammar: &Grammar) -> Problem {
    let usage = || format!("`{}` takes {}", grammar.word, grammar.usage());
    let elsewhere = |text: &str| {
        GRAMMARS.iter().any(|other| other.options.iter().any(|option| option.word == text))
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
            format!("`{shown}` is one rate too many: {}", usage())
        }
        _ => {
            let candidates = grammar.all_options().map(|option| option.word);
            let hint = did_you_mean(word.text, candidates).unwrap_or_else(usage);
            format!("unknown word `{shown}`: {hint}")
        }
    };
    Problem::at(word, message)
}

/// A spec whose words are known, on its way to a policy.
#[derive(Debug)]
struct Reader<'a> {
    word: Word<'a>,
    grammar: &'static Grammar,
    quota: Quota<'a>,
    options: Options<'a>,
}

impl<'a> Reader<'a> {
    fn policy(&self) -> Result<Policy, Problem> {
        let algorithm = self.algorithm()?;
        let mut policy = Policy::new(algorithm).map_err(|error| self.locate(&error))?;
        if let Some(word) = self.options.value("cost") {
            let cost = Cost::new(whole_number(word)?)
                .map_err(|error| Problem::at(word, error.to_string()))?;
            policy = policy.with_cost(cost);
        }
        if self.options.flag("shadow").is_some() {
            policy = policy.shadow();
        }
        if self.options.flag("charge_denied").is_some() {
            policy = policy.charge_denied();
        }
        if let Some(word) = self.options.value("as") {
            let name: PolicyName = word.text.parse().map_err(|_| {
                let message = format!(
                    "`{}` is not a policy name: use 1 to {} of the characters a-z, 0-9, _ and -",
                    word.shown(),
                    PolicyName::MAX_LEN
                );
                Problem::at(word, message)
            })?;
            policy = policy.named(name);
        }
        Ok(policy)
    }

    fn algorithm(&self) -> Result<Algorithm, Problem> {
        let Self { options, quota, .. } = self;
        match self.grammar.word {
            "token_bucket" => {
                let (rate, burst) = self.rate_and("burst")?;
                Ok(Algorithm::TokenBucket { rate, burst })
            }
            "gcra" => {
                let (rate, burst) = self.rate_and("burst")?;
                Ok(Algorithm::Gcra { rate, burst })
            }
            "leaky_bucket" => {
                let (rate, capacity) = self.rate_and("capacity")?;
                Ok(Algorithm::LeakyBucket { rate, capacity })
            }
            "shaper" => {
                let rate = quota.rate()?;
                let queue = options.number("queue")?.ok_or_else(|| self.missing("queue N"))?;
                Ok(Algorithm::Shaper { rate, queue })
            }
            "smooth" => {
                let rate = quota.rate()?;
                let burst = options.span("burst")?.unwrap_or(SMOOTH_BURST);
                Ok(Algorithm::Smooth { rate, burst, start: self.start()? })
            }
            "warmup" => {
                let rate = quota.rate()?;
                let over = options.span("over")?.ok_or_else(|| self.missing("over SPAN"))?;
                Ok(Algorithm::WarmUp { rate, over })
            }
            "fixed_window" => {
                Ok(Algorithm::FixedWindow { limit: quota.count()?, window: self.fixed_window()? })
            }
            "sliding_window" => {
                let Strategy { limit, window } = quota.strategy()?;
                let slices = match options.number("slices")? {
                    Some(slices) => slices,
                    None => default_slices(window)
                        .ok_or_else(|| Problem::at(quota.period, slices_that_would_do(window)))?,
                };
                Ok(Algorithm::SlidingWindow { limit, window, slices })
            }
            "sliding_counter" => {
                let Strategy { limit, window } = quota.strategy()?;
                Ok(Algorithm::SlidingCounter { limit, window })
            }
            // The only word left in the table.
            _ => {
                let strategies =
                    self.strategies()?.into_iter().map(|(_, strategy)| strategy).collect();
                Ok(Algorithm::SlidingLog { strategies })
            }
        }
    }

    /// A rate and a number that defaults to the rate's count.
    fn rate_and(&self, option: &str) -> Result<(Rate, u64), Problem> {
        let rate = self.quota.rate()?;
        Ok((rate, self.options.number(option)?.unwrap_or(rate.count())))
    }

    fn start(&self) -> Result<Start, Problem> {
        match self.options.value("start") {
            None => Ok(Start::default()),
            Some(Word { text: "empty", .. }) => Ok(Start::Empty),
            Some(Word { text: "full", .. }) => Ok(Start::Full),
            Some(other) => {
                let message = format!(
                    "`{}` is not a state to start in: write `start empty` or `start full`",
                    other.shown()
                );
                Err(Problem::at(other, message))
            }
        }
    }

    fn fixed_window(&self) -> Result<Window, Problem> {
        let Self { options, quota, .. } = self;
        let aligned = options.flag("aligned");
        let Some(zone) = options.value("calendar") else {
            let span = quota.period()?;
            return Ok(match aligned {
                Some(_) => Window::Aligned(span),
                None => Window::FirstAdmitted(span),
            });
        };
        if let Some(aligned) = aligned {
            let message = "`aligned` counts from the Unix epoch and `calendar` from local midnight: keep one of them";
            return Err(Problem::at(aligned, message));
        }
        let unit = match quota.period.text.strip_prefix('1').unwrap_or(quota.period.text) {
            "d" => CalendarUnit::Day,
            "w" => CalendarUnit::Week,
            "month" => CalendarUnit::Month,
            "year" => CalendarUnit::Year,
            _ => {
                let message = format!(
                    "`{}` is not a period of the calendar: write d, w, month or year, one of them",
                    quota.period.shown()
                );
                return Err(Problem::at(quota.period, message));
            }
        };
        CalendarWindow::new(unit, &zone.shown())
            .map(Window::Calendar)
            .map_err(|error| Problem::at(zone, error.to_string()))
    }

    fn strategies(&self) -> Result<Vec<(Quota<'a>, Strategy)>, Problem> {
        let mut strategies = vec![(self.quota, self.quota.strategy()?)];
        for word in self.options.values("and") {
            let quota = Quota::split(word, self.grammar)?;
            strategies.push((quota, quota.strategy()?));
        }
        Ok(strategies)
    }

    fn missing(&self, usage: &str) -> Problem {
        let message = format!(
            "`{}` needs `{usage}`: write it out, as in `{}`",
            self.grammar.word, self.grammar.example
        );
        Problem::at(self.word, message)
    }

    /// Puts what is wrong with the numbers under the word of the number at fault.
    fn locate(&self, error: &PolicyError) -> Problem {
        if let Some(value) = self.options.value(error.parameter) {
            return Problem::at(value, error.to_string());
        }
        if self.options.value("and").is_some() {
            // The error doesn't say which strategy it is about: it is the first that can't stand
            // alone.
            for (quota, strategy) in self.strategies().unwrap_or_default() {
                if let Err(error) = Policy::sliding_log([strategy]) {
                    return quota.locate(&error);
                }
            }
        }
        self.quota.locate(error)
    }
}

/// Neither 60 nor 10 slices divide `window`.
fn slices_that_would_do(window: Span) -> String {
    if !divides(window, 1) {
        return format!(
            "a window of {window} can't be cut into slices of whole milliseconds: write a window that is a multiple of 10ms"
        );
    }
    let mut whole: Vec<u64> = (2..=120).filter(|&slices| divides(window, slices)).collect();
    let Some(last) = whole.pop() else {
        return format!(
            "a window of {window} can't be cut into 2 to 120 slices of whole milliseconds: write one that is a multiple of 10ms, or `slices 1`"
        );
    };
    let others: String = whole.iter().map(|slices| format!("{slices}, ")).collect();
    let others = others.strip_suffix(", ").map_or(String::new(), |others| format!("{others} or "));
    format!(
        "neither 60 nor 10 slices of {window} last whole milliseconds: add `slices N` with N {others}{last}"
    )
}
