//! The rules in force, and the decisions on requests.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use sluicegate::config::Changes;
use sluicegate::question::batched;
use sluicegate::testing::{Clock, SystemClock};
use sluicegate::{Config, Decision, Gate, Registry};
use sluicegate_core::{BoxFuture, MAX_EXACT};
use tonic::Status;

use super::asking::{Asked, ask, decide};
use super::known_over::KnownOver;
use super::load_error::LoadError;
use super::messages;
use super::native_asks::{About, native_asks};
use super::rights::Rights;
use super::rls::Answering;
use super::rule_limits::RuleLimits;
use crate::incumbent::{
    Charge, Descriptor, Limited, Look, Matches, MetadataValue, Override, Problem, Reading, Request,
    Rules, Settings, Verdict,
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

/// The descriptors that a request to the store is about.
enum Target {
    /// The counter of one descriptor.
    Counter(usize),
    /// Limits of rules with blocks.
    Native(About),
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
    /// Returns an error if blocks have problems, or the registry refuses the new limits. The former rules then stay in force.
    pub fn load(&self, rules: Rules) -> Result<Changes, LoadError> {
        let limits = RuleLimits::new(&rules, &self.shared.settings, &self.shared.registry)?;
        let mut config = self.shared.base.clone();
        config.limits.extend(limits.limits.iter().cloned());
        for origins in &limits.origins {
            config.add_origins(origins.clone());
        }
        // New requests wait here. One that has begun with the former rules fails if its limit is gone.
        let mut loaded = self.shared.loaded.write().unwrap_or_else(PoisonError::into_inner);
        let changes = self.shared.registry.replace(&config).map_err(LoadError::Registry)?;
        *loaded = Arc::new(Loaded { rules, limits });
        Ok(changes)
    }

    /// Returns the lines of the rules in force, as the incumbent prints them. Rules with blocks have policies in place of the
    /// unit and the number.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let loaded = self.loaded();
        loaded.rules.rules().iter().map(|rule| loaded.limits.line(rule)).collect()
    }

    /// Returns warnings about the rules in force that are probably mistakes, with those about their blocks.
    #[must_use]
    pub fn warnings(&self) -> Vec<Problem> {
        let loaded = self.loaded();
        loaded.rules.warnings().iter().chain(&loaded.limits.warnings).cloned().collect()
    }

    /// Decides on a request. All counters and limits are changed in one call of the store, in the order of the descriptors.
    ///
    /// # Errors
    /// Returns an error if the store can't decide, or if descriptors can't be decided together.
    pub async fn decide(&self, request: &Request<'_>) -> Result<Decided, sluicegate::Error> {
        let Shared { settings, known_over, clock, observer, .. } = &*self.shared;
        let loaded = self.loaded();
        let mut matches = loaded.rules.matches(request, settings);
        known_over.follow(self.shared.registry.generation());
        let looks = self.looks(&loaded, request, &matches).await?;
        let charges = matches.charges(request, settings, &looks);
        let known = |charge: &Option<Charge>| {
            charge.filter(|charge| *charge == Charge::Skip).map(|_| Reading::KnownOver)
        };
        let mut readings: Vec<Option<Reading>> = charges.iter().map(known).collect();
        let counters = limits(&matches).zip(&charges).enumerate();
        let counters = counters.filter_map(|(index, (limit, charge))| {
            let charge = charge.filter(|charge| *charge != Charge::Skip)?;
            let question = self.charge(&loaded, request, (index, limit?), charge)?;
            // A future of one type, next to those about limits of blocks.
            let decision: BoxFuture<'_, _> = Box::pin(question.into_future());
            Some((Target::Counter(index), decision))
        });
        let (mut asked, mut deciding): (Vec<Target>, Vec<_>) = counters.unzip();
        for native in native_asks(&loaded.limits, request, &matches).await? {
            asked.push(Target::Native(native.about));
            deciding.push(native.decision);
        }
        let (mut at, mut holds) = (None, Vec::new());
        // The numbers of overrides, and the descriptors that a list or a switch decided.
        let (mut overridden, mut listed) = (Vec::new(), Vec::new());
        for (asked, decision) in asked.into_iter().zip(batched(deciding).await) {
            let decision = decision?;
            at = at.or_else(|| decision.evaluated_at());
            match asked {
                Target::Counter(index) => {
                    match decision.policies().next() {
                        Some(outcome) => {
                            overridden.extend(outcome.limit().map(|most| (index, most)));
                        }
                        None => listed.push(index),
                    }
                    readings[index] = Some(reading(&decision));
                }
                Target::Native(about) => {
                    holds.extend(about.token().map(MetadataValue::Text));
                    for (index, status) in about.statuses(&decision) {
                        readings[index] = Some(Reading::Decided(status));
                    }
                }
            }
        }
        for (index, most) in overridden {
            if let Some(limited) = matches.descriptors[index].limited_mut() {
                limited.requests_per_unit = u32::try_from(most).unwrap_or(u32::MAX);
            }
        }
        let micros = at.unwrap_or_else(|| clock.now()).as_micros();
        let mut verdict = matches.verdict(request, settings, &readings, micros);
        if !holds.is_empty() {
            let metadata = verdict.answer.dynamic_metadata.get_or_insert_default();
            metadata.insert("holds".to_owned(), MetadataValue::List(holds));
        }
        for (index, (limit, over)) in limits(&matches).zip(&verdict.over).enumerate() {
            // A list may be changed within the window.
            if let Some(limit) = limit.filter(|_| *over && !listed.contains(&index)) {
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
            let mut indices = Vec::new();
            let peeks = limits(matches).enumerate().filter_map(|(index, limit)| {
                let peek = self.charge(loaded, request, (index, limit?), Charge::Add(0))?;
                indices.push(index);
                Some(peek)
            });
            let decisions = decide(peeks).await;
            for (index, decision) in indices.into_iter().zip(decisions) {
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
    ) -> Option<Asked<'a>> {
        let gate = self.gate(loaded, request, (index, limit))?;
        let Limited { requests_per_unit, unit, .. } = *limit;
        let own = limit.rule.is_none().then_some(Override { requests_per_unit, unit });
        Some(ask(gate, limit.counter.as_str().as_bytes(), own, charge))
    }

    /// Returns the gate of the limit that has a descriptor's counter.
    fn gate<'l>(
        &self,
        loaded: &'l Loaded,
        request: &Request<'_>,
        (index, limit): (usize, &Limited),
    ) -> Option<&'l Gate> {
        let of_rule = |rule| loaded.limits.of_rule(rule).map(|limit| &limit.gate);
        if let Some(rule) = &limit.rule {
            return of_rule(rule);
        }
        // A request with its own numbers shares the counter of a rule for the same unit.
        let own = Descriptor { limit: None, ..request.descriptors.get(index)?.clone() };
        let own = Request { domain: request.domain, descriptors: vec![own], hits_addend: 0 };
        let found = loaded.rules.matches(&own, &self.shared.settings);
        let same = limits(&found).flatten().find(|found| found.counter == limit.counter);
        match same.and_then(|found| found.rule.as_ref()) {
            Some(rule) => of_rule(rule),
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
            Err(error) => Err(messages::failure(&error)),
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
