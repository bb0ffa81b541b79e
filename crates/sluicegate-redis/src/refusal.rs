//! The reply to a request that a ban or a pause refuses (`lua/pause.lua`).

use sluicegate_core::for_stores::DecisionForStores as _;
use sluicegate_core::record::read_numbers;
use sluicegate_core::{Banned, Decision, Error, Limit, Paused};

use crate::format::{Format, Item};
use crate::unexpected::nonsense;

/// The brief reply: whether any ban was restamped, the part of the ban, and the part and the policy of the
/// pause. These count from 1; 0 stands for none, or for the whole part. The rests of the ban and the pause
/// follow, in µs.
pub(crate) const REFUSED: Format = Format(&[&[Item::Bytes(4), Item::Numbers(2)]]);

/// Returns the decision of a ban, a pause or both.
pub(crate) fn read_refusal(limit: &Limit, said: &[u8]) -> Result<Decision, Error> {
    let Some((&[restamped, by_ban, by_part, by_policy], rests)) = said.split_first_chunk() else {
        return Err(nonsense("a refusal cut short"));
    };
    let rests = read_numbers(rests);
    let Some(&[ban_rest, pause_rest]) = rests.as_deref() else {
        return Err(nonsense("a refusal cut short"));
    };
    let place = |number: u8| usize::from(number).checked_sub(1);
    let ban = place(by_ban).map(|part| Banned::new(part, ban_rest, false));
    let policy = place(by_policy);
    let pause = place(by_part).map(|part| Paused::new(part, policy, pause_rest));
    let parts = [place(by_ban), place(by_part)];
    let is_known = parts.into_iter().flatten().all(|part| part < limit.parts().len())
        && policy.is_none_or(|policy| policy < limit.members().len());
    if !is_known || ban.is_none() && pause.is_none() {
        return Err(nonsense("a refusal by what no limit has"));
    }
    Ok(Decision::refused(limit, ban, pause, restamped != 0))
}
