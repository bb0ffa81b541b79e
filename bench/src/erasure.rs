//! The cost of type erasure in a registry: its gates compared with the concrete limiter, and layers
//! that add nothing.

use std::hint::black_box;

use anyhow::{Result, ensure};
use sluicegate::error::StoreError;
use sluicegate::store::{Answer, BoxFuture, OpenOptions, OpenedLimit, Request, Store, StoreId};
use sluicegate::{Decision, Error, Limit, Limiter, MemoryStore};

use crate::embedded::{ROOMY, SEGMENT, gate, is_admitted, segment};
use crate::measure::{Effort, Measured, Pairs, Session};

const PAIRS: usize = 24;
/// A number of keys that stays in the processor's cache, because these goals aren't about memory.
const KEYS: usize = 1_000;

/// Measures the goals of type erasure.
pub fn measure(session: &mut Session) {
    session.goal("erasure-gate", |effort| {
        let limiter = Limiter::new(MemoryStore::new(), Limit::new("demo", [ROOMY])?);
        let gate = gate(MemoryStore::new())?;
        compare(effort, |key| is_admitted(limiter.check(key)), |key| is_admitted(gate.check(key)))
    });
    session.goal("erasure-five-layers", |effort| {
        let plain = gate(MemoryStore::new())?;
        let stacked = gate(Through(Through(Through(Through(Through(MemoryStore::new()))))))?;
        compare(effort, |key| is_admitted(plain.check(key)), |key| is_admitted(stacked.check(key)))
    });
}

fn compare(
    effort: Effort,
    floor: impl Fn(&str) -> Result<bool> + Sync,
    subject: impl Fn(&str) -> Result<bool> + Sync,
) -> Result<Measured> {
    let keys: Vec<String> = (0..KEYS).map(|number| format!("tenant:42:user:{number:09}")).collect();
    ensure!(floor(&keys[0])? && subject(&keys[0])?, "a fresh key should be admitted");
    let mut pairs = Pairs::default();
    let warm_up = 2;
    for round in 0..warm_up + effort.count(PAIRS) {
        let floor = segment(1, &|_| ask(&keys, &floor))?;
        let subject = segment(1, &|_| ask(&keys, &subject))?;
        if round >= warm_up {
            pairs.add(subject, floor);
        }
    }
    Ok(pairs.ratio("ns"))
}

fn ask(keys: &[String], check: impl Fn(&str) -> Result<bool>) -> usize {
    let keys = keys.iter().cycle().take(SEGMENT);
    keys.filter(|key| black_box(check(key)).unwrap_or(false)).count()
}

/// A layer that adds nothing.
struct Through<S>(S);
struct ThroughLimit<L>(L);

impl<S: Store> Store for Through<S> {
    type Opened = ThroughLimit<S::Opened>;

    fn inner(&self) -> Option<&dyn Store> {
        Some(&self.0)
    }

    fn id(&self) -> StoreId {
        self.0.id()
    }

    fn open(&self, limit: Limit, options: OpenOptions) -> Self::Opened {
        ThroughLimit(self.0.open(limit, options))
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.0.ping()
    }
}

impl<L: OpenedLimit> OpenedLimit for ThroughLimit<L> {
    fn inner(&self) -> Option<&dyn OpenedLimit> {
        Some(&self.0)
    }

    fn limit(&self) -> &Limit {
        self.0.limit()
    }

    fn ask<'a>(
        &'a self,
        request: Request<'a>,
    ) -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a> {
        self.0.ask(request)
    }
}
