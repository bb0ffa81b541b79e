//! The input of a script: the operation and the numbers of every policy, in one string.
//!
//! A [`Program`] has the following parts between its head and its end, which are its
//! [frame](crate::program_frame).
//!
//! | bytes | each policy |
//! | --- | --- |
//! | 6 | kind, identity and retention, as in the stored entry |
//! | 28 | three numbers of the kernel's own ([`Twin::numbers`]), and the cost |
//! | 1 | kind of its state |
//! | 1 | flags |
//! | 7 | limit |
//! | 14 | two more numbers of the kernel's own |
//! | 1 | pairs that follow, 14 bytes each: limit and window of a tier, or a calendar's boundary and the start of states then |
//!
//! | bytes | requests and reports of a lease holder, if [`LEASING`] is added to the operation |
//! | --- | --- |
//! | 7 | multiple of the costs that is requested |
//! | 7 | the width of a slot, µs |
//! | 7 | the name of a slot to open |
//! | 1 | reports that follow, each: the name of the slot, and for each policy the spent and the returned units |
//!
//! Then follow [bans](crate::ban), an [id](crate::once), a [queue position](crate::line), a ticket and a
//! [hold](crate::hold), if there are any.

use sluicegate_core::for_stores::{Leasing, Pace};
use sluicegate_core::kernel::{
    FixedKind, HEAD_BYTES, Layout, NUMBER_BYTES as NUMBER, Rule, retention,
};
use sluicegate_core::{
    DeniedCharge, Enforcement, HoldId, Limit, Member, OnExpiry, Operation, Receipt, Request, Span,
    Timestamp,
};

use crate::ban;
use crate::format::{Format, Item};
use crate::hold;
use crate::line;
use crate::once;
use crate::program_frame::{
    BACK, END, HEAD_ITEMS, KEYS, LANE, count, head, inject, push, push_word, put,
};
use crate::twin::{Lane, Twin};

/// Number of a kernel's own numbers before the cost: those that a plain check needs.
const EARLY: usize = 3;

const OWN_ITEMS: &[Item] = &[Item::Whole(HEAD_BYTES), Item::Numbers(EARLY + 1)];
const TRAIT_ITEMS: &[Item] = &[Item::Bytes(2), Item::Numbers(1)];
const FURTHER_ITEMS: &[Item] = &[Item::Numbers(2), Item::Bytes(1)];

/// The beginning, and the part of the first policy that the path for one plain bucket needs.
pub(crate) const START: Format = Format(&[HEAD_ITEMS, OWN_ITEMS]);
/// The next part of a policy: kind, flags and limit.
pub(crate) const TRAITS: Format = Format(&[TRAIT_ITEMS]);
/// The part of a policy that a plain check needs.
pub(crate) const POLICY: Format = Format(&[OWN_ITEMS, TRAIT_ITEMS]);
/// The head, the first numbers and the cost of a policy.
pub(crate) const OWN: Format = Format(&[OWN_ITEMS]);
/// The rest of a policy: the last numbers, and the number of pairs.
pub(crate) const FURTHER: Format = Format(&[FURTHER_ITEMS]);
/// A policy without its pairs.
pub(crate) const WHOLE_POLICY: Format = Format(&[OWN_ITEMS, TRAIT_ITEMS, FURTHER_ITEMS]);
/// The beginning of a lease holder's requests and reports.
pub(crate) const LEASING_HEAD: Format = Format(&[&[Item::Numbers(9), Item::Bytes(1)]]);

/// The length of a word in the program of an auxiliary command, and in a reply to several calls.
pub(crate) const WORD_LENGTH: Format = Format(&[&[Item::Whole(4)]]);

/// A flag added to an operation of a lease holder with requests or reports.
pub(crate) const LEASING: u8 = 64;

pub(crate) const SHADOW: u8 = 1;
pub(crate) const CHARGE_DENIED: u8 = 2;
// The Lua ports use 4 and 8: `twin::SHAPER` and `twin::SMOOTH`.
/// The policy is the first of the next part of its limit.
pub(crate) const NEXT_PART: u8 = 16;
/// The policy's part gives held units back if they are never settled.
pub(crate) const RETURNS: u8 = 32;
pub(crate) const COUNT_DENIED: u8 = 64;

/// The operations that the scripts support, with their names there.
pub(crate) const OPERATIONS: [(&str, Operation<'static>); 15] = [
    ("CHECK", Operation::Check),
    ("PEEK", Operation::Peek),
    ("RESERVE", Operation::Reserve { within: Span::ZERO }),
    ("TAKE", Operation::Take),
    ("CHARGE", Operation::Charge),
    ("REFUND", Operation::Refund),
    ("GIVE_BACK", Operation::GiveBack { taken_at: Timestamp::EPOCH }),
    ("SLICES", Operation::Slices),
    ("RESET", Operation::Reset),
    ("SETTLE", Operation::Settle { id: HoldId::from_bytes([0; HoldId::BYTES]), used: &[] }),
    ("RENEW", Operation::Renew { id: HoldId::from_bytes([0; HoldId::BYTES]), lasts: Span::ZERO }),
    ("BAN_BY_HAND", Operation::Ban { lasts: Span::ZERO }),
    ("LIFT_BAN", Operation::Unban),
    ("PAUSE", Operation::Pause { lasts: Span::ZERO, policy: None }),
    ("RESUME", Operation::Resume { policy: None }),
];

/// The program of a limit, as a check at the policies' own costs. Other programs are made from it.
#[derive(Clone, Debug)]
pub struct Program {
    bytes: Vec<u8>,
    /// Offset of each policy's entry.
    entries: Vec<usize>,
    /// The fastest path that supports all policies.
    lane: Lane,
    /// The paths for checks with a hold, and for giving its units back, if there are any.
    holding: Option<(Lane, Lane)>,
    /// The largest cost of each policy that the path supports.
    lane_costs: Vec<u64>,
    /// The indices of calendar windows.
    calendars: Vec<usize>,
}

impl Program {
    /// Returns the program of a limit.
    #[must_use]
    pub fn new(limit: &Limit, max_clock_back: Span) -> Self {
        let is_one = limit.members().len() == 1;
        let mut program = Self {
            bytes: Vec::new(),
            entries: Vec::new(),
            lane: if is_one { Lane::Shortest } else { Lane::Express },
            holding: None,
            lane_costs: Vec::new(),
            calendars: Vec::new(),
        };
        let own = limit.members().iter().filter(|member| is_apart(member.policy().rule()));
        let keys = limit.parts().len() + own.count();
        head(&mut program.bytes, Lane::General, keys);
        put(&mut program.bytes[BACK..], max_clock_back.as_micros());
        let mut part = 0;
        for (index, member) in limit.members().iter().enumerate() {
            let mut flags = if member.part() > part { NEXT_PART } else { 0 };
            part = member.part();
            if limit.on_expiry(part) == OnExpiry::Return {
                flags |= RETURNS;
            }
            program.add(index, member, flags);
        }
        let has_bans = limit.has_bans();
        let counts_denied =
            |member: &Member| member.policy().denied_charge() == DeniedCharge::Counted;
        // The fast path of several policies writes nothing if one of them denies.
        let counts_among_others = !is_one && limit.members().iter().any(counts_denied);
        if limit.parts().len() > 1 || has_bans || limit.has_returns() || counts_among_others {
            program.lane = Lane::General;
        }
        let (parts, mut policies) = (count(limit.parts().len()), count(limit.members().len()));
        program.holding = match (limit.members(), program.lane) {
            ([_], Lane::Shortest) => Some((Lane::Hold, Lane::Settle)),
            ([member], _)
                if limit.parts().len() == 1
                    && !has_bans
                    && !limit.has_returns()
                    && is_enforced(member) =>
            {
                let is_flight =
                    matches!(member.policy().rule(), Rule::Permits(it) if it.queue() == 0);
                is_flight.then_some((Lane::Take, Lane::Release))
            }
            _ => None,
        };
        if has_bans {
            ban::write_bans(limit, &mut program.bytes);
            policies += ban::BANS;
        }
        program.bytes.extend_from_slice(&[0, parts, policies]);
        push(&mut program.bytes, 0);
        program
    }

    /// Returns whether the scripts support the operation.
    pub(crate) fn knows(operation: Operation<'_>) -> bool {
        OPERATIONS.iter().any(|(_, known)| known.code() == operation.code())
    }

    /// Returns the bytes for one request. `near` returns the expected evaluation time of a policy. `at` is
    /// the time to decide by, in µs, unless it is the server's.
    #[must_use]
    pub fn bytes(
        &self,
        limit: &Limit,
        request: &Request<'_>,
        near: impl Fn(usize) -> u64,
        at: Option<u64>,
    ) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        let operation = request.operation();
        let mut is_plain = request.leases().is_none();
        for (index, &entry) in self.entries.iter().enumerate() {
            let cost = match operation {
                Operation::Settle { used, .. } => {
                    used.get(index).copied().flatten().unwrap_or(hold::AS_CHARGED)
                }
                // The policy to pause or resume is the one that costs 1.
                operation if !operation.has_cost() => {
                    u64::from(operation.paused_policy() == Some(index))
                }
                _ => request.cost_of(limit, index),
            };
            is_plain = is_plain && cost > 0 && cost <= self.lane_costs[index];
            put(&mut bytes[entry + COST..], cost);
        }
        let lane = match operation {
            Operation::Check => self.lane,
            Operation::Peek | Operation::Charge | Operation::Refund
                if self.lane == Lane::Shortest =>
            {
                Lane::Change
            }
            _ => Lane::General,
        };
        if is_plain {
            bytes[LANE] = lane as u8;
        }
        inject(at, &mut bytes);
        let end = bytes.len() - END.size();
        bytes[end] = operation.code();
        let lasts = match operation {
            Operation::Ban { lasts } | Operation::Pause { lasts, .. } => Some(lasts.as_micros()),
            _ => None,
        };
        let term = operation.within().or(operation.taken_at()).or(lasts);
        put(&mut bytes[end + 3..], term.unwrap_or(0));
        if limit.has_bans() && operation.has_cost() {
            let start = end - limit.parts().len() * ban::BAN.size();
            ban::write_asked(limit, request, &mut bytes[start..end]);
        }
        for &index in &self.calendars {
            let Rule::Window(window) = limit.members()[index].policy().rule() else {
                continue;
            };
            let Some(boundaries) = window.boundaries(near(index)) else {
                continue;
            };
            let mut place = self.entries[index] + WHOLE_POLICY.size();
            for number in boundaries.into_iter().flat_map(|(at, name)| [at, name]) {
                put(&mut bytes[place..], number);
                place += NUMBER;
            }
        }
        if operation == Operation::Reset {
            // The records and the reservation queues of the subjects are removed too.
            let parts = bytes[end + 1];
            bytes[KEYS] += 2 * parts;
        }
        if let Some(leasing) = request.leases() {
            bytes[end] += LEASING;
            let end = bytes.split_off(end);
            write_leasing(leasing, &mut bytes);
            bytes.extend_from_slice(&end);
        }
        once::with_id(limit, request, &mut bytes);
        if let Some((id, life)) = hold::record_of(limit, request) {
            hold::with_hold(limit, id, life, &mut bytes);
            if let (Some((take, settle)), 0, None) = (self.holding, bytes[LANE], request.ticket()) {
                match operation {
                    Operation::Check if is_plain => bytes[LANE] = take as u8,
                    Operation::Settle { .. } => bytes[LANE] = settle as u8,
                    _ => {}
                }
            }
        }
        if request.is_in_line(limit) {
            line::with_line(request.place_id(), &mut bytes);
        }
        if let Some(ticket) = request.ticket() {
            hold::with_ticket(ticket, &mut bytes);
        }
        bytes
    }

    fn add(&mut self, index: usize, member: &Member, flags: u8) {
        self.entries.push(self.bytes.len());
        let policy = member.policy();
        let rule = policy.rule();
        let twin = Twin::of(rule);
        let mut flags = flags;
        if policy.enforcement() == Enforcement::Shadow {
            flags |= SHADOW;
        }
        match policy.denied_charge() {
            DeniedCharge::Charged => flags |= CHARGE_DENIED,
            DeniedCharge::Counted => flags |= COUNT_DENIED,
            _ => {}
        }
        let is_plain = flags == 0 || flags == COUNT_DENIED;
        self.lane = self.lane.min(if is_plain { twin.lane } else { Lane::General });
        self.lane_costs.push(twin.most);
        if twin.is_calendar {
            self.calendars.push(index);
        }
        let kind = kind_of(rule);
        self.bytes.push(kind);
        self.bytes.extend_from_slice(&member.identity().to_bytes());
        self.bytes.push(retention(rule.profile().retention));
        let (early, further) = twin.numbers.split_at(EARLY);
        for &number in early {
            push(&mut self.bytes, number);
        }
        push(&mut self.bytes, 0);
        self.bytes.extend_from_slice(&[kind, flags | twin.flags]);
        push(&mut self.bytes, twin.limit);
        for &number in further {
            push(&mut self.bytes, number);
        }
        self.bytes.push(u8::try_from(twin.pairs.len()).unwrap_or(u8::MAX));
        for number in twin.pairs.into_iter().flat_map(|(one, other)| [one, other]) {
            push(&mut self.bytes, number);
        }
    }
}

/// Returns whether a policy is neither a shadow nor charges for denied requests.
fn is_enforced(member: &Member) -> bool {
    let policy = member.policy();
    policy.enforcement() != Enforcement::Shadow && policy.denied_charge() == DeniedCharge::Free
}

fn write_leasing(leasing: &Leasing<'_>, bytes: &mut Vec<u8>) {
    push(bytes, leasing.want);
    push(bytes, leasing.width.as_micros());
    push(bytes, leasing.tag);
    // Without a share, it is 0. An earlier lease that it carries on has a share, or it is none.
    let pace = leasing.pace.map_or([0; 6], |Pace { share, least, most, carried }| {
        let [slot, units, earlier] =
            carried.map_or([0; 3], |earlier| [earlier.slot, earlier.units, earlier.share]);
        [share, least, most, slot, units, earlier]
    });
    for number in pace {
        push(bytes, number);
    }
    bytes.push(count(leasing.reports.len()));
    for report in leasing.reports {
        push(bytes, report.slot);
        for units in &report.units {
            push(bytes, units.spent);
            push(bytes, units.returned);
        }
    }
}

/// Returns the program that gives a reservation back.
///
/// It has the packed states of each key after and before the reservation, and its queue entry. `at` is the
/// time to decide by, in µs, unless it is the server's.
#[must_use]
pub fn cancellation(receipt: &Receipt, at: Option<u64>) -> Vec<u8> {
    let (mut program, mut keys) = (errand(Lane::Cancel), 0);
    inject(at, &mut program);
    let count = program.len();
    program.push(0);
    for change in receipt.parts().iter().filter_map(|part| part.change.as_ref()) {
        keys += 1;
        let (after, before) = (&change.after[..], change.before.as_deref().unwrap_or_default());
        for states in [after, before] {
            push_word(&mut program, states);
        }
    }
    program[count] = keys;
    if let Some(name) = receipt.place() {
        keys += 1;
        program.extend_from_slice(&name.to_bytes());
    }
    program[KEYS] = keys;
    program
}

/// Returns the program that checks whether the server can decide.
pub(crate) fn readiness() -> Vec<u8> {
    errand(Lane::Ready)
}

pub(crate) fn errand(lane: Lane) -> Vec<u8> {
    let mut program = Vec::with_capacity(START.size());
    head(&mut program, lane, 1);
    // The minimum size that the script reads of any program.
    program.resize(START.size(), 0);
    program
}

/// Returns the kind of a policy's entry in the packed states.
pub(crate) fn kind_of(rule: &Rule) -> u8 {
    match rule.profile().layout {
        Layout::Fixed(FixedKind { kind, .. }) | Layout::Listed { kind } => kind,
        Layout::Apart { head, .. } => head.kind,
    }
}

/// Returns whether the reply has the policy's outcome, because its states stay in the server.
pub(crate) fn is_read_there(rule: &Rule) -> bool {
    is_apart(rule) || matches!(rule, Rule::Permits(_))
}

/// Returns whether the entries of a policy's state have a separate key.
pub(crate) fn is_apart(rule: &Rule) -> bool {
    matches!(rule.profile().layout, Layout::Apart { .. })
}

/// Offset of a policy's cost, from the start of its entry.
const COST: usize = HEAD_BYTES + EARLY * NUMBER;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_that_the_scripts_do_not_know_is_none_of_theirs() {
        let codes: Vec<u8> = OPERATIONS.iter().map(|(_, operation)| operation.code()).collect();
        // The scripts refuse operations outside of the first and the last code.
        assert_eq!(codes, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 14, 15, 16, 17]);
        assert!(codes.iter().all(|code| *code < LEASING.min(hold::WAITING)));
        let within = Span::from_micros(7).unwrap();
        assert!(Program::knows(Operation::Reserve { within }));
    }
}
