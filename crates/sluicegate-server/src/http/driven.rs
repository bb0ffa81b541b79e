//! Tests the service through its client, with a clock that the tests control. Every answer over
//! HTTP must match the reference model, to the microsecond.
//!
//! The checks are those of the conformance suite. Requests that HTTP can't express go to the store
//! behind the service, which has the same states.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sluicegate::admin::{BannedKey, Holder, Listing, Page};
use sluicegate::error::StoreError;
use sluicegate::policy::{Algorithm, Start};
use sluicegate::store::{
    Answer, BoxFuture, Idempotency, MemoryLimit, OpenOptions, OpenedLimit, Operation, Request,
    RequestId, Span, Store, StoreId, TimeSource,
};
use sluicegate::testing::ManualClock;
use sluicegate::{Config, Decision, Error, Limit, MemoryStore, Policy, Registry};
use sluicegate_client::{RemoteLimit, RemoteStore};
use sluicegate_conformance::suite;

use super::{frequent, router};
use crate::in_process::InProcess;
use crate::serving::Answering;

/// A store, a service with this store, and a client of the service. Opening a limit configures it
/// first.
struct Deployed {
    clock: Arc<ManualClock>,
    store: MemoryStore,
    registry: Registry,
    client: RemoteStore,
    /// Number of requests sent over HTTP, followed by the number of other requests.
    sent: Arc<[AtomicU64; 2]>,
}

struct DeployedLimit {
    limit: Limit,
    clock: Arc<ManualClock>,
    /// `None` if the store must treat states as under injected time.
    remote: Option<RemoteLimit>,
    direct: MemoryLimit,
    is_injected: bool,
    sent: Arc<[AtomicU64; 2]>,
}

impl Deployed {
    async fn new() -> Self {
        let clock = Arc::new(ManualClock::default());
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let config = Config::default();
        let builder = Registry::builder(store.clone()).config(&config);
        let deployed = InProcess::new(builder);
        let service = Arc::clone(&deployed.service);
        let registry = service.registry.clone();
        let routes = frequent::routes(router::all(Arc::clone(&service)), service);
        let address = deployed.listen(Answering::Http(routes)).await;
        let client = RemoteStore::builder(&format!("http://{address}")).unwrap();
        let client = client.deadline(Duration::from_secs(60)).build();
        Self { clock, store, registry, client, sent: Arc::default() }
    }

    fn assert_most_were_sent(&self) {
        let [sent, direct] = [0, 1].map(|index| self.sent[index].load(Ordering::Relaxed));
        assert!(sent > direct, "{sent} were sent, and {direct} were not");
    }
}

impl Store for Deployed {
    type Opened = DeployedLimit;

    fn inner(&self) -> Option<&dyn Store> {
        Some(&self.client)
    }

    fn id(&self) -> StoreId {
        self.client.id()
    }

    fn open(&self, limit: Limit, options: OpenOptions) -> DeployedLimit {
        let (run, is_injected) = match &options.time {
            TimeSource::Injected { run } => (run.as_str(), true),
            _ => ("", false),
        };
        let starts_empty = limit.members().iter().any(|member| starts_empty(member.policy()));
        let is_remote = !is_injected || !starts_empty;
        let sent = Arc::clone(&self.sent);
        let clock = Arc::clone(&self.clock);
        if !is_remote {
            let direct = self.store.open(limit.clone(), options);
            return DeployedLimit { limit, clock, remote: None, direct, is_injected, sent };
        }
        // Tests are separated by names.
        let end = |text: &str| text[text.len().saturating_sub(24)..].to_owned();
        let name = format!("l-{}-{}", end(limit.name().as_str()), end(run));
        let policies: Vec<Policy> =
            limit.members().iter().map(|member| member.policy().clone()).collect();
        let named = Limit::new(&name, policies.clone()).unwrap();
        let named = named.otherwise_as(&limit, 0);
        let ban = limit.ban(0).map_or_else(String::new, |ban| format!(", ban: {ban}"));
        let on_expiry = limit.on_expiry(0);
        let specs: Vec<String> = policies.iter().map(|policy| format!("\"{policy}\"")).collect();
        let text = format!(
            "limits: {{\"{name}\": {{policies: [{}]{ban}, on_expiry: {on_expiry}}}}}",
            specs.join(", ")
        );
        let config = Config::parse(&text, "limits.yaml").unwrap();
        self.registry.replace(&config).unwrap();
        let remote = Some(self.client.open(named.clone(), OpenOptions::default()));
        let direct = self.store.open(named, OpenOptions::default());
        DeployedLimit { limit, clock, remote, direct, is_injected, sent }
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.client.ping()
    }
}

impl DeployedLimit {
    /// Returns `true` if a request can be sent over HTTP.
    fn is_sent(request: &Request<'_>) -> bool {
        let longest = Span::from_micros(10 * Span::MINUTE.as_micros()).unwrap();
        let has_words = match request.operation() {
            Operation::GiveBack { .. } | Operation::Slices => false,
            Operation::Reserve { within } => within <= longest,
            _ => true,
        };
        // The service remembers every id for one minute.
        let has_words = has_words
            && request.idempotency().is_none_or(|once| once.lasts == Duration::from_secs(60));
        // A queued request waits while the HTTP request is open.
        let has_words = has_words && request.ticket().is_none();
        has_words && is_key(request.key())
    }
}

impl OpenedLimit for DeployedLimit {
    fn inner(&self) -> Option<&dyn OpenedLimit> {
        None
    }

    fn limit(&self) -> &Limit {
        &self.limit
    }

    fn ask<'a>(
        &'a self,
        request: Request<'a>,
    ) -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a> {
        Answer::Later(async move {
            let Some(remote) = &self.remote else { return self.direct.ask(request).wait().await };
            let request = match (self.is_injected, request.time()) {
                (true, Some(now)) => {
                    self.clock.set(now);
                    request.at(None)
                }
                _ => request,
            };
            let is_sent = Self::is_sent(&request);
            self.sent[usize::from(!is_sent)].fetch_add(1, Ordering::Relaxed);
            if is_sent {
                remote.ask(request).wait().await
            } else {
                let once = request.idempotency().map(|once| Idempotency {
                    id: RequestId::of(once.id.to_string()).unwrap(),
                    ..once
                });
                // The id that the client would send.
                let request = once.map_or(request, |once| request.idempotent(once));
                self.direct.ask(request).wait().await
            }
        })
    }

    fn holders<'a>(
        &'a self,
        key: &'a [u8],
        page: Page<'a>,
    ) -> BoxFuture<'a, Result<Listing<Holder>, Error>> {
        let Some(remote) = &self.remote else { return self.direct.holders(key, page) };
        let page = self.page(page);
        if is_key(key) { remote.holders(key, page) } else { self.direct.holders(key, page) }
    }

    fn bans<'a>(&'a self, page: Page<'a>) -> BoxFuture<'a, Result<Listing<BannedKey>, Error>> {
        let Some(remote) = &self.remote else { return self.direct.bans(page) };
        remote.bans(self.page(page))
    }
}

impl DeployedLimit {
    /// Returns the page at the service's time, after setting that to the time of the page.
    fn page<'p>(&self, page: Page<'p>) -> Page<'p> {
        match (self.is_injected, page.time()) {
            (true, Some(now)) => {
                self.clock.set(now);
                page.at(None)
            }
            _ => page,
        }
    }
}

/// Returns `true` if the service accepts a key: nonempty text.
fn is_key(key: &[u8]) -> bool {
    !key.is_empty() && std::str::from_utf8(key).is_ok()
}

fn starts_empty(policy: &Policy) -> bool {
    matches!(policy.algorithm(), Algorithm::Smooth { start: Start::Empty, .. })
}

#[tokio::test]
async fn schedules_answer_like_the_model() {
    let deployed = Deployed::new().await;
    let clock = Arc::clone(&deployed.clock);
    suite::schedules_by_the_stores_clock_answer_like_the_model(&deployed, &clock).await;
    deployed.assert_most_were_sent();
}

#[tokio::test]
async fn holds_answer_like_the_model() {
    let deployed = Deployed::new().await;
    suite::holds_answer_like_the_model(&deployed).await;
    deployed.assert_most_were_sent();
}

#[tokio::test]
async fn who_comes_at_once_is_admitted_exactly() {
    let deployed = Deployed::new().await;
    suite::who_comes_at_once_is_admitted_exactly(&deployed).await;
    deployed.assert_most_were_sent();
}
