//! The core of Sluicegate: policies, kernels, decisions, keys, rates and the spec grammar.
//!
//! Nothing here does I/O, reads a clock or needs an async runtime; the feature `driver` has one for stores
//! over a network. Time is an argument, numbers are integers, and every store gives the answers computed here. Most programs depend on the
//! `sluicegate` crate, which re-exports what they need.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod algorithm;
mod answer;
mod asked;
mod ban;
mod ban_state;
mod banned_key;
mod batched;

mod bell;
mod board;
mod book;
mod calendar;
mod clock;
mod cursor;
mod decision;
mod did_you_mean;
#[cfg(feature = "driver")]
mod driver;
mod error;
mod failure;
mod histogram;
mod hold;
mod hold_token;
mod holder;
pub mod kernel;
mod key;
mod key_part;
mod key_writer;
mod lease;
mod limit;
mod line;
mod listed_key;
mod listing;
mod measure;
mod name;
mod number;
mod on_expiry;
mod open_options;
mod page;
mod pause;
mod policy;
mod printable;
mod rate;
mod reader;
mod receipt;
pub mod record;
mod refusal;
mod repeats;
mod request;
mod request_id;
mod settings;
mod shared_store;
mod slices;
mod spec;
mod step;
mod store;
mod stored;
mod ticket;
mod time;
pub mod value;

pub use algorithm::{Algorithm, LogTier, Queue, Start, Window};
pub use answer::{Answer, BoxFuture};
pub use ban::Ban;
pub use banned_key::BannedKey;
pub use batched::{Batched, batched};

pub use calendar::{Boundaries, Boundary, CalendarUnit, CalendarWindow};
pub use clock::{Clock, ManualClock};
pub use cursor::{Cursor, CursorError};
pub use decision::{Banned, Decision, Outcome, Paused, RetryAfter, Source, Warnings};
pub use did_you_mean::{did_you_mean, nearest};
pub use error::{InvalidNumber, NameError, PolicyError, SpanError};
pub use failure::{Error, NodeId, RequestError, RequestErrorKind, StoreError, StoreErrorKind};
pub use histogram::{Histogram, HistogramCounts};
pub use hold::{Hold, HoldFound, HoldId, HoldIdError};
pub use hold_token::{HoldToken, HoldTokenError};
pub use holder::Holder;
pub use kernel::Quota;
pub use key::{KeyPrefix, KeyPrefixError};
pub use key_part::KeyPart;
pub use limit::{Limit, LimitError, Member};
pub use listed_key::ListedKey;
pub use listing::Listing;
pub use measure::{Measure, MeasureKind};
pub use name::{LimitName, PolicyName};
pub use number::{Cost, MAX_EXACT};
pub use on_expiry::{OnExpiry, OnExpiryError};
pub use open_options::{Acknowledgement, OpenOptions};
pub use page::Page;
pub use policy::{DeniedCharge, Enforcement, IntoPolicy, Policy};
pub use printable::printable;
pub use rate::Rate;
pub use receipt::{Receipt, ReceiptError};
pub use request::{Costs, Operation, Purpose, Request, TimeSource};
pub use request_id::{Idempotency, RequestId, RequestIdError};
pub use shared_store::{SharedLimit, SharedStore};
pub use slices::SliceCounts;
pub use spec::SpecError;
pub use store::{OpenedLimit, Store, StoreId, StoreStats};
pub use ticket::{Queued, Ticket};
pub use time::{Span, Timestamp};

/// Stored states and records, steps, and the parts of decisions: for authors of stores and layers.
pub mod for_stores {
    pub use crate::asked::Asked;
    pub use crate::ban_state::BanState;
    pub use crate::batched::Batch;
    pub use crate::bell::{Bell, Bells};
    pub use crate::board::{Post, Posted};
    pub use crate::book::{
        Book, Charged, ChargedState, HeldUnits, HoldRecord, MoreOfUnits, RecordContent,
    };
    pub use crate::decision::DecisionForStores;
    pub use crate::decision::{Share, Told, ToldOutcome};
    #[cfg(feature = "driver")]
    pub use crate::driver::Driver;
    pub use crate::kernel::Now;
    pub use crate::key::StoreKey;
    pub use crate::key_writer::{KEY_ESCAPE, KEY_RESERVED, KEY_SEPARATOR, KeyWriter};
    pub use crate::lease::{Carried, Lease, LeaseReport, Leasing, Pace, ReportedUnits};
    pub use crate::limit::Identity;
    pub use crate::line::{Line, Place, PlaceName};
    pub use crate::pause::{Pause, Pauses};
    pub use crate::receipt::{Change, PartReceipt};
    pub use crate::repeats::Repeats;
    pub use crate::settings::{
        Change as SettingChange, Changed, Keeping, Mark, NewSettings, News, Setting, Settings,
        Value as SettingValue,
    };
    pub use crate::step::decided::{Decided, step_decided};
    pub use crate::step::permits::{release_permits, take_permits};
    pub use crate::step::queue::called;
    pub use crate::step::settle::Found;
    pub use crate::step::{Step, admitted, growth, step, step_with_books};
    pub use crate::stored::Stored;
}
