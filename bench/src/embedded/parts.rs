//! The parts that every exact answer needs, measured alone. They are the key's hash, and the bucket's
//! arithmetic with the complete answer from a state at hand. The rest of a decision is finding and
//! locking.

use std::hint::black_box;

use anyhow::{Result, bail};
use siphasher::sip128::SipHasher13;
use sluicegate_core::for_stores::DecisionForStores as _;
use sluicegate_core::kernel::bucket::{Bucket, State};
use sluicegate_core::kernel::{Charge, Kernel as _, Now, Rule, Verdict};
use sluicegate_core::{Decision, Limit};

use super::ROOMY;
use super::speed::segment;
use crate::measure::{Measured, digits, median};

/// Hashes all keys of a thread with a function.
pub type HashAll<'h> = dyn Fn(usize, &dyn Fn(&[u8])) + Sync + 'h;

/// The parts, and their duration in each round.
pub struct Parts {
    limit: Limit,
    bucket: Bucket,
    hashing: Vec<f64>,
    answering: Vec<f64>,
}

impl Parts {
    pub fn new() -> Result<Self> {
        let limit = Limit::new("bench", vec![ROOMY])?;
        let Rule::Bucket(bucket) = limit.members()[0].policy().rule() else {
            bail!("`{ROOMY}` is no bucket");
        };
        let bucket = *bucket;
        Ok(Self { limit, bucket, hashing: Vec::new(), answering: Vec::new() })
    }

    /// Measures one round. A thread checks `asked` keys.
    pub fn round(
        &mut self,
        threads: usize,
        asked: usize,
        now: u64,
        hash_all: &HashAll<'_>,
    ) -> Result<()> {
        let hasher = SipHasher13::new_with_keys(0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210);
        self.hashing.push(segment(threads, &|thread| {
            hash_all(thread, &|key| _ = black_box(hasher.hash(key)));
            asked
        })?);
        self.answering.push(segment(threads, &|_| self.answer(asked, now))?);
        Ok(())
    }

    /// Adds the medians of the parts to a measurement.
    pub fn add_to(mut self, measured: Measured) -> Measured {
        let (hashing, answering) = (median(&mut self.hashing), median(&mut self.answering));
        measured.part(format!("The keys' hash takes {} ns", digits(hashing))).part(format!(
            "The bucket's arithmetic and the whole answer, from a given state, take {} ns",
            digits(answering)
        ))
    }

    /// Returns the number of admitted requests.
    fn answer(&self, count: usize, mut now: u64) -> usize {
        let mut state = State { newest: now, deficit: 0, unit: self.bucket.unit() };
        let mut allowed = 0;
        for _ in 0..count {
            now += 1;
            let time = Now { micros: now, max_clock_back: None };
            let Ok((mut balance, _)) = self.bucket.balance(Some(black_box(state)), time) else {
                continue;
            };
            let verdict = self.bucket.judge(&balance, 1, None);
            if let Verdict::Pass { wait } = verdict
                && self
                    .bucket
                    .charge(&mut balance, Charge::Admitted { cost: 1, act_in: wait })
                    .is_ok()
            {
                state = self.bucket.kept(&balance);
            }
            let answer = Decision::of_one(&self.limit, &self.bucket, &balance, 1, verdict);
            allowed += usize::from(black_box(&answer).is_allowed());
        }
        allowed
    }
}
