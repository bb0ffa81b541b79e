//! Envoy's rate limit quota service: the processor time of shares for many Envoys.

mod envoy;

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::machine::{pin_thread, unpin_thread};
use crate::measure::{Measured, Session};
use crate::rls::ours::serve;
use crate::served::Served;
use envoy::{Envoy, Outcome, TICK};

const ENVOYS: u32 = 100;
const WARM_UP: Duration = Duration::from_secs(10);
/// The seconds that are measured.
const SECONDS: usize = 40;
/// Requests per second of a tenant.
const RATE: u32 = 10_000;
const DOMAIN: &str = "bench";
/// The demand of all Envoys for a tenant, compared with its limit.
const DEMANDS: [f64; 4] = [0.5, 0.8, 1.2, 2.0];
/// The tenants of the limit. Each has a bucket at each Envoy.
const TENANTS: u32 = 100;

/// Measures the goal of quotas.
pub fn measure(session: &mut Session) {
    session.goal("rlqs-10000-buckets", |effort| {
        let served = serve(&config())?;
        pin_thread(1);
        let measured = under_load(&served, Duration::from_secs(effort.count(SECONDS) as u64));
        unpin_thread();
        measured
    });
}

fn config() -> String {
    format!(
        "limits: {{fleet: {{policies: [token_bucket {RATE}/s burst {}]}}}}\n\
         envoy: {{domains: {{{DOMAIN}: [{{match: {{tenant: \"*\"}}, limit: fleet}}]}}}}\n",
        10 * RATE
    )
}

/// Returns the demand of an Envoy for each tenant, in requests per second. One Envoy has a fifth of a tenant's demand, and
/// another one a hundredth of that. They differ from tenant to tenant.
fn demands(envoy: u32) -> Vec<f64> {
    let sum: f64 = (1..=ENVOYS).map(|rank| 1.0 / f64::from(rank)).sum();
    let demand = |tenant: u32| {
        let rank = 1 + (envoy + 37 * tenant) % ENVOYS;
        let all = f64::from(RATE) * DEMANDS[tenant as usize % DEMANDS.len()];
        all / f64::from(rank) / sum
    };
    (0..TENANTS).map(demand).collect()
}

/// Measures the processor time of a service that many Envoys report to.
fn under_load(served: &Served, lasts: Duration) -> Result<Measured> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("can't start a runtime")?;
    runtime.block_on(async {
        let start = Instant::now();
        let (begin, end) = (start + WARM_UP, start + WARM_UP + lasts);
        let mut running = JoinSet::new();
        for number in 0..ENVOYS {
            // Their reports are spread over the time between two of one Envoy.
            let opens = start + TICK * number / ENVOYS;
            let envoy = Envoy::new(number, &demands(number));
            running.spawn(envoy.run(served.address, opens, begin..end));
        }
        sleep_until(begin).await;
        let (began, before) = (Instant::now(), served.nanos()?);
        sleep_until(end).await;
        let nanos = served.nanos()? - before;
        let seconds = began.elapsed().as_secs_f64();
        let mut all = Outcome::default();
        while let Some(ended) = running.join_next().await {
            all += ended??;
        }
        let buckets = u64::from(ENVOYS * TENANTS);
        ensure!(
            all.shares * 100 >= buckets * 95 && all.assignments * 100 >= all.reports * 90,
            "the service doesn't assign shares: {all:?} of {buckets} buckets"
        );
        let per_second = |count: u64| (count as f64 / seconds).round();
        let note = format!(
            "{} reports and {} assignments a second. {} buckets have a share at the end",
            per_second(all.reports),
            per_second(all.assignments),
            all.shares
        );
        Ok(Measured::new(nanos / 1e9 / seconds, note))
    })
}
