//! The Lua scripts in an embedded interpreter against the reference model, on random schedules.
//! Keys expire in virtual time, so a life that is too short shows as a wrong answer.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use redis::Value;
use tollgate_core::kernel::Rule;
use tollgate_core::{
    Algorithm, Costs, Decision, DeniedCharge, Enforcement, KeyPrefix, Limit, Operation, Policy,
    Span, Start, StoreError, StoreKey, TimeSource, check_request,
};
use tollgate_redis::{Answer, Program, Script, read_answer};
use tollgate_testkit::lua::{Interpreter, Reply};
use tollgate_testkit::reference::{Clock, differences};
use tollgate_testkit::schedules::{Kind, Plan, Schedule, Step, each};

const MAX_CLOCK_BACK: u64 = 5_000_000;

struct Scripted {
    interpreter: Interpreter,
    clock: Clock,
    /// Whether keys expire in virtual time.
    expires: bool,
    limit: Arc<Limit>,
    program: Program,
    script: Arc<Script>,
}

impl Scripted {
    fn new(policies: Vec<Policy>, clock: Clock) -> Self {
        let limit = Arc::new(Limit::new("test".parse().unwrap(), policies).unwrap());
        Self {
            interpreter: Interpreter::new().unwrap(),
            clock,
            expires: false,
            program: Program::new(&limit, Span::from_micros(MAX_CLOCK_BACK).unwrap()),
            script: Script::of(&limit),
            limit,
        }
    }

    fn set_policies(&mut self, policies: Vec<Policy>) {
        self.limit = Arc::new(Limit::new("test".parse().unwrap(), policies).unwrap());
        self.program = Program::new(&self.limit, Span::from_micros(MAX_CLOCK_BACK).unwrap());
        self.script = Script::of(&self.limit);
    }

    fn keys(&self, subject: &[u8]) -> Vec<Vec<u8>> {
        let names = StoreKey::new(&KeyPrefix::default(), &self.limit, &TimeSource::Store);
        let mut keys = vec![Vec::new()];
        names.write(subject, &mut keys[0]);
        for member in self.limit.members() {
            if let Rule::Log(log) = member.policy().rule()
                && (!log.is_ring() || log.horizon() / log.quantum() > 64)
            {
                let mut key = Vec::new();
                names.write_own(subject, member.name(), &mut key);
                keys.push(key);
            }
        }
        keys
    }

    fn decide(
        &mut self,
        now: u64,
        subject: &[u8],
        operation: Operation,
        costs: Costs<'_>,
    ) -> Option<Result<Decision, StoreError>> {
        if let Err(error) = check_request(&self.limit, operation, costs) {
            return Some(Err(error));
        }
        let keys = self.keys(subject);
        if operation == Operation::Reset {
            keys.iter().for_each(|key| self.interpreter.delete(key));
            return None;
        }
        let max_clock_back = match self.clock {
            Clock::Injected => None,
            Clock::Own { max_clock_back_us } => {
                self.interpreter.set_now(now);
                if self.expires {
                    self.interpreter.expire();
                }
                Some(max_clock_back_us)
            }
        };
        let mut near = vec![now; self.limit.members().len()];
        for _ in 0..=near.len() {
            let mut arguments =
                vec![self.program.bytes(&self.limit, operation, costs, |policy| near[policy])];
            if self.clock == Clock::Injected {
                arguments.push(now.to_string().into_bytes());
            }
            let reply = self.interpreter.eval(self.script.text(), &keys, &arguments).unwrap();
            match read_answer(&self.limit, operation, costs, max_clock_back, &to_value(reply)) {
                Ok(Answer::Decided(decision)) => return Some(Ok(decision)),
                Ok(Answer::AskAgain { policy, at }) => near[policy] = at,
                Err(error) => return Some(Err(error)),
            }
        }
        panic!("asked again and again")
    }
}

fn to_value(reply: Reply) -> Value {
    match reply {
        Reply::Array(items) => Value::Array(items.into_iter().map(to_value).collect()),
        Reply::Bulk(text) => Value::BulkString(text),
        Reply::Int(number) => Value::Int(number),
        Reply::Nil => Value::Nil,
    }
}

fn assert_scripts_answer_like_the_model(schedule: &Schedule, expires: bool) {
    let mut scripted = Scripted::new(schedule.policies.clone(), schedule.clock);
    scripted.expires = expires;
    for (index, step) in schedule.steps.iter().enumerate() {
        match step {
            Step::SetPolicies(policies) => scripted.set_policies(policies.clone()),
            Step::Request(request) => {
                let before = scripted.interpreter.keys();
                let (operation, costs) = request.operation.for_store();
                let Some(got) = scripted.decide(request.now_us, &request.key, operation, costs)
                else {
                    continue;
                };
                let differences = differences(&request.expected, &got);
                assert!(differences.is_empty(), "step {index}: {differences:#?}\n{schedule}");
                let plain_denial = got
                    .as_ref()
                    .is_ok_and(|decision| decision.is_denied() && !decision.notes().restamped)
                    && scripted.limit.members().iter().all(|member| {
                        member.policy().enforcement() == Enforcement::Enforced
                            && member.policy().denied_charge() == DeniedCharge::Free
                    });
                let changes_nothing = got.is_err() || plain_denial || operation == Operation::Peek;
                if changes_nothing && schedule.clock == Clock::Injected {
                    {
                        assert_eq!(
                            before,
                            scripted.interpreter.keys(),
                            "step {index} changed the store\n{schedule}"
                        );
                    }
                }
                assert!(
                    scripted.interpreter.keys().values().all(|stored| stored.expires_ms.is_some()),
                    "a key without a life at step {index}\n{schedule}"
                );
            }
        }
    }
}

#[test]
fn every_kind_alone_under_injected_time() {
    for kind in Kind::ALL {
        let plan = Plan { kinds: vec![kind], max_policies: 1, ..Plan::default() };
        each(&format!("scripts {kind:?}"), 100, |seed| {
            assert_scripts_answer_like_the_model(&plan.schedule(seed), false);
        });
    }
}

#[test]
fn composites_under_injected_time() {
    each("scripts composites", 600, |seed| {
        assert_scripts_answer_like_the_model(&Plan::default().schedule(seed), false);
    });
}

/// New numbers can make what was consumed flow back later than the life that the old ones gave
/// the key, and a clock that steps back can meet a key that has expired: neither is asked here.
#[test]
fn a_key_never_expires_before_it_equals_a_fresh_one() {
    let plan = Plan {
        clock: Clock::Own { max_clock_back_us: MAX_CLOCK_BACK },
        may_step_back: false,
        may_renumber: false,
        ..Plan::default()
    };
    each("scripts expire", 800, |seed| {
        let schedule = plan.schedule(seed);
        if !schedule.policies.iter().any(starts_empty) {
            assert_scripts_answer_like_the_model(&schedule, true);
        }
    });
}

/// Once used it never equals a fresh one: it may go when it is full and a day old.
fn starts_empty(policy: &Policy) -> bool {
    matches!(policy.algorithm(), Algorithm::Smooth { start: Start::Empty, .. })
}

#[test]
fn composites_under_a_clock_of_the_servers_own() {
    let plan = Plan { clock: Clock::Own { max_clock_back_us: MAX_CLOCK_BACK }, ..Plan::default() };
    each("scripts own clock back", 600, |seed| {
        assert_scripts_answer_like_the_model(&plan.schedule(seed), false);
    });
}
