//! The twins of the kernels: which Lua decides as a rule does, and which of its numbers that gets.

use sluicegate_core::kernel::bucket::Bucket;
use sluicegate_core::kernel::counter::Counter;
use sluicegate_core::kernel::log::Log;
use sluicegate_core::kernel::permits::Permits;
use sluicegate_core::kernel::warm_up::WarmUp;
use sluicegate_core::kernel::window::{Anchor, FixedWindow};
use sluicegate_core::kernel::{FixedKind, HEAD_BYTES, Kernel as _, Layout, Rule};
use sluicegate_core::{LogTier, MAX_EXACT};

use crate::constant::{Constant, Words, size, whole};
use crate::format::{Format, Item};

/// The Lua that decides as a kernel does.
#[derive(Debug)]
pub(crate) struct Module {
    /// The file's name. In capitals it begins the words `NAME_KIND`, `NAME_ENTRY` and `NAME_SIZE`.
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    /// Its entries, or the heads of them.
    pub(crate) kind: FixedKind,
    /// Its words in capitals besides those.
    pub(crate) words: Words,
}

/// All of them.
pub(crate) const MODULES: [Module; 6] = [BUCKET, WARM_UP, WINDOW, COUNTER, LOG, PERMITS];

macro_rules! module {
    ($name:literal, $kernel:ty, $words:expr) => {
        Module {
            name: $name,
            text: include_str!(concat!("lua/", $name, ".lua")),
            kind: <$kernel>::FIXED,
            words: $words,
        }
    };
}

const BUCKET: Module = module!(
    "bucket",
    Bucket,
    &[
        ("BUCKET_LEASED", whole(Bucket::LEASED_KIND as u64)),
        ("BUCKET_HELD", whole(Bucket::HELD_KIND as u64)),
    ]
);
const WARM_UP: Module = module!("warm_up", WarmUp, &[]);
const WINDOW: Module = module!(
    "window",
    FixedWindow,
    &[
        ("FIRST_ADMITTED", whole(FIRST_ADMITTED)),
        ("ALIGNED", whole(ALIGNED)),
        ("WINDOW_LEASED", whole(FixedWindow::LEASED_KIND as u64)),
    ]
);
const COUNTER: Module = module!("counter", Counter, &[]);
const PERMITS: Module = module!("permits", Permits, &[("NO_RECORD", whole(NO_RECORD))]);
const LOG: Module = module!(
    "log",
    Log,
    &[
        ("LOG_ENTRIES", size(Log::MAX_ENTRIES)),
        ("LOG_SLACK", size(LOG_SLACK)),
        ("RING_KIND", whole(Log::RING_KIND as u64)),
        ("RING_HEAD", Constant::Format(RING_HEAD)),
        ("RING_HEAD_SIZE", size(RING_HEAD.size())),
        ("RING_START", Constant::Format(RING_START)),
        ("RING_START_SIZE", size(RING_START.size())),
        ("RING_FIRST_PAIR", size(RING_HEAD.size() + 1)),
    ]
);

/// Stands for the end of the last record where there is none.
const NO_RECORD: u64 = 1;

/// So many entries of a log may have left before it is worth writing it anew.
const LOG_SLACK: usize = 64;

/// Stamp and running total; limit and window of a tier.
pub(crate) const PAIR: Format = Format(&[TWO_NUMBERS]);
/// Head, length, newest time and base of a ring,
const RING_HEAD: Format = Format(&[LISTED, TWO_NUMBERS]);
/// and its first pair.
const RING_START: Format = Format(&[LISTED, TWO_NUMBERS, TWO_NUMBERS]);
const LISTED: &[Item] = &[Item::Whole(HEAD_BYTES), Item::Whole(2)];
const TWO_NUMBERS: &[Item] = &[Item::Numbers(2)];

/// Flags of a policy's twin, beside those of the program: a bucket that is a shaper,
pub(crate) const SHAPER: u8 = 4;
/// or smooth.
pub(crate) const SMOOTH: u8 = 8;

/// Where a window begins, as its twin has it: at the first admitted request,
const FIRST_ADMITTED: u64 = 0;
/// at whole multiples of its length,
const ALIGNED: u64 = 1;
/// at boundaries that come with the request.
const CALENDAR: u64 = 2;

/// Of the numbers of a window by the calendar, those that are its boundaries.
pub(crate) const BOUNDARIES: [usize; 4] = [1, 2, 3, 4];

/// The parts of a script, from the one that can do everything to the fastest.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub(crate) enum Lane {
    /// Any operation, any policy, whatever is stored.
    General,
    /// Checks of plain policies, whose states are as they are expected.
    Express,
    /// Checks of one plain bucket.
    Shortest,
    /// No decision: a reservation is given back.
    Cancel,
    /// No decision: the server shows that it can decide.
    Ready,
    /// Checks of one plain bucket that hold what they take,
    Hold,
    /// and settlements of those.
    Settle,
    /// Checks of permits without a queue, of no other policy,
    Take,
    /// and what gives those back.
    Release,
    /// Peeks, charges and refunds of one plain bucket.
    Change,
    /// No decision: those are listed who have something in flight.
    Holders,
}

/// A policy's rule as its script sees it.
#[derive(Debug)]
pub(crate) struct Twin<'r> {
    /// What `numbers` of its Lua is given, in its order.
    pub(crate) numbers: [u64; 5],
    /// The limit, which all kernels have.
    pub(crate) limit: u64,
    /// What else the twin has to know.
    pub(crate) flags: u8,
    /// The tiers, where there are several.
    pub(crate) tiers: &'r [LogTier],
    /// The fastest part of the script that knows the rule,
    pub(crate) lane: Lane,
    /// and up to which cost.
    pub(crate) most: u64,
    /// Whether boundaries have to come with each request.
    pub(crate) is_calendar: bool,
}

impl<'r> Twin<'r> {
    pub(crate) fn of(rule: &'r Rule) -> Self {
        match rule {
            Rule::Bucket(bucket) => Self {
                flags: if bucket.profile().is_shaper {
                    SHAPER
                } else if bucket.is_smooth() {
                    SMOOTH
                } else {
                    0
                },
                lane: if bucket.profile().is_shaper || bucket.is_smooth() && bucket.refill() == 0 {
                    Lane::General
                } else if bucket.is_smooth() {
                    Lane::Express
                } else {
                    Lane::Shortest
                },
                most: if bucket.is_smooth() {
                    (MAX_EXACT - bucket.capacity()) / bucket.unit()
                } else {
                    MAX_EXACT
                },
                ..Self::new(
                    [
                        bucket.unit(),
                        bucket.refill(),
                        bucket.capacity(),
                        bucket.fresh_deficit(),
                        bucket.shortest_life(),
                    ],
                    bucket.profile().limit.min(MAX_EXACT),
                )
            },
            Rule::WarmUp(warm_up) => Self::new(
                [warm_up.unit(), warm_up.refill(), warm_up.store(), 0, 0],
                warm_up.profile().limit.min(MAX_EXACT),
            ),
            Rule::Window(window) => {
                let (anchor, length) = match window.anchor() {
                    Anchor::FirstAdmitted(length) => (FIRST_ADMITTED, *length),
                    Anchor::Aligned(length) => (ALIGNED, *length),
                    Anchor::Calendar(_) => (CALENDAR, 0),
                };
                Self {
                    lane: if anchor == CALENDAR { Lane::General } else { Lane::Express },
                    is_calendar: anchor == CALENDAR,
                    ..Self::new([anchor, length, 0, 0, 0], window.profile().limit)
                }
            }
            Rule::Counter(counter) => Self {
                lane: Lane::Express,
                ..Self::new(
                    [counter.window(), counter.step(), counter.window() / counter.step(), 0, 0],
                    counter.profile().limit,
                )
            },
            Rule::Permits(permits) => Self::new(
                [permits.hold(), permits.queue(), permits.priorities().into(), 0, 0],
                permits.profile().limit,
            ),
            Rule::Log(log) => {
                let is_inline = matches!(rule.profile().layout, Layout::Listed { .. });
                let is_one = log.tiers().len() == 1;
                Self {
                    tiers: if is_one { &[] } else { log.tiers() },
                    lane: if is_inline || !log.is_ring() && is_one {
                        Lane::Express
                    } else {
                        Lane::General
                    },
                    ..Self::new([log.quantum(), log.horizon(), 0, 0, 0], log.profile().limit)
                }
            }
        }
    }

    /// A rule that the general part alone knows.
    const fn new(numbers: [u64; 5], limit: u64) -> Self {
        Self {
            numbers,
            limit,
            flags: 0,
            tiers: &[],
            lane: Lane::General,
            most: MAX_EXACT,
            is_calendar: false,
        }
    }
}
