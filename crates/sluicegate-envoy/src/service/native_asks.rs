//! Requests to the limits of rules with blocks.

use std::future::{IntoFuture as _, ready};

use sluicegate::question::batched;
use sluicegate::{Ask, Decision, Error};
use sluicegate_core::{BoxFuture, LimitName, MAX_EXACT, RequestError, RequestErrorKind};

use super::asking::{Held, ask, force, hold};
use super::block_settings::Charging;
use super::rule_limits::{RuleLimit, RuleLimits};
use super::statuses::{status, status_of};
use crate::incumbent::{Charge, Code, Matches, Native, Request, Status};

/// A request to the store, and the descriptors that it is about.
pub(super) struct NativeAsk<'a> {
    pub(super) about: About,
    pub(super) decision: Deciding<'a>,
}

type Deciding<'a> = BoxFuture<'a, Result<Decision, Error>>;

/// The descriptors that a request to the store is about, by index.
pub(super) enum About {
    /// One descriptor.
    One(usize),
    /// One descriptor whose hits are charged unconditionally.
    Forced(usize),
    /// One descriptor whose hits are held.
    Held(usize, Held),
    /// Descriptors that are decided together, each with its limit.
    Together(Vec<(usize, LimitName)>),
}

impl About {
    /// Returns the token of the hold after the decision.
    pub(super) fn token(&self) -> Option<String> {
        match self {
            Self::Held(_, held) => held.get().map(ToString::to_string),
            _ => None,
        }
    }

    /// Returns the status of each descriptor after the decision.
    pub(super) fn statuses(self, decision: &Decision) -> Vec<(usize, Status)> {
        match self {
            Self::One(index) | Self::Held(index, _) => vec![(index, status(decision))],
            Self::Forced(index) => vec![(index, Status { code: Code::Ok, ..status(decision) })],
            Self::Together(parts) => {
                parts.into_iter().map(|(index, name)| (index, status_of(decision, &name))).collect()
            }
        }
    }
}

/// Returns the requests about the descriptors whose rules have blocks.
///
/// In a domain with `all_or_none` they are one request. Rules in shadow mode and hits that are charged unconditionally or
/// given back never deny, so they are requests of their own. Hits of 0 are sent first: if they are denied, nothing is
/// charged.
///
/// # Errors
/// Returns an error if one limit would have to decide about two keys together, or if the store can't decide.
pub(super) async fn native_asks<'a>(
    limits: &'a RuleLimits,
    request: &Request<'_>,
    matches: &'a Matches,
) -> Result<Vec<NativeAsk<'a>>, Error> {
    let is_all_or_none = limits.is_all_or_none(request.domain);
    let (mut asks, mut looks, mut together) = (Vec::new(), Vec::new(), Together::default());
    for (index, found) in matches.descriptors.iter().enumerate() {
        let Some(native) = found.native() else { continue };
        let Some(limit) = limits.of_rule(&native.rule) else { continue };
        let Some(descriptor) = request.descriptors.get(index) else { continue };
        let (hits, is_refund) = (request.hits(descriptor), descriptor.is_negative_hits);
        let is_forced = matches!(limit.charging, Some(Charging::Forced)) && hits > 0;
        let never_denies = native.rule.is_shadow() || is_refund || is_forced;
        if !is_all_or_none || never_denies {
            let charge = if is_refund { Charge::Refund(hits) } else { Charge::Add(hits) };
            asks.push(one(index, native, limit, charge));
        } else if hits == 0 {
            looks.push(one(index, native, limit, Charge::Add(0)));
        } else {
            together.add(index, native, limit, hits)?;
        }
    }
    if together.parts.is_empty() {
        asks.extend(looks);
        return Ok(asks);
    }
    let (abouts, looking): (Vec<About>, Vec<Deciding<'_>>) =
        looks.into_iter().map(|look| (look.about, look.decision)).unzip();
    let mut may_charge = true;
    if !looking.is_empty() {
        for (about, decision) in abouts.into_iter().zip(batched(looking).await) {
            let decision = decision?;
            may_charge &= decision.is_allowed();
            asks.push(NativeAsk { about, decision: Box::pin(ready(Ok(decision))) });
        }
    }
    asks.extend(together.ask(limits, may_charge)?);
    Ok(asks)
}

/// Returns the request about one descriptor.
fn one<'a>(
    index: usize,
    native: &'a Native,
    limit: &'a RuleLimit,
    charge: Charge,
) -> NativeAsk<'a> {
    let (gate, key) = (&limit.gate, native.key.as_slice());
    match (charge, limit.charging) {
        (Charge::Add(hits), Some(Charging::Forced)) if hits > 0 => {
            NativeAsk { about: About::Forced(index), decision: Box::pin(force(gate, key, hits)) }
        }
        (Charge::Add(hits), Some(Charging::Held(lasts))) if hits > 0 => {
            let held = Held::default();
            let decision = Box::pin(hold(gate, key, hits, lasts, Held::clone(&held)));
            NativeAsk { about: About::Held(index, held), decision }
        }
        _ => {
            let decision = Box::pin(ask(gate, key, None, charge).into_future());
            NativeAsk { about: About::One(index), decision }
        }
    }
}

/// Descriptors that are decided together.
#[derive(Default)]
struct Together<'a> {
    parts: Vec<Part<'a>>,
    descriptors: Vec<(usize, LimitName)>,
}

struct Part<'a> {
    limit: &'a RuleLimit,
    key: &'a [u8],
    hits: u64,
}

impl<'a> Together<'a> {
    /// Adds a descriptor. Hits for one key add up.
    fn add(
        &mut self,
        index: usize,
        native: &'a Native,
        limit: &'a RuleLimit,
        hits: u64,
    ) -> Result<(), Error> {
        let key = native.key.as_slice();
        match self.parts.iter_mut().find(|part| part.limit.name == limit.name) {
            None => self.parts.push(Part { limit, key, hits }),
            Some(part) if part.key == key => part.hits = part.hits.saturating_add(hits),
            Some(_) => {
                let message = format!(
                    "two descriptors have different keys of limit `{}`, which the domain decides together with the \
                     others: send one of them",
                    limit.name
                );
                return Err(invalid(&message));
            }
        }
        self.descriptors.push((index, limit.name.clone()));
        Ok(())
    }

    /// Returns the request, which only looks unless it may charge; `None` without descriptors.
    fn ask(self, limits: &RuleLimits, may_charge: bool) -> Result<Option<NativeAsk<'a>>, Error> {
        let Some((first, others)) = self.parts.split_first() else { return Ok(None) };
        let other_limits: Vec<&RuleLimit> = others.iter().map(|part| part.limit).collect();
        let gate = limits
            .together(first.limit, &other_limits)
            .map_err(|error| invalid(&error.to_string()))?;
        let asked = others.iter().fold(first.ask(), |asked, part| asked.and(part.ask()));
        let decision: Deciding<'a> = Box::pin(async move {
            if may_charge { gate.check(asked).await } else { gate.peek(asked).await }
        });
        Ok(Some(NativeAsk { about: About::Together(self.descriptors), decision }))
    }
}

impl<'a> Part<'a> {
    fn ask(&self) -> Ask<'a> {
        Ask::new(self.key).cost(self.hits.min(MAX_EXACT))
    }
}

fn invalid(message: &str) -> Error {
    RequestError::new(RequestErrorKind::Invalid, message).into()
}
