//! The fleet: all processes of the service that share a store.
//!
//! Each process puts an entry about itself on a board of the store, and puts it again every 2 s. An entry disappears 10 s
//! after its process put it for the last time. Entries have ages instead of times, because the clock of another machine
//! may be wrong.

mod collector;
mod entry;
mod rate;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sluicegate::config::Watch;
use sluicegate::store::{
    Measure, OpenOptions, OpenedLimit as _, Post, SharedLimit, Span, Store as _,
};
use sluicegate::{Config, Registry};
use tokio::time::{Instant, MissedTickBehavior};

pub(crate) use collector::FleetCollector;
use entry::Refused;
pub(crate) use entry::{Entry, UsedShare, differing_for_ms};
pub(crate) use rate::Rate;

/// The name of the limit whose board has the entries. No request can name it, because it isn't in the registry.
const LIMIT: &str = "sluicegate:fleet";
/// The key of the board.
const KEY: &[u8] = b"all";

/// This process as a part of its fleet.
pub(crate) struct Fleet {
    name: String,
    /// Tells processes of one name apart, as in containers that share the name of their machine.
    id: String,
    registry: Registry,
    watch: Option<Arc<Watch>>,
    board: Option<SharedLimit>,
    rate: Arc<Rate>,
    started: Instant,
    seen: Mutex<Seen>,
}

/// The latest observations.
struct Seen {
    /// The configuration in force here, and the moment from which it is.
    config: (Option<u64>, Instant),
    /// The number of rejected configurations, and the moment of the last one.
    refused: (u64, Instant),
    /// The entries of all processes, and the moment at which they were read.
    entries: (Vec<Entry>, Instant),
    /// The highest shares of capacity that keys use in this process.
    used: Vec<UsedShare>,
}

impl Fleet {
    /// Pause between two entries of a process.
    const PAUSE: Duration = Duration::from_secs(2);
    /// Lifetime of an entry.
    const LASTS: Duration = Duration::from_secs(10);

    /// Makes this process a part of the fleet of its store. Others see it once it [takes part](Self::take_part).
    pub(crate) fn new(
        name: Option<String>,
        registry: &Registry,
        watch: Option<Arc<Watch>>,
        rate: Arc<Rate>,
    ) -> Self {
        let now = Instant::now();
        let limit = sluicegate::Limit::new(LIMIT, ["gcra 1/s"]).ok();
        let board = limit.map(|limit| registry.store().open(limit, OpenOptions::default()));
        let seen = Seen {
            config: (registry.config_digest(), now),
            refused: (0, now),
            entries: (Vec::new(), now),
            used: Vec::new(),
        };
        Self {
            name: name.unwrap_or_else(own_name),
            id: format!("{:016x}", fastrand::u64(..)),
            registry: registry.clone(),
            watch,
            board,
            rate,
            started: now,
            seen: Mutex::new(seen),
        }
    }

    /// Puts the entry of this process again and again, and notes those of the others.
    pub(crate) async fn take_part(&self) {
        let mut ticks = tokio::time::interval(Self::PAUSE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.meet(Self::LASTS).await;
        }
    }

    /// Removes the entry of this process.
    pub(crate) async fn leave(&self) {
        self.meet(Duration::from_millis(1)).await;
    }

    /// Returns the id of this process.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Returns the entries of all processes as they are now, this one among them, in the order of their names.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let mut entries = self.others();
        entries.push(self.own());
        entries.sort_by(|one, other| (&one.name, &one.id).cmp(&(&other.name, &other.id)));
        entries
    }

    /// Returns the entries of the other processes as they are now. They end with the last answer of the store.
    pub(crate) fn others(&self) -> Vec<Entry> {
        let seen = self.seen();
        let (entries, at) = &seen.entries;
        let passed = at.elapsed();
        let are_live = passed <= Self::LASTS;
        let others = entries.iter().filter(|entry| are_live && entry.id != self.id);
        others.map(|entry| entry.clone().older_by(passed)).collect()
    }

    /// Tells the others which shares of capacity keys use in this process.
    pub(crate) fn tell_used(&self, used: Vec<UsedShare>) {
        self.seen().used = used;
    }

    async fn meet(&self, lasts: Duration) {
        let Some(board) = &self.board else { return };
        let Ok(value) = serde_json::to_vec(&self.own()) else { return };
        let post = Post { name: self.id.as_bytes(), value: &value, lasts: Span::from(lasts) };
        // Readiness reports a failure of the store. The known entries stay for a while.
        let Ok(posts) = board.exchange(KEY, Some(post)).await else { return };
        let entries = posts.iter().filter_map(|post| serde_json::from_slice(&post.value).ok());
        self.seen().entries = (entries.collect(), Instant::now());
    }

    /// Returns the entry of this process.
    fn own(&self) -> Entry {
        let now = Instant::now();
        let status = self.watch.as_ref().map(|watch| watch.status()).unwrap_or_default();
        let (config_since, refused_at, used) = {
            let mut seen = self.seen();
            let config = self.registry.config_digest();
            if seen.config.0 != config {
                seen.config = (config, now);
            }
            if seen.refused.0 != status.failed {
                seen.refused = (status.failed, now);
            }
            (seen.config.1, seen.refused.1, seen.used.clone())
        };
        let age = |at: Instant| u64::try_from((now - at).as_millis()).unwrap_or(u64::MAX);
        Entry {
            id: self.id.clone(),
            name: self.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            config: config_digest(&self.registry),
            config_age_ms: age(config_since),
            uptime_ms: age(self.started),
            decisions_per_s: self.rate.per_second(now),
            leased_units: leased_units(&self.registry),
            refused: status.last_error.map(|error| Refused {
                message: Config::without_passwords(&error.to_string())
                    .chars()
                    .take(Refused::MOST)
                    .collect(),
                age_ms: age(refused_at),
            }),
            used,
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the digest of the configuration as answers show it; `None` without a file.
pub(crate) fn config_digest(registry: &Registry) -> Option<String> {
    registry.config_digest().map(|digest| format!("{digest:016x}"))
}

/// Returns the units that the store has granted ahead, and that aren't spent.
pub(crate) fn leased_units(registry: &Registry) -> u64 {
    let measures = registry.store().measures();
    let of = |name: &str| {
        let named = measures.iter().filter(|measure| measure.name() == name);
        named.map(Measure::value).sum::<u64>()
    };
    let gone = ["lease_units_spent", "lease_units_returned", "lease_units_expired"].map(of);
    of("lease_units_granted").saturating_sub(gone.iter().sum())
}

/// Returns a name that no other process of the fleet has: that of the machine, and the number of the process.
fn own_name() -> String {
    let uname = rustix::system::uname();
    let host: String = uname.nodename().to_string_lossy().chars().take(100).collect();
    format!("{host}:{}", std::process::id())
}
