//! The options of a replay's results.

use std::num::ParseIntError;

use clap::Args;
use sluicegate::MemoryStore;
use sluicegate::http::ClientAddress;
use sluicegate::store::SharedStore;
use sluicegate_core::Error;
use sluicegate_replay::{Goal, Plan, Recording, Suggestions};

use super::progress;
use crate::output::{Failure, complain};

/// The addresses that are one client.
#[derive(Args, Clone, Debug)]
pub(super) struct PrefixArgs {
    /// Number of leading bits by which the key `ip` tells IPv4 clients apart, 0 to 32 [default: 32,
    /// or the config file's]
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u8).range(..=32))]
    ipv4_prefix: Option<u8>,

    /// Number of leading bits by which the key `ip` tells IPv6 clients apart, 0 to 128 [default:
    /// 64, or the config file's]
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u8).range(..=128))]
    ipv6_prefix: Option<u8>,
}

impl PrefixArgs {
    /// Returns the config file's client address with the prefixes that the options set.
    pub(super) fn applied_to(&self, mut address: ClientAddress) -> Result<ClientAddress, Failure> {
        if let Some(bits) = self.ipv4_prefix {
            address = address.ipv4_prefix(bits).map_err(Failure::usage)?;
        }
        if let Some(bits) = self.ipv6_prefix {
            address = address.ipv6_prefix(bits).map_err(Failure::usage)?;
        }
        Ok(address)
    }
}

/// Options of the lists in a report.
#[derive(Args, Clone, Debug)]
pub(super) struct ResultArgs {
    /// Number of denied keys to list for each policy, 0 to 1000.
    ///
    /// Keys with the most denials come first. Each has its worst minute, and the spec with the smallest number that
    /// denies none of its requests. Smooth and warm-up policies have no such number.
    #[arg(long, value_name = "N", default_value_t = Plan::TOP, value_parser = top)]
    pub(super) top: usize,

    /// Suggest the smallest limits that deny at most "N% of requests" or "N% of keys" [without a
    /// value: "1% of requests"].
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

/// Searches in a separate store, because the search plays the recording many times.
pub(super) fn suggest(goal: Goal, recording: &Recording) -> Result<Suggestions, Error> {
    let bar = progress("suggesting", Goal::STEPS);
    let suggestions =
        goal.search(&SharedStore::new(MemoryStore::new()), recording, || bar.inc(1))?;
    bar.finish_and_clear();
    Ok(suggestions)
}

/// Removes the policies that count requests in flight if the log has no durations. Returns the
/// failure to report after the other policies are played.
pub(super) fn playable(
    plan: Plan,
    recording: &Recording,
    is_suggesting: bool,
) -> Result<(Plan, Option<Failure>), Failure> {
    let permits: Vec<_> = plan.permits().map(|spec| format!("`{spec}`")).collect();
    if permits.is_empty() || recording.requests() == 0 {
        return Ok((plan, None));
    }
    if recording.durations() > 0 {
        let without = recording.requests() - recording.durations();
        if without > 0 {
            complain(format_args!(
                "note: {without} of {} requests have no duration, and so release their permits immediately",
                recording.requests()
            ));
        }
        return Ok((plan, None));
    }
    let left_out = Failure::usage(format_args!(
        "{} counts requests in flight, but the log has no durations: name their field, as in \
         --fields duration=request_time, or omit the policy",
        permits.join(", ")
    ));
    let plan = plan.without_permits();
    if plan.is_empty() && !is_suggesting { Err(left_out) } else { Ok((plan, Some(left_out))) }
}
