//! The specs of the bucket family.

use std::fmt;
use std::time::Duration;

use super::Bucket;
use crate::algorithm::{Algorithm, Start};
use crate::kernel::{NEVER, Quota, SpecFormat};
use crate::rate::Rate;
use crate::spec::{Amount, Grammar, OptionWord, Problem, Reader, Word};
use crate::time::Span;

const BURST: &[OptionWord] = &[OptionWord::value("burst", "N", "20")];

/// The default burst of [`Algorithm::Smooth`].
const SMOOTH_BURST: Duration = Duration::from_secs(1);

impl SpecFormat for Bucket {
    const GRAMMARS: &'static [Grammar] = &[
        Grammar {
            word: "token_bucket",
            amount: Amount::Rate,
            options: BURST,
            example: "token_bucket 100/s burst 200",
            read: |spec| {
                let (rate, burst) = rate_and(spec, "burst")?;
                Ok(Algorithm::TokenBucket { rate, burst })
            },
        },
        Grammar {
            word: "gcra",
            amount: Amount::Rate,
            options: BURST,
            example: "gcra 10/s burst 5",
            read: |spec| {
                let (rate, burst) = rate_and(spec, "burst")?;
                Ok(Algorithm::Gcra { rate, burst })
            },
        },
        Grammar {
            word: "leaky_bucket",
            amount: Amount::Rate,
            options: &[OptionWord::value("capacity", "N", "20")],
            example: "leaky_bucket 5/s capacity 20",
            read: |spec| {
                let (rate, capacity) = rate_and(spec, "capacity")?;
                Ok(Algorithm::LeakyBucket { rate, capacity })
            },
        },
        Grammar {
            word: "shaper",
            amount: Amount::Rate,
            options: &[OptionWord::value("queue", "N", "100")],
            example: "shaper 5/s queue 100",
            read: |spec| {
                let rate = spec.rate()?;
                let queue = spec.number("queue")?.ok_or_else(|| spec.missing("queue N"))?;
                Ok(Algorithm::Shaper { rate, queue })
            },
        },
        Grammar {
            word: "smooth",
            amount: Amount::Rate,
            options: &[
                OptionWord::value("burst", "SPAN", "1s"),
                OptionWord::value("start", "empty|full", "full"),
            ],
            example: "smooth 5/s burst 1s start empty",
            read: |spec| {
                let rate = spec.rate()?;
                let burst = spec.time("burst")?.unwrap_or(SMOOTH_BURST);
                Ok(Algorithm::Smooth { rate, burst, start: start(spec)? })
            },
        },
    ];

    fn write_spec(algorithm: &Algorithm, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rate, option, number) = match algorithm {
            Algorithm::TokenBucket { rate, burst } | Algorithm::Gcra { rate, burst } => {
                (rate, "burst", *burst)
            }
            Algorithm::LeakyBucket { rate, capacity } => (rate, "capacity", *capacity),
            Algorithm::Shaper { rate, queue } => return write!(f, "{rate} queue {queue}"),
            Algorithm::Smooth { rate, burst, start } => {
                write!(f, "{rate}")?;
                if *burst != SMOOTH_BURST {
                    write!(f, " burst {}", Span::from(*burst))?;
                }
                return f.write_str(if *start == Start::Full { " start full" } else { "" });
            }
            _ => return Ok(()),
        };
        write!(f, "{rate}")?;
        if number == rate.count() { Ok(()) } else { write!(f, " {option} {number}") }
    }

    fn quota(&self, algorithm: &Algorithm) -> Quota {
        let (rate, full) = match algorithm {
            Algorithm::TokenBucket { rate, burst } | Algorithm::Gcra { rate, burst } => {
                (rate, *burst)
            }
            Algorithm::LeakyBucket { rate, capacity } => (rate, *capacity),
            Algorithm::Shaper { rate, queue } => (rate, queue.saturating_add(1)),
            Algorithm::Smooth { rate, .. } => {
                let units = if self.limit == NEVER { rate.count() } else { self.limit };
                return Quota { units, window: Some(rate.period()) };
            }
            _ => return Quota { units: self.limit, window: None },
        };
        Quota { units: self.limit, window: refilled(*rate, full) }
    }
}

/// Reads a rate and a number that defaults to the rate's count.
fn rate_and(spec: &Reader<'_>, option: &str) -> Result<(Rate, u64), Problem> {
    let rate = spec.rate()?;
    Ok((rate, spec.number(option)?.unwrap_or(rate.count())))
}

fn start(spec: &Reader<'_>) -> Result<Start, Problem> {
    match spec.value("start") {
        None => Ok(Start::default()),
        Some(Word { text: "empty", .. }) => Ok(Start::Empty),
        Some(Word { text: "full", .. }) => Ok(Start::Full),
        Some(other) => {
            let message =
                format!("`{}` is not a start: write `start empty` or `start full`", other.shown());
            Err(Problem::at(other, message))
        }
    }
}

/// Returns the time in which `units` flow back.
fn refilled(rate: Rate, units: u64) -> Option<Duration> {
    let product = u128::from(units) * rate.period().as_micros();
    let micros = product.checked_div(u128::from(rate.count()))?;
    Span::from_micros(u64::try_from(micros).ok()?).ok().map(Duration::from)
}
