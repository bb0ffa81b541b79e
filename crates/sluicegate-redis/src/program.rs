//! What a script is told: the operation and the numbers of every policy, in one string.
//!
//! | bytes | head |
//! | --- | --- |
//! | 1 | lane: 0 the general part alone, 1 the express lane may be tried, 2 the shortest way too |
//! | 7 | `max_clock_back`, µs |
//!
//! | bytes | each policy |
//! | --- | --- |
//! | 5 | kind and identity, as in the stored entry |
//! | 1 | retention, as in the stored entry |
//! | 28 | four numbers `a b c cost`, whose meaning is the kernel's |
//! | 1 | kind of its state |
//! | 1 | flags |
//! | 1 | strategies that follow, 14 bytes each: limit and window |
//! | 21 | three more numbers, `e limit g` |
//!
//! | bytes | end |
//! | --- | --- |
//! | 1 | operation: 1 check, 2 peek, 3 reserve, 4 take up to, 5 charge, 6 refund, 7 read slices |
//! | 1 | parts, each with a subject of its own |
//! | 1 | policies |
//! | 7 | the longest accepted wait of a reservation, µs |

use sluicegate_core::kernel::window::Anchor;
use sluicegate_core::kernel::{Kernel as _, Layout, NUMBER_BYTES as NUMBER, Rule};
use sluicegate_core::record::retention;
use sluicegate_core::{
    Action, DeniedCharge, Enforcement, Limit, MAX_EXACT, Member, Operation, Request, Span, Strategy,
};

const SHADOW: u8 = 1;
const CHARGE_DENIED: u8 = 2;
const SHAPER: u8 = 4;
const SMOOTH: u8 = 8;
/// The policy is the first of the next part of its limit.
const NEXT_PART: u8 = 16;

/// Which of a policy's numbers is its cost: the last of those before kind, flags and strategies.
const COST: usize = 3;
/// The bytes at the end.
const END: usize = 3 + NUMBER;

/// The program of a limit, as a check at the policies' own costs; others are made from it.
#[derive(Clone, Debug)]
pub struct Program {
    bytes: Vec<u8>,
    /// Where each policy's entry begins.
    entries: Vec<usize>,
    /// Whether every policy is one that the express lane knows.
    plain: bool,
    /// Whether the only policy is a plain bucket.
    is_one_bucket: bool,
    /// The largest cost, per policy, that the express lane can take.
    express_costs: Vec<u64>,
    /// The indices of calendar windows.
    calendars: Vec<usize>,
}

impl Program {
    /// The program of a limit.
    #[must_use]
    pub fn new(limit: &Limit, max_clock_back: Span) -> Self {
        let mut program = Self {
            bytes: Vec::new(),
            entries: Vec::new(),
            plain: true,
            is_one_bucket: false,
            express_costs: Vec::new(),
            calendars: Vec::new(),
        };
        program.bytes.push(0);
        push(&mut program.bytes, max_clock_back.as_micros());
        let mut part = 0;
        for (index, member) in limit.members().iter().enumerate() {
            program.add(index, member, if member.part() > part { NEXT_PART } else { 0 });
            part = member.part();
        }
        program.plain &= limit.parts().len() == 1;
        program.is_one_bucket = match limit.members() {
            [member] => {
                matches!(member.policy().rule(), Rule::Bucket(bucket) if !bucket.is_smooth())
            }
            _ => false,
        };
        let count = |length: usize| u8::try_from(length).unwrap_or(u8::MAX);
        let (parts, policies) = (count(limit.parts().len()), count(limit.members().len()));
        program.bytes.extend_from_slice(&[0, parts, policies]);
        push(&mut program.bytes, 0);
        program
    }

    /// The bytes for one request. `near` is the time around which a policy is guessed to be
    /// judged.
    #[must_use]
    pub fn bytes(
        &self,
        limit: &Limit,
        request: &Request<'_>,
        near: impl Fn(usize) -> u64,
    ) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        let action = request.action();
        let mut express = self.plain && action == Action::Decide(Operation::Check);
        for (index, &entry) in self.entries.iter().enumerate() {
            let cost = request.cost_of(limit, index);
            express = express && cost > 0 && cost <= self.express_costs[index];
            put(&mut bytes[entry + place_of(COST)..], cost);
        }
        bytes[0] = match (express, self.is_one_bucket) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => 2,
        };
        let end = bytes.len() - END;
        bytes[end] = action.code();
        put(&mut bytes[end + 3..], action.within().unwrap_or(0));
        for &index in &self.calendars {
            let Rule::Window(window) = limit.members()[index].policy().rule() else {
                continue;
            };
            let Some(boundaries) = window.boundaries(near(index)) else {
                continue;
            };
            // b, c, e and g.
            for (place, boundary) in [1, 2, 4, 6].into_iter().zip(boundaries) {
                put(&mut bytes[self.entries[index] + place_of(place)..], boundary.as_micros());
            }
        }
        bytes
    }

    fn add(&mut self, index: usize, member: &Member, next_part: u8) {
        self.entries.push(self.bytes.len());
        let policy = member.policy();
        let mut flags = next_part;
        if policy.enforcement() == Enforcement::Shadow {
            flags |= SHADOW;
        }
        if policy.denied_charge() == DeniedCharge::Charged {
            flags |= CHARGE_DENIED;
        }
        self.plain &= flags == 0;
        let mut most = MAX_EXACT;
        let mut strategies: &[Strategy] = &[];
        let rule = policy.rule();
        let numbers = match rule {
            Rule::Bucket(bucket) => {
                if bucket.is_shaper() {
                    flags |= SHAPER;
                    self.plain = false;
                }
                if bucket.is_smooth() {
                    flags |= SMOOTH;
                    most = (MAX_EXACT - bucket.capacity()) / bucket.unit();
                    self.plain &= bucket.refill() > 0;
                }
                [
                    bucket.unit(),
                    bucket.refill(),
                    bucket.capacity(),
                    0,
                    bucket.fresh_deficit(),
                    bucket.limit().min(MAX_EXACT),
                    bucket.shortest_life(),
                ]
            }
            Rule::WarmUp(warm_up) => {
                self.plain = false;
                [warm_up.unit(), warm_up.refill(), warm_up.store(), 0, 0, MAX_EXACT, 0]
            }
            Rule::Window(window) => {
                let (anchor, length) = match window.anchor() {
                    Anchor::FirstAdmitted(length) => (0, *length),
                    Anchor::Aligned(length) => (1, *length),
                    Anchor::Calendar(_) => {
                        self.plain = false;
                        self.calendars.push(index);
                        (2, 0)
                    }
                };
                [anchor, length, 0, 0, 0, window.limit(), 0]
            }
            Rule::Counter(counter) => {
                let steps = counter.window() / counter.step();
                [counter.window(), counter.step(), steps, 0, 0, counter.limit(), 0]
            }
            Rule::Log(log) => {
                let is_ring = matches!(rule.layout(), Layout::Listed { .. });
                self.plain &= is_ring || !log.is_ring() && log.strategies().len() == 1;
                if log.strategies().len() > 1 {
                    strategies = log.strategies();
                }
                [log.quantum(), log.horizon(), 0, 0, 0, log.limit(), 0]
            }
        };
        let kind = kind_of(rule);
        self.bytes.push(kind);
        self.bytes.extend_from_slice(&member.identity().to_bytes());
        self.bytes.push(retention(rule.retention()));
        for (index, number) in numbers.into_iter().enumerate() {
            push(&mut self.bytes, number);
            if index == COST {
                let strategies = u8::try_from(strategies.len()).unwrap_or(u8::MAX);
                self.bytes.extend_from_slice(&[kind, flags, strategies]);
            }
        }
        for strategy in strategies {
            push(&mut self.bytes, strategy.limit);
            push(&mut self.bytes, strategy.window.as_micros());
        }
        self.express_costs.push(most);
    }
}

/// The kind of a policy's entry in the packed states.
pub(crate) fn kind_of(rule: &Rule) -> u8 {
    match rule.layout() {
        Layout::Fixed { kind, .. } | Layout::Listed { kind } => kind,
        Layout::Apart { head, .. } => head,
    }
}

/// Whether the entries of a policy's state are in a key of their own.
pub(crate) fn is_apart(rule: &Rule) -> bool {
    matches!(rule.layout(), Layout::Apart { .. })
}

/// Where a policy's number stands, after the beginning of its entry.
const fn place_of(number: usize) -> usize {
    let between = if number > COST { 3 } else { 0 };
    6 + number * NUMBER + between
}

fn push(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend_from_slice(&number.to_be_bytes()[1..]);
}

fn put(bytes: &mut [u8], number: u64) {
    bytes[..NUMBER].copy_from_slice(&number.to_be_bytes()[1..]);
}
