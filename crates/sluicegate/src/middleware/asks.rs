//! The requests to limits about an HTTP request.

use sluicegate_core::{Clock as _, Decision, Error, RequestError, RequestErrorKind};
use sluicegate_http::{FieldFormat, PreparedFields};
use sluicegate_memory::SystemClock;
use smallvec::SmallVec;

use super::charge::Charge;
use crate::ask::Ask;
use crate::registry::{Gate, Look, RequestKeys};

/// The keys of a request, one per limit, and optionally its costs.
#[derive(Debug)]
pub(super) struct Question {
    keys: RequestKeys,
    /// By the index of the limit; limits beyond the end have their own costs.
    costs: SmallVec<[Option<Charge>; 1]>,
    /// The priority with which it waits for permits.
    priority: u8,
}

/// The charge of a response: one entry per limit. The last entry applies to all further limits.
#[derive(Clone, Debug, Default)]
pub(super) struct Charges(SmallVec<[Charge; 1]>);

impl Charges {
    /// Makes the charge equal in every limit.
    pub(super) fn all(charge: Charge) -> Self {
        Self(SmallVec::from_buf([charge]))
    }

    pub(super) fn is_free(&self) -> bool {
        self.0.iter().all(Charge::is_free)
    }

    fn of(&self, index: usize) -> Option<&Charge> {
        self.0.get(index).or_else(|| self.0.last())
    }
}

/// Selects the part of a [`Question`] to send.
pub(super) type Asking = for<'q> fn(&'q Question) -> Ask<'q>;

impl Question {
    pub(super) const fn new(
        keys: RequestKeys,
        costs: SmallVec<[Option<Charge>; 1]>,
        priority: u8,
    ) -> Self {
        Self { keys, costs, priority }
    }

    /// Requests the cost.
    pub(super) fn ask(&self) -> Ask<'_> {
        let ask = self.keys.ask_with(|index, ask| match self.cost(index) {
            Some(cost) => cost.ask(ask),
            None => ask,
        });
        ask.priority(self.priority)
    }

    /// Asks about the keys, for a request without a cost.
    pub(super) fn ask_keys(&self) -> Ask<'_> {
        self.keys.ask()
    }

    /// Asks whether a request would pass that is charged after its response. Policies that its cost doesn't name must
    /// have remaining units too.
    pub(super) fn ask_ahead(&self) -> Ask<'_> {
        self.keys.ask_with(|index, ask| match self.cost(index) {
            Some(cost) => cost.ask_beside_own(ask),
            None => ask,
        })
    }

    /// Returns whether units are taken before the response although the charge comes after it.
    pub(super) fn takes_ahead(&self) -> bool {
        self.costs.iter().flatten().any(Charge::charges_by_name)
    }

    /// Requests the units to take before the response: the cost of named policies.
    pub(super) fn take_ahead(&self) -> Ask<'_> {
        self.keys.ask_with(|index, ask| match self.cost(index) {
            Some(cost) => cost.ask_named(ask),
            None => ask.nothing_otherwise(),
        })
    }

    /// Requests the units that [`Self::ask_ahead`] covers and [`Self::take_ahead`] doesn't take.
    pub(super) fn ask_rest(&self) -> Ask<'_> {
        self.keys.ask_with(|index, ask| match self.cost(index) {
            Some(cost) => cost.ask_unnamed(ask),
            None => ask,
        })
    }

    /// Charges the request's usage to all limits that were asked. Named policies are charged in each limit that has
    /// them.
    ///
    /// # Errors
    /// Returns an error if no limit has a named policy.
    pub(super) fn charge<'a>(
        &'a self,
        charges: &'a Charges,
        look: &Look,
    ) -> Result<Ask<'a>, Error> {
        let mut names = charges.0.iter().flat_map(Charge::names);
        if let Some(name) = names.find(|name| !look.may_have_policy(name)) {
            let message = format!(
                "no limit here has a policy `{}`: the policies are {}",
                name.escape_debug(),
                look.policies().join(", ")
            );
            return Err(RequestError::new(RequestErrorKind::Invalid, message).into());
        }
        let has = |index, name: &str| look.has_policy(index, name);
        Ok(self.keys.ask_with(|index, ask| match charges.of(index) {
            Some(charge) => charge.ask_where(ask, |name| has(index, name)),
            None => ask.nothing_otherwise(),
        }))
    }

    /// Settles the units that were taken by name before the response for the usage. Leaves the units to give back in
    /// this question, and returns those still to charge.
    pub(super) fn settle(&mut self, used: Charge) -> Charges {
        if self.costs.is_empty() {
            return Charges::all(used);
        }
        // A limit beyond the end took nothing by name.
        let beyond = self.costs.iter().map(|taken| match taken {
            Some(taken) => used.beyond(taken),
            None => used.clone(),
        });
        let charges = Charges(beyond.chain([used.clone()]).collect());
        for taken in self.costs.iter_mut().flatten() {
            *taken = taken.unless_used(&used);
        }
        charges
    }

    fn cost(&self, index: usize) -> Option<&Charge> {
        self.costs.get(index).and_then(Option::as_ref)
    }
}

/// Returns the response fields for a gate's answer to what `ask` returns.
pub(super) fn fields_of<'q>(
    gate: &Gate,
    decision: &Decision,
    ask: impl FnOnce() -> Ask<'q>,
) -> PreparedFields {
    let Some((fields, limit)) = gate.fields(decision).zip(decision.limit()) else {
        return PreparedFields::default();
    };
    let of = fields.of(decision);
    match fields.format() {
        FieldFormat::None if decision.is_allowed() => PreparedFields::default(),
        FieldFormat::DraftNext => {
            let (ask, mut each) = (ask(), SmallVec::new());
            // Only if all limits were asked are the costs those of the limits in the answer.
            let all_asked = ask.len() == limit.parts().len() && !ask.has_nothing();
            match ask.costs(limit, &mut each) {
                Ok(costs) if all_asked => of.costs(costs).prepare(),
                _ => of.prepare(),
            }
        }
        // Clients compare with this clock; the store's may differ.
        FieldFormat::XRateLimitUnix => of.at(SystemClock::new().now()).prepare(),
        _ => of.prepare(),
    }
}
