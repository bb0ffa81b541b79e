//! Decodes the states that the fast paths of a script reply.

use sluicegate_core::for_stores::DecisionForStores as _;
use sluicegate_core::for_stores::{Stored, admitted, step};
use sluicegate_core::kernel::log::Log;
use sluicegate_core::kernel::{Kernel as _, Now, Reading, Rule, State, Verdict, bucket};
use sluicegate_core::record::{Entry, Record};
use sluicegate_core::{Decision, Error, Limit, Request, Warnings};

use crate::program::{is_apart, kind_of};
use crate::unexpected::nonsense;

/// Decodes an admission of a fast path. The reply has the written states, and of rings only the last two
/// slices.
pub(super) fn read_states(
    limit: &Limit,
    request: &Request<'_>,
    states: &[u8],
) -> Result<Decision, Error> {
    let record = Record::decode(states);
    let mut discarded = record.is_torn();
    let mut held = Vec::with_capacity(limit.members().len());
    for member in limit.members() {
        let entry = record.entry(member.identity(), kind_of(member.policy().rule()));
        let is_read = match (member.policy().rule(), entry) {
            (Rule::Log(log), entry) if is_apart(member.policy().rule()) => {
                held.push(Some(Stored::Reading(admitted_reading(log, entry))));
                entry.is_some()
            }
            (_, entry) => {
                held.push(entry.and_then(|entry| entry.state(member)).map(Stored::State));
                held.last().is_some_and(Option::is_some)
            }
        };
        discarded |= !is_read;
    }
    let warnings = Warnings { discarded, ..Warnings::default() };
    Ok(admitted(limit, request.cost(), held)?.with_warnings(warnings))
}

/// Decodes a denial of a fast path. The reply has the unchanged states.
pub(super) fn read_denial(
    limit: &Limit,
    request: &Request<'_>,
    now: Now,
    states: &[u8],
) -> Result<Decision, Error> {
    let record = Record::decode(states);
    let held = limit.members().iter().map(|member| {
        let entry = record.entry(member.identity(), kind_of(member.policy().rule()))?;
        entry.state(member).map(Stored::State)
    });
    denied(limit, request, now, held.collect())
}

fn denied(
    limit: &Limit,
    request: &Request<'_>,
    now: Now,
    mut held: Vec<Option<Stored>>,
) -> Result<Decision, Error> {
    let decision = step(limit, request, now, &mut held)?.decision;
    if decision.is_allowed() {
        Err(nonsense("another verdict than the kernels'"))
    } else {
        Ok(decision)
    }
}

/// Decodes several checks of one bucket, the only policy. The reply has the number that passed, and the state
/// after them.
pub(super) fn read_turn(
    limit: &Limit,
    request: &Request<'_>,
    now: Now,
    reply: &[u8],
    turn: usize,
) -> Result<Decision, Error> {
    let ([member], Some((passed, state))) = (limit.members(), reply.split_first_chunk()) else {
        return Err(nonsense("a reply to several"));
    };
    let Rule::Bucket(rule) = member.policy().rule() else {
        return Err(nonsense("a reply to several"));
    };
    let later = match usize::from(u16::from_be_bytes(*passed)).checked_sub(turn) {
        None | Some(0) => return read_denial(limit, request, now, state),
        Some(left) => left as u64 - 1,
    };
    let record = Record::decode(state);
    let held = record.entry(member.identity(), kind_of(member.policy().rule()));
    let Some(State::Bucket(after)) = held.and_then(|entry| entry.state(member)) else {
        return Err(nonsense("a state that no bucket has"));
    };
    // Later callers have charged the same units each.
    let ticks = request.cost_of(limit, 0).checked_mul(rule.unit());
    let charged = ticks.and_then(|ticks| ticks.checked_mul(later));
    let deficit = charged.and_then(|charged| after.deficit.checked_sub(charged));
    let deficit = deficit
        .filter(|deficit| ticks.is_some_and(|ticks| ticks <= *deficit))
        .ok_or_else(|| nonsense("a state that no bucket has"))?;
    let state = State::Bucket(bucket::State { deficit, ..after });
    admitted(limit, request.cost(), vec![Some(Stored::State(state))])
}

/// Returns the reading of an exact log of one tier, from its head after an entry was added.
fn admitted_reading(rule: &Log, head: Option<&Entry<'_>>) -> Reading {
    let (judged_at, total) = match head.and_then(Entry::numbers).as_deref() {
        Some([newest, base, total, ..]) => (*newest, total.saturating_sub(*base)),
        _ => (0, 0),
    };
    let remaining = rule.profile().limit.saturating_sub(total);
    Reading {
        judged_at,
        verdict: Verdict::Pass { wait: 0 },
        violated: 0,
        restamped: false,
        remaining_before: remaining,
        remaining,
        reset_after: rule.horizon(),
        used: total,
        current: 0,
        given_back: 0,
    }
}
