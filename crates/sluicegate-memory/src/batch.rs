//! Decisions on many requests, with one clock reading for each group. A clock reading takes as long
//! as a decision.
//!
//! A decision on one of a million keys mostly waits for the memory of the key's state. A group of
//! requests first locks its shards and reads all of its slots, and only then decides. So the
//! processor fetches the slots at the same time. With single decisions it can't, because it doesn't
//! prefetch past their locks.

use std::hint::black_box;

use smallvec::SmallVec;

use sluicegate_core::{Decision, Error, Request};

use crate::cell::BucketCell;
use crate::fast::{self, Judged, Rare};
use crate::fingerprint::Fingerprint;
use crate::lock::Guard;
use crate::opened::{MemoryLimit, straight_cost};
use crate::opened_policy::OpenedPolicy;
use crate::registry::Full;
use crate::shard::Shard;
use crate::shards::Range;
use crate::table::Table;

/// Maximum number of requests decided under one set of locks. A processor handles that many cache
/// misses in parallel, and other threads don't wait long.
const GROUP: usize = 16;

impl MemoryLimit {
    /// Answers many requests in their order. Up to 16 checks of a plain bucket share one reading of
    /// the clock.
    ///
    /// `answer` is called with the index of each request and its answer, after up to 15 further
    /// requests were taken from the iterator. Each request is decided on its own, so decisions of
    /// other threads may come in between.
    ///
    /// ```
    /// use sluicegate_core::{Decision, Limit, OpenOptions, Request, Store};
    /// use sluicegate_memory::MemoryStore;
    ///
    /// let limit = Limit::new("api", vec!["gcra 1/s"])?;
    /// let api = MemoryStore::new().open(limit, OpenOptions::default());
    /// let mut allowed = Vec::new();
    /// let requests = ["a", "b", "a"].map(|key| Request::check(key.as_bytes()));
    /// api.decide_many(requests, |_, answer| {
    ///     allowed.push(answer.is_ok_and(Decision::is_allowed));
    /// });
    /// assert_eq!(allowed, [true, true, false]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn decide_many<'k>(
        &self,
        requests: impl IntoIterator<Item = Request<'k>>,
        mut answer: impl FnMut(usize, Result<&Decision, &Error>),
    ) {
        let mut requests = requests.into_iter();
        let mut index = 0;
        let mut tell = |result: Result<&Decision, &Error>| {
            answer(index, result);
            index += 1;
        };
        let Some(policy) = self.straight_bucket() else {
            requests.for_each(|request| tell(self.decide(request).as_ref()));
            return;
        };
        // Reuse these buffers for each group: moving them takes as long as a decision.
        let mut group: SmallVec<[Asked<'k>; GROUP]> = SmallVec::new();
        let mut locks = Locks::default();
        let mut judged = SmallVec::new();
        loop {
            group.clear();
            for request in requests.by_ref().take(GROUP) {
                let fingerprint = self.store().fingerprint(request.key());
                group.push(Asked { request, fingerprint });
            }
            if group.is_empty() {
                return;
            }
            let mut rest = &*group;
            while let Some((first, others)) = rest.split_first() {
                judged.clear();
                self.judge_together(policy, rest, &mut locks, &mut judged);
                locks.clear();
                for judged in &judged {
                    tell(Ok(&judged.decision(self.limit(), &policy.rule)));
                }
                rest = if judged.is_empty() {
                    tell(self.decide(first.request).as_ref());
                    others
                } else {
                    &rest[judged.len()..]
                };
            }
        }
    }

    /// Decides the first requests of the group, as many as are possible under locks held together.
    /// Waits only for the first lock.
    fn judge_together<'t>(
        &self,
        policy: &'t OpenedPolicy<BucketCell>,
        group: &[Asked<'_>],
        locks: &mut Locks<'t>,
        judged: &mut SmallVec<[Judged; GROUP]>,
    ) {
        let mut ready = 0;
        for Asked { request, fingerprint } in group {
            let is_ready =
                straight_cost(request, policy).is_some() && locks.take(policy, *fingerprint);
            if !is_ready {
                break;
            }
            ready += 1;
        }
        let group = &group[..ready];
        let seen = group
            .iter()
            .enumerate()
            .fold(0, |seen, (index, asked)| seen ^ locks.shard(index).glance(asked.fingerprint));
        black_box(seen);
        let now = self.now(None);
        if self.may_be_paused(now) {
            return;
        }
        for (index, Asked { request, fingerprint }) in group.iter().enumerate() {
            let Some(cost) = straight_cost(request, policy) else {
                return;
            };
            let keep_first = |shard: &mut Shard<BucketCell>, cell| {
                // Evicting a key would search other shards, which may be among the locked ones.
                if self.registry().budget().try_take(Table::<BucketCell>::FIRST_LOAD).is_err() {
                    return Err(Full { retry: None, may_wait: true });
                }
                policy.table.insert(shard, *fingerprint, cell, now.micros);
                Ok(())
            };
            match fast::judge(policy, locks.shard(index), *fingerprint, cost, now, keep_first) {
                Ok(answer) => judged.push(answer),
                Err(Rare::State | Rare::Overflow(_) | Rare::Full(..)) => return,
            }
        }
    }
}

/// A request with its key hashed.
struct Asked<'k> {
    request: Request<'k>,
    fingerprint: Fingerprint,
}

/// The shards that a group has locked.
#[derive(Default)]
struct Locks<'t> {
    /// Each shard once, with its range.
    held: SmallVec<[(Range, Guard<'t, Shard<BucketCell>>); GROUP]>,
    /// The index in `held` for each request.
    own: SmallVec<[u8; GROUP]>,
}

impl<'t> Locks<'t> {
    /// Locks the shard of the next request, unless it is locked already. A thread that holds locks
    /// never waits for another lock, whose holder may wait for these.
    #[inline]
    fn take(&mut self, policy: &'t OpenedPolicy<BucketCell>, fingerprint: Fingerprint) -> bool {
        let shards = policy.table.shards();
        let locked = if self.held.is_empty() {
            Some(shards.lock_with_range(fingerprint.low))
        } else {
            shards.try_lock(fingerprint.low)
        };
        // Most locks are free. One that is taken may be held by this group.
        let index = match locked {
            Some((guard, range)) => {
                self.held.push((range, guard));
                Some(self.held.len() - 1)
            }
            None => self.held.iter().position(|(held, _)| held.has(fingerprint)),
        };
        #[expect(clippy::cast_possible_truncation, reason = "below the size of a group")]
        self.own.extend(index.map(|index| index as u8));
        index.is_some()
    }

    #[inline]
    fn shard(&mut self, request: usize) -> &mut Shard<BucketCell> {
        &mut self.held[usize::from(self.own[request])].1
    }

    fn clear(&mut self) {
        self.held.clear();
        self.own.clear();
    }
}
