//! The Lua ports of the kernels: the module that decides for each rule, and the numbers it gets.

use sluicegate_core::kernel::bucket::Bucket;
use sluicegate_core::kernel::counter::Counter;
use sluicegate_core::kernel::log::Log;
use sluicegate_core::kernel::permits::Permits;
use sluicegate_core::kernel::warm_up::WarmUp;
use sluicegate_core::kernel::window::{Anchor, FixedWindow};
use sluicegate_core::kernel::{FixedKind, HEAD_BYTES, Kernel as _, Layout, Rule};
use sluicegate_core::{LogTier, MAX_EXACT, Span};

use crate::constant::{Constant, Words, size, whole};
use crate::format::{Format, Item};

/// The Lua port of a kernel.
#[derive(Debug)]
pub(crate) struct Module {
    /// The file's name. Its upper-case form starts the template constants `NAME_KIND`, `NAME_ENTRY` and
    /// `NAME_SIZE`.
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    /// The kind of its entries, or of their heads.
    pub(crate) kind: FixedKind,
    /// Its other template constants.
    pub(crate) words: Words,
}

/// All modules.
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
        ("ACROSS_ZONES", whole(ACROSS_ZONES)),
        ("DAY", whole(Span::DAY.as_micros())),
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

/// Stands for the end of the last record if there is none.
const NO_RECORD: u64 = 1;

/// Number of expired log entries that may stay before the log is written again.
const LOG_SLACK: usize = 64;

/// A pair of stamp and running total, or of a tier's limit and window.
pub(crate) const PAIR: Format = Format(&[TWO_NUMBERS]);
/// The head, length, newest time and base of a ring.
const RING_HEAD: Format = Format(&[LISTED, TWO_NUMBERS]);
/// A ring up to its first pair.
const RING_START: Format = Format(&[LISTED, TWO_NUMBERS, TWO_NUMBERS]);
const LISTED: &[Item] = &[Item::Whole(HEAD_BYTES), Item::Whole(2)];
const TWO_NUMBERS: &[Item] = &[Item::Numbers(2)];

/// Flag of a policy, in addition to those of the program: the bucket is a shaper.
pub(crate) const SHAPER: u8 = 4;
/// Flag of a policy: the bucket is smooth.
pub(crate) const SMOOTH: u8 = 8;

/// Start of a window in the Lua port: at the first admitted request.
const FIRST_ADMITTED: u64 = 0;
/// Start of a window: at whole multiples of its length.
const ALIGNED: u64 = 1;
/// Start of a window: at boundaries that come with the request.
const CALENDAR: u64 = 2;
/// Start of a window: at such boundaries, with states that are named by dates.
const ACROSS_ZONES: u64 = 3;

/// The boundaries of a calendar window, before a request brings them.
const NO_BOUNDARIES: &[(u64, u64)] = &[(0, 0); 4];

/// The paths of a script, from the general one to the fastest.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub(crate) enum Lane {
    /// Any operation, any policy, any stored states.
    General,
    /// Checks of plain policies, with states in the expected form.
    Express,
    /// Checks of one plain bucket.
    Shortest,
    /// An auxiliary command: a reservation is given back.
    Cancel,
    /// An auxiliary command: the server shows that it can decide.
    Ready,
    /// Checks of one plain bucket with a hold.
    Hold,
    /// Settlements of holds on one plain bucket.
    Settle,
    /// Takes of permits, for a limit with only one policy of permits and no queue.
    Take,
    /// Releases of such permits.
    Release,
    /// Peeks, charges and refunds of one plain bucket.
    Change,
    /// An auxiliary command: the holders of units in flight are listed.
    Holders,
    /// An auxiliary command: an entry is put on a board, which is listed.
    Board,
}

/// A policy's rule in the form that its script uses.
#[derive(Debug)]
pub(crate) struct Twin {
    /// The numbers for the Lua port, in its order.
    pub(crate) numbers: [u64; 5],
    /// The limit, which all kernels have.
    pub(crate) limit: u64,
    /// Further flags for the Lua port.
    pub(crate) flags: u8,
    /// A log's tiers, if there are several: limit and window. A calendar's boundaries.
    pub(crate) pairs: Vec<(u64, u64)>,
    /// The fastest path that supports the rule.
    pub(crate) lane: Lane,
    /// The largest cost that this path supports.
    pub(crate) most: u64,
    /// Whether each request must bring boundaries.
    pub(crate) is_calendar: bool,
}

impl Twin {
    pub(crate) fn of(rule: &Rule) -> Self {
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
                    Anchor::Calendar(_) => window
                        .kept_across_zones()
                        .map_or((CALENDAR, 0), |kept| (ACROSS_ZONES, kept)),
                };
                let is_calendar = matches!(window.anchor(), Anchor::Calendar(_));
                Self {
                    lane: if is_calendar { Lane::General } else { Lane::Express },
                    pairs: if is_calendar { NO_BOUNDARIES.to_vec() } else { Vec::new() },
                    is_calendar,
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
                    pairs: if is_one { Vec::new() } else { pairs(log.tiers()) },
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

    /// Returns a rule that only the general path supports.
    const fn new(numbers: [u64; 5], limit: u64) -> Self {
        Self {
            numbers,
            limit,
            flags: 0,
            pairs: Vec::new(),
            lane: Lane::General,
            most: MAX_EXACT,
            is_calendar: false,
        }
    }
}

fn pairs(tiers: &[LogTier]) -> Vec<(u64, u64)> {
    tiers.iter().map(|tier| (tier.limit, Span::from(tier.window).as_micros())).collect()
}
