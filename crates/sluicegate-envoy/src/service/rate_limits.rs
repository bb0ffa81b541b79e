//! The rules in force, and the decisions on requests.

use std::error::Error;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use sluicegate::config::Changes;
use sluicegate::error::ReloadError;
use sluicegate::question::batched;
use sluicegate::testing::{Clock, SystemClock};
use sluicegate::{Config, Decision, Gate, Registry};
use sluicegate_core::{BoxFuture, LimitError, MAX_EXACT};
use tonic::Status;

use super::asking::ask;
use super::known_over::KnownOver;
use super::messages;
use super::rights::Rights;
use super::rls::Answering;
use super::rule_limits::{RuleLimits, policy};
use crate::incumbent::{
    Charge, Descriptor, Limited, Look, Matches, Reading, Request, Rules, Settings, Verdict,
};
use crate::protos::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};

/// The rules of envoyproxy/ratelimit in force, decided by the limits of a registry. Clones share them.
#[derive(Clone)]
pub struct RateLimits {
    shared: Arc<Shared>,
}

struct Shared {
    registry: Registry,
    /// The configuration without the rules' limits.
    base: Config,
    settings: Settings,
    clock: Box<dyn Clock>,
    known_over: KnownOver,
    loaded: RwLock<Arc<Loaded>>,
    observer: Box<dyn Fn(&Decided) + Send + Sync>,
}

/// A set of rules, and its limits.
#[derive(Default)]
struct Loaded {
    rules: Rules,
    limits: RuleLimits,
}

/// The answer to a request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Decided {
    /// Whether the domain has rules.
    pub is_known_domain: bool,
    /// The answer, and its additions to metrics.
    pub verdict: Verdict,
}

/// Rules that can't be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// A rule can't be a limit.
    Rule(LimitError),
    /// The registry refused the configuration with the rules.
    Registry(ReloadError),
}

impl RateLimits {
    /// Makes rate limits without rules, which decide in a registry. `base` is the registry's configuration, whose own
    /// limits stay.
    #[must_use]
    pub fn new(registry: Registry, base: Config, settings: Settings) -> Self {
        Self::with(registry, base, settings, SystemClock::default(), |_| {})
    }

    /// Makes rate limits with a clock for the local cache, and a function that gets each answer.
    #[must_use]
    pub fn with(
        registry: Registry,
        base: Config,
        settings: Settings,
        clock: impl Clock + 'static,
        observer: impl Fn(&Decided) + Send + Sync + 'static,
    ) -> Self {
        let known_over = KnownOver::new(settings.local_cache_bytes);
        let (clock, observer) = (Box::new(clock), Box::new(observer));
        let loaded = RwLock::default();
        let shared = Shared { registry, base, settings, clock, known_over, loaded, observer };
        Self { shared: Arc::new(shared) }
    }

    /// Replaces all rules, completely or not at all. The consumed units are kept.
    ///
    /// # Errors
    /// Returns an error if the registry refuses the new limits. The former rules then stay in force.
    pub fn load(&self, rules: Rules) -> Result<Changes, LoadError> {
        let limits = RuleLimits::new(&rules, &self.shared.registry).map_err(LoadError::Rule)?;
        let mut config = self.shared.base.clone();
        config.limits.extend(limits.limits.iter().cloned());
        // New requests wait here. One that has begun with the former rules fails if its limit is gone.
        let mut loaded = self.shared.loaded.write().unwrap_or_else(PoisonError::into_inner);
        let changes = self.shared.registry.replace(&config).map_err(LoadError::Registry)?;
        *loaded = Arc::new(Loaded { rules, limits });
        Ok(changes)
    }

    /// Returns the lines of the rules in force, as the incumbent prints them.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.loaded().rules.lines().collect()
    }

    /// Decides on a request. All counters are changed in one call of the store, in the order of the descriptors.
    ///
    /// # Errors
    /// Returns an error if the store can't decide.
    pub async fn decide(&self, request: &Request<'_>) -> Result<Decided, sluicegate::Error> {
        let Shared { settings, known_over, clock, observer, .. } = &*self.shared;
        let loaded = self.loaded();
        let matches = loaded.rules.matches(request, settings);
        let looks = self.looks(&loaded, request, &matches).await?;
        let charges = matches.charges(request, settings, &looks);
        let known = |charge: &Option<Charge>| {
            charge.filter(|charge| *charge == Charge::Skip).map(|_| Reading::KnownOver)
        };
        let mut readings: Vec<Option<Reading>> = charges.iter().map(known).collect();
        let asked = limits(&matches).zip(&charges).enumerate();
        let asked = asked.filter_map(|(index, (limit, charge))| {
            let charge = charge.filter(|charge| *charge != Charge::Skip)?;
            Some((index, self.charge(&loaded, request, (index, limit?), charge)?))
        });
        let (indices, asked): (Vec<usize>, Vec<_>) = asked.unzip();
        let mut at = None;
        for (index, decision) in indices.into_iter().zip(batched(asked).await) {
            let decision = decision?;
            at = at.or_else(|| decision.evaluated_at());
            readings[index] = Some(reading(&decision));
        }
        let micros = at.unwrap_or_else(|| clock.now()).as_micros();
        let verdict = matches.verdict(request, settings, &readings, micros);
        for (limit, over) in limits(&matches).zip(&verdict.over) {
            if let Some(limit) = limit.filter(|_| *over) {
                let window = limit.unit.window(micros);
                let end = (window.start + limit.unit.seconds()) * 1_000_000;
                known_over.add(&limit.counter, end, micros);
            }
        }
        let decided = Decided { is_known_domain: matches.is_known_domain, verdict };
        observer(&decided);
        Ok(decided)
    }

    /// Returns the knowledge about each descriptor's counter before its charge.
    async fn looks(
        &self,
        loaded: &Loaded,
        request: &Request<'_>,
        matches: &Matches,
    ) -> Result<Vec<Look>, sluicegate::Error> {
        let Shared { settings, known_over, clock, .. } = &*self.shared;
        let mut looks = vec![Look::default(); matches.descriptors.len()];
        if settings.local_cache_bytes > 0 {
            let now = clock.now().as_micros();
            for (look, limit) in looks.iter_mut().zip(limits(matches)) {
                look.is_known_over = limit.is_some_and(|it| known_over.has(&it.counter, now));
            }
        }
        if matches.needs_looks(settings) {
            let peeks = limits(matches).enumerate().filter_map(|(index, limit)| {
                Some((index, self.charge(loaded, request, (index, limit?), Charge::Add(0))?))
            });
            let (indices, peeks): (Vec<usize>, Vec<_>) = peeks.unzip();
            for (index, decision) in indices.into_iter().zip(batched(peeks).await) {
                if let Reading::After(count) = reading(&decision?) {
                    looks[index].count = count;
                }
            }
        }
        Ok(looks)
    }

    /// Returns the request that changes a counter, or `None` if it stays as it is.
    fn charge<'a>(
        &'a self,
        loaded: &'a Loaded,
        request: &Request<'_>,
        (index, limit): (usize, &'a Limited),
        charge: Charge,
    ) -> Option<BoxFuture<'a, Result<Decision, sluicegate::Error>>> {
        let gate = self.gate(loaded, request, (index, limit))?;
        let key = limit.counter.as_str();
        let numbers = limit.rule.is_none().then(|| policy(limit.requests_per_unit, limit.unit));
        let numbers = numbers.transpose().ok()?;
        Some(Box::pin(ask(gate, key.as_bytes(), numbers, charge)))
    }

    /// Returns the gate of the limit that has a descriptor's counter.
    fn gate<'l>(
        &self,
        loaded: &'l Loaded,
        request: &Request<'_>,
        (index, limit): (usize, &Limited),
    ) -> Option<&'l Gate> {
        if let Some(rule) = &limit.rule {
            return loaded.limits.of_rule(rule);
        }
        // A request with its own numbers shares the counter of a rule for the same unit.
        let own = Descriptor { limit: None, ..request.descriptors.get(index)?.clone() };
        let own = Request { domain: request.domain, descriptors: vec![own], hits_addend: 0 };
        let found = loaded.rules.matches(&own, &self.shared.settings);
        let same = limits(&found).flatten().find(|found| found.counter == limit.counter);
        match same.and_then(|found| found.rule.as_ref()) {
            Some(rule) => loaded.limits.of_rule(rule),
            None => loaded.limits.of_overrides(request.domain),
        }
    }

    fn loaded(&self) -> Arc<Loaded> {
        Arc::clone(&self.shared.loaded.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns the limit of each descriptor.
fn limits(matches: &Matches) -> impl Iterator<Item = Option<&Limited>> {
    matches.descriptors.iter().map(|found| found.limited())
}

/// Returns the value of a counter after a decision. Without a policy, the decision is that of a list or a switch.
fn reading(decision: &Decision) -> Reading {
    let used = decision.policies().next().and_then(|outcome| outcome.used());
    Reading::After(used.unwrap_or(if decision.is_allowed() { 0 } else { MAX_EXACT }))
}

#[tonic::async_trait]
impl Answering for RateLimits {
    async fn answer(
        &self,
        message: &RateLimitRequest,
        // The incumbent lets every client ask all limits, and return units.
        _: &Rights,
    ) -> Result<RateLimitResponse, Status> {
        match self.decide(&messages::request(message)?).await {
            Ok(decided) => Ok(messages::response(decided.verdict.answer)),
            Err(error) => Err(Status::unavailable(error.to_string())),
        }
    }
}

impl fmt::Debug for RateLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimits")
            .field("registry", &self.shared.registry)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(error) => write!(f, "a rule can't be a limit: {error}"),
            Self::Registry(error) => write!(f, "the rules can't be used: {error}"),
        }
    }
}

impl Error for LoadError {}
