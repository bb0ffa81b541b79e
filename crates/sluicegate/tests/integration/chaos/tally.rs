//! The outcomes of a load's calls, and their evaluation at the end.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use sluicegate::decision::Source;
use sluicegate::testing::Timestamp;
use sluicegate::{Decision, Error};
use tokio::time::Instant;

use crate::chaos::auditor::Admission;
use crate::chaos::load::{CACHED, KEYS, LOCAL, PROGRAMS, RULES, Rule};

/// The number of consecutive decisions, by the store or with leased units, after which the fault counts as over.
const GOOD: u32 = 100;

/// The outcomes of the calls so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// By rule and key.
    admitted: BTreeMap<(usize, usize), Vec<Admitted>>,
    /// The number of denials, and by rule and key those since the last reset.
    denials: u64,
    denied: BTreeMap<(usize, usize), u64>,
    /// By program and key: denials by its share since the last reset.
    denied_here: BTreeMap<(usize, usize), u64>,
    /// Decisions with leased units.
    leased: u64,
    /// Decisions by shares.
    local: u64,
    /// The spans in which a program decided about a key by its share, and those that haven't ended.
    away: Vec<Away>,
    is_away: BTreeMap<(usize, usize), Away>,
    /// Denials that were repeated without calling the store, each between two instants.
    repeated: Vec<(usize, u64, u64)>,
    /// The number of errors of each kind, and the last one.
    errors: BTreeMap<String, (u64, String)>,
    /// By rule: the number of calls without an answer by their deadline.
    overdue: BTreeMap<&'static str, u64>,
    longest: Duration,
    /// Since when, and how often, everything has been good.
    streak: Option<(Instant, u32)>,
    fault_ended: Option<Instant>,
    recoveries: Vec<Duration>,
}

#[derive(Clone, Copy, Debug)]
struct Admitted {
    asked: u64,
    answered: u64,
    by: Decider,
}

/// The part that admitted a unit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Decider {
    /// The store, at this instant by its clock.
    Store(u64),
    /// A program that held it.
    Lease,
    /// A program, by its share.
    Share,
}

/// The span in which a program decided about a key by its share, in µs. It ends with the store's answer to the first
/// request after the last such decision.
#[derive(Clone, Copy, Debug)]
struct Away {
    key: usize,
    from: u64,
    to: u64,
}

/// The clock for the times of admissions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Times {
    /// The deciding server's clock. For leased units it is this process's, between the request and the answer.
    Server,
    /// This process's clock, between the request and the answer.
    Process,
}

impl Tally {
    /// Notes the answer to a call of a program, between these two instants in µs.
    pub(crate) fn answered(
        &mut self,
        program: usize,
        (rule, key): (usize, usize),
        (asked, answered): (u64, u64),
        answer: Result<Decision, Error>,
    ) {
        match answer {
            Ok(decision) => {
                let by = match decision.source() {
                    Source::Store => {
                        Decider::Store(decision.taken_at().map_or(0, Timestamp::as_micros))
                    }
                    Source::Lease => Decider::Lease,
                    Source::Fallback => Decider::Share,
                    // It tells nothing about the store, and admits nothing.
                    Source::DenyCache if rule == CACHED && decision.is_denied() => {
                        self.repeated.push((key, asked, answered));
                        return;
                    }
                    other => panic!("{other:?} decides about {}", RULES[rule].name),
                };
                assert!(!decision.is_assumed(), "{decision:?}");
                if decision.is_allowed() {
                    let admitted = Admitted { asked, answered, by };
                    self.admitted.entry((rule, key)).or_default().push(admitted);
                } else {
                    self.denials += 1;
                    match by {
                        Decider::Share => *self.denied_here.entry((program, key)).or_default() += 1,
                        _ => *self.denied.entry((rule, key)).or_default() += 1,
                    }
                }
                if by == Decider::Share {
                    assert_eq!(rule, LOCAL, "only this one has a share");
                    self.local += 1;
                    self.was_away((program, key), (asked, answered));
                    self.streak = None;
                    return;
                }
                if rule == LOCAL {
                    self.was_back((program, key), (asked, answered));
                }
                self.leased += u64::from(by == Decider::Lease);
                self.was_good();
            }
            Err(error) => {
                let kind = match &error {
                    Error::Store(error) => format!("{:?}", error.kind()),
                    other => panic!("{other}"),
                };
                let (count, last) = self.errors.entry(kind).or_default();
                *count += 1;
                *last = error.to_string();
                self.streak = None;
            }
        }
    }

    /// Notes the duration of a call.
    pub(crate) fn took(&mut self, time: Duration) {
        self.longest = self.longest.max(time);
    }

    /// Notes a call of a rule that was not answered in time.
    pub(crate) fn was_overdue(&mut self, rule: &'static str) {
        *self.overdue.entry(rule).or_default() += 1;
        self.streak = None;
    }

    /// Marks the end of the fault.
    pub(crate) fn fault_ends(&mut self, at: Instant) {
        self.fault_ended = Some(at);
        self.streak = None;
    }

    /// Returns whether enough calls in a row were good since the fault ended.
    pub(crate) fn has_recovered(&self) -> Result<(), String> {
        match self.fault_ended {
            None => Ok(()),
            Some(_) => Err(format!(
                "{:?}, {:?} past the deadline, {:?}",
                self.streak, self.overdue, self.errors
            )),
        }
    }

    /// Returns whether every key has been denied at least `times` times by each rule.
    pub(crate) fn has_denied_all(&self, times: u64) -> Result<(), String> {
        let mut all = (0..RULES.len()).flat_map(|rule| (0..KEYS).map(move |key| (rule, key)));
        if all.all(|it| self.denied.get(&it).is_some_and(|denied| *denied >= times)) {
            Ok(())
        } else {
            Err(format!("{:?}, {:?}", self.denied, self.errors))
        }
    }

    /// Returns whether every program has denied every key by its share.
    pub(crate) fn has_used_its_shares(&self) -> Result<(), String> {
        let mut all = (0..PROGRAMS).flat_map(|program| (0..KEYS).map(move |key| (program, key)));
        if all.all(|it| self.denied_here.contains_key(&it)) {
            Ok(())
        } else {
            Err(format!("{:?}, {:?}", self.denied_here, self.errors))
        }
    }

    /// Forgets all denials.
    pub(crate) fn forget_denials(&mut self) {
        self.denied.clear();
        self.denied_here.clear();
    }

    /// Returns the number of units that the store has admitted.
    pub(crate) fn decided(&self) -> usize {
        let admitted = self.admitted.values().flatten();
        admitted.filter(|it| it.taken_at().is_some()).count()
    }

    /// Returns the number of calls that failed.
    pub(crate) fn errors(&self) -> u64 {
        self.errors.values().map(|(count, _)| count).sum()
    }

    /// Returns when a unit of a rule's first key was last taken, by the clock of its server.
    pub(crate) fn last(&self, rule: usize) -> u64 {
        let admitted = self.admitted.get(&(rule, 0)).into_iter().flatten();
        admitted.filter_map(Admitted::taken_at).next_back().unwrap()
    }

    /// Returns a line for each admission and each span of shares. The times are by this process's clock, which is this
    /// many seconds ahead.
    pub(crate) fn lines(&self, ahead: u64) -> impl Iterator<Item = String> {
        let own = move |at: u64| at - ahead * 1_000_000;
        let one = move |((rule, key), it): (&(usize, usize), &Admitted)| {
            let (asked, answered) = (own(it.asked), own(it.answered));
            let by = match it.by {
                Decider::Store(at) => at.to_string(),
                Decider::Lease => "lease".to_owned(),
                Decider::Share => "share".to_owned(),
            };
            format!("{rule} {key} {asked} {answered} {by}")
        };
        let away = self.away.iter().chain(self.is_away.values());
        let away = away.map(move |Away { key, from, to }| {
            format!("{LOCAL} {key} {} {} away", own(*from), own(*to))
        });
        self.admitted
            .iter()
            .flat_map(|(to, all)| all.iter().map(move |it| (to, it)))
            .map(one)
            .chain(away)
    }

    /// Adds an admission or a span of another process.
    pub(crate) fn add_line(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let [rule, key, asked, answered, by] = words[..] else { panic!("{line}") };
        let place = |word: &str| word.parse::<usize>().unwrap();
        let at = |word: &str| word.parse::<u64>().unwrap();
        let (rule, key, asked, answered) = (place(rule), place(key), at(asked), at(answered));
        let by = match by {
            "away" => return self.away.push(Away { key, from: asked, to: answered }),
            "lease" => Decider::Lease,
            "share" => Decider::Share,
            time => Decider::Store(at(time)),
        };
        self.admitted.entry((rule, key)).or_default().push(Admitted { asked, answered, by });
    }

    /// Returns the excess units that the store and lease holders have admitted, for the key of a rule with the largest
    /// excess.
    pub(crate) fn excess(&self, rule: usize, times: Times) -> u64 {
        let decided = |it: &&Admitted| it.by != Decider::Share;
        self.most_of_keys(rule, |_, admitted| {
            let admissions: Vec<_> =
                admitted.iter().filter(decided).map(|it| it.admission(times)).collect();
            RULES[rule].promise.excess(&admissions)
        })
    }

    /// Returns the excess units of all shares of a rule, compared with one limit's promise.
    pub(crate) fn excess_of_shares(&self, rule: usize) -> u64 {
        let decided = |it: &&Admitted| it.by == Decider::Share;
        self.most_of_keys(rule, |_, admitted| {
            let admissions: Vec<_> =
                admitted.iter().filter(decided).map(|it| it.admission(Times::Process)).collect();
            RULES[rule].promise.excess(&admissions)
        })
    }

    /// Returns the excess units of the store and all shares together, compared with one limit's promise.
    pub(crate) fn excess_with_shares(&self, rule: usize) -> u64 {
        self.most_of_keys(rule, |_, admitted| RULES[rule].promise.excess(&all(admitted)))
    }

    /// Returns the excess units of the store and all shares together, compared with the documented bound. The bound is
    /// twice the burst, the rate, and the rate again while programs decide by their shares, each by its part.
    pub(crate) fn excess_over_stated(&self, rule: usize) -> u64 {
        self.most_of_keys(rule, |key, admitted| {
            let away = self.away.iter().chain(self.is_away.values()).filter(|away| away.key == key);
            let away: Vec<_> = away.map(|away| (away.from, away.to)).collect();
            let programs = u64::try_from(PROGRAMS).unwrap();
            RULES[rule].promise.excess_with_shares(&all(admitted), &away, programs)
        })
    }

    /// Returns the number of repeated denials for which the store would have admitted a unit, if all its admissions are
    /// known.
    pub(crate) fn unfounded_denials(&self) -> usize {
        let unfounded = |(key, asked, answered): &&(usize, u64, u64)| {
            let admitted = self.admitted.get(&(CACHED, *key));
            let times: Vec<_> =
                admitted.into_iter().flatten().filter_map(Admitted::taken_at).collect();
            !RULES[CACHED].promise.is_used_up(&times, *asked, *answered)
        };
        self.repeated.iter().filter(unfounded).count()
    }

    fn most_of_keys(&self, rule: usize, excess: impl Fn(usize, &[Admitted]) -> u64) -> u64 {
        let of_rule = self.admitted.iter().filter(|((of, _), _)| *of == rule);
        of_rule.map(|((_, key), admitted)| excess(*key, admitted)).max().unwrap_or(0)
    }

    fn was_away(&mut self, of: (usize, usize), (asked, answered): (u64, u64)) {
        let away = self.is_away.entry(of).or_insert(Away { key: of.1, from: asked, to: answered });
        away.from = away.from.min(asked);
        away.to = away.to.max(answered);
    }

    /// Ends the span of shares: the units that the share admitted before this request have been charged.
    fn was_back(&mut self, of: (usize, usize), (asked, answered): (u64, u64)) {
        if let Some(away) = self.is_away.get(&of).copied()
            && asked >= away.to
        {
            self.is_away.remove(&of);
            self.away.push(Away { to: answered, ..away });
        }
    }

    fn was_good(&mut self) {
        let (since, times) = self.streak.map_or_else(|| (Instant::now(), 1), |(at, n)| (at, n + 1));
        self.streak = Some((since, times));
        if times >= GOOD
            && let Some(ended) = self.fault_ended.take()
        {
            self.recoveries.push(since.saturating_duration_since(ended));
        }
    }
}

impl Admitted {
    /// Returns when it was taken by the store's clock, if the store admitted it.
    fn taken_at(&self) -> Option<u64> {
        if let Decider::Store(at) = self.by { Some(at) } else { None }
    }

    fn admission(&self, times: Times) -> Admission {
        match self.taken_at().filter(|_| times == Times::Server) {
            Some(at) => Admission { earliest: at, latest: at },
            None => Admission { earliest: self.asked, latest: self.answered },
        }
    }
}

/// Converts admissions, with times of this process's clock, which all shares use.
fn all(admitted: &[Admitted]) -> Vec<Admission> {
    admitted.iter().map(|it| it.admission(Times::Process)).collect()
}

/// The results of a scenario.
#[derive(Debug)]
pub(crate) struct Findings {
    pub(crate) name: &'static str,
    pub(crate) tally: Tally,
    /// The number of charges without an answer for units that shares had admitted.
    pub(crate) unheard: u64,
    pub(crate) panics: u64,
}

impl Findings {
    /// Checks that no call was late, no task panicked, leased units were spent, and denials were repeated. Also checks
    /// that shares admitted no more than one limit does, regardless of the store.
    pub(crate) fn assert_in_order(&self) {
        println!("{self}");
        assert_eq!(self.panics, 0, "{self}");
        assert!(self.tally.overdue.is_empty(), "{self}");
        assert!(self.tally.leased > 0, "nothing was leased: {self}");
        assert!(!self.tally.repeated.is_empty(), "no denial was answered again: {self}");
        assert_eq!(self.tally.excess_of_shares(LOCAL), 0, "{self}");
    }

    /// Checks [`assert_in_order`](Self::assert_in_order), and that no rule admitted more than it promises.
    pub(crate) fn assert_exact(&self) {
        self.assert_over_by_at_most(|_| 0);
    }

    /// Checks [`assert_in_order`](Self::assert_in_order), and that no rule's excess is above this.
    pub(crate) fn assert_over_by_at_most(&self, most: impl Fn(&Rule) -> u64) {
        self.assert_in_order();
        for (index, rule) in RULES.iter().enumerate() {
            let (excess, most) = (self.tally.excess(index, Times::Server), most(rule));
            assert!(excess <= most, "{}: {excess} too many, at most {most}: {self}", rule.name);
        }
        // A lost charge leaves uncounted the units that one program's share admits immediately.
        let share = RULES[LOCAL].promise.at_once() / u64::try_from(PROGRAMS).unwrap();
        let most = most(&RULES[LOCAL]) + self.unheard * share;
        let excess = self.tally.excess_over_stated(LOCAL);
        assert!(excess <= most, "{excess} more than is stated, at most {most}: {self}");
    }

    /// Checks that the store would have made each denial that was answered without calling it.
    pub(crate) fn assert_no_unfounded_denials(&self) {
        assert_eq!(self.tally.errors(), 0, "what failed may have been charged: {self}");
        assert_eq!(self.tally.unfounded_denials(), 0, "{self}");
    }

    /// Returns the excess of each rule.
    pub(crate) fn excesses(&self) -> [u64; RULES.len()] {
        std::array::from_fn(|rule| self.tally.excess(rule, Times::Server))
    }
}

impl fmt::Display for Findings {
    /// Writes one line, for the tables of the documentation.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, tally, unheard, panics } = self;
        let admitted: usize = tally.admitted.values().map(Vec::len).sum();
        let over: Vec<_> = RULES
            .iter()
            .zip(self.excesses())
            .map(|(rule, excess)| format!("{} {excess} of {}", rule.name, rule.promise.at_once()))
            .collect();
        let errors: Vec<_> =
            tally.errors.iter().map(|(kind, (n, _))| format!("{kind} {n}")).collect();
        write!(
            f,
            "chaos {name}: over by at most: {}; {admitted} admitted, {} with leased units, {} denied, {} of \
             them again; {} decisions by shares, {} beyond one limit with the store's, {unheard} charges \
             unheard of; errors: {}; longest call {} ms, {:?} past the deadline; {panics} panics; good again after {:?} ms",
            over.join(", "),
            tally.leased,
            tally.denials + tally.repeated.len() as u64,
            tally.repeated.len(),
            tally.local,
            tally.excess_with_shares(LOCAL),
            if errors.is_empty() { "none".to_owned() } else { errors.join(", ") },
            tally.longest.as_millis(),
            tally.overdue,
            tally.recoveries.iter().map(Duration::as_millis).collect::<Vec<_>>(),
        )?;
        if f.alternate() { write!(f, "; {:?}", tally.errors) } else { Ok(()) }
    }
}
