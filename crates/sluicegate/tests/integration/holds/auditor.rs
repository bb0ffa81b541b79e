//! Holders that settle in any order, and an auditor that knows the usage and time of each. In no interval is the usage
//! above the burst, plus the rate times its length.

use std::time::Duration;

use sluicegate::decision::{HoldFound, HoldToken};
use sluicegate::store::{Store, TimeSource};
use sluicegate::testing::Timestamp;
use sluicegate::{Ask, Limiter, MemoryStore, Usage};
use sluicegate_conformance::schedules::{Dice, each};

const START: u64 = 1_700_000_000_000_000;
const PER_SECOND: u64 = 10;
const BURST: u64 = 60;

/// One holder, whose units are used from the instant of its hold on.
struct Holder {
    token: HoldToken,
    at: u64,
    charged: u64,
    ends: u64,
}

/// The usage, with its times.
#[derive(Default)]
struct Audit {
    used: Vec<(u64, u64)>,
    given_back: u64,
}

impl Audit {
    /// Returns the excess usage in the interval with the largest excess, in millionths.
    fn excess(&mut self) -> u128 {
        self.used.sort_unstable();
        let mut most = 0;
        for (index, (from, _)) in self.used.iter().enumerate() {
            let mut units = 0;
            for (to, used) in &self.used[index..] {
                units += used;
                let may = BURST * 1_000_000 + (to - from) * PER_SECOND;
                most = most.max((u128::from(units) * 1_000_000).saturating_sub(may.into()));
            }
        }
        most
    }
}

fn limiter<S: Store>(store: S, seed: u64) -> Limiter<S> {
    let spec = format!("token_bucket {PER_SECOND}/s burst {BURST} as tokens");
    let limit = sluicegate::Limit::new("llm", [spec]).unwrap();
    Limiter::builder(store, limit)
        .time(TimeSource::Injected { run: format!("audit-{seed}") })
        .build()
}

/// Takes and settles holds at random, under an auditor.
async fn audit(limiter: &Limiter<impl Store>, seed: u64, steps: usize) -> Audit {
    let (mut dice, mut now) = (Dice::new(seed), START);
    let (mut audit, mut holders) = (Audit::default(), Vec::<Holder>::new());
    let time = |micros| Timestamp::from_micros(micros).unwrap();
    for _ in 0..steps {
        now += if dice.one_in(4) { 0 } else { dice.below(2_000_000) };
        if holders.is_empty() || dice.one_in(2) {
            let charged = dice.between(1, BURST);
            let lasts = dice.between(1_000, 20_000_000);
            let ask = Ask::new("acme").cost(charged).at(time(now));
            let grant = limiter.check(ask).hold(Duration::from_micros(lasts)).await.unwrap();
            let token = grant.into_token();
            holders.extend(token.map(|token| Holder {
                token,
                at: now,
                charged,
                ends: now + lasts,
            }));
            continue;
        }
        let Holder { token, at, charged, ends } =
            holders.swap_remove(dice.below_len(holders.len()));
        let used = if dice.one_in(4) { 0 } else { dice.below(charged + 1) };
        let usage = Usage::of("tokens", used).at(time(now));
        let settled = limiter.settle(&token, usage).await.unwrap();
        let found = if now < ends { HoldFound::Live } else { HoldFound::Unknown };
        assert_eq!(settled.hold_found(), Some(found));
        audit.given_back += settled.policy(0).unwrap().given_back().unwrap_or(0);
        audit.used.push((at, used));
    }
    audit.used.extend(holders.iter().map(|holder| (holder.at, holder.charged)));
    audit
}

#[test]
fn holders_in_the_embedded_store_never_use_more_than_the_limit() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (store, mut given_back) = (MemoryStore::new(), 0);
    each("holders in the embedded store", 100, |seed| {
        let mut audit = runtime.block_on(audit(&limiter(store.clone(), seed), seed, 400));
        assert_eq!(audit.excess(), 0);
        given_back += audit.given_back;
    });
    assert!(given_back > 0, "settling is worth something");
}

#[tokio::test]
#[cfg(feature = "redis")]
async fn holders_on_servers_never_use_more_than_the_limit() {
    use sluicegate_conformance::schedules::each_awaited;
    use sluicegate_testkit::servers::{Server, available};

    for binary in available().unwrap() {
        let server = Server::start_with(&binary, &[]).unwrap();
        let store = crate::holds::servers::store(&server.url());
        each_awaited("holders on servers", 5, async |seed| {
            let mut audit = audit(&limiter(store.clone(), seed), seed, 200).await;
            assert_eq!(audit.excess(), 0);
        })
        .await;
    }
}
