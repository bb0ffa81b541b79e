//! Decides which limiter to ask about a request, and which limits not to ask.

use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sluicegate_core::for_stores::DecisionForStores as _;
use sluicegate_core::{Costs, Decision, Error, Operation, Purpose, RequestError, RequestErrorKind};
use smallvec::SmallVec;
use tokio::time::Instant;

use super::combinations::Numbers;
use super::gate_cache::GateCache;
use super::opened::Listing;
use super::resolved::{Part, Resolved};
use super::shared::Shared;
use super::target::Target;
use crate::ask::Ask;
use crate::config_file::{Switch, UnknownLimit};
use crate::limiter::Limiter;
use crate::observe::Answered;

/// The route of a request.
#[expect(clippy::large_enum_variant, reason = "it exists for one call, which must not allocate")]
pub(super) enum Route<'r, 'a> {
    /// To no limit.
    Bypass(Bypass<'r, 'a>),
    /// To a limiter, with all keys or only some of them.
    Ask(Cow<'r, Limiter>, Option<Ask<'a>>),
}

/// The answer to a request that asks no limit.
pub(super) struct Bypass<'r, 'a> {
    allowed: bool,
    /// The known limits that gave the answer, each with its key.
    by: SmallVec<[Answering<'r, 'a>; 1]>,
}

/// A limit that gave an answer without its store, and the key that was given for it.
type Answering<'r, 'a> = (&'r Limiter, Cow<'a, [u8]>);

impl Bypass<'_, '_> {
    /// Returns whether the request is allowed.
    pub(super) const fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// Returns the decision, and notifies the observers of each limit that gave it.
    pub(super) fn decide(self, operation: Operation<'_>) -> Decision {
        let decision = Decision::bypass(self.allowed);
        if let Operation::GiveBack { .. } = operation {
            // Nothing is decided: the request was observed when it took units.
            return decision;
        }
        for (limiter, key) in self.by {
            if limiter.observers().is_empty() {
                continue;
            }
            let answered = Answered {
                limit: limiter.limit(),
                keys: &[&key],
                unasked: &[],
                operation,
                // Nothing was charged.
                costs: Costs::Own,
                outcome: Ok(&decision),
                failure: None,
                at: Instant::now().into_std(),
                took: Duration::ZERO,
            };
            limiter.observers().tell(&answered);
        }
        decision
    }
}

impl Resolved {
    /// Returns the limiter, if every key has this limiter, all limits are asked, and each counts its key as given.
    #[inline]
    pub(super) fn plain_for(&self, ask: &Ask<'_>) -> Option<&Limiter> {
        let is_plain =
            || ask.len() == self.parts.len() && !ask.has_nothing() && self.counts_as_given(ask);
        self.plain.as_ref().filter(|_| is_plain())
    }

    #[inline]
    pub(super) fn route<'a>(
        &self,
        shared: &Shared,
        names: &GateCache,
        ask: &Ask<'a>,
        purpose: Purpose,
    ) -> Result<Route<'_, 'a>, Error> {
        if ask.len() != self.parts.len() {
            return Err(self.miscounted(names, ask));
        }
        match self.plain_for(ask) {
            Some(limiter) => Ok(Route::Ask(Cow::Borrowed(limiter), None)),
            None => match self.with_counted_keys(ask, purpose)? {
                None => self.look(shared, names, ask, purpose),
                Some(changed) => Ok(match self.look(shared, names, &changed, purpose)? {
                    Route::Ask(limiter, None) => Route::Ask(limiter, Some(changed)),
                    route => route,
                }),
            },
        }
    }

    /// Returns the route of a request whose key may be on a list, or whose limits may be off.
    fn look<'a>(
        &self,
        shared: &Shared,
        names: &GateCache,
        ask: &Ask<'a>,
        purpose: Purpose,
    ) -> Result<Route<'_, 'a>, Error> {
        let mut numbers = Numbers::new();
        let mut denied = false;
        // The limits that block their keys, and the others that aren't asked.
        let (mut blocking, mut passing) = (SmallVec::new(), SmallVec::new());
        for (index, (part, subject)) in self.parts.iter().zip(ask.subjects()).enumerate() {
            let counted = match part {
                Part::Known(_) if subject.is_nothing => None,
                Part::Known(known) if known.switch == Switch::Off && purpose != Purpose::Forget => {
                    None
                }
                Part::Known(known) => match known.opened.listing(&subject, purpose) {
                    Listing::Allowed => None,
                    Listing::Blocked => {
                        denied = true;
                        blocking.push((known.limiter(0), ask.key_of(index)));
                        None
                    }
                    Listing::Counted(numbers) => Some(numbers),
                },
                Part::Unknown { then, told } => {
                    let name = || names.targets().get(index).map_or("", Target::name);
                    match then {
                        UnknownLimit::Error => return Err(shared.unknown(name())),
                        UnknownLimit::Pass => {}
                        UnknownLimit::Warn => {
                            if !told.load(Ordering::Relaxed) && !told.swap(true, Ordering::Relaxed)
                            {
                                shared.warn_of_unknown(name());
                            }
                        }
                        UnknownLimit::Deny => denied = true,
                    }
                    None
                }
            };
            if let (None, Part::Known(known)) = (counted, part) {
                passing.push((known.limiter(0), ask.key_of(index)));
            }
            numbers.push(counted);
        }
        if denied && purpose == Purpose::Admit {
            return Ok(Route::Bypass(Bypass { allowed: false, by: blocking }));
        }

        let counted: SmallVec<[(usize, u32); 4]> = numbers
            .iter()
            .enumerate()
            .filter_map(|(index, numbers)| Some((index, (*numbers)?)))
            .collect();
        match *counted {
            [] => Ok(Route::Bypass(Bypass { allowed: !denied, by: passing })),
            [(index, set)] if self.parts.len() == 1 => {
                let Some(Part::Known(known)) = self.parts.get(index) else {
                    return Ok(Route::Bypass(Bypass { allowed: !denied, by: passing }));
                };
                let limiter = Cow::Borrowed(known.limiter(set));
                Ok(Route::Ask(limiter, reduced(ask, &numbers)))
            }
            _ => {
                let limiter = self.joint(&numbers)?;
                let reduced = reduced(ask, &numbers);
                // Only observers read the limits that aren't asked, and to name them allocates.
                let reduced = reduced.map(|ask| {
                    if limiter.observers().is_empty() {
                        return ask;
                    }
                    let named = passing
                        .into_iter()
                        .map(|(limiter, key)| (limiter.limit().name().clone(), key));
                    ask.beside(named.collect::<Box<_>>())
                });
                Ok(Route::Ask(Cow::Owned(limiter), reduced))
            }
        }
    }

    #[cold]
    pub(super) fn miscounted(&self, names: &GateCache, ask: &Ask<'_>) -> Error {
        RequestError::new(
            RequestErrorKind::Invalid,
            format!(
                "`{}` needs {}, but {} given: join one key per limit with `Ask::and`",
                names.name(),
                if self.parts.len() == 1 {
                    "one key".to_owned()
                } else {
                    format!("{} keys", self.parts.len())
                },
                if ask.len() == 1 { "one is".to_owned() } else { format!("{} are", ask.len()) },
            ),
        )
        .into()
    }
}

/// Returns the part of an `Ask` for the limits that have numbers, at least one.
fn reduced<'a>(ask: &Ask<'a>, numbers: &Numbers) -> Option<Ask<'a>> {
    if numbers.iter().all(Option::is_some) {
        return None;
    }
    let concerned = ask.each().zip(numbers).filter(|(_, numbers)| numbers.is_some());
    concerned.map(|(ask, _)| ask).reduce(Ask::and)
}
