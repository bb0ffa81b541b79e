//! When a hold ends, by the clocks of this machine.

use std::sync::LazyLock;

use sluicegate_core::{Clock as _, Span};
use tokio::time::Instant;

use crate::layers::SuspendAwareClock;

/// An instant on two clocks: the one that timers go by, and one that goes on while the machine
/// sleeps. What ends has ended as soon as either says so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    instant: Instant,
    micros: u64,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Self { instant: Instant::now(), micros: micros() }
    }

    /// So much later.
    pub(super) fn plus(self, span: Span) -> Self {
        let instant = self.instant + span.into();
        Self { instant, micros: self.micros.saturating_add(span.as_micros()) }
    }

    /// How long it is until then: zero if that has come.
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
