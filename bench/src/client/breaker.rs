//! The duration of a decision while a breaker is open.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use sluicegate::layers::Breaker;
use sluicegate_core::{
    Error, Limit, ManualClock, OpenOptions, OpenedLimit, Request, Store, StoreErrorKind,
};
use sluicegate_redis::RedisStore;

use super::INEXHAUSTIBLE;
use crate::measure::{Effort, Measured, median};

/// An address without a server.
const NOWHERE: &str = "redis://127.0.0.1:1";

/// Measures the median duration of a decision while a breaker is open.
pub(super) fn refusals(effort: Effort) -> Result<Measured> {
    let store = RedisStore::builder(NOWHERE)?.deadline(Duration::from_secs(5)).build();
    // The clock stands still, so that the breaker never probes.
    let breaker = Breaker::builder(store).clock(Arc::new(ManualClock::default())).build();
    let limit = Limit::new("demo", vec![INEXHAUSTIBLE])?;
    let opened = breaker.open(limit, OpenOptions::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut micros = Vec::new();
    runtime.block_on(async {
        for _ in 0..10 {
            let failed = opened.ask(Request::check(b"alice")).wait().await;
            ensure!(failed.is_err(), "somebody listens at {NOWHERE}");
        }
        while micros.len() < effort.count(400_000) {
            let key = super::name(7);
            let start = Instant::now();
            let answer = opened.ask(Request::check(key.as_bytes())).now();
            let took = start.elapsed();
            let is_refusal = matches!(
                &answer,
                Some(Err(Error::Store(error))) if error.kind() == StoreErrorKind::Unavailable
            );
            ensure!(is_refusal, "the breaker is not open: {answer:?}");
            micros.push(took.as_nanos() as f64 / 1e3);
        }
        Ok(())
    })?;
    let tail = {
        let mut sorted = micros.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() * 99 / 100]
    };
    let note = format!("Includes reading a clock. 99 of 100 take at most {tail:.2} µs");
    Ok(Measured::new(median(&mut micros), note))
}
