//! The integration tests of the embedded store, in one program.

mod allocations;
mod attack;
mod batches;
mod boards;
mod cap;
mod expiry;
mod handles;
mod late;
mod many_limits;
mod naive;
mod pauses;
mod schedules;
mod steps;
mod suite;
mod threads;
