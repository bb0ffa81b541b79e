//! A request whose subjects are in several slots of a cluster, so that no single call can decide about all of
//! them.
//!
//! [`Joint`] decides the parts of each slot with one call, which leaves a [hold](crate::hold): a record of
//! its charge. If one slot denies, the charges of the others are given back by their records. So more than a
//! limit is never admitted. Units that are not given back, because the caller crashed or its time was up,
//! stay charged.

mod groups;
mod two_phase;

use std::sync::Arc;

use futures_util::future::join_all;
use sluicegate_core::for_stores::{DecisionForStores as _, Driver, Share};
use sluicegate_core::{
    Costs, Decision, Enforcement, Error, HoldFound, Limit, MAX_EXACT, Member, Operation, Request,
    RequestError, RequestErrorKind, Span, Timestamp,
};
use smallvec::SmallVec;

use crate::cluster::Contention;
use crate::hold::{Hold, random_id};
use crate::link::Deadline;
use crate::script_limit::ScriptLimit;
use two_phase::{Back, Desks, Order, Question, ask_all, take};

pub(crate) use groups::Groups;
use groups::{Group, keeps_of_denied, shaper};

/// A request whose subjects are in several slots.
pub(crate) struct Joint<'a> {
    limit: &'a Limit,
    request: Request<'a>,
    contention: &'a Contention,
    hold: Hold,
    deadline: Deadline,
    /// In the order of slots.
    places: SmallVec<[Place<'a>; 4]>,
}

/// The part of a request for one slot.
struct Place<'a> {
    slot: u16,
    group: Arc<Group>,
    subjects: SmallVec<[&'a [u8]; 2]>,
    costs: SmallVec<[u64; 4]>,
}

impl<'a> Joint<'a> {
    /// Returns a request to a limit whose parts have their subjects in `slots`, in order. Returns `None` if
    /// all slots are equal, so that one call decides.
    pub(crate) fn of(
        (whole, groups): (&'a ScriptLimit, &Groups),
        request: Request<'a>,
        contention: &'a Contention,
        slots: &[u16],
        deadline: Deadline,
    ) -> Option<Self> {
        let mut sorted: SmallVec<[u16; 4]> = slots.into();
        sorted.sort_unstable();
        sorted.dedup();
        if sorted.len() < 2 {
            return None;
        }
        let place = |slot: u16| {
            let parts = slots.iter().enumerate().filter(|(_, other)| **other == slot);
            let parts: SmallVec<[usize; 4]> = parts.map(|(part, _)| part).collect();
            let group = groups.of(whole, &parts);
            let limit = whole.limit();
            let costs = group.members.iter().map(|&index| request.cost_of(limit, index)).collect();
            let subjects = parts.iter().map(|&part| request.subject(part)).collect();
            Place { slot, group, subjects, costs }
        };
        let micros = u64::try_from(deadline.patience.as_micros()).unwrap_or(MAX_EXACT);
        let life = Span::from_micros(micros.saturating_mul(2).clamp(1, MAX_EXACT)).ok()?;
        Some(Self {
            limit: whole.limit(),
            request,
            contention,
            hold: request.holds().map_or(Hold { id: random_id(), life }, |hold| Hold {
                id: hold.id,
                life: hold.lasts.into(),
            }),
            deadline,
            places: sorted.into_iter().map(place).collect(),
        })
    }

    /// Decides the request.
    pub(crate) async fn decide(self) -> Result<Decision, Error> {
        if self.request.idempotency().is_some() {
            return Err(self.waits("a request with an id"));
        }
        if let Operation::Settle { .. } | Operation::Renew { .. } = self.request.operation() {
            return self.go_by_records().await;
        }
        if self.request.ticket().is_some() {
            return Err(self.waits("a queue position"));
        }
        let order = match self.request.operation() {
            Operation::Take if self.request.holds().is_some() => {
                return Err(self.waits("a take with a hold"));
            }
            Operation::Reserve { .. } => return Err(self.waits("a reservation")),
            Operation::Check | Operation::Take | Operation::Charge | Operation::Peek
                if shaper(self.limit).is_some() =>
            {
                return Err(self.waits("a shaper"));
            }
            Operation::Check | Operation::Take if self.contention.has(self.slots()) => {
                Order::OneByOne
            }
            Operation::Check | Operation::Take | Operation::Charge => Order::AtOnce,
            _ => return Ok(self.merged(&ask_all(&self).await?, &[])),
        };
        let taken = take(&self, order).await?;
        // After a first denial the answers of the other slots are unknown, so requests keep asking one by
        // one.
        if taken.was_mixed || order == Order::OneByOne && taken.is_denied() {
            self.contention.add(self.slots());
        }
        let holds = taken.decisions.iter().any(|decision| decision.hold().is_some());
        let decision = self.merged(&taken.decisions, &taken.afterwards);
        Ok(match self.request.holds() {
            Some(hold) if holds && decision.is_allowed() => decision.with_hold(*hold),
            _ => decision,
        })
    }

    /// Settles or renews the hold in each slot.
    async fn go_by_records(&self) -> Result<Decision, Error> {
        let asked = self.places.iter().map(|place| async move {
            let used: SmallVec<[Option<u64>; 4]> = match self.request.operation() {
                Operation::Settle { used, .. } => {
                    let used_of = |&index: &usize| used.get(index).copied().flatten();
                    place.group.members.iter().map(used_of).collect()
                }
                _ => SmallVec::new(),
            };
            let request = place.by_record(self.request.operation(), &used).at(self.request.time());
            place.group.opened.ask_script(request, None, self.deadline).await
        });
        let all = join_all(asked).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        let found = all.iter().filter_map(Decision::hold_found);
        let found = found.min_by_key(|found| match found {
            HoldFound::Live => 0,
            HoldFound::Settled => 1,
            HoldFound::Waited => 2,
            _ => 3,
        });
        let mut given: SmallVec<[Option<u64>; 4]> =
            SmallVec::from_elem(None, self.limit.members().len());
        for (place, decision) in self.places.iter().zip(&all) {
            let is_of_all = decision.hold_found() == found;
            for (&index, outcome) in place.group.members.iter().zip(decision.policies()) {
                given[index] = outcome.given_back().filter(|_| is_of_all);
            }
        }
        let nothing: SmallVec<[u64; 4]> = self.limit.members().iter().map(|_| 0).collect();
        let peek = self.request.as_peek().costs(Costs::Each(&nothing));
        let hold = all.iter().find_map(Decision::hold);
        let peeked: Vec<Decision> = all.into_iter().map(Decision::into_peeked).collect();
        let decision = Decision::joint(self.limit, &peek, &self.shares(&peeked, &[]));
        let decision = decision.of_hold(found.unwrap_or(HoldFound::Unknown), given.into_iter());
        Ok(match hold {
            Some(hold) => decision.with_hold(hold),
            None => decision,
        })
    }

    fn slots(&self) -> impl Iterator<Item = u16> {
        self.places.iter().map(|place| place.slot)
    }

    fn merged(&self, decisions: &[Decision], afterwards: &[Option<Decision>]) -> Decision {
        Decision::joint(self.limit, &self.request, &self.shares(decisions, afterwards))
    }

    fn shares<'d>(
        &'d self,
        decisions: &'d [Decision],
        afterwards: &'d [Option<Decision>],
    ) -> SmallVec<[Share<'d>; 4]> {
        let shares = self.places.iter().zip(decisions).enumerate();
        shares
            .map(|(index, (place, decision))| Share {
                decision,
                members: &place.group.members,
                afterwards: afterwards.get(index).and_then(Option::as_ref),
            })
            .collect()
    }

    async fn ask_place(&self, place: &Place<'_>, question: Question) -> Result<Decision, Error> {
        let (opened, at) = (&place.group.opened, self.request.time());
        match question {
            Question::Take => {
                let request = place.request(self.request.operation(), at);
                match self.request.holds() {
                    Some(hold) => opened.ask_script(request.hold(hold), None, self.deadline).await,
                    None => opened.ask_script(request, Some(self.hold), self.deadline).await,
                }
            }
            Question::Look => {
                let mut costs = place.costs.clone();
                let operation = match self.request.operation() {
                    Operation::Check => Operation::Peek,
                    // A denial means that not even one unit is free.
                    Operation::Take => {
                        costs.iter_mut().for_each(|cost| *cost = (*cost).min(1));
                        Operation::Peek
                    }
                    operation => operation,
                };
                let request = place.request(operation, at).costs(Costs::Each(&costs));
                opened.ask_script(request, None, self.deadline).await
            }
            Question::LookForNothing => {
                let nothing: SmallVec<[u64; 4]> = place.costs.iter().map(|_| 0).collect();
                let request = place.request(Operation::Peek, at).costs(Costs::Each(&nothing));
                opened.ask_script(request, None, self.deadline).await
            }
            Question::GiveBack(back) => {
                let (request, most) = (
                    place.request(Operation::Peek, at),
                    place.returns(back, self.request.operation()),
                );
                opened.give_back(request.costs(Costs::Each(&most)), self.hold, self.deadline).await
            }
        }
    }

    #[cold]
    fn waits(&self, what: &str) -> Error {
        let message = format!(
            "limit `{}` has subjects in different slots, so nodes can't decide about {what} together: send separate requests, or keep these limits on one server",
            self.limit.name()
        );
        RequestError::new(RequestErrorKind::Unsupported, message).into()
    }
}

impl<'a> Place<'a> {
    fn request<'r>(&'r self, operation: Operation<'r>, at: Option<Timestamp>) -> Request<'r> {
        let (key, also) =
            self.subjects.split_first().map_or((&[][..], &[][..]), |(key, also)| (*key, also));
        Request::new(operation, key).also(also).costs(Costs::Each(&self.costs)).at(at)
    }

    /// Returns this slot's part of a settling or renewing request.
    fn by_record<'r>(&'r self, operation: Operation<'_>, used: &'r [Option<u64>]) -> Request<'r> {
        let (key, also) =
            self.subjects.split_first().map_or((&[][..], &[][..]), |(key, also)| (*key, also));
        let request = match operation {
            Operation::Renew { id, lasts } => Request::renew(key, id, lasts),
            Operation::Settle { id, .. } => Request::settle(key, id, used),
            _ => Request::new(Operation::Peek, key),
        };
        request.also(also)
    }

    /// Returns the maximum units that each policy gives back of its charge.
    fn returns(&self, back: Back, operation: Operation<'_>) -> SmallVec<[u64; 4]> {
        let members = self.group.opened.limit().members().iter();
        let returned = members.map(|member| match back {
            Back::Denied(_) | Back::Surplus(_) if is_shadow(member) => 0,
            // Denied requests for up to a number of units cost one unit.
            Back::Denied(granted) if operation == Operation::Take && keeps_of_denied(member) => {
                granted.saturating_sub(1)
            }
            Back::Denied(_) if keeps_of_denied(member) => 0,
            Back::Surplus(units) => units,
            Back::All | Back::Denied(_) => MAX_EXACT,
        });
        returned.collect()
    }
}

impl Desks for Joint<'_> {
    fn count(&self) -> usize {
        self.places.len()
    }

    /// Asks a place. A failure names its node, because only that node has failed.
    async fn ask(&self, desk: usize, question: Question) -> Result<Decision, Error> {
        let place = &self.places[desk];
        self.ask_place(place, question).await.map_err(|error| match error {
            Error::Store(error) => error.at(place.group.opened.node_of(place.slot)).into(),
            error => error,
        })
    }
    /// Spawns a task for each place. It ends with the records, after another deadline.
    fn give_back_unwatched(&self, desks: impl Iterator<Item = usize>) {
        // Without a thread nothing can be sent: the units stay charged.
        let Ok(runtime) = Driver::home() else { return };
        let (hold, at) = (self.hold, self.request.time());
        let patience = self.deadline.patience;
        let deadline = Deadline::at(self.deadline.at + patience, 2 * patience);
        for desk in desks {
            let place = &self.places[desk];
            let (group, most) =
                (Arc::clone(&place.group), place.returns(Back::All, self.request.operation()));
            let subjects: Vec<Vec<u8>> = place.subjects.iter().map(|it| it.to_vec()).collect();
            runtime.spawn(async move {
                let subjects: SmallVec<[&[u8]; 2]> = subjects.iter().map(Vec::as_slice).collect();
                let Some((key, also)) = subjects.split_first() else { return };
                let request = Request::new(Operation::Peek, key).also(also).at(at);
                let request = request.costs(Costs::Each(&most));
                // If it fails, the units stay charged.
                let _ = group.opened.give_back(request, hold, deadline).await;
            });
        }
    }

    fn bounds(&self, desk: usize) -> bool {
        let is_take = self.request.operation() == Operation::Take;
        let Place { group, costs, .. } = &self.places[desk];
        let mut charged =
            group.opened.limit().members().iter().zip(costs).filter(|(_, cost)| **cost > 0);
        is_take && charged.any(|(member, _)| !is_shadow(member))
    }

    fn charges_the_denied(&self, desk: usize) -> bool {
        self.places[desk].group.charges_the_denied()
    }
}

fn is_shadow(member: &Member) -> bool {
    member.policy().enforcement() == Enforcement::Shadow
}
