//! The canonical spec of a policy: the shortest one that reads back to it.

use std::fmt;

use crate::number::Cost;
use crate::policy::{Algorithm, DeniedCharge, Enforcement, Policy, Start, Strategy, Window};
use crate::rate::write_period;
use crate::time::Span;

use super::grammar::{SMOOTH_BURST, default_slices};

/// Writes `policy` in the order algorithm, rate, own options, common options, name; what equals
/// its default is left out.
pub(crate) fn write_policy(f: &mut fmt::Formatter<'_>, policy: &Policy) -> fmt::Result {
    write_algorithm(f, policy.algorithm())?;
    if policy.cost() != Cost::ONE {
        write!(f, " cost {}", policy.cost())?;
    }
    if policy.enforcement() == Enforcement::Shadow {
        f.write_str(" shadow")?;
    }
    if policy.denied_charge() == DeniedCharge::Charged {
        f.write_str(" charge_denied")?;
    }
    if let Some(name) = policy.name() {
        write!(f, " as {name}")?;
    }
    Ok(())
}

fn write_algorithm(f: &mut fmt::Formatter<'_>, algorithm: &Algorithm) -> fmt::Result {
    write!(f, "{} ", algorithm.word())?;
    match algorithm {
        Algorithm::TokenBucket { rate, burst } | Algorithm::Gcra { rate, burst } => {
            write!(f, "{rate}")?;
            write_number(f, "burst", *burst, rate.count())
        }
        Algorithm::LeakyBucket { rate, capacity } => {
            write!(f, "{rate}")?;
            write_number(f, "capacity", *capacity, rate.count())
        }
        Algorithm::Shaper { rate, queue } => write!(f, "{rate} queue {queue}"),
        Algorithm::Smooth { rate, burst, start } => {
            write!(f, "{rate}")?;
            if *burst != SMOOTH_BURST {
                write!(f, " burst {burst}")?;
            }
            match start {
                Start::Empty => Ok(()),
                Start::Full => f.write_str(" start full"),
            }
        }
        Algorithm::WarmUp { rate, over } => write!(f, "{rate} over {over}"),
        Algorithm::FixedWindow { limit, window } => match window {
            Window::FirstAdmitted(window) => write_quota(f, *limit, *window),
            Window::Aligned(window) => {
                write_quota(f, *limit, *window)?;
                f.write_str(" aligned")
            }
            Window::Calendar(window) => write!(f, "{limit}/{window}"),
        },
        Algorithm::SlidingWindow { limit, window, slices } => {
            write_quota(f, *limit, *window)?;
            match default_slices(*window) {
                Some(default) => write_number(f, "slices", *slices, default),
                None => write!(f, " slices {slices}"),
            }
        }
        Algorithm::SlidingCounter { limit, window } => write_quota(f, *limit, *window),
        Algorithm::SlidingLog { strategies } => {
            for (index, Strategy { limit, window }) in strategies.iter().enumerate() {
                if index > 0 {
                    f.write_str(" and ")?;
                }
                write_quota(f, *limit, *window)?;
            }
            Ok(())
        }
    }
}

fn write_quota(f: &mut fmt::Formatter<'_>, limit: u64, window: Span) -> fmt::Result {
    write!(f, "{limit}/")?;
    write_period(f, window)
}

fn write_number(f: &mut fmt::Formatter<'_>, word: &str, number: u64, default: u64) -> fmt::Result {
    if number == default { Ok(()) } else { write!(f, " {word} {number}") }
}
