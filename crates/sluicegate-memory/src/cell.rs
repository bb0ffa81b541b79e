//! How each kernel's states are kept in a slot, and when they may go.

use sluicegate_core::kernel::window::Anchor;
use sluicegate_core::kernel::{Times, bucket, counter, log, warm_up, window};
use sluicegate_core::packed::State;
use sluicegate_core::{MAX_EXACT, Span};

use crate::scales::{Scales, Tag};

/// A kernel's state as a slot keeps it.
pub(crate) trait Cell: Send + Sized + 'static {
    /// The kernel that judges it.
    type Rule: Clone + PartialEq + Send + Sync + 'static;
    /// Lends its alignment to the slot.
    type Align: Copy + Send;
    /// What stands in a slot that nobody has.
    const EMPTY: Self;
    /// The reasons for which a rule may keep a state longer than another.
    const OUTLASTS: &'static [Outlasts<Self::Rule>];

    /// The µs from now until the state equals a fresh key's and may be dropped: 0 is now,
    /// [`NEVER`] is never.
    fn fresh_in(&self, rule: &Self::Rule, scales: &Scales, times: Times) -> u64;

    /// Bytes outside the slot.
    fn heap_bytes(&self) -> usize {
        0
    }
}

/// Whether the first rule keeps every state at least as long as the second, for one reason.
pub(crate) type Outlasts<R> = fn(&R, &R) -> bool;

/// A cell that is copied in and out of its slot.
pub(crate) trait SmallCell: Cell {
    fn load(&self, scales: &Scales) -> State;
    fn store(state: &State, tag: Tag) -> Option<Self>;
}

/// It never equals a fresh key's.
pub(crate) const NEVER: u64 = u64::MAX;

/// Two words: the newest time and the deficit in 53 bits each, and above them the tag of the
/// scale that the deficit is counted in. With the fingerprint it makes a slot of 32 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BucketCell {
    newest: u64,
    deficit: u64,
}

/// Two slots to a cache line, none across two.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(crate) struct HalfLine;

impl BucketCell {
    /// The state, which is most likely in the scale of the one who asks.
    #[inline]
    pub(crate) fn read(self, tag: Tag, unit: u64, scales: &Scales) -> bucket::State {
        let (newest, deficit) = (self.newest ^ tag.low, self.deficit ^ tag.high);
        if (newest | deficit) <= MAX_EXACT {
            bucket::State { newest, deficit, unit }
        } else {
            self.read_other(scales)
        }
    }

    /// The state in whatever scale it is.
    fn read_other(self, scales: &Scales) -> bucket::State {
        bucket::State {
            newest: self.newest & MAX_EXACT,
            deficit: self.deficit & MAX_EXACT,
            unit: scales.unit_of(self.newest, self.deficit),
        }
    }

    #[inline]
    pub(crate) const fn write(state: bucket::State, tag: Tag) -> Self {
        Self { newest: state.newest | tag.low, deficit: state.deficit | tag.high }
    }
}

impl Cell for BucketCell {
    type Rule = bucket::Bucket;
    type Align = HalfLine;
    const EMPTY: Self = Self { newest: 0, deficit: 0 };
    const OUTLASTS: &'static [Outlasts<bucket::Bucket>] = &[
        |a, b| is_slower((a.unit(), a.refill()), (b.unit(), b.refill())),
        // A deficit that can't be counted in ticks so fine is kept for ever.
        |a, b| a.unit() >= b.unit(),
        |a, b| a.fresh_deficit() > 0 || b.fresh_deficit() == 0,
    ];

    fn fresh_in(&self, rule: &bucket::Bucket, scales: &Scales, times: Times) -> u64 {
        let state = self.read_other(scales);
        let Ok((standing, _)) = rule.stand(Some(state), times) else {
            return NEVER;
        };
        let full_in = rule
            .reset_after(&standing)
            .map_or(NEVER, |reset| from_now(times, standing.at(), reset));
        if rule.fresh_deficit() == 0 {
            return full_in;
        }
        // A key that starts empty is better off forgotten than full; a day of idling buys that.
        let kept_until = state.newest.saturating_add(Span::DAY.as_micros());
        full_in.max(kept_until.saturating_sub(times.now))
    }
}

impl SmallCell for BucketCell {
    fn load(&self, scales: &Scales) -> State {
        State::Bucket(self.read_other(scales))
    }

    fn store(state: &State, tag: Tag) -> Option<Self> {
        if let State::Bucket(state) = state { Some(Self::write(*state, tag)) } else { None }
    }
}

impl Cell for counter::State {
    type Rule = counter::Counter;
    type Align = u64;
    const EMPTY: Self = Self { newest: 0, start: 0, previous: 0, current: 0 };
    const OUTLASTS: &'static [Outlasts<counter::Counter>] = &[|a, b| a.window() == b.window()];

    fn fresh_in(&self, rule: &counter::Counter, _: &Scales, times: Times) -> u64 {
        match rule.stand(Some(*self), times) {
            Ok((standing, _)) => from_now(times, standing.at(), rule.reset_after(&standing)),
            Err(_) => NEVER,
        }
    }
}

impl SmallCell for counter::State {
    fn load(&self, _: &Scales) -> State {
        State::Counter(*self)
    }

    fn store(state: &State, _: Tag) -> Option<Self> {
        if let State::Counter(state) = state { Some(*state) } else { None }
    }
}

impl Cell for warm_up::State {
    type Rule = warm_up::WarmUp;
    type Align = u64;
    const EMPTY: Self = Self { newest: 0, debt: 0, deficit: 0, unit: 1 };
    const OUTLASTS: &'static [Outlasts<warm_up::WarmUp>] = &[
        |a, b| is_slower((a.unit(), a.refill()), (b.unit(), b.refill())),
        |a, b| a.unit() >= b.unit(),
    ];

    fn fresh_in(&self, rule: &warm_up::WarmUp, _: &Scales, times: Times) -> u64 {
        match rule.stand(Some(*self), times) {
            Ok((standing, _)) => rule
                .reset_after(&standing)
                .map_or(NEVER, |reset| from_now(times, standing.at(), reset)),
            Err(_) => NEVER,
        }
    }
}

impl SmallCell for warm_up::State {
    fn load(&self, _: &Scales) -> State {
        State::WarmUp(*self)
    }

    fn store(state: &State, _: Tag) -> Option<Self> {
        if let State::WarmUp(state) = state { Some(*state) } else { None }
    }
}

impl Cell for window::State {
    type Rule = window::FixedWindow;
    type Align = u64;
    const EMPTY: Self = Self { newest: 0, start: 0, used: 0 };
    const OUTLASTS: &'static [Outlasts<window::FixedWindow>] = &[|a, b| a.anchor() == b.anchor()];

    fn fresh_in(&self, rule: &window::FixedWindow, _: &Scales, times: Times) -> u64 {
        if let Anchor::Calendar(_) = rule.anchor()
            && self.used > 0
            && self.newest.saturating_add(Span::DAY.as_micros() / 2) > times.now
        {
            // Asking a calendar takes a thousand times longer than anything else here.
            return self.newest.saturating_add(Span::DAY.as_micros()).saturating_sub(times.now);
        }
        let (standing, _) = rule.stand(Some(*self), times);
        from_now(times, standing.at(), rule.reset_after(&standing))
    }
}

impl SmallCell for window::State {
    fn load(&self, _: &Scales) -> State {
        State::Window(*self)
    }

    fn store(state: &State, _: Tag) -> Option<Self> {
        if let State::Window(state) = state { Some(*state) } else { None }
    }
}

/// Logs are of any length; the slot holds where they are.
#[derive(Debug)]
pub(crate) struct LogCell(Option<Box<log::State>>);

impl LogCell {
    pub(crate) fn new(state: log::State) -> Self {
        Self(Some(Box::new(state)))
    }

    pub(crate) fn state(&self) -> Option<&log::State> {
        self.0.as_deref()
    }

    pub(crate) fn state_mut(&mut self) -> Option<&mut log::State> {
        self.0.as_deref_mut()
    }
}

impl Cell for LogCell {
    type Rule = log::Log;
    type Align = u64;
    const EMPTY: Self = Self(None);
    const OUTLASTS: &'static [Outlasts<log::Log>] = &[|a, b| a.horizon() >= b.horizon()];

    fn fresh_in(&self, rule: &log::Log, _: &Scales, times: Times) -> u64 {
        self.state().map_or(0, |state| {
            let at = rule.at(state, times);
            from_now(times, at, rule.reset_after(state, at))
        })
    }

    fn heap_bytes(&self) -> usize {
        self.state().map_or(0, |state| {
            size_of::<log::State>() + state.entries.capacity() * size_of::<log::Entry>()
        })
    }
}

/// Whether a deficit takes at least as long to drain by the first pair of ticks per unit and per
/// µs as by the second. In µs it is ⌈⌈d·p⌉/r⌉ of d units, which is ⌈d·p/r⌉.
fn is_slower((unit, refill): (u64, u64), (other_unit, other_refill): (u64, u64)) -> bool {
    u128::from(unit) * u128::from(other_refill) >= u128::from(other_unit) * u128::from(refill)
}

/// What counts from the time of judgement, counted from now: a state whose newest time lies
/// ahead is of use at least until then.
const fn from_now(times: Times, at: u64, micros: u64) -> u64 {
    (at - times.now).saturating_add(micros)
}
