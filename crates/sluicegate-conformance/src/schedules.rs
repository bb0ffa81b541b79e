//! Random limits and random requests, replayable from a seed, each request with the answer that
//! the [reference model](crate::reference) gives.
//!
//! A schedule is plain data: the kernels, the scripts and the stores are all driven by the same
//! ones. Numbers are small so that limits are met all the time, or at the edge of what is
//! accepted; times stand still, sit on the edges of windows, wait for exactly the retry-after of
//! the last denial, idle for years and step back.
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

mod policies;
mod requests;

pub use crate::algorithms::{Kind, Numbers};
pub use crate::dice::Dice;
pub use policies::{random_policies, random_policy, renumber};

use std::fmt;

use sluicegate_core::Policy;

use crate::reference::{Answer, Clock, Model, Operation, Refusal};
use requests::Walk;

/// What schedules are to be made of.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The algorithms to choose from.
    pub kinds: Vec<Kind>,
    /// The most policies in a limit.
    pub max_policies: usize,
    /// How many steps.
    pub steps: usize,
    /// Whose clock it is: with a store's own clock states may be restamped.
    pub clock: Clock,
    /// Whether time may step back at all.
    pub may_step_back: bool,
    /// Whether policies get new numbers on the way.
    pub may_renumber: bool,
    /// Whether there are other operations than check, peek and reserve.
    pub all_operations: bool,
}

impl Default for Plan {
    /// Everything, under injected time.
    fn default() -> Self {
        Self {
            kinds: Kind::ALL.to_vec(),
            max_policies: 6,
            steps: 60,
            clock: Clock::Injected,
            may_step_back: true,
            may_renumber: true,
            all_operations: true,
        }
    }
}

/// A limit and what happens to it.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// What it was made from.
    pub seed: u64,
    /// Whose clock it is.
    pub clock: Clock,
    /// The limit's policies at first.
    pub policies: Vec<Policy>,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// One step of a schedule.
#[derive(Clone, Debug)]
pub enum Step {
    /// Somebody asks.
    Request(Request),
    /// The policies get new numbers; their names, algorithms and windows stay.
    SetPolicies(Vec<Policy>),
}

/// A request with its answer.
#[derive(Clone, Debug)]
pub struct Request {
    /// Microseconds since the Unix epoch: may be earlier than the one before.
    pub now_us: u64,
    /// The key.
    pub key: Vec<u8>,
    /// What is asked.
    pub operation: Operation,
    /// What the model answers.
    pub expected: Result<Answer, Refusal>,
}

impl Plan {
    /// The schedule that belongs to a seed.
    #[must_use]
    pub fn schedule(&self, seed: u64) -> Schedule {
        let mut dice = Dice::new(seed);
        let count = if dice.one_in(2) { 1 } else { 1 + dice.below_len(self.max_policies.max(1)) };
        let policies = random_policies(&mut dice, &self.kinds, count);
        let mut model = Model::with_clock(policies.clone(), self.clock);
        let mut walk = Walk::new(self, &mut dice, &policies);
        let mut current = policies.clone();
        let mut steps = Vec::with_capacity(self.steps);
        for _ in 0..self.steps {
            if self.may_renumber && dice.one_in(15) {
                current = current.iter().map(|policy| renumber(&mut dice, policy)).collect();
                model.set_policies(current.clone());
                steps.push(Step::SetPolicies(current.clone()));
                continue;
            }
            let (now_us, key, operation) = walk.next(&mut dice, &current);
            let expected = model.apply(now_us, &key, &operation);
            walk.learn(&expected);
            steps.push(Step::Request(Request { now_us, key, operation, expected }));
        }
        Schedule { seed, clock: self.clock, policies, steps }
    }
}

impl fmt::Display for Schedule {
    /// Policies as specs and one line per step: what a failing test shows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |f: &mut fmt::Formatter<'_>, policies: &[Policy]| {
            let specs: Vec<String> = policies.iter().map(ToString::to_string).collect();
            writeln!(f, "{}", specs.join(" | "))
        };
        write!(f, "seed {}, {:?}: ", self.seed, self.clock)?;
        show(f, &self.policies)?;
        for (index, step) in self.steps.iter().enumerate() {
            write!(f, "{index}: ")?;
            match step {
                Step::SetPolicies(policies) => show(f, policies)?,
                Step::Request(Request { now_us, key, operation, expected }) => {
                    write!(f, "at {now_us} `{}` {operation:?} -> ", key.escape_ascii())?;
                    match expected {
                        Err(refusal) => writeln!(f, "{refusal:?}")?,
                        Ok(Answer { allowed, wait_us, retry, policies, .. }) => {
                            let left: Vec<_> =
                                policies.iter().map(|policy| policy.remaining).collect();
                            writeln!(f, "{allowed} wait {wait_us} {retry:?} remaining {left:?}")?;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// Runs `test` with `count` seeds that belong to `name`, so many times as many as the variable
/// `SLUICEGATE_SOAK` says, or with the one in `SLUICEGATE_SEED`. A failure prints its seed.
///
/// # Panics
/// When `test` does, or one of the variables is no number.
pub fn each(name: &str, count: u64, mut test: impl FnMut(u64)) {
    for seed in seeds(name, count) {
        let _shown = ShownOnPanic { name, seed };
        test(seed);
    }
}

/// [`each`] for what has to be waited for: one seed after the other.
///
/// # Panics
/// Like [`each`].
pub async fn each_awaited(name: &str, count: u64, mut test: impl AsyncFnMut(u64)) {
    for seed in seeds(name, count) {
        let _shown = ShownOnPanic { name, seed };
        test(seed).await;
    }
}

/// The seeds that [`each`] runs with.
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
    use crate::reference::Retry;

    #[test]
    fn a_seed_gives_the_same_schedule_again() {
        let plan = Plan::default();
        assert_eq!(plan.schedule(7).to_string(), plan.schedule(7).to_string());
        assert_ne!(plan.schedule(7).to_string(), plan.schedule(8).to_string());
    }

    /// What the schedules are for: every kind of policy is admitted and refused, now, later and
    /// never, and time does everything it can.
    #[test]
    fn schedules_reach_every_kind_of_answer() {
        let mut seen: HashSet<(&'static str, &'static str)> = HashSet::new();
        let mut bookable = HashSet::new();
        let (mut steps_back, mut far_back, mut idle, mut errors, mut restamped) = (0, 0, 0, 0, 0);
        for seed in 0..600 {
            let clock = if seed % 2 == 0 {
                Clock::Injected
            } else {
                Clock::Own { max_clock_back_us: 5_000_000 }
            };
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
}
