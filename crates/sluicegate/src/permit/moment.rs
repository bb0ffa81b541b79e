//! The end of a hold, by the clocks of this machine.

use std::sync::LazyLock;

use sluicegate_core::{Clock as _, Span};
use tokio::time::Instant;

use crate::layers::SuspendAwareClock;

/// An instant on two clocks: the timers' clock, and one that continues while the machine is suspended. It has come as
/// soon as either clock says so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    instant: Instant,
    micros: u64,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Self { instant: Instant::now(), micros: micros() }
    }

    /// Returns the moment later by `span`.
    pub(super) fn plus(self, span: Span) -> Self {
        let instant = self.instant + span.into();
        Self { instant, micros: self.micros.saturating_add(span.as_micros()) }
    }

    /// Returns the time until then; zero if it has passed.
    pub(super) fn left(self) -> Span {
        let left = Span::from(self.instant.saturating_duration_since(Instant::now()));
        let micros = self.micros.saturating_sub(micros());
        left.min(Span::from_micros(micros).unwrap_or(Span::MAX))
    }

    pub(super) fn has_come(self) -> bool {
        self.left().is_zero()
    }

    pub(super) const fn instant(self) -> Instant {
        self.instant
    }
}

fn micros() -> u64 {
    static CLOCK: LazyLock<SuspendAwareClock> = LazyLock::new(SuspendAwareClock::new);
    CLOCK.now().as_micros()
}
