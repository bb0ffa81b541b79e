//! Checks the journals of all processes against the promises about units in flight and about waiters.

use super::deals::{Conditions, Deal, Place, Reply};
use super::journal::Denial;
use super::rules::{HELD, Kind, LIMITERS_TICKET_LIVES};
use super::verdicts::Verdicts;

/// The deals about one key of one limit.
#[derive(Debug)]
pub(crate) struct Flight<'a> {
    most: u64,
    queue: u64,
    conditions: &'a Conditions,
    deals: Vec<&'a Deal>,
    /// The span of each deal in which its units are certainly, and then possibly, in flight.
    surely: Spans,
    maybe: Spans,
    /// The span of each ticket in which it may exist, and the certain tickets.
    maybe_waits: Spans,
    places: Vec<(usize, Place)>,
}

/// Spans of time, one for each deal, in the order of their begin.
#[derive(Debug, Default)]
struct Spans {
    all: Vec<(u64, u64, usize)>,
    longest: u64,
}

impl Spans {
    fn of(spans: impl Iterator<Item = (usize, Option<(u64, u64)>)>) -> Self {
        let spans = spans.filter_map(|(deal, span)| span.map(|(from, to)| (from, to, deal)));
        let mut all: Vec<_> = spans.collect();
        all.sort_unstable();
        let longest = all.iter().map(|(from, to, _)| to.saturating_sub(*from)).max().unwrap_or(0);
        Self { all, longest }
    }

    /// Returns the deals whose spans have an instant in common with this one.
    fn meeting(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64, usize)> {
        let first = from.saturating_sub(self.longest);
        let begin = self.all.partition_point(|span| span.0 < first);
        let near = self.all[begin..].iter().take_while(move |span| span.0 <= to);
        near.filter(move |span| span.1 >= from).copied()
    }
}

impl<'a> Flight<'a> {
    pub(crate) fn of(
        deals: &'a [Deal],
        conditions: &'a Conditions,
        rule: usize,
        key: usize,
    ) -> Self {
        let Kind::InFlight { most, queue } = HELD[rule].kind else {
            unreachable!("nothing of it is in flight")
        };
        let is_of = |deal: &&Deal| deal.rule == rule && deal.key == key;
        let deals: Vec<_> = deals.iter().filter(is_of).collect();
        let each = || deals.iter().enumerate();
        let places =
            each().flat_map(|(at, deal)| deal.places().into_iter().map(move |it| (at, it)));
        Self {
            most,
            queue,
            conditions,
            surely: Spans::of(each().map(|(at, deal)| (at, deal.surely_in_flight()))),
            maybe: Spans::of(each().map(|(at, deal)| (at, deal.maybe_in_flight(conditions)))),
            maybe_waits: Spans::of(each().map(|(at, deal)| (at, deal.maybe_waits(conditions)))),
            places: places.collect(),
            deals,
        }
    }

    pub(crate) fn judge(&self, verdicts: &mut Verdicts) {
        self.judge_excess(verdicts);
        for deal in &self.deals {
            verdicts.admitted += u64::from(deal.took.is_some());
            judge_acts(deal, verdicts);
        }
        for at in 0..self.deals.len() {
            self.judge_turn(at, verdicts);
            self.judge_denials(at, verdicts);
        }
        for (at, place) in &self.places {
            let grows = place.ahead.windows(2).any(|pair| pair[1] > pair[0]);
            if place.priority == 0 && grows {
                verdicts.finds("lost place", place.since, || {
                    format!("{:?} of {:?}", place.ahead, self.deals[*at])
                });
            }
        }
        self.measure_free(verdicts);
        self.measure_taken_again(verdicts);
    }

    /// Checks the number of units in flight at each instant.
    fn judge_excess(&self, verdicts: &mut Verdicts) {
        let mut changes: Vec<(u64, bool, usize)> = Vec::new();
        for (from, to, deal) in &self.surely.all {
            changes.extend([(*from, true, *deal), (*to, false, *deal)]);
        }
        // A hold that ends at an instant isn't in flight at it.
        changes.sort_unstable();
        let mut in_flight: Vec<usize> = Vec::new();
        for (time, begins, deal) in changes {
            if !begins {
                in_flight.retain(|other| *other != deal);
                continue;
            }
            in_flight.push(deal);
            let units: u64 = in_flight.iter().map(|deal| self.deals[*deal].units).sum();
            if units > self.most {
                let all: Vec<_> = in_flight.iter().map(|deal| self.deals[*deal]).collect();
                verdicts.finds_units("too many in flight", time, units - self.most, || {
                    format!("{units} of {}: {all:?}", self.most)
                });
            }
        }
    }

    /// Checks that no admitted deal overtook tickets that were certainly ahead.
    fn judge_turn(&self, at: usize, verdicts: &mut Verdicts) {
        let deal = self.deals[at];
        let Some(took) = deal.took.filter(|_| self.queue > 0) else { return };
        let comes_first = |place: &Place| match deal.manner.priority() {
            Some(priority) if place.priority < priority => place.since < took.at,
            Some(priority) => place.priority == priority && place.since < deal.asked_first(),
            None => place.since < took.at,
        };
        let first: Vec<_> = self
            .places
            .iter()
            .filter(|(other, place)| *other != at && took.at < place.until && comes_first(place))
            .collect();
        let others = self.surely.meeting(took.at, took.at);
        let in_flight: u64 = others
            .filter(|(from, to, other)| *other != at && *from < took.at && *to > took.at)
            .map(|(.., other)| self.deals[other].units)
            .sum();
        let ahead: u64 = first.iter().map(|(other, _)| self.deals[*other].units).sum();
        verdicts.turns += u64::from(!self.places.is_empty());
        if ahead > 0 && in_flight + ahead + deal.units > self.most {
            verdicts.finds("out of turn", took.at, || {
                let first: Vec<_> = first.iter().map(|(other, _)| self.deals[*other]).collect();
                format!("{in_flight} in flight, {deal:?} before {first:?}")
            });
        }
    }

    /// Checks that each denied request may have had no free units, and that the tickets reported ahead of it may have
    /// existed.
    fn judge_denials(&self, at: usize, verdicts: &mut Verdicts) {
        let deal = self.deals[at];
        for ask in &deal.asks {
            let Some((answered, Reply::Denied(denial))) = ask.answer else { continue };
            verdicts.denied += 1;
            let is_other = |(_, _, other): &(u64, u64, usize)| *other != at;
            let in_flight = self.maybe.meeting(ask.sent, answered).filter(is_other);
            let in_flight: u64 = in_flight.map(|(.., other)| self.deals[other].units).sum();
            let waiting = self.maybe_waits.meeting(ask.sent, answered).filter(is_other);
            let waiting: u64 = waiting.map(|(.., other)| self.deals[other].units).sum();
            if in_flight + waiting + deal.units <= self.most {
                verdicts.finds("unfounded denial", answered, || {
                    format!("{in_flight} may be in flight, {waiting} wait, at {ask:?} of {deal:?}")
                });
            }
            let least = match denial {
                Denial::Plain => 0,
                Denial::Full => self.queue,
                Denial::Behind(ahead) => ahead,
            };
            if waiting < least {
                verdicts.finds("ghost in the queue", answered, || {
                    format!("{least} said to wait, {waiting} may: {ask:?} of {deal:?}")
                });
            }
        }
    }

    /// Measures for how long units were certainly free during a wait.
    fn measure_free(&self, verdicts: &mut Verdicts) {
        let mut changes: Vec<(u64, i64, i64)> = Vec::new();
        for (from, to, deal) in &self.maybe.all {
            let units = i64::try_from(self.deals[*deal].units).unwrap();
            changes.extend([(*from, units, 0), (*to, -units, 0)]);
        }
        for (_, place) in &self.places {
            changes.extend([(place.since, 0, 1), (place.until, 0, -1)]);
        }
        changes.sort_unstable();
        let (mut in_flight, mut waiting, mut since) = (0, 0, None);
        for (time, units, tickets) in changes {
            in_flight += units;
            waiting += tickets;
            let is_free = in_flight < i64::try_from(self.most).unwrap() && waiting > 0;
            match since {
                None if is_free => since = Some(time),
                Some(from) if !is_free => {
                    let free = self.conditions.fine_within(from, time);
                    verdicts.longest_free = verdicts.longest_free.max(free);
                    // Tickets of limiters whose waiters were killed expire last. Waiters behind them poll again within
                    // half of such a lifetime.
                    if free > LIMITERS_TICKET_LIVES * 3 / 2 {
                        verdicts.finds("lost unit", time, || {
                            format!("free for {free} µs while {waiting} waited")
                        });
                    }
                    since = None;
                }
                _ => {}
            }
        }
    }

    /// Measures the time from the end of a killed process's hold to the next admission.
    fn measure_taken_again(&self, verdicts: &mut Verdicts) {
        let mut taken: Vec<_> = self.deals.iter().filter_map(|deal| deal.took).collect();
        taken.sort_unstable_by_key(|took| took.at);
        for deal in &self.deals {
            let until = deal.told_until();
            if deal.took.is_none() || !deal.settles.is_empty() || deal.killed >= until {
                continue;
            }
            verdicts.killed_holding += 1;
            let next = taken.partition_point(|took| took.at < until);
            if let Some(next) = taken.get(next) {
                let after = self.conditions.fine_within(until, next.at);
                verdicts.taken_again.push(after);
            }
        }
    }
}

/// Checks that each use of units is covered by a confirmed hold.
fn judge_acts(deal: &Deal, verdicts: &mut Verdicts) {
    let Some(took) = deal.took else { return };
    for act in deal.acts.iter().filter(|_| !deal.manner.is_permit()) {
        let renewed = deal.renewals.iter().filter_map(|(lasts, call)| match call.answer {
            Some((time, true)) if time <= *act => Some(call.sent + lasts),
            _ => None,
        });
        if *act >= renewed.fold(took.at + took.lasts, u64::max) {
            verdicts.finds("late act", *act, || format!("{deal:?}"));
        }
    }
}
