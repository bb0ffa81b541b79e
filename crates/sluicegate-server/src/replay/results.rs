//! The options of a replay's results.

use std::num::ParseIntError;

use clap::Args;
use sluicegate::{MemoryStore, SharedStore};
use sluicegate_core::Error;
use sluicegate_replay::{Goal, Plan, Recording, Suggestions};

use super::progress;

/// What a report lists apart from the policies.
#[derive(Args, Clone, Debug)]
pub(super) struct ResultArgs {
    /// Number of denied keys to list for each policy, 0 to 1000.
    ///
    /// Those with the most denials come first. Each has its worst minute, and the spec with the smallest number that
    /// denies none of its requests. Smooth and warm-up policies have no such number.
    #[arg(long, value_name = "N", default_value_t = Plan::TOP, value_parser = top)]
    pub(super) top: usize,

    /// Suggest the smallest limits that deny at most a share of the log: "N% of requests" or
    /// "N% of keys" [without a value: "1% of requests"].
    ///
    /// Reports what keys use within each clock second, minute and hour, and suggests an aligned window for each. Also
    /// suggests a token bucket for each, with the 99th percentile as its rate and the smallest burst. A key is denied if
    /// one of its requests is. Each suggestion was played: a replay of it denies as much.
    #[arg(
        long,
        value_name = "SHARE",
        num_args = 0..=1,
        default_missing_value = "1% of requests"
    )]
    pub(super) suggest: Option<Goal>,
}

fn top(text: &str) -> Result<usize, String> {
    let number: Result<usize, ParseIntError> = text.parse();
    number
        .ok()
        .filter(|&keys| keys <= 1_000)
        .ok_or_else(|| format!("`{}` isn't a number of keys: write 0 to 1000", text.escape_debug()))
}

/// Searches in a store of its own: it plays a recording many times.
pub(super) fn suggest(goal: Goal, recording: &Recording) -> Result<Suggestions, Error> {
    let bar = progress("suggesting", Goal::STEPS);
    let suggestions =
        goal.search(&SharedStore::new(MemoryStore::new()), recording, || bar.inc(1))?;
    bar.finish_and_clear();
    Ok(suggestions)
}
