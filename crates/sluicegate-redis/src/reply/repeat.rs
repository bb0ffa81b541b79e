//! Decodes the record of an earlier request with the same id that was allowed.

use bytes::Bytes;
use sluicegate_core::for_stores::Asked;
use sluicegate_core::for_stores::DecisionForStores as _;
use sluicegate_core::{
    Costs, Decision, Error, Hold, HoldId, Limit, MAX_EXACT, Operation, Request, Timestamp,
};
use smallvec::SmallVec;

use super::states::read_states;
use super::verdict::{Frame, whole};
use crate::once::{HEAD, NO_WORD};
use crate::unexpected::nonsense;

/// Returns the decision on a repeated request, from its record. It is made from the earlier reply. If the
/// policies have other numbers now, with which the request might be denied, the decision is that of a forced
/// charge.
pub(super) fn read_repeat(
    limit: &Limit,
    request: &Request<'_>,
    max_clock_back: Option<u64>,
    record: &[u8],
) -> Result<Decision, Error> {
    let cut_short = || nonsense("a record cut short");
    let (head, body) = record.split_at_checked(HEAD.size()).ok_or_else(cut_short)?;
    let (numbers, rest) = head[Asked::BYTES..].split_at(3 * 7);
    let mut numbers = numbers.chunks_exact(7).map(whole);
    let (_until, judged_at, granted) = match (numbers.next(), numbers.next(), numbers.next()) {
        (Some(until), Some(at), Some(granted)) if at <= MAX_EXACT => (until, at, granted),
        _ => return Err(cut_short()),
    };
    let (&[warnings, brief], id) = rest.split_first_chunk().ok_or_else(cut_short)?;
    let id = HoldId::from_bytes(id.try_into().map_err(|_| cut_short())?);
    let hold = request.holds().map(|hold| Hold { id, ..*hold });
    let request = request.without_once();
    let request = hold.as_ref().map_or(request, |hold| request.hold(hold));

    let taken_at = Timestamp::from_micros_clamped(judged_at);
    if brief == 1 {
        return match read_states(limit, &request, body) {
            Ok(decision) => Ok(decision.again()),
            // No policy can read the earlier reply any longer.
            Err(_) => Ok(Decision::of_known(limit, &request, taken_at, None)),
        };
    }
    let mut words = words(body).ok_or_else(cut_short)?;
    // The last word is whether the request holds anything.
    let kept = hold.map(|_| words.pop().flatten().ok_or_else(cut_short)).transpose()?;
    let holds = kept.is_some_and(|kept| &kept[..] == b"1");
    let frame = Frame::kept(limit, judged_at, warnings != 0, words, holds);
    let judge = |request: &Request<'_>| {
        let frame = frame.clone().ok_or_else(|| nonsense("a record of another shape"))?;
        frame.decide(limit, request, max_clock_back)
    };
    // Only a take has granted units.
    let granted = Some(granted).filter(|granted| (1..=MAX_EXACT).contains(granted));
    let is_same = |decision: &Decision| granted.is_none_or(|granted| granted == decision.granted());
    match judge(&request) {
        Ok(decision) if decision.is_allowed() && is_same(&decision) => Ok(decision.again()),
        _ => {
            let most = granted.unwrap_or(MAX_EXACT);
            let costs: SmallVec<[u64; 4]> = (0..limit.members().len())
                .map(|index| request.cost_of(limit, index).min(most))
                .collect();
            let charge = request.with_operation(Operation::Charge).costs(Costs::Each(&costs));
            match judge(&charge) {
                Ok(decision) => Ok(decision.again()),
                Err(_) => {
                    let decision = Decision::of_known(limit, &request, taken_at, granted);
                    let hold = hold.filter(|_| holds);
                    Ok(hold.map_or(decision.clone(), |hold| decision.with_hold(hold)))
                }
            }
        }
    }
}

/// Returns the words of the earlier reply.
fn words(mut body: &[u8]) -> Option<Vec<Option<Bytes>>> {
    let mut words = Vec::new();
    while !body.is_empty() {
        let (length, rest) = body.split_first_chunk()?;
        let length = u32::from_be_bytes(*length);
        let (word, rest) = match length {
            NO_WORD => (None, rest),
            length => {
                let (word, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
                (Some(Bytes::copy_from_slice(word)), rest)
            }
        };
        words.push(word);
        body = rest;
    }
    Some(words)
}
