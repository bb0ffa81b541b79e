//! Combines the journals of processes: the certain and the possible facts about each deal.

use std::collections::BTreeMap;

use sluicegate::store::Span;

use super::journal::{Denial, Event, Found, Line, Manner};
use super::rules::{LIMITERS_TICKET_LIVES, TICKET_LIVES};

/// The conditions of a scenario that are needed to check its journals.
#[derive(Clone, Debug)]
pub(crate) struct Conditions {
    /// Duration of holds that aren't renewed.
    pub(crate) held_for: Span,
    /// The times in which something was wrong, in µs: then calls may be carried out late.
    pub(crate) outages: Vec<(u64, u64)>,
}

/// When a call was made, and when its answer came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<A> {
    pub(crate) sent: u64,
    pub(crate) answer: Option<(u64, A)>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Reply {
    Took { at: u64, is_repeat: bool },
    Denied(Denial),
    Failed { is_unknown: bool },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Took {
    pub(crate) at: u64,
    pub(crate) lasts: u64,
    pub(crate) heard: u64,
}

/// A request, and the outcome of its units. All times are in µs.
#[derive(Clone, Debug)]
pub(crate) struct Deal {
    #[expect(dead_code, reason = "it is shown where something is found")]
    pub(crate) process: usize,
    pub(crate) rule: usize,
    pub(crate) key: usize,
    pub(crate) units: u64,
    pub(crate) manner: Manner,
    pub(crate) job: u64,
    pub(crate) asks: Vec<Call<Reply>>,
    pub(crate) took: Option<Took>,
    /// The durations from each renewal on, and whether the hold was confirmed.
    pub(crate) renewals: Vec<(u64, Call<bool>)>,
    pub(crate) acts: Vec<u64>,
    pub(crate) settles: Vec<Call<Found>>,
    /// When its process was killed.
    pub(crate) killed: u64,
}

impl Conditions {
    /// Maximum delay of an abandoned call, counted only while no fault is active.
    pub(crate) const LATE: u64 = 500_000;

    /// Until when a call may be carried out that was given up at this time.
    pub(crate) fn latest(&self, given_up: u64) -> u64 {
        let mut spans = self.outages.clone();
        spans.sort_unstable();
        let (mut at, mut left) = (given_up, Self::LATE);
        for (begin, end) in spans {
            let fine = begin.saturating_sub(at);
            if fine > left {
                break;
            }
            left -= fine;
            at = at.max(end);
        }
        at + left
    }

    /// Returns the part of a span without faults.
    pub(crate) fn fine_within(&self, from: u64, to: u64) -> u64 {
        let mut spans = self.outages.clone();
        spans.sort_unstable();
        let (mut fine, mut at) = (0, from);
        for (begin, end) in spans {
            fine += begin.clamp(at, to.max(at)) - at;
            at = at.max(end.min(to));
        }
        fine + to.saturating_sub(at)
    }
}

/// Returns the deals of a process.
pub(crate) fn deals_of(process: usize, text: &str, killed: u64) -> Vec<Deal> {
    let mut deals = BTreeMap::new();
    for line in Line::all(text) {
        if let Event::Asks { rule, key, units, manner, job } = line.event {
            let [rule, key] = [rule, key].map(|number| usize::try_from(number).unwrap());
            deals.entry(line.deal).or_insert_with(|| Deal {
                process,
                rule,
                key,
                units,
                manner,
                job,
                asks: Vec::new(),
                took: None,
                renewals: Vec::new(),
                acts: Vec::new(),
                settles: Vec::new(),
                killed,
            });
        }
        let deal: &mut Deal = deals.get_mut(&line.deal).unwrap();
        deal.add(line.time, line.event);
    }
    deals.into_values().collect()
}

impl Deal {
    fn add(&mut self, time: u64, event: Event) {
        let mut answers = |reply| self.asks.last_mut().unwrap().answer = Some((time, reply));
        match event {
            Event::Asks { .. } => self.asks.push(Call { sent: time, answer: None }),
            Event::Took { at, lasts, is_repeat } => {
                answers(Reply::Took { at, is_repeat });
                self.took = self.took.or(Some(Took { at, lasts, heard: time }));
            }
            Event::Denied(denial) => answers(Reply::Denied(denial)),
            Event::Failed { is_unknown } => match self.renewals.last_mut() {
                // No request follows it.
                Some((_, renewal)) => renewal.answer = Some((time, false)),
                None => answers(Reply::Failed { is_unknown }),
            },
            Event::Renews { lasts } => {
                self.renewals.push((lasts, Call { sent: time, answer: None }));
            }
            Event::Renewed { is_live } => {
                self.renewals.last_mut().unwrap().1.answer = Some((time, is_live));
            }
            Event::Acts => self.acts.push(time),
            Event::Settles => self.settles.push(Call { sent: time, answer: None }),
            Event::Settled(found) => {
                self.settles.last_mut().unwrap().answer = Some((time, found));
            }
        }
    }

    /// Returns when an unanswered call was abandoned.
    fn given_up<A>(&self, call: &Call<A>) -> u64 {
        call.answer.as_ref().map_or(self.killed, |(time, _)| *time)
    }

    pub(crate) fn asked_first(&self) -> u64 {
        self.asks[0].sent
    }

    /// Returns the confirmed end of its hold. The store's clock may be the basis.
    pub(crate) fn told_until(&self) -> u64 {
        let Some(took) = self.took else { return 0 };
        let renewed = self.renewals.iter().filter_map(|(lasts, call)| match call.answer {
            Some((_, true)) => Some(call.sent + lasts),
            _ => None,
        });
        renewed.fold(took.at + took.lasts, u64::max)
    }

    /// Returns the span in which its units are certainly in flight. For a permit that is as long as it isn't lost.
    pub(crate) fn surely_in_flight(&self) -> Option<(u64, u64)> {
        let took = self.took?;
        let last_act = self.acts.last().filter(|_| self.manner.is_permit());
        let until = self.told_until().max(last_act.map_or(0, |act| act + 1));
        let until = self.settles.first().map_or(until, |settle| until.min(settle.sent));
        (took.at < until).then_some((took.at, until))
    }

    /// Since when, and until when, its units may be in flight.
    pub(crate) fn maybe_in_flight(&self, conditions: &Conditions) -> Option<(u64, u64)> {
        let unknown = self.asks.iter().filter(|ask| match ask.answer {
            Some((_, reply)) => reply == Reply::Failed { is_unknown: true },
            None => true,
        });
        let lasts = conditions.held_for.as_micros();
        let of_unknown =
            unknown.map(|ask| (ask.sent, conditions.latest(self.given_up(ask)) + lasts));
        let Some(took) = self.took else {
            return of_unknown.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        };
        // Permits are renewed until they are dropped.
        let until = if self.manner.is_permit() {
            let dropped = self.settles.first().map_or(self.killed, |settle| settle.sent);
            conditions.latest(dropped) + lasts
        } else {
            let renewed = self.renewals.iter().map(|(lasts, call)| match call.answer {
                Some((time, true)) => time + lasts,
                _ => conditions.latest(self.given_up(call)) + lasts,
            });
            renewed.fold(took.at + took.lasts, u64::max)
        };
        let settled = self.settles.iter().filter_map(|settle| settle.answer);
        let settled = settled.filter(|(_, found)| *found != Found::Error).map(|(time, _)| time);
        Some((took.at, settled.min().map_or(until, |time| until.min(time))))
    }

    /// Returns the spans in which it certainly has a ticket, one after the other.
    pub(crate) fn places(&self) -> Vec<Place> {
        let mut places: Vec<Place> = Vec::new();
        let Manner::Waits { priority } = self.manner else { return places };
        let lives = TICKET_LIVES.as_micros();
        for ask in &self.asks {
            let Some((answered, Reply::Denied(Denial::Behind(ahead)))) = ask.answer else {
                continue;
            };
            match places.last_mut() {
                Some(place) if answered < place.until => {
                    place.until = ask.sent + lives;
                    place.ahead.push(ahead);
                }
                _ if answered < ask.sent + lives => {
                    let until = ask.sent + lives;
                    places.push(Place { priority, since: answered, until, ahead: vec![ahead] });
                }
                _ => {}
            }
        }
        let took = self.took.map(|took| took.at);
        let left = self.settles.first().map(|settle| settle.sent);
        // A caller that lost the answer to a charge has no ticket any more, since its request.
        let unheard = self.asks.iter().filter(|ask| {
            ask.answer.is_none_or(|(_, reply)| reply == Reply::Failed { is_unknown: true })
        });
        let unheard = unheard.map(|ask| ask.sent).min();
        let end = [took, left, unheard].into_iter().flatten().min().unwrap_or(u64::MAX);
        for place in &mut places {
            place.until = place.until.min(end);
        }
        places.retain(|place| place.since < place.until);
        places
    }

    /// Since when, and until when, it may have a ticket.
    pub(crate) fn maybe_waits(&self, conditions: &Conditions) -> Option<(u64, u64)> {
        self.manner.priority()?;
        let lives = match self.manner {
            Manner::Waits { .. } => TICKET_LIVES.as_micros(),
            _ => LIMITERS_TICKET_LIVES,
        };
        let left = self.settles.iter().filter_map(|settle| settle.answer);
        let left = left.filter(|(_, found)| *found != Found::Error).map(|(time, _)| time).min();
        let last = self.asks.last()?;
        let until = match self.took {
            Some(took) => took.heard,
            None => conditions.latest(self.given_up(last)) + lives,
        };
        Some((self.asked_first(), left.map_or(until, |time| until.min(time))))
    }

    /// Returns whether a settlement may have been carried out.
    pub(crate) fn may_be_settled(&self) -> bool {
        let may = |settle: &Call<Found>| match settle.answer {
            Some((_, found)) => found != Found::Unknown,
            None => true,
        };
        self.settles.iter().any(may)
    }

    /// Returns when it was first requested, and when it may have been charged at the latest, if the answers don't tell.
    pub(crate) fn maybe_charged(&self, conditions: &Conditions) -> Option<(u64, u64)> {
        let unknown = self.asks.iter().filter(|ask| match ask.answer {
            Some((_, reply)) => reply == Reply::Failed { is_unknown: true },
            None => true,
        });
        unknown
            .map(|ask| (ask.sent, conditions.latest(self.given_up(ask))))
            .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }
}

/// A ticket, as far as it is sure.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) priority: u8,
    pub(crate) since: u64,
    pub(crate) until: u64,
    /// The number of tickets ahead, at each answer.
    pub(crate) ahead: Vec<u64>,
}
