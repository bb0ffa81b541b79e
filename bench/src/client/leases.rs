//! Leases of one hot key.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use sluicegate::layers::{LeaseOptions, Leases};
use sluicegate_core::{Limit, OpenOptions, OpenedLimit, Request, Source, Store};
use sluicegate_redis::RedisStore;
use sluicegate_testkit::servers::Server;
use tokio::task::JoinSet;

use super::{INEXHAUSTIBLE, Ours, PAIRS, compare_two};
use crate::measure::{Effort, Measured, median};

/// The leases of the goals.
const LEASES: LeaseOptions = LeaseOptions { most: 100, lasts: Duration::from_secs(1) };

/// Compares decisions with leases with those of the same store without leases.
pub(super) fn compare(effort: Effort, server: &Server) -> Result<Measured> {
    let store = store(server)?;
    let leases = Leases::builder(store.clone()).by_default(Some(LEASES)).build();
    let leased = Ours::of(&leases, INEXHAUSTIBLE)?;
    let plain = Ours::of(&store, INEXHAUSTIBLE)?;
    let measured = compare_two(effort.count(PAIRS), server, 16, 1, &leased, &plain)?.rate;
    let stats = leases.lease_stats();
    let per_call = stats.decided as f64 / stats.asked as f64;
    let wasted = 100.0 * (stats.granted - stats.spent) as f64 / stats.granted as f64;
    Ok(measured
        .noting(format!("{per_call:.0} decisions per call, {wasted:.2} % of the units unspent")))
}

/// Measures the median duration of the decisions that need no call.
pub(super) fn local_decisions(effort: Effort, server: &Server) -> Result<Measured> {
    let leases = Leases::builder(store(server)?).by_default(Some(LEASES)).build();
    let limit = Limit::new("demo", vec![INEXHAUSTIBLE])?;
    let opened = leases.open(limit, OpenOptions::default());
    let mut micros = Vec::new();
    runtime()?.block_on(async {
        while micros.len() < effort.count(400_000) {
            let key = super::name(7);
            let start = Instant::now();
            let decision = opened.ask(Request::check(key.as_bytes())).wait().await?;
            let took = start.elapsed();
            ensure!(decision.is_allowed(), "a request was denied");
            if decision.source() == Source::Lease {
                micros.push(took.as_nanos() as f64 / 1e3);
            }
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

/// Measures the units that four holders spend beyond the limit's units for their time, when all of
/// them request more than it allows.
pub(super) fn over_admission(effort: Effort, server: &Server) -> Result<Measured> {
    const RATE: u64 = 20_000;
    const BURST: u64 = 4_000;
    let span = Duration::from_millis(effort.count(4_000) as u64);
    let policy = format!("token_bucket {RATE}/s burst {BURST}");
    let (start, mut allowed, mut local) = (Instant::now(), 0_u64, 0_u64);
    runtime()?.block_on(async {
        let mut tasks = JoinSet::new();
        for _ in 0..4 {
            let leases = Leases::builder(store(server)?).by_default(Some(LEASES)).build();
            let limit = Limit::new("over", [&policy])?;
            let opened = Arc::new(leases.open(limit, OpenOptions::default()));
            for _ in 0..4 {
                let opened = Arc::clone(&opened);
                tasks.spawn(async move {
                    let (mut allowed, mut local) = (0, 0);
                    while start.elapsed() < span {
                        let decision = opened.ask(Request::check(b"hot")).wait().await?;
                        allowed += u64::from(decision.is_allowed());
                        local += u64::from(decision.source() == Source::Lease);
                        tokio::task::yield_now().await;
                    }
                    anyhow::Ok((allowed, local))
                });
            }
        }
        while let Some(ended) = tasks.join_next().await {
            let (more, more_local) = ended??;
            (allowed, local) = (allowed + more, local + more_local);
        }
        anyhow::Ok(())
    })?;
    let most = BURST as f64 + RATE as f64 * start.elapsed().as_secs_f64();
    let used = 100.0 * allowed as f64 / most;
    let note = format!(
        "{allowed} of {most:.0} units spent ({used:.1} %) by four holders, {local} of them without a call"
    );
    Ok(Measured::new((allowed as f64 - most).max(0.0), note))
}

fn store(server: &Server) -> Result<RedisStore> {
    Ok(RedisStore::builder(&server.url())?.deadline(Duration::from_secs(5)).build())
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("can't start a runtime")
}
