//! The specs of logs and rings.

use std::cmp::Reverse;
use std::fmt;
use std::time::Duration;

use super::Log;
use crate::algorithm::{Algorithm, LogTier};
use crate::kernel::{Quota, SpecFormat};
use crate::rate::write_quota;
use crate::spec::{Amount, Grammar, OptionWord, Problem, Reader};
use crate::time::Span;

impl SpecFormat for Log {
    const GRAMMARS: &'static [Grammar] = &[
        Grammar {
            word: "sliding_window",
            amount: Amount::Rate,
            options: &[OptionWord::value("slices", "N", "60")],
            example: "sliding_window 1000/h slices 60",
            read: |spec| {
                let LogTier { limit, window } = spec.tier()?;
                Ok(Algorithm::SlidingWindow { limit, window, slices: slices(spec, window)? })
            },
        },
        Grammar {
            word: "sliding_log",
            amount: Amount::Rate,
            options: &[OptionWord::value("and", "N/PERIOD", "1000/h").repeatable()],
            example: "sliding_log 10/s and 1000/h",
            read: |spec| Ok(Algorithm::SlidingLog { tiers: spec.tiers("and")? }),
        },
    ];

    fn write_spec(algorithm: &Algorithm, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match algorithm {
            Algorithm::SlidingWindow { limit, window, slices } => {
                write_quota(f, *limit, *window)?;
                if default_slices(*window) == Some(*slices) {
                    return Ok(());
                }
                write!(f, " slices {slices}")
            }
            Algorithm::SlidingLog { tiers } => {
                for (index, LogTier { limit, window }) in tiers.iter().enumerate() {
                    if index > 0 {
                        f.write_str(" and ")?;
                    }
                    write_quota(f, *limit, *window)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn window_text(algorithm: &Algorithm) -> String {
        match algorithm {
            Algorithm::SlidingWindow { window, slices, .. } => {
                format!("{}/{slices}", Span::from(*window))
            }
            Algorithm::SlidingLog { tiers } => {
                let windows = tiers.iter().map(|tier| Span::from(tier.window).to_string());
                windows.collect::<Vec<_>>().join(" and ")
            }
            _ => String::new(),
        }
    }

    /// Returns the quota of the tightest tier.
    fn quota(&self, _: &Algorithm) -> Quota {
        let tightest = self.tiers().iter().min_by_key(|tier| (tier.limit, Reverse(tier.window)));
        Quota { units: self.limit(), window: tightest.map(|tier| tier.window) }
    }
}

fn slices(spec: &Reader<'_>, window: Duration) -> Result<u64, Problem> {
    match spec.number("slices")? {
        Some(slices) => Ok(slices),
        None => default_slices(window)
            .ok_or_else(|| Problem::at(spec.period_word(), slices_that_would_do(window.into()))),
    }
}

/// Returns 60 slices if each lasts whole milliseconds, else 10 if they do.
fn default_slices(window: Duration) -> Option<u64> {
    [60, 10].into_iter().find(|&slices| divides(window.into(), slices))
}

/// Returns `true` if each of `slices` slices of `window` lasts whole milliseconds.
fn divides(window: Span, slices: u64) -> bool {
    !window.is_zero() && window.as_micros().is_multiple_of(slices * Span::MILLISECOND.as_micros())
}

/// Suggests slices for a `window` that neither 60 nor 10 slices divide.
fn slices_that_would_do(window: Span) -> String {
    if !divides(window, 1) {
        return format!(
            "a window of {window} can't have slices of whole milliseconds: write a multiple of 10ms"
        );
    }
    let mut whole: Vec<u64> = (2..=120).filter(|&slices| divides(window, slices)).collect();
    let Some(last) = whole.pop() else {
        return format!(
            "a window of {window} can't have 2 to 120 slices of whole milliseconds: write a multiple of 10ms, or `slices 1`"
        );
    };
    let others: String = whole.iter().map(|slices| format!("{slices}, ")).collect();
    let others = others.strip_suffix(", ").map_or(String::new(), |others| format!("{others} or "));
    format!(
        "neither 60 nor 10 slices of {window} last whole milliseconds: add `slices N` with N {others}{last}"
    )
}
