//! The twins of the kernels: which Lua decides as a rule does, and what it is told of the rule.
//!
//! To add a kernel, write its Lua beside the others and add its arm here, and what of it a script
//! has to know to `script/constants.rs`.

use sluicegate_core::kernel::window::Anchor;
use sluicegate_core::kernel::{Kernel as _, Layout, Rule};
use sluicegate_core::{MAX_EXACT, Strategy};

use crate::program::{Lane, SHAPER, SMOOTH};
use crate::script::Template;

/// Where a window begins, as its twin is told: at the first admitted request,
pub(crate) const FIRST_ADMITTED: u64 = 0;
/// at whole multiples of its length,
pub(crate) const ALIGNED: u64 = 1;
/// at boundaries that come with the request.
const CALENDAR: u64 = 2;

/// Of the numbers of a window by the calendar, those that are its boundaries.
pub(crate) const BOUNDARIES: [usize; 4] = [1, 2, 3, 4];

/// A policy's rule as its script sees it.
#[derive(Debug)]
pub(crate) struct Twin<'r> {
    /// The Lua that decides as the kernel does, by its name.
    pub(crate) module: (&'static str, &'static Template),
    /// What `numbers` of that Lua is given, in its order.
    pub(crate) numbers: [u64; 5],
    /// The limit, which all kernels have.
    pub(crate) limit: u64,
    /// What else the twin has to know.
    pub(crate) flags: u8,
    /// The strategies, where there are several.
    pub(crate) strategies: &'r [Strategy],
    /// The fastest part of the script that knows the rule,
    pub(crate) lane: Lane,
    /// and up to which cost.
    pub(crate) most: u64,
    /// Whether boundaries have to come with each request.
    pub(crate) is_calendar: bool,
}

macro_rules! module {
    ($name:literal) => {{
        const MODULE: &Template = &Template::new(include_str!(concat!("lua/", $name, ".lua")));
        ($name, MODULE)
    }};
}

impl<'r> Twin<'r> {
    pub(crate) fn of(rule: &'r Rule) -> Self {
        match rule {
            Rule::Bucket(bucket) => Self {
                flags: if bucket.is_shaper() {
                    SHAPER
                } else if bucket.is_smooth() {
                    SMOOTH
                } else {
                    0
                },
                lane: if bucket.is_shaper() || bucket.is_smooth() && bucket.refill() == 0 {
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
                    module!("bucket"),
                    [
                        bucket.unit(),
                        bucket.refill(),
                        bucket.capacity(),
                        bucket.fresh_deficit(),
                        bucket.shortest_life(),
                    ],
                    bucket.limit().min(MAX_EXACT),
                )
            },
            Rule::WarmUp(warm_up) => Self::new(
                module!("warm_up"),
                [warm_up.unit(), warm_up.refill(), warm_up.store(), 0, 0],
                MAX_EXACT,
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
                    ..Self::new(module!("window"), [anchor, length, 0, 0, 0], window.limit())
                }
            }
            Rule::Counter(counter) => Self {
                lane: Lane::Express,
                ..Self::new(
                    module!("counter"),
                    [counter.window(), counter.step(), counter.window() / counter.step(), 0, 0],
                    counter.limit(),
                )
            },
            Rule::Log(log) => {
                let is_inline = matches!(rule.layout(), Layout::Listed { .. });
                let is_one = log.strategies().len() == 1;
                Self {
                    strategies: if is_one { &[] } else { log.strategies() },
                    lane: if is_inline || !log.is_ring() && is_one {
                        Lane::Express
                    } else {
                        Lane::General
                    },
                    ..Self::new(
                        module!("log"),
                        [log.quantum(), log.horizon(), 0, 0, 0],
                        log.limit(),
                    )
                }
            }
        }
    }

    /// A rule that the general part alone knows.
    const fn new(module: (&'static str, &'static Template), numbers: [u64; 5], limit: u64) -> Self {
        Self {
            module,
            numbers,
            limit,
            flags: 0,
            strategies: &[],
            lane: Lane::General,
            most: MAX_EXACT,
            is_calendar: false,
        }
    }
}
