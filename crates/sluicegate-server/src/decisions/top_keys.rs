//! The keys with the highest use of each limit, and those with the most denials.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use serde::Serialize;
use sluicegate::admin::{Answered, Configured, Observer};
use sluicegate::decision::Source;
use sluicegate::policy::LimitName;
use sluicegate::store::{Operation, Span};
use tokio::time::Instant;

use super::key_form::{KeyForm, WrittenKey};
use super::row::{Row, Seen};
use super::space_saving::{Estimate, SpaceSaving};

/// The keys with the highest use of a limit in the last 5 to 10 minutes, and those with the most denials.
///
/// It knows the limits of the configuration that were used in this time, up to a number. For each it has four sketches:
/// two lists, in two halves of time.
#[derive(Debug)]
pub(crate) struct TopKeys {
    started: Instant,
    limits: RwLock<Limits>,
    /// The second in which a limit found no place.
    full_at: AtomicU64,
}

#[derive(Debug, Default)]
struct Limits {
    /// The limits that may have lists: clients choose the names of others.
    known: HashSet<LimitName>,
    lists: HashMap<LimitName, Arc<Lists>>,
}

/// The heaviest keys of a limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct FewKeys {
    pub(crate) by_use: Vec<TopKey>,
    pub(crate) by_denials: Vec<TopKey>,
    /// All denials that the list counts.
    pub(crate) denials: u64,
    /// The time that the lists cover, up to now.
    pub(crate) covers: Duration,
}

/// The lists of one limit.
#[derive(Debug)]
struct Lists {
    /// The second of the last use.
    used: AtomicU64,
    halves: Mutex<Halves>,
}

/// The sketches of a limit in two spans of time.
#[derive(Debug)]
struct Halves {
    current: Half,
    previous: Option<Half>,
}

#[derive(Debug)]
struct Half {
    /// Its beginning, since the start of the service.
    began: Duration,
    by_use: SpaceSaving,
    by_denials: SpaceSaving,
}

/// The lists of a limit, for people and programs.
#[derive(Debug, Serialize)]
pub(crate) struct TopLists {
    /// By units taken.
    by_use: Vec<TopKey>,
    /// By requests denied.
    by_denials: Vec<TopKey>,
    /// The time that the lists cover, up to now.
    covers_ms: u64,
    covers_us: u64,
}

/// A key with its weight.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TopKey {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    /// The bytes of a key that isn't text, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key_bytes: Option<String>,
    /// Never too small.
    pub(crate) count: u64,
    /// The part of the count that may be of other keys.
    pub(crate) at_most_over: u64,
}

impl TopKeys {
    /// Number of keys that a sketch counts: each key with more than a 512th of the units is among them.
    const PLACES: usize = 512;
    /// Maximum number of limits with lists.
    const MOST_LIMITS: usize = 1_000;
    /// The time after which a new half begins.
    const HALF: Duration = Duration::from_secs(5 * 60);
    /// Number of seconds without use after which a limit may lose its place to another.
    const BUSY: u64 = 10;

    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            limits: RwLock::default(),
            // No second.
            full_at: AtomicU64::new(u64::MAX),
        }
    }

    /// Lets a limit have lists, although no configuration has it.
    #[cfg(feature = "resp")]
    pub(crate) fn know(&self, limit: &LimitName) {
        let mut limits = self.limits.write().unwrap_or_else(PoisonError::into_inner);
        limits.known.insert(limit.clone());
    }

    /// Returns the first `count` keys of a limit's lists.
    pub(crate) fn lists(&self, limit: &str, count: usize) -> TopLists {
        let Some(lists) = self.of(limit) else {
            return TopLists {
                by_use: Vec::new(),
                by_denials: Vec::new(),
                covers_ms: 0,
                covers_us: 0,
            };
        };
        let now = self.started.elapsed();
        let mut halves = lists.halves.lock().unwrap_or_else(PoisonError::into_inner);
        halves.turn(now);
        let began = halves.began();
        let covers = Span::from(now.saturating_sub(began));
        TopLists {
            by_use: halves.top(count, |half| &half.by_use),
            by_denials: halves.top(count, |half| &half.by_denials),
            covers_ms: covers.as_millis_ceil(),
            covers_us: covers.as_micros(),
        }
    }

    /// Returns the first `count` keys of a limit's lists, with little work. A key that is heavy only in both halves
    /// together may be missing.
    pub(crate) fn few(&self, limit: &str, count: usize) -> FewKeys {
        let Some(lists) = self.of(limit) else { return FewKeys::default() };
        let now = self.started.elapsed();
        let mut halves = lists.halves.lock().unwrap_or_else(PoisonError::into_inner);
        halves.turn(now);
        let began = halves.began();
        let denials = [Some(&halves.current), halves.previous.as_ref()];
        let denials = denials.into_iter().flatten().flat_map(|half| half.by_denials.iter());
        FewKeys {
            by_use: halves.few(count, |half| &half.by_use),
            by_denials: halves.few(count, |half| &half.by_denials),
            denials: denials.map(|(_, it)| it.count).fold(0, u64::saturating_add),
            covers: now.saturating_sub(began),
        }
    }

    /// Returns `true` if a limit has found no place in the last 10 s.
    pub(crate) fn is_full(&self) -> bool {
        let full_at = self.full_at.load(Ordering::Relaxed);
        full_at != u64::MAX && full_at + Self::BUSY >= self.started.elapsed().as_secs()
    }

    /// Removes the lists of idle limits, again and again.
    pub(crate) async fn sweep(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(Duration::from_secs(60));
        loop {
            ticks.tick().await;
            let now = self.started.elapsed().as_secs();
            let is_idle = |lists: &Lists| {
                now.saturating_sub(lists.used.load(Ordering::Relaxed)) > 2 * Self::HALF.as_secs()
            };
            let mut limits = self.limits.write().unwrap_or_else(PoisonError::into_inner);
            limits.lists.retain(|_, lists| !is_idle(lists));
        }
    }

    fn count(&self, row: &Row<'_>, now: Duration) {
        // A repeat was charged before.
        if row.seen.decision.is_repeat() {
            return;
        }
        let is_used = row.seen.decision.is_allowed();
        let units = if is_used { row.units() } else { u64::from(row.is_refused()) };
        if units == 0 {
            return;
        }
        let known = self.of(row.limit.as_str());
        let Some(lists) = known.or_else(|| self.add(row.limit, now)) else { return };
        lists.used.store(now.as_secs(), Ordering::Relaxed);
        let long;
        let key = if row.key.len() > KeyForm::MOST_WHOLE {
            long = KeyForm::Plain.write(row.key);
            long.as_str().as_bytes()
        } else {
            row.key
        };
        let mut halves = lists.halves.lock().unwrap_or_else(PoisonError::into_inner);
        halves.turn(now);
        let Half { by_use, by_denials, .. } = &mut halves.current;
        if is_used { by_use.add(key, units) } else { by_denials.add(key, units) }
    }

    /// Returns the lists of a limit, if it has any.
    fn of(&self, limit: &str) -> Option<Arc<Lists>> {
        let limits = self.limits.read().unwrap_or_else(PoisonError::into_inner);
        limits.lists.get(limit).cloned()
    }

    /// Returns new lists for a limit, if it may have any and there is a free place.
    #[cold]
    fn add(&self, limit: &LimitName, now: Duration) -> Option<Arc<Lists>> {
        let second = now.as_secs();
        // Many busy limits would search for a place with each decision.
        if self.full_at.load(Ordering::Relaxed) == second {
            return None;
        }
        let mut limits = self.limits.write().unwrap_or_else(PoisonError::into_inner);
        let Limits { known, lists } = &mut *limits;
        if !known.contains(limit) {
            return None;
        }
        if lists.len() >= Self::MOST_LIMITS && !lists.contains_key(limit) {
            let used = |lists: &Lists| lists.used.load(Ordering::Relaxed);
            let idlest = lists.iter().min_by_key(|(_, lists)| used(lists));
            let idlest = idlest.filter(|(_, lists)| used(lists) + Self::BUSY < second);
            let Some(name) = idlest.map(|(name, _)| name.clone()) else {
                self.full_at.store(second, Ordering::Relaxed);
                return None;
            };
            lists.remove(&name);
        }
        let new = || {
            Arc::new(Lists { used: AtomicU64::new(second), halves: Mutex::new(Halves::new(now)) })
        };
        Some(Arc::clone(lists.entry(limit.clone()).or_insert_with(new)))
    }
}

impl Halves {
    fn new(now: Duration) -> Self {
        Self { current: Half::new(now), previous: None }
    }

    /// Begins a new half, if the current one is long enough.
    fn turn(&mut self, now: Duration) {
        let age = now.saturating_sub(self.current.began);
        if age < TopKeys::HALF {
            return;
        }
        let is_recent = age < 2 * TopKeys::HALF;
        let current = std::mem::replace(&mut self.current, Half::new(now));
        self.previous = is_recent.then_some(current);
    }

    /// Returns the beginning of the time that both cover.
    fn began(&self) -> Duration {
        self.previous.as_ref().unwrap_or(&self.current).began
    }

    /// Returns the heaviest keys of both halves together.
    fn top(&self, count: usize, of: impl Fn(&Half) -> &SpaceSaving) -> Vec<TopKey> {
        let sketches = self.sketches(of);
        let keys = sketches.iter().flat_map(|sketch| sketch.iter()).map(|(key, _)| key);
        let keys: HashSet<&[u8]> = keys.collect();
        heaviest(keys, &sketches, count)
    }

    /// Returns the heaviest keys of both halves together, among those that are the heaviest of one.
    fn few(&self, count: usize, of: impl Fn(&Half) -> &SpaceSaving) -> Vec<TopKey> {
        let sketches = self.sketches(of);
        let mut keys: HashSet<&[u8]> = HashSet::with_capacity(2 * count);
        for sketch in &sketches {
            let mut own: Vec<(&[u8], u64)> = Vec::with_capacity(count + 1);
            for (key, Estimate { count: units, .. }) in sketch.iter() {
                if own.len() >= count && own.last().is_some_and(|last| last.1 >= units) {
                    continue;
                }
                own.insert(own.partition_point(|known| known.1 >= units), (key, units));
                own.truncate(count);
            }
            keys.extend(own.into_iter().map(|(key, _)| key));
        }
        heaviest(keys, &sketches, count)
    }

    fn sketches(&self, of: impl Fn(&Half) -> &SpaceSaving) -> Vec<&SpaceSaving> {
        [Some(&self.current), self.previous.as_ref()].into_iter().flatten().map(of).collect()
    }
}

/// Returns the heaviest of some keys, by all sketches together.
fn heaviest(keys: HashSet<&[u8]>, sketches: &[&SpaceSaving], count: usize) -> Vec<TopKey> {
    let both = |key| {
        sketches.iter().fold(Estimate::default(), |sum, sketch| {
            let Estimate { count, at_most_over } = sketch.estimate(key);
            Estimate {
                count: sum.count.saturating_add(count),
                at_most_over: sum.at_most_over.saturating_add(at_most_over),
            }
        })
    };
    let mut keys: Vec<_> = keys.into_iter().map(|key| (key, both(key))).collect();
    // If keys are equally heavy, the better known ones come first; the order is always the same.
    keys.sort_unstable_by_key(|(key, it)| (u64::MAX - it.count, it.at_most_over, *key));
    keys.into_iter().take(count).map(|(key, estimate)| TopKey::new(key, estimate)).collect()
}

impl Half {
    fn new(began: Duration) -> Self {
        let [by_use, by_denials] = [(); 2].map(|()| SpaceSaving::new(TopKeys::PLACES));
        Self { began, by_use, by_denials }
    }
}

impl TopKey {
    fn new(key: &[u8], Estimate { count, at_most_over }: Estimate) -> Self {
        let (key, key_bytes) = match KeyForm::Plain.write(key) {
            WrittenKey::Text(text) => (Some(text.into_owned()), None),
            WrittenKey::Bytes(digits) => (None, Some(digits)),
        };
        Self { key, key_bytes, count, at_most_over }
    }
}

impl Observer for TopKeys {
    fn answered(&self, answered: &Answered<'_>) {
        let counts = |seen: &Seen<'_>| seen.is_admission() || seen.operation == Operation::Charge;
        let Some(seen) = Seen::of(answered).filter(counts) else { return };
        let now = Instant::from_std(answered.at).saturating_duration_since(self.started);
        for row in seen.rows() {
            // An allowed key that no policy counts takes nothing.
            if seen.decision.is_denied() || row.source() != Source::Bypass {
                self.count(&row, now);
            }
        }
    }

    fn configured(&self, configured: &Configured<'_>) {
        let mut limits = self.limits.write().unwrap_or_else(PoisonError::into_inner);
        for config in configured.before {
            limits.known.remove(config.limit.name());
        }
        limits.known.extend(configured.limits.iter().map(|config| config.limit.name().clone()));
        let Limits { known, lists } = &mut *limits;
        lists.retain(|name, _| known.contains(name));
    }
}

#[cfg(test)]
mod tests {
    use sluicegate::{Ask, MemoryStore, Registry};

    use super::*;

    fn registry(top: &Arc<TopKeys>, limits: &[(&str, &str)]) -> Registry {
        let builder = Registry::builder(MemoryStore::new()).observer(top.clone());
        let limit =
            |(name, policy): &(&str, &str)| sluicegate::Limit::new(*name, [*policy]).unwrap();
        limits.iter().map(limit).fold(builder, sluicegate::config::RegistryBuilder::limit).build()
    }

    fn shown(list: &[TopKey]) -> Vec<(&str, u64)> {
        list.iter().map(|it| (it.key.as_deref().unwrap_or("?"), it.count)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_lists_are_of_the_last_minutes() {
        let top = Arc::new(TopKeys::new());
        let registry = registry(&top, &[("l", "fixed_window 10/d"), ("idle", "gcra 1/s")]);
        let check = |key: &'static str, cost| {
            let decision = registry.gate("l").check(Ask::new(key).cost(cost)).now().unwrap();
            decision.is_allowed()
        };
        assert!(check("a", 4) && check("b", 6) && !check("a", 9) && !check("a", 9));
        let lists = top.lists("l", 50);
        assert_eq!(shown(&lists.by_use), [("b", 6), ("a", 4)]);
        assert_eq!(shown(&lists.by_denials), [("a", 2)]);
        tokio::time::advance(TopKeys::HALF).await;
        assert!(check("a", 3));
        let lists = top.lists("l", 1);
        assert_eq!((shown(&lists.by_use), lists.covers_ms), (vec![("a", 7)], 300_000));
        tokio::time::advance(TopKeys::HALF).await;
        let lists = top.lists("l", 50);
        assert_eq!((shown(&lists.by_use), shown(&lists.by_denials)), (vec![("a", 3)], vec![]));
        assert_eq!(
            (top.lists("idle", 9).covers_ms, top.limits.read().unwrap().lists.len()),
            (0, 1)
        );
        let sweeping = tokio::spawn(Arc::clone(&top).sweep());
        tokio::time::sleep(3 * TopKeys::HALF).await;
        assert!(top.limits.read().unwrap().lists.is_empty());
        sweeping.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_limits_is_bounded_and_busy_ones_stay() {
        let top = Arc::new(TopKeys::new());
        let names: Vec<_> = (0..=TopKeys::MOST_LIMITS).map(|number| format!("l{number}")).collect();
        let limits: Vec<_> = names.iter().map(|name| (name.as_str(), "gcra 9/s burst 9")).collect();
        let registry = registry(&top, &limits);
        let has = |name: &str| top.limits.read().unwrap().lists.contains_key(name);
        let check = |name: &str| registry.gate(name).check("a").now().map(drop).unwrap();
        names.iter().for_each(|name| check(name));
        assert!(has("l0") && !has("l1000"), "all others are busy");
        tokio::time::advance(Duration::from_secs(60)).await;
        check("l0");
        check("l1000");
        assert!(has("l0") && has("l1000"));
        assert_eq!(top.limits.read().unwrap().lists.len(), TopKeys::MOST_LIMITS);
    }

    /// Draws from a Zipf distribution of exponent 1 over a million keys, exactly enough: the `k`-th key has a share of
    /// about 1/(14.4 k).
    #[test]
    fn of_zipf_traffic_the_first_twenty_are_among_the_first_fifty() {
        const KEYS: usize = 1_000_000;
        let mut sums = Vec::with_capacity(KEYS);
        let mut whole = 0_u64;
        for rank in 1..=KEYS {
            whole += 1_000_000_000 / u64::try_from(rank).unwrap();
            sums.push(whole);
        }
        let mut random = fastrand::Rng::with_seed(7);
        let mut halves = Halves::new(Duration::ZERO);
        for number in 0..600_000 {
            let drawn = random.u64(..whole);
            let rank = sums.partition_point(|sum| *sum <= drawn);
            if number == 300_000 {
                halves.turn(TopKeys::HALF);
            }
            // Keys of a common length, in no order of their ranks.
            halves.current.by_use.add(format!("tenant-{rank:07}").as_bytes(), 1);
        }
        let listed = halves.top(50, |half| &half.by_use);
        let listed: HashSet<_> = listed.iter().map(|it| it.key.clone().unwrap()).collect();
        for rank in 0..20 {
            assert!(listed.contains(&format!("tenant-{rank:07}")), "the key of rank {rank}");
        }
    }

    /// The worst case for one limit: as many keys as there are places in each sketch, all as long as they may be.
    #[test]
    fn a_busy_limit_takes_less_than_a_megabyte() {
        let mut halves = Halves::new(Duration::ZERO);
        let measured = allocation_counter::measure(|| {
            for half in 0..2_u32 {
                if half == 1 {
                    halves.turn(TopKeys::HALF);
                }
                for number in 0..2_000_u32 {
                    let key = format!("{number:0>256}");
                    halves.current.by_use.add(key.as_bytes(), 1);
                    halves.current.by_denials.add(key.as_bytes(), 1);
                }
            }
        });
        assert!((1..1_000_000).contains(&measured.bytes_current), "{measured:?}");
    }
}
