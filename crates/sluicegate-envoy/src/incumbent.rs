//! Files, rules and verdicts of the service envoyproxy/ratelimit.
//!
//! [`Rules`] reads its YAML files with the same result: the same files are refused, and the same rules are made of the
//! others. A [`Request`] finds its limits by [`Rules::matches`]. The caller applies their
//! [charges](Matches::charges) to counters, one for each [`CounterKey`] and [`Window`]. [`Matches::verdict`] makes the
//! [`Answer`] of the counters' values.
//!
//! Nothing here does I/O, reads a clock or waits.
//!
//! ```
//! use std::collections::HashMap;
//!
//! use sluicegate_envoy::incumbent::{
//!     Charge, Code, Descriptor, LoadOptions, Reading, Request, Rules, Settings,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let file = "\
//! domain: edge
//! descriptors:
//!   - key: user
//!     rate_limit: {unit: minute, requests_per_unit: 2}
//! ";
//! let rules = Rules::load([("edge.yaml", file)], LoadOptions::default())?;
//! let settings = Settings::from_lookup(|_| None)?;
//! let alice = Descriptor { entries: vec![("user", "alice")], ..Descriptor::default() };
//! let request = Request { domain: "edge", descriptors: vec![alice], hits_addend: 0 };
//!
//! let now = 1_750_000_000_000_000;
//! let mut counters: HashMap<_, u64> = HashMap::new();
//! let mut codes = Vec::new();
//! for _ in 0..3 {
//!     let matches = rules.matches(&request, &settings);
//!     let charges = matches.charges(&request, &settings, &[]);
//!     let readings: Vec<_> = matches.descriptors.iter().zip(charges).map(|(found, charge)| {
//!         let limit = found.limited()?;
//!         let count = counters.entry((limit.counter.clone(), limit.unit.window(now).start)).or_default();
//!         if let Some(Charge::Add(hits)) = charge {
//!             *count += hits;
//!         }
//!         Some(Reading::After(*count))
//!     }).collect();
//!     codes.push(matches.verdict(&request, &settings, &readings, now).answer.code);
//! }
//! assert_eq!(codes, [Code::Ok, Code::Ok, Code::OverLimit]);
//! # Ok(()) }
//! ```
//!
//! # Differences on purpose
//!
//! - Hits with `is_negative_hits` are given back, at most down to 0, and answered OK. They count in no metric.
//! - A limit in a request must have a known unit: [`Override::new`] returns `None` for others.
//! - Hits from 2^63 on are over the limit.
//! - Different descriptors never share a counter.
//! - Metadata of a rule is kept in its answers with every kind of metric, and is merged for each answer alone.
//! - A limit without `requests_per_unit` denies all requests here too, with a [warning](Rules::warnings).
//! - The YAML parser follows YAML 1.2 in rare places. It accepts `\/` in double quotes, and a last line with only a tab.
//!   It refuses:
//!   - a comment without a space before it
//!   - a quoted text whose next line isn't indented
//!   - `\'` in double quotes
//!   - the line breaks U+0085, U+2028 and U+2029
//!   - text after a document in braces
//! - A file has at most 8 MiB, 1,000,000 values and 200 levels of lists and maps.
//! - A descriptor or domain may have an `x_sluicegate` block, unless [`LoadOptions::strict`] is set. The caller decides such
//!   a [`Native`] rule.

mod answer;
mod block;
mod charge;
mod config;
mod control_plane;
mod counter_key;
mod domain;
mod duration;
mod dynamic_metadata;
mod environment;
mod fields;
mod grpc_listener;
mod increments;
mod keys;
mod level;
mod loader;
mod matching;
mod metadata;
mod metadata_reader;
mod metric_key;
mod near_limit;
mod path;
mod pattern;
mod position;
mod problem;
mod redis;
mod request;
mod rule;
mod rules;
mod settings;
mod source;
mod unit;
mod verdict;
mod yaml;

pub use answer::{Answer, Code, CurrentLimit, Status};
pub use block::{Block, Tree, TreeValue};
pub use charge::{Charge, Look};
pub use config::{DescriptorConfig, DomainConfig, LimitConfig, ReplacedLimit};
pub use control_plane::{Backoff, ControlPlane, ControlPlaneTls};
pub use counter_key::CounterKey;
pub use environment::{Environment, RuleSource, RuntimeFiles};
pub use grpc_listener::{GrpcListener, GrpcTls};
pub use increments::Increments;
pub use matching::{Limited, Match, Matches, Native};
pub use metadata::{Metadata, MetadataValue};
pub use metric_key::MetricKey;
pub use near_limit::NearLimitRatio;
pub use position::Position;
pub use problem::{LoadErrors, Problem};
#[cfg(feature = "service")]
pub(crate) use problem::{Report, beginning, cut};
pub use redis::Redis;
pub use request::{Descriptor, Override, Request};
pub use rule::Rule;
pub use rules::{LoadOptions, Rules};
pub use settings::{HeaderNames, SettingErrors, Settings};
pub use unit::{Unit, Window};
pub use verdict::{Reading, Verdict};
