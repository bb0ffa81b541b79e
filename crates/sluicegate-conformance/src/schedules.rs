//! Random limits and random requests, replayable from a seed. Each request has the answer of the
//! [reference model](crate::reference).
//!
//! A schedule is plain data, and the kernels, the scripts and the stores all run the same
//! schedules. Numbers are small, so that limits are often reached, or at the edge of the accepted
//! range. Times stand still, fall on the edges of windows, wait for exactly the retry-after of the
//! last denial, idle for years and step back.
//!
//! ```
//! use sluicegate_conformance::schedules::{Plan, Step, each};
//!
//! each("documentation", 3, |seed| {
//!     let schedule = Plan::default().schedule(seed);
//!     for step in &schedule.steps {
//!         match step {
//!             Step::Request(request) => assert!(request.now_us > 0),
//!             Step::SetPolicies(policies) => assert_eq!(policies.len(), schedule.policies.len()),
//!         }
//!     }
//! });
//! ```

mod bans;
mod holds;
mod ids;
mod leases;
mod lines;
mod pauses;
mod policies;
mod requests;

pub use crate::algorithms::{Kind, Numbers};
pub use crate::dice::Dice;
pub use bans::random_ban;
pub use holds::{HoldSchedule, HoldStep, Settling};
pub use lines::{LineSchedule, LineStep};
use policies::across_zones;
pub use policies::{random_policies, random_policy, renumber};

use std::fmt;

use sluicegate_core::{Ban, OnExpiry, Policy};

use crate::reference::{Answer, Clock, Leasing, Model, Operation, Refusal};
use leases::Holders;
use requests::Walk;

/// The contents of random schedules.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The algorithms to choose from.
    pub kinds: Vec<Kind>,
    /// Maximum number of policies in a limit.
    pub max_policies: usize,
    /// Number of steps.
    pub steps: usize,
    /// The clock. With a store's own clock, states may be restamped.
    pub clock: Clock,
    /// Whether time may step back at all.
    pub may_step_back: bool,
    /// Whether policies get new numbers during the schedule.
    pub may_renumber: bool,
    /// Whether all policies are calendar windows across zones, which often change their zones.
    pub zones: bool,
    /// Whether there are other operations than check, peek and reserve.
    pub all_operations: bool,
    /// Whether requests come from holders of leases.
    pub leases: Leases,
    /// Whether the first policy has few permits and many waiters. Only for schedules with holds.
    pub queues: bool,
    /// Whether keys that are denied too often are banned. Not for schedules with leases.
    pub bans: bool,
    /// Whether keys are paused.
    pub pauses: bool,
    /// The rule for holds that expire without being settled. Only for schedules with holds.
    pub on_expiry: OnExpiry,
}

/// Whether requests come from lease holders, and how the store treats them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Leases {
    /// No lease holders.
    None,
    /// Lease holders whose requests and reports the store ignores. They request no share of a rate.
    Ignored,
    /// Lease holders who request shares of a rate only, and report nothing.
    Shares,
    /// Lease holders whose requests the store grants. All policies can be leased, most with larger
    /// numbers. Sometimes new numbers come with a change that rules out leases.
    Granted,
}

impl Default for Plan {
    /// Returns a plan with every kind of content, under injected time.
    fn default() -> Self {
        Self {
            kinds: Kind::ALL.to_vec(),
            max_policies: 6,
            steps: 60,
            clock: Clock::Injected,
            may_step_back: true,
            may_renumber: true,
            zones: false,
            all_operations: true,
            leases: Leases::None,
            queues: false,
            bans: false,
            pauses: false,
            on_expiry: OnExpiry::Keep,
        }
    }
}

/// A limit and a sequence of requests.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// The seed it was made from.
    pub seed: u64,
    /// The clock.
    pub clock: Clock,
    /// The limit's initial policies.
    pub policies: Vec<Policy>,
    /// The limit's rule for bans.
    pub ban: Option<Ban>,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The keys that are banned at the latest time of any step, each with the remaining µs.
    pub banned: Vec<(Vec<u8>, u64)>,
}

impl Schedule {
    /// Returns the latest time of any step, in µs since the epoch.
    #[must_use]
    pub fn latest_us(&self) -> u64 {
        let times = self.steps.iter().map(|step| match step {
            Step::SetPolicies(_) => 0,
            Step::Request(request) => request.now_us,
        });
        times.max().unwrap_or(0)
    }
}

/// One step of a schedule.
#[derive(Clone, Debug)]
pub enum Step {
    /// A request.
    Request(Request),
    /// New numbers for the policies. Their names, algorithms and windows don't change, except for
    /// the zones of calendars across zones.
    SetPolicies(Vec<Policy>),
}

/// A request with its answer.
#[derive(Clone, Debug)]
pub struct Request {
    /// Microseconds since the Unix epoch. It may be earlier than in the previous step.
    pub now_us: u64,
    /// The key.
    pub key: Vec<u8>,
    /// The operation.
    pub operation: Operation,
    /// The requests and reports of a lease holder.
    pub leasing: Option<Box<Leasing>>,
    /// The model's answer.
    pub expected: Result<Answer, Refusal>,
}

impl Plan {
    /// Returns the schedule that a seed generates.
    #[must_use]
    pub fn schedule(&self, seed: u64) -> Schedule {
        let mut dice = Dice::new(seed);
        let count = if dice.one_in(2) { 1 } else { 1 + dice.below_len(self.max_policies.max(1)) };
        let mut policies = random_policies(&mut dice, &self.kinds(), count);
        if self.zones {
            policies = policies.iter().map(|policy| across_zones(&mut dice, policy)).collect();
        }
        let steps_per_change = if self.zones { 3 } else { 15 };
        let mut holders =
            (self.leases != Leases::None).then(|| Holders::new(&mut dice, self.leases));
        if let Some(holders) = &mut holders {
            policies = holders.leasable(&mut dice, policies);
        }
        let ban = self.ban(&mut dice);
        let mut model = Model::with_clock(policies.clone(), self.clock).banning(ban);
        let mut walk = Walk::new(self, &mut dice, &policies);
        let mut current = policies.clone();
        let mut steps = Vec::with_capacity(self.steps);
        for _ in 0..self.steps {
            if self.may_renumber && dice.one_in(steps_per_change) {
                current = current.iter().map(|policy| renumber(&mut dice, policy)).collect();
                if let Some(holders) = &mut holders {
                    current = holders.leasable(&mut dice, current);
                    current = Holders::maybe_unleasable(&mut dice, current);
                }
                model.set_policies(current.clone());
                steps.push(Step::SetPolicies(current.clone()));
                continue;
            }
            let end = holders.as_ref().and_then(|holders| holders.end(&mut dice, &model));
            let end = end.or_else(|| bans::edge(&mut dice, &model));
            let end = end.or_else(|| pauses::edge(&mut dice, &model));
            let (now_us, key, operation) = walk.next(&mut dice, &current, end);
            if model.may_have_lost_a_pause(now_us, &key) {
                continue;
            }
            let leasing = holders
                .as_mut()
                .and_then(|holders| holders.leasing(&mut dice, &model, &key, &operation));
            let before = model.clone();
            let heard = leasing.as_ref().filter(|_| self.leases != Leases::Ignored);
            let expected = match &leasing {
                // Whether leases are possible doesn't depend on the store.
                Some(_) if !model.is_leasable() => Err(Refusal::NotLeasable),
                _ => model.apply_leasing(now_us, &key, &operation, heard),
            };
            let is_open = |model: &Model| model.has_open_question(now_us, &key);
            let is_reset = operation == Operation::Reset;
            if holders.is_some() && (!is_reset && is_open(&before) || is_open(&model)) {
                model = before;
                continue;
            }
            walk.learn(&expected);
            if let Some(holders) = &mut holders {
                holders.learn(&key, &expected);
            }
            let leasing = leasing.map(Box::new);
            steps.push(Step::Request(Request { now_us, key, operation, leasing, expected }));
        }
        let mut schedule =
            Schedule { seed, clock: self.clock, policies, ban, steps, banned: Vec::new() };
        schedule.banned = model.banned(schedule.latest_us());
        schedule
    }
}

impl Plan {
    /// Returns a random rule for bans, if the plan has bans.
    fn ban(&self, dice: &mut Dice) -> Option<Ban> {
        self.bans.then(|| random_ban(dice))
    }

    fn kinds(&self) -> Vec<Kind> {
        let may_be = |kind: &&Kind| self.leases == Leases::None || kind.is_leasable();
        self.kinds.iter().filter(may_be).copied().collect()
    }
}

impl fmt::Display for Schedule {
    /// Writes the policies as specs and one line per step, for a failing test.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |f: &mut fmt::Formatter<'_>, policies: &[Policy]| {
            let specs: Vec<String> = policies.iter().map(ToString::to_string).collect();
            writeln!(f, "{}", specs.join(" | "))
        };
        write!(f, "seed {}, {:?}: ", self.seed, self.clock)?;
        show(f, &self.policies)?;
        if let Some(ban) = &self.ban {
            writeln!(f, "ban {ban}")?;
        }
        for (index, step) in self.steps.iter().enumerate() {
            write!(f, "{index}: ")?;
            match step {
                Step::SetPolicies(policies) => show(f, policies)?,
                Step::Request(Request { now_us, key, operation, leasing, expected }) => {
                    write!(f, "at {now_us} `{}` {operation:?} ", key.escape_ascii())?;
                    if let Some(leasing) = leasing {
                        write!(f, "{leasing:?} ")?;
                    }
                    match expected {
                        Err(refusal) => writeln!(f, "-> {refusal:?}")?,
                        Ok(Answer {
                            allowed, wait_us, retry, policies, lease, ban, pause, ..
                        }) => {
                            let left: Vec<_> =
                                policies.iter().map(|policy| policy.remaining).collect();
                            write!(f, "-> {allowed} wait {wait_us} {retry:?} remaining {left:?}")?;
                            if let Some(ban) = ban {
                                write!(f, " {ban:?}")?;
                            }
                            if let Some(pause) = pause {
                                write!(f, " {pause:?}")?;
                            }
                            match lease {
                                Some(lease) => writeln!(f, " {lease:?}")?,
                                None => writeln!(f)?,
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// Runs `test` with `count` seeds of `name`, or with the one in `SLUICEGATE_SEED`.
/// `SLUICEGATE_SOAK` multiplies `count`. A failure prints its seed.
///
/// # Panics
/// Panics if `test` does, or if one of the variables isn't a number.
pub fn each(name: &str, count: u64, mut test: impl FnMut(u64)) {
    for seed in seeds(name, count) {
        let _shown = ShownOnPanic { name, seed };
        test(seed);
    }
}

/// Runs an async test with each seed, one after the other. See [`each`].
///
/// # Panics
/// Panics like [`each`].
pub async fn each_awaited(name: &str, count: u64, mut test: impl AsyncFnMut(u64)) {
    for seed in seeds(name, count) {
        let _shown = ShownOnPanic { name, seed };
        test(seed).await;
    }
}

/// Returns the seeds that [`each`] runs with.
fn seeds(name: &str, count: u64) -> impl Iterator<Item = u64> {
    let asked_for = number_in("SLUICEGATE_SEED");
    let times = number_in("SLUICEGATE_SOAK").unwrap_or(1);
    let count = if asked_for.is_some() { 1 } else { count.saturating_mul(times) };
    let mut dice = Dice::named(name);
    (0..count).map(move |_| asked_for.unwrap_or_else(|| dice.next()))
}

#[expect(clippy::panic, reason = "a typing error must not run another test than was asked for")]
fn number_in(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable} is `{text}`, but must be a whole number")))
}

struct ShownOnPanic<'a> {
    name: &'a str,
    seed: u64,
}

impl Drop for ShownOnPanic<'_> {
    #[expect(clippy::print_stderr, reason = "the seed is useful only where the panic is read")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}: failed with SLUICEGATE_SEED={}", self.name, self.seed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::algorithms::is_bookable;
    use crate::reference::{Outstanding, Retry};
    use crate::times::micros;

    /// Returns the clock of a schedule: every other one has the store's own.
    fn clock_of(seed: u64) -> Clock {
        match seed % 2 {
            0 => Clock::Injected,
            _ => Clock::Own { max_clock_back_us: 5_000_000 },
        }
    }

    #[test]
    fn a_seed_gives_the_same_schedule_again() {
        let plan = Plan::default();
        assert_eq!(plan.schedule(7).to_string(), plan.schedule(7).to_string());
        assert_ne!(plan.schedule(7).to_string(), plan.schedule(8).to_string());
    }

    /// Checks that the schedules admit and refuse with every kind of policy, now, later and never,
    /// and that time moves in every way.
    #[test]
    fn schedules_reach_every_kind_of_answer() {
        let mut seen: HashSet<(&'static str, &'static str)> = HashSet::new();
        let mut bookable = HashSet::new();
        let (mut steps_back, mut far_back, mut idle, mut errors, mut restamped) = (0, 0, 0, 0, 0);
        for seed in 0..600 {
            let clock = clock_of(seed);
            let schedule = Plan { clock, ..Plan::default() }.schedule(seed);
            let mut before = None;
            for step in &schedule.steps {
                let Step::Request(request) = step else { continue };
                if let Some(before) = before.replace(request.now_us) {
                    steps_back += usize::from(request.now_us < before);
                    far_back += usize::from(request.now_us + 5_000_000 < before);
                    idle += usize::from(request.now_us > before + 86_400_000_000 * 300);
                }
                let Ok(answer) = &request.expected else {
                    errors += 1;
                    continue;
                };
                for (policy, said) in schedule.policies.iter().zip(&answer.policies) {
                    let verdict = match said.retry {
                        Retry::Now if said.wait_us > 0 => "waits",
                        Retry::Now => "passes",
                        Retry::After(_) => "later",
                        Retry::Never => "never",
                    };
                    seen.insert((policy.algorithm().keyword(), verdict));
                    if is_bookable(policy.algorithm()) {
                        bookable.insert(policy.algorithm().keyword());
                    }
                    restamped += usize::from(said.restamped);
                }
            }
        }
        for kind in Kind::ALL {
            let word = kind.word();
            for verdict in ["passes", "later", "never"] {
                assert!(seen.contains(&(word, verdict)), "{word} {verdict}");
            }
            assert_eq!(seen.contains(&(word, "waits")), bookable.contains(word), "{word} waits");
        }
        for count in [steps_back, far_back, idle, errors, restamped] {
            assert!(count > 40, "{:?}", [steps_back, far_back, idle, errors, restamped]);
        }
    }

    /// Checks that the schedules with bans reach every kind of ban.
    #[test]
    fn schedules_reach_every_kind_of_ban() {
        let mut seen = [0; 6];
        for seed in 0..200 {
            let clock = clock_of(seed);
            let plan = Plan { bans: true, max_policies: 3, clock, ..Plan::default() };
            let schedule = plan.schedule(seed);
            let ban = schedule.ban.unwrap();
            for step in &schedule.steps {
                let Step::Request(request) = step else { continue };
                let Ok(answer) = &request.expected else { continue };
                let by_hand = matches!(request.operation, Operation::Ban { .. });
                let Some(banned) = answer.ban else { continue };
                let is_first = banned.ends_in_us == micros(ban.lasts());
                seen[0] += usize::from(banned.begins && !by_hand && is_first);
                seen[1] += usize::from(banned.begins && !by_hand && !is_first);
                seen[2] += usize::from(by_hand);
                seen[3] += usize::from(!banned.begins);
                seen[4] += usize::from(!banned.begins && answer.restamped);
                seen[5] += usize::from(banned.begins && answer.retry == Retry::Never);
            }
        }
        assert!(seen.iter().all(|count| *count > 4), "{seen:?}");
    }

    /// Checks that the schedules with pauses reach every kind of pause.
    #[test]
    fn schedules_reach_every_kind_of_pause() {
        let mut seen = [0; 9];
        for seed in 0..200 {
            let clock = clock_of(seed);
            let bans = seed % 3 == 0;
            let plan = Plan { pauses: true, bans, max_policies: 3, clock, ..Plan::default() };
            let mut latest = 0;
            for step in &plan.schedule(seed).steps {
                let Step::Request(request) = step else { continue };
                let Ok(answer) = &request.expected else { continue };
                let is_far_back = request.now_us + 5_000_000 < latest;
                latest = latest.max(request.now_us);
                seen[0] += usize::from(answer.resumed == Some(true));
                seen[1] += usize::from(answer.resumed == Some(false));
                let Some(paused) = answer.pause else { continue };
                if let Operation::Pause { lasts_us, .. } = request.operation {
                    seen[2] += usize::from(paused.ends_in_us > lasts_us);
                    continue;
                }
                seen[3] += usize::from(paused.policy.is_none());
                seen[4] += usize::from(paused.policy.is_some());
                seen[5] += usize::from(answer.ban.is_some());
                seen[6] += usize::from(is_far_back);
                seen[7] += usize::from(paused.ends_in_us == 1);
                seen[8] += usize::from(matches!(request.operation, Operation::Peek { .. }));
            }
        }
        assert!(seen.iter().all(|count| *count > 4), "{seen:?}");
    }

    /// Checks that the schedules with leases reach every kind of lease.
    #[test]
    fn schedules_reach_every_kind_of_lease() {
        let mut seen = [0; 9];
        for seed in 0..150 {
            let clock = clock_of(seed);
            let plan = Plan { leases: Leases::Granted, max_policies: 4, clock, ..Plan::default() };
            let schedule = plan.schedule(seed);
            let mut model = Model::with_clock(schedule.policies.clone(), clock);
            for step in &schedule.steps {
                let request = match step {
                    Step::Request(request) => request,
                    Step::SetPolicies(policies) => {
                        model.set_policies(policies.clone());
                        continue;
                    }
                };
                let Request { now_us, key, operation, leasing, expected } = request;
                let before = model.outstanding(key);
                let answer = model.apply_leasing(*now_us, key, operation, leasing.as_deref());
                assert_eq!(&answer, expected);
                let after = model.outstanding(key);
                let units = |slots: &[Outstanding]| slots.iter().map(|it| it.units).sum::<u64>();
                let wants = leasing.as_ref().is_some_and(|leasing| leasing.want > 0);
                let tells = leasing.as_ref().is_some_and(|it| !it.reports.is_empty());
                let Ok(answer) = answer else {
                    seen[0] += usize::from(expected == &Err(Refusal::NotLeasable));
                    continue;
                };
                let is_live = before.iter().any(|it| it.until_us > *now_us);
                let is_over = before.iter().any(|it| it.until_us <= *now_us);
                seen[1] += usize::from(answer.lease.is_some());
                seen[2] += usize::from(wants && answer.allowed && answer.lease.is_none());
                seen[3] += usize::from(is_live && !answer.allowed && tells && after != before);
                seen[4] += usize::from(is_over && after.len() < before.len());
                seen[5] += usize::from(units(&after) > 0 && after.len() > 2);
                seen[6] += usize::from(is_live && matches!(answer.retry, Retry::After(_)));
                seen[7] += usize::from(*operation == Operation::Reset && !after.is_empty());
                seen[8] +=
                    usize::from(is_live && answer.policies.iter().any(|policy| policy.restamped));
            }
        }
        assert!(seen.iter().all(|count| *count > 4), "{seen:?}");
    }
}
