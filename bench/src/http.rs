//! The service over HTTP.

mod answer;
pub mod check;
mod client;
mod connections;
mod forward_auth;
mod rivals;
pub mod services;

use crate::machine::{pin_thread, unpin_thread};
use crate::measure::Session;

/// Measures the goals of HTTP.
pub fn measure(session: &mut Session) {
    connections::measure(session);
    pin_thread(1);
    check::measure(session);
    forward_auth::measure(session);
    unpin_thread();
}
