//! Decisions for operators: a log of all, the newest ones, a recorder for simulations, and the keys with the highest use.

mod budget;
mod debug_lines;
mod key_form;
mod line;
mod log;
mod recent;
mod recorder;
mod row;
mod space_saving;
mod top_keys;

pub(crate) use debug_lines::DebugLines;
pub(crate) use log::{DecisionLog, DecisionLogArg};
pub(crate) use recent::{Filter, Outcome, Recent};
pub(crate) use recorder::{RecordedCost, RecordedDecision, Recorder, RecorderArg};
pub(crate) use row::{shares, shown};
pub(crate) use top_keys::{FewKeys, TopKey, TopKeys};
