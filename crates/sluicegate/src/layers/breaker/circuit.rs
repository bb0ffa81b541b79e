//! Decides whether a server is called, as a pure function of the outcomes of earlier calls. Times are µs of a clock
//! that doesn't go back.

use sluicegate_core::Span;

/// When a breaker opens, and for how long.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Rules {
    /// Failures in a row.
    pub(super) failures: u32,
    /// The percentage of failed calls of a stretch that opens it, once there were `least` calls.
    pub(super) percent: u32,
    pub(super) least: u32,
    pub(super) stretch: Span,
    /// The pause at first. It doubles with every failed probe, up to the maximum.
    pub(super) pause: Span,
    pub(super) longest_pause: Span,
    /// Time after which a probe without an outcome is followed by another.
    pub(super) probe: Span,
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Outcome {
    Answered,
    Failed,
    /// Doesn't tell whether the server works: no caller waited for the answer, or none was requested.
    Unknown,
}

/// Whether a call may be made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Pass {
    /// A call may be made. It reports its outcome with this number.
    Ask(u64),
    /// No call may be made, for this many µs.
    Refuse(u64),
}

/// The change by a report.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Change {
    /// No calls for this many µs.
    Opened(u64),
    /// A probe failed: no calls for this many µs more.
    StillOpen(u64),
    /// A probe was answered, this many µs after the circuit opened: all calls are made again.
    Closed(u64),
}

/// A closed circuit admits every call, an open one none, and a half-open one a single probe.
#[derive(Clone, Debug, Default)]
pub(super) struct Circuit {
    state: State,
    /// Outcomes of calls from before the last change don't count.
    era: u64,
    /// Failures in a row.
    row: u32,
    stretch: Stretch,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Closed,
    Open {
        since: u64,
        until: u64,
        probes: u32,
    },
    /// One call probes.
    HalfOpen {
        since: u64,
        probes: u32,
        asked: u64,
    },
}

/// Maximum calls of a stretch: a hundred times that many must fit into a number.
const MOST_CALLS: u32 = u32::MAX / 100;

#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    since: u64,
    calls: u32,
    failed: u32,
}

impl Circuit {
    /// Returns the report number for calls that don't need to report success, as long as nothing has failed recently.
    pub(super) fn clean(&self) -> Option<u64> {
        let is_clean = self.row == 0 && self.stretch.calls == 0;
        (is_clean && matches!(self.state, State::Closed)).then_some(self.era)
    }

    /// Returns whether calls are refused, except for one probe.
    pub(super) const fn is_open(&self) -> bool {
        !matches!(self.state, State::Closed)
    }

    /// Returns whether a call may be made now.
    pub(super) fn enter(&mut self, rules: &Rules, now: u64) -> Pass {
        match self.state {
            State::Closed => Pass::Ask(self.era),
            State::Open { until, .. } if now < until => Pass::Refuse(until - now),
            // A probe that never reports its outcome must not block calls permanently.
            State::HalfOpen { asked, .. }
                if now.saturating_sub(asked) < rules.probe.as_micros() =>
            {
                Pass::Refuse(0)
            }
            State::Open { since, probes, .. } | State::HalfOpen { since, probes, .. } => {
                self.state = State::HalfOpen { since, probes, asked: now };
                self.era += 1;
                Pass::Ask(self.era)
            }
        }
    }

    /// Takes the outcome of the call with this number. `chance`, up to 1,000, shortens the pause by up to a half, so
    /// that many processes don't probe at the same time.
    pub(super) fn report(
        &mut self,
        rules: &Rules,
        now: u64,
        number: u64,
        outcome: Outcome,
        chance: u64,
    ) -> Option<Change> {
        if number != self.era {
            return None;
        }
        match (self.state, outcome) {
            (State::Closed, Outcome::Answered) => {
                self.row = 0;
                if self.stretch.calls > 0 {
                    self.count(rules, now, 0);
                }
                None
            }
            (State::Closed, Outcome::Failed) => {
                self.row += 1;
                let Stretch { calls, failed, .. } = self.count(rules, now, 1);
                let is_too_many =
                    calls >= rules.least && failed * 100 >= rules.percent.saturating_mul(calls);
                if self.row < rules.failures && !is_too_many {
                    return None;
                }
                let pause = rules.pause_of(0, chance);
                self.open(now, now.saturating_add(pause), 0);
                Some(Change::Opened(pause))
            }
            (State::HalfOpen { since, .. }, Outcome::Answered) => {
                *self = Self { era: self.era + 1, ..Self::default() };
                Some(Change::Closed(now.saturating_sub(since)))
            }
            (State::HalfOpen { since, probes, .. }, Outcome::Failed) => {
                let probes = probes.saturating_add(1);
                let pause = rules.pause_of(probes, chance);
                self.open(since, now.saturating_add(pause), probes);
                Some(Change::StillOpen(pause))
            }
            // The next call is the probe.
            (State::HalfOpen { since, probes, .. }, Outcome::Unknown) => {
                self.open(since, now, probes);
                None
            }
            (State::Closed, Outcome::Unknown) | (State::Open { .. }, _) => None,
        }
    }

    fn open(&mut self, since: u64, until: u64, probes: u32) {
        self.state = State::Open { since, until, probes };
        self.era += 1;
        (self.row, self.stretch) = (0, Stretch::default());
    }

    /// Counts a call of a stretch, which begins with a failure.
    fn count(&mut self, rules: &Rules, now: u64, failed: u32) -> Stretch {
        let stretch = &mut self.stretch;
        let is_over = now.saturating_sub(stretch.since) >= rules.stretch.as_micros();
        if stretch.calls == 0 || is_over || stretch.calls == MOST_CALLS {
            *stretch = Stretch { since: now, ..Stretch::default() };
            if failed == 0 {
                return *stretch;
            }
        }
        stretch.calls += 1;
        stretch.failed += failed;
        *stretch
    }
}

impl Rules {
    fn pause_of(&self, probes: u32, chance: u64) -> u64 {
        let doubled = self.pause.as_micros().saturating_mul(1 << probes.min(30));
        let whole = doubled.min(self.longest_pause.as_micros());
        whole - whole / 2 / 1_000 * chance.min(1_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000;

    fn rules() -> Rules {
        Rules {
            failures: 5,
            percent: 50,
            least: 20,
            stretch: Span::SECOND,
            pause: Span::from_millis(100).unwrap(),
            longest_pause: Span::from_millis(400).unwrap(),
            probe: Span::from_millis(700).unwrap(),
        }
    }

    fn call(circuit: &mut Circuit, now: u64, outcome: Outcome) -> Option<Change> {
        let Pass::Ask(number) = circuit.enter(&rules(), now) else { panic!("it is open at {now}") };
        circuit.report(&rules(), now, number, outcome, 0)
    }

    fn opened_at(now: u64) -> Circuit {
        let mut circuit = Circuit::default();
        for failure in 1..=5 {
            let change = call(&mut circuit, now, Outcome::Failed);
            assert_eq!(change, (failure == 5).then_some(Change::Opened(100 * MS)));
        }
        circuit
    }

    #[test]
    fn so_many_failures_in_a_row_open_it_and_an_answer_ends_the_row() {
        let mut circuit = Circuit::default();
        for _ in 0..3 {
            for _ in 0..4 {
                assert_eq!(call(&mut circuit, 7, Outcome::Failed), None);
            }
            assert_eq!(call(&mut circuit, 7, Outcome::Answered), None);
        }
        let mut circuit = opened_at(7);
        assert_eq!(circuit.enter(&rules(), 7), Pass::Refuse(100 * MS));
        assert_eq!(circuit.enter(&rules(), 7 + 100 * MS - 1), Pass::Refuse(1));
        assert!(matches!(circuit.enter(&rules(), 7 + 100 * MS), Pass::Ask(_)));
    }

    #[test]
    fn half_of_the_calls_of_a_stretch_open_it_although_others_are_answered() {
        let mut circuit = Circuit::default();
        // Two of five calls fail, in every round.
        for round in 0..1_000 {
            for outcome in [Outcome::Failed, Outcome::Answered, Outcome::Answered] {
                assert_eq!(call(&mut circuit, round * 20 * MS, outcome), None, "{round}");
            }
        }
        // Every second call fails.
        let start = 20_000 * MS;
        let changes = (0..40).map(|number| {
            let outcome = if number % 2 == 0 { Outcome::Answered } else { Outcome::Failed };
            (number, call(&mut circuit, start + number * MS, outcome))
        });
        let first = changes.map_while(|(number, change)| change.is_none().then_some(number)).last();
        assert_eq!(first, Some(20), "the first failure after twenty calls opens it");
    }

    #[test]
    fn one_call_probes_and_what_came_of_it_decides() {
        let mut circuit = opened_at(0);
        let at = 100 * MS;
        let Pass::Ask(probe) = circuit.enter(&rules(), at) else { panic!() };
        assert_eq!(circuit.enter(&rules(), at), Pass::Refuse(0), "one probe at a time");
        let change = circuit.report(&rules(), at + 9, probe, Outcome::Failed, 0);
        assert_eq!(change, Some(Change::StillOpen(200 * MS)));
        let at = at + 9 + 200 * MS;
        assert_eq!(circuit.enter(&rules(), at - 1), Pass::Refuse(1));
        for expected in [400, 400] {
            let Pass::Ask(probe) = circuit.enter(&rules(), at + 9_999 * MS * expected) else {
                panic!()
            };
            let change = circuit.report(&rules(), at, probe, Outcome::Failed, 0);
            assert_eq!(change, Some(Change::StillOpen(expected * MS)));
        }
        let Pass::Ask(probe) = circuit.enter(&rules(), u64::MAX) else { panic!() };
        let change = circuit.report(&rules(), 77 * MS, probe, Outcome::Answered, 0);
        assert_eq!(change, Some(Change::Closed(77 * MS)));
        assert!(matches!(circuit.enter(&rules(), 77 * MS), Pass::Ask(_)));
        assert!(
            matches!(circuit.enter(&rules(), 77 * MS), Pass::Ask(_)),
            "everybody may ask again"
        );
    }

    #[test]
    fn a_probe_that_nobody_waits_for_leaves_its_place_to_the_next_call() {
        let mut circuit = opened_at(0);
        let at = 100 * MS;
        for _ in 0..3 {
            let Pass::Ask(probe) = circuit.enter(&rules(), at) else { panic!() };
            assert_eq!(circuit.report(&rules(), at, probe, Outcome::Unknown, 0), None);
        }
    }

    #[test]
    fn a_probe_that_is_never_heard_of_is_followed_by_another() {
        let mut circuit = opened_at(0);
        assert!(matches!(circuit.enter(&rules(), 100 * MS), Pass::Ask(_)));
        // Later than the longest pause: a slow call that is answered may close it.
        assert_eq!(circuit.enter(&rules(), 800 * MS - 1), Pass::Refuse(0));
        assert!(matches!(circuit.enter(&rules(), 800 * MS), Pass::Ask(_)));
    }

    #[test]
    fn it_is_clean_until_something_fails_and_again_when_that_was_long_ago() {
        let mut circuit = Circuit::default();
        let number = circuit.clean().unwrap();
        assert_eq!(circuit.enter(&rules(), 0), Pass::Ask(number));
        assert_eq!(call(&mut circuit, 0, Outcome::Answered), None);
        assert!(circuit.clean().is_some());
        assert_eq!(call(&mut circuit, 0, Outcome::Failed), None);
        assert_eq!(call(&mut circuit, 1, Outcome::Answered), None);
        assert!(circuit.clean().is_none(), "it counts");
        assert_eq!(call(&mut circuit, 1_000 * MS, Outcome::Answered), None);
        assert!(circuit.clean().is_some());
        assert!(opened_at(0).clean().is_none());
    }

    #[test]
    fn calls_from_before_it_opened_change_nothing() {
        let mut circuit = Circuit::default();
        let Pass::Ask(early) = circuit.enter(&rules(), 0) else { panic!() };
        let Pass::Ask(other) = circuit.enter(&rules(), 0) else { panic!() };
        for _ in 0..5 {
            let _ = call(&mut circuit, 1, Outcome::Failed);
        }
        assert_eq!(circuit.report(&rules(), 2, early, Outcome::Answered, 0), None);
        assert!(matches!(circuit.enter(&rules(), 3), Pass::Refuse(_)));
        let Pass::Ask(probe) = circuit.enter(&rules(), 200 * MS) else { panic!() };
        assert_eq!(circuit.report(&rules(), 200 * MS, other, Outcome::Failed, 0), None);
        assert!(circuit.report(&rules(), 200 * MS, probe, Outcome::Answered, 0).is_some());
    }

    #[test]
    fn chance_takes_up_to_half_of_a_pause() {
        let pauses = [0, 500, 1_000, 9_999].map(|chance| rules().pause_of(0, chance));
        assert_eq!(pauses, [100 * MS, 75 * MS, 50 * MS, 50 * MS]);
        assert_eq!(rules().pause_of(u32::MAX, 0), 400 * MS);
    }
}
