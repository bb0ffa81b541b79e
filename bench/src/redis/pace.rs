//! A steady pace.

use std::time::{Duration, Instant};

/// The number of keys, their requests per second, and the seconds of the window.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub keys: usize,
    pub per_second: usize,
    pub seconds: usize,
}

/// Waits for the next round.
pub struct Ticks {
    start: Instant,
    step: Duration,
    rounds: u32,
}

impl Pace {
    /// Returns the number of rounds in `seconds`, with one request for each key in each.
    pub const fn rounds(self, seconds: usize) -> usize {
        self.per_second * seconds
    }

    pub fn start(self) -> Ticks {
        Ticks {
            start: Instant::now(),
            step: Duration::from_secs(1) / self.per_second as u32,
            rounds: 0,
        }
    }
}

impl Ticks {
    /// Waits for the next round. A late round doesn't delay those after it.
    pub fn wait(&mut self) {
        let due = self.start + self.step * self.rounds;
        self.rounds += 1;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}
