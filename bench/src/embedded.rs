//! The embedded store, compared with its floor and its rival.

mod asked;
mod attack;
mod floor;
mod holding;
mod keys;
pub mod memory;
mod parts;
mod rival;
mod speed;

pub use asked::{gate, is_admitted};
pub use keys::next;
pub use speed::{SEGMENT, segment};

use crate::measure::Session;

/// A rate and burst that are never reached. A used bucket isn't full again for a long time.
pub const ROOMY: &str = "token_bucket 1000000/h burst 1000000000";

/// Measures all goals of the embedded store.
pub fn measure(session: &mut Session) {
    speed::measure(session);
    rival::measure(session);
    asked::measure(session);
    memory::measure(session);
    holding::measure(session);
    attack::measure(session);
}
