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
use sluicegate_core::kernel::{Rule, log};
use sluicegate_core::packed::{kind, retention};
use sluicegate_core::{
    Costs, DeniedCharge, Enforcement, Limit, MAX_EXACT, Member, Operation, Span, cost_of,
};

/// The most slices a ring may have to be kept in the packed states.
pub(crate) const MAX_INLINE_SLICES: u64 = 64;

const SHADOW: u8 = 1;
const CHARGE_DENIED: u8 = 2;
const SHAPER: u8 = 4;
const SMOOTH: u8 = 8;
/// The policy is the first of the next part of its limit.
const NEXT_PART: u8 = 16;

const NUMBER: usize = 7;
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

    /// The bytes for reading the slices of a ring.
    #[must_use]
    pub fn bytes_for_slices(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        let end = bytes.len() - END;
        bytes[end] = 7;
        bytes
    }

    /// The bytes for one operation at given costs. `near` is the time around which a policy is
    /// guessed to be judged.
    #[must_use]
    pub fn bytes(
        &self,
        limit: &Limit,
        operation: Operation,
        costs: Costs<'_>,
        near: impl Fn(usize) -> u64,
    ) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        let (code, within) = match operation {
            Operation::Check => (1, 0),
            Operation::Reserve { within } => (3, within.as_micros()),
            Operation::TakeUpTo => (4, 0),
            Operation::Charge => (5, 0),
            Operation::Refund => (6, 0),
            _ => (2, 0),
        };
        let mut express = self.plain && code == 1;
        for (index, &entry) in self.entries.iter().enumerate() {
            let cost = cost_of(limit, costs, index);
            express = express && cost > 0 && cost <= self.express_costs[index];
            put(&mut bytes[entry + place_of(COST)..], cost);
        }
        bytes[0] = match (express, self.is_one_bucket) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => 2,
        };
        let end = bytes.len() - END;
        bytes[end] = code;
        put(&mut bytes[end + 3..], within);
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
        let mut strategies: &[sluicegate_core::Strategy] = &[];
        let (kind, lasts, numbers) = match policy.rule() {
            Rule::Bucket(bucket) => {
                if bucket.is_shaper() {
                    flags |= SHAPER;
                    self.plain = false;
                }
                let mut shortest = 0;
                if bucket.is_smooth() {
                    flags |= SMOOTH;
                    most = (MAX_EXACT - bucket.capacity()) / bucket.unit();
                    self.plain &= bucket.refill() > 0;
                    if bucket.fresh_deficit() > 0 {
                        shortest = Span::DAY.as_micros();
                    }
                }
                // What one grant can leave, and a debt beyond it lasts longer than it is kept
                // for a program that doesn't know it: at worst it forgives a debt.
                let lasts = bucket
                    .capacity()
                    .saturating_mul(2)
                    .checked_div(bucket.refill())
                    .unwrap_or(MAX_EXACT);
                let numbers = [
                    bucket.unit(),
                    bucket.refill(),
                    bucket.capacity(),
                    0,
                    bucket.fresh_deficit(),
                    bucket.limit().min(MAX_EXACT),
                    shortest,
                ];
                (kind::BUCKET, lasts.max(shortest), numbers)
            }
            Rule::WarmUp(warm_up) => {
                self.plain = false;
                let lasts = warm_up
                    .store()
                    .saturating_mul(4)
                    .checked_div(warm_up.refill())
                    .unwrap_or(MAX_EXACT);
                (
                    kind::WARM_UP,
                    lasts,
                    [warm_up.unit(), warm_up.refill(), warm_up.store(), 0, 0, MAX_EXACT, 0],
                )
            }
            Rule::Window(window) => {
                let limit = window.limit();
                let (lasts, anchor, length) = match window.anchor() {
                    Anchor::FirstAdmitted(length) => (*length, 0, *length),
                    Anchor::Aligned(length) => (*length, 1, *length),
                    Anchor::Calendar(_) => {
                        self.plain = false;
                        self.calendars.push(index);
                        (367 * Span::DAY.as_micros(), 2, 0)
                    }
                };
                (kind::WINDOW, lasts, [anchor, length, 0, 0, 0, limit, 0])
            }
            Rule::Counter(counter) => {
                let steps = counter.window() / counter.step();
                let numbers = [counter.window(), counter.step(), steps, 0, 0, counter.limit(), 0];
                (kind::COUNTER, 2 * counter.window(), numbers)
            }
            Rule::Log(log) => {
                let kind = log_kind(log);
                self.plain &= kind == kind::RING || !log.is_ring() && log.strategies().len() == 1;
                if log.strategies().len() > 1 {
                    strategies = log.strategies();
                }
                let numbers = [log.quantum(), log.horizon(), 0, 0, 0, log.limit(), 0];
                (kind, log.horizon(), numbers)
            }
            _ => {
                self.plain = false;
                (0, 0, [0; 7])
            }
        };
        self.bytes.push(kind);
        self.bytes.extend_from_slice(&member.identity().to_bytes());
        self.bytes.push(retention(lasts));
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

/// How a log's state is kept: a ring of few slices in the packed states, all else in a key of
/// its own.
pub(crate) fn log_kind(log: &log::Log) -> u8 {
    if log.is_ring() && log.horizon() / log.quantum() <= MAX_INLINE_SLICES {
        kind::RING
    } else {
        kind::LOG_HEAD
    }
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
