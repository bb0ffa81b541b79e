//! What of the response fields is the same for every answer of a limit.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use arc_swap::ArcSwap;
use sluicegate_core::{Clock as _, Costs, Decision, Limit, Timestamp};
use sluicegate_http::{FieldFormat, LimitFields, Partition, ReadyFields};
use sluicegate_memory::SystemClock;

/// The response fields of the limits that answered lately: for whoever answers over HTTP and
/// holds gates, whose limits come and go with the configuration.
///
/// A configuration that is replaced brings new limits, and so do keys with other numbers, so only
/// so many are kept. The table is copied to be changed: whoever reads it waits for nobody.
#[derive(Debug, Default)]
pub struct FieldCache(ArcSwap<Table>);

/// By the address of the limit, which stays its own as long as the limit is held here.
type Table = HashMap<(usize, FieldFormat), (Arc<Limit>, LimitFields), AddressHashes>;

/// Hashes of addresses, which no client chooses.
type AddressHashes = BuildHasherDefault<AddressHasher>;

#[derive(Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u64(&mut self, number: u64) {
        // Multiplying by an odd number without a pattern spreads what differs to the high bits.
        self.0 = (self.0.rotate_left(26) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number.unsigned_abs() as u64);
    }
}

impl FieldCache {
    /// The most limits that are kept. Beyond them the table begins anew.
    const MOST: usize = 256;

    /// The fields that tell of a limit's decision in a format. Of what not every format tells,
    /// both are asked only where it is needed: `partitions` what divides the quota
    /// ([`LimitFields::with_partitions`]), which has to be the same each time, and `costs` what was
    /// asked of each policy, `None` for their own.
    pub fn ready<C: AsRef<[u64]>>(
        &self,
        limit: &Arc<Limit>,
        decision: &Decision,
        format: FieldFormat,
        partitions: impl FnOnce() -> Vec<Partition>,
        costs: impl FnOnce() -> Option<C>,
    ) -> ReadyFields {
        self.with(limit, format, partitions, |fields| {
            let fields = fields.of(decision);
            match format {
                FieldFormat::DraftNext => match costs() {
                    Some(costs) => fields.costs(Costs::Each(costs.as_ref())).ready(),
                    None => fields.ready(),
                },
                FieldFormat::XRateLimitUnix => fields.at(wall_time()).ready(),
                _ => fields.ready(),
            }
        })
    }

    /// What `read` reads from the fields of a limit.
    fn with(
        &self,
        limit: &Arc<Limit>,
        format: FieldFormat,
        partitions: impl FnOnce() -> Vec<Partition>,
        read: impl FnOnce(&LimitFields) -> ReadyFields,
    ) -> ReadyFields {
        let key = (Arc::as_ptr(limit).addr(), format);
        if let Some((_, fields)) = self.0.load().get(&key) {
            return read(fields);
        }
        let fields = LimitFields::new(limit, format).with_partitions(&partitions());
        self.0.rcu(|known| {
            let mut table: Table = known
                .iter()
                // The others are of configurations that are no more.
                .filter(|(_, (limit, _))| known.len() < Self::MOST && Arc::strong_count(limit) > 1)
                .map(|(key, entry)| (*key, entry.clone()))
                .collect();
            table.insert(key, (Arc::clone(limit), fields.clone()));
            table
        });
        read(&fields)
    }
}

/// The time by which clients go: stores may have another one.
pub(crate) fn wall_time() -> Timestamp {
    SystemClock::new().now()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(number: usize) -> Arc<Limit> {
        Arc::new(crate::limit("l", [format!("gcra {}/s", number + 1)]).unwrap())
    }

    #[test]
    fn a_limit_that_is_gone_is_dropped_and_many_are_not_kept() {
        let cache = FieldCache::default();
        let ask = |limit: &Arc<Limit>| {
            let fields = cache.with(limit, FieldFormat::None, Vec::new, |_| ReadyFields::default());
            assert!(fields.is_empty());
        };
        for number in 0..1_000 {
            ask(&limit(number));
        }
        // Of those that are gone the last is not noticed yet.
        assert!(cache.0.load().len() <= 2, "{}", cache.0.load().len());
        let held: Vec<_> = (0..1_000).map(limit).collect();
        for limit in &held {
            ask(limit);
            assert!(cache.0.load().len() <= FieldCache::MOST);
        }
        assert!(cache.0.load().len() > 200);
    }

    #[test]
    fn fields_are_made_once_for_a_limit_and_a_format() {
        let cache = FieldCache::default();
        let limits = [limit(0), limit(1)];
        let mut made = 0;
        for _ in 0..3 {
            for (limit, format) in limits
                .iter()
                .zip([FieldFormat::Draft11; 2])
                .chain([(&limits[0], FieldFormat::None)])
            {
                let count = || {
                    made += 1;
                    Vec::new()
                };
                let _ = cache.with(limit, format, count, |fields| {
                    assert_eq!(fields.format(), format);
                    ReadyFields::default()
                });
            }
        }
        assert_eq!(made, 3);
    }
}
