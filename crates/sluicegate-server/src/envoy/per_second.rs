//! A store of its own for limits per second.

use std::time::Duration;

use sluicegate::Limit;
use sluicegate::error::StoreError;
use sluicegate::policy::{DeniedCharge, Member};
use sluicegate::store::{
    BoxFuture, Measure, OpenOptions, SharedLimit, SharedStore, Store, StoreId,
};

/// A store for limits per second, and one for all others.
///
/// A limit is in one of them as a whole. So limits of both can't be decided together. Limits per second are those that count
/// denied requests, as rules without a block do: they are never decided together.
pub(super) struct PerSecond {
    pub(super) per_second: SharedStore,
    pub(super) others: SharedStore,
}

impl Store for PerSecond {
    type Opened = SharedLimit;

    /// Returns the store of all others, which has the calls that aren't implemented here.
    fn inner(&self) -> Option<&dyn Store> {
        Some(&self.others)
    }

    fn id(&self) -> StoreId {
        StoreId::new(&format!("{} and, per second, {}", self.others.id(), self.per_second.id()))
    }

    fn open(&self, limit: Limit, options: OpenOptions) -> SharedLimit {
        let store = if is_per_second(&limit) { &self.per_second } else { &self.others };
        store.open(limit, options)
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async {
            self.per_second.ping().await?;
            self.others.ping().await
        })
    }

    fn rehearse(
        &self,
        limits: Vec<(Limit, OpenOptions)>,
    ) -> BoxFuture<'_, Result<Vec<String>, StoreError>> {
        let (per_second, others) = limits.into_iter().partition(|(limit, _)| is_per_second(limit));
        Box::pin(async {
            let mut unknown = self.per_second.rehearse(per_second).await?;
            unknown.extend(self.others.rehearse(others).await?);
            Ok(unknown)
        })
    }

    fn maintain(&self) {
        self.per_second.maintain();
        self.others.maintain();
    }

    fn return_leases(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.per_second.return_leases().await;
            self.others.return_leases().await;
        })
    }

    /// Returns the sums of the numbers of both.
    fn measures(&self) -> Vec<Measure> {
        let mut measures = self.others.measures();
        for more in self.per_second.measures() {
            let is_same =
                |it: &&mut Measure| it.name() == more.name() && it.labels().eq(more.labels());
            match measures.iter_mut().find(is_same) {
                Some(same) => *same = same.clone().plus(&more),
                None => {
                    let last = measures.iter().rposition(|it| it.name() == more.name());
                    measures.insert(last.map_or(measures.len(), |last| last + 1), more);
                }
            }
        }
        measures
    }
}

fn is_per_second(limit: &Limit) -> bool {
    const SECOND: Option<Duration> = Some(Duration::from_secs(1));
    let mut policies = limit.members().iter().map(Member::policy);
    policies.all(|it| it.quota().window == SECOND && it.denied_charge() == DeniedCharge::Counted)
}

#[cfg(test)]
mod tests {
    use sluicegate::{MemoryStore, Registry};

    use super::*;

    #[tokio::test]
    async fn a_limit_is_in_the_store_of_its_unit() {
        let [per_second, others] = [(); 2].map(|()| SharedStore::new(MemoryStore::new()));
        let keys = |store: &SharedStore| store.stats().keys.unwrap();
        let both = PerSecond { per_second: per_second.clone(), others: others.clone() };
        both.ping().await.unwrap();
        let limit = |name: &str, policy: &str| Limit::new(name, [policy]).unwrap();
        let registry = Registry::builder(both)
            .limit(limit("second", "fixed_window 3/s aligned count_denied"))
            .limit(limit("hour", "fixed_window 3/h aligned"))
            .build();
        let is_allowed = |decision: sluicegate::Decision| decision.is_allowed();
        let [second, hour] = ["second", "hour"].map(|name| registry.gate(name));
        assert!(second.check("a").await.is_ok_and(is_allowed));
        assert_eq!((keys(&per_second), keys(&others)), (1, 0));
        assert!(hour.check("a").await.is_ok_and(is_allowed));
        assert!(hour.check("b").await.is_ok_and(is_allowed));
        assert_eq!((keys(&per_second), keys(&others)), (1, 2));
        let own = Limit::new("any", ["fixed_window 9/s aligned count_denied"]).unwrap();
        let own = own.members()[0].policy().clone();
        assert!(hour.check("c").with([own]).await.is_ok_and(is_allowed));
        assert_eq!((keys(&per_second), keys(&others)), (2, 2), "a request with its own unit");
    }
}
