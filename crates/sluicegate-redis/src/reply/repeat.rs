//! Decodes what is known of a request that was asked and allowed before.

use sluicegate_core::{
    Asked, Costs, Decision, Error, Hold, HoldId, Limit, MAX_EXACT, Operation, Request, Timestamp,
};
use smallvec::SmallVec;

use super::Reply;
use super::states::read_states;
use super::verdict::{ALLOWED, read_verdict, whole};
use crate::once::{HEAD, NO_WORD};
use crate::resp::Value;
use crate::unexpected::nonsense;

/// The decision on a request that was asked and allowed before, from what is known of it. It is made of
/// what was replied then; where the policies have other numbers now, by which it might not have been
/// allowed, as if it had been charged by force.
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
    let (&[notes, brief], id) = rest.split_first_chunk().ok_or_else(cut_short)?;
    let id = HoldId::from_bytes(id.try_into().map_err(|_| cut_short())?);
    let hold = request.holds().map(|hold| Hold { id, ..*hold });
    let request = request.without_once();
    let request = hold.as_ref().map_or(request, |hold| request.hold(hold));

    let taken_at = Timestamp::from_micros_clamped(judged_at);
    if brief == 1 {
        return match read_states(limit, &request, body) {
            Ok(decision) => Ok(decision.again()),
            // No policy can read what was replied any more.
            Err(_) => Ok(Decision::of_known(limit, &request, taken_at, None)),
        };
    }
    let items = items(judged_at, notes, body, hold.is_some()).ok_or_else(cut_short)?;
    let judge = |request: &Request<'_>| match read_verdict(limit, request, max_clock_back, &items)?
    {
        Reply::Decided(decision) => Ok(decision),
        Reply::AskAgain { .. } => Err(nonsense("a record of another shape")),
    };
    // Of what was taken up to a number; else there is none.
    let granted = Some(granted).filter(|granted| (1..=MAX_EXACT).contains(granted));
    let is_same = |decision: &Decision| granted.is_none_or(|granted| granted == decision.granted());
    match judge(&request) {
        Ok(decision) if decision.is_allowed() && is_same(&decision) => Ok(decision.again()),
        _ => {
            let most = granted.unwrap_or(MAX_EXACT);
            let costs: SmallVec<[u64; 4]> = (0..limit.members().len())
                .map(|index| request.cost_of(limit, index).min(most))
                .collect();
            let charge = request.operation(Operation::Charge).costs(Costs::Each(&costs));
            match judge(&charge) {
                Ok(decision) => Ok(decision.again()),
                Err(_) => {
                    let decision = Decision::of_known(limit, &request, taken_at, granted);
                    let hold = hold.filter(|_| items.last() == Some(&Value::Int(1)));
                    Ok(hold.map_or(decision.clone(), |hold| decision.with_hold(hold)))
                }
            }
        }
    }
}

/// What was replied, but for its stamp.
fn items(judged_at: u64, notes: u8, mut body: &[u8], holds: bool) -> Option<Vec<Value>> {
    let judged_at = i64::try_from(judged_at).ok()?;
    let mut items = vec![Value::Int(ALLOWED), Value::Int(judged_at), Value::Int(notes.into())];
    while !body.is_empty() {
        let (length, rest) = body.split_first_chunk()?;
        let length = u32::from_be_bytes(*length);
        let (word, rest) = match length {
            NO_WORD => (Value::Nil, rest),
            length => {
                let (word, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
                (Value::Bytes(word.to_vec().into()), rest)
            }
        };
        items.push(word);
        body = rest;
    }
    if holds {
        // Whether it holds anything, which was a number.
        let Value::Bytes(kept) = items.pop()? else { return None };
        items.push(Value::Int(i64::from(&kept[..] == b"1")));
    }
    Some(items)
}
