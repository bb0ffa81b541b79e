//! The Redis scripts in an embedded interpreter whose server clock the test drives.

use std::collections::HashMap;
use std::sync::Arc;

use sluicegate_conformance::kernels::Kernels;
use sluicegate_conformance::reference::Clock;
use sluicegate_core::kernel::Rule;
use sluicegate_core::{
    Action, Costs, Decision, Error, KeyPrefix, Limit, Operation, Policy, Request, Span, StoreKey,
    TimeSource,
};
use sluicegate_redis::Value;
use sluicegate_redis::{Program, Reply as Answer, Script, read_reply};
use sluicegate_testkit::lua::{Interpreter, Reply, Stored};

/// How far ahead of the server's clock a state may be stamped, in µs.
pub(crate) const MAX_CLOCK_BACK: u64 = 5_000_000;

pub(crate) struct Scripted {
    interpreter: Interpreter,
    clock: Clock,
    /// Whether keys expire by the server's clock; they do unless a test says otherwise.
    pub(crate) expires: bool,
    limit: Limit,
    program: Program,
    script: Arc<Script>,
}

impl Scripted {
    pub(crate) fn new(policies: Vec<Policy>, clock: Clock) -> Self {
        let limit = limit(policies);
        Self {
            interpreter: Interpreter::new().unwrap(),
            clock,
            expires: true,
            program: program(&limit),
            script: Script::of(&limit),
            limit,
        }
    }

    pub(crate) fn set_policies(&mut self, policies: Vec<Policy>) {
        self.limit = limit(policies);
        self.program = program(&self.limit);
        self.script = Script::of(&self.limit);
    }

    /// The policies as a limit.
    pub(crate) fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Commands that the scripts have called so far.
    pub(crate) fn calls(&self) -> usize {
        self.interpreter.calls()
    }

    /// Bytes of values that the scripts have been given so far.
    pub(crate) fn read(&self) -> usize {
        self.interpreter.read()
    }

    /// The instructions of the scripts meanwhile.
    pub(crate) fn instructions<T>(&mut self, ask: impl FnOnce(&mut Self) -> T) -> (T, u64) {
        self.interpreter.count_instructions().unwrap();
        let answer = ask(self);
        (answer, self.interpreter.instructions())
    }

    /// What is stored.
    pub(crate) fn stored(&self) -> HashMap<Vec<u8>, Stored> {
        self.interpreter.keys()
    }

    /// Makes this everything that is stored.
    pub(crate) fn store(&self, keys: HashMap<Vec<u8>, Stored>) {
        self.interpreter.set_keys(keys);
    }

    /// Deletes the keys that are past their time.
    pub(crate) fn expire(&self, now: u64) {
        self.interpreter.set_now(now);
        self.interpreter.expire();
    }

    /// The answer at `now` µs since the epoch.
    pub(crate) fn decide(
        &mut self,
        now: u64,
        subject: &[u8],
        operation: Operation,
        costs: Costs<'_>,
    ) -> Result<Decision, Error> {
        self.ask(now, &Request::new(operation, subject).costs(costs))
    }

    pub(crate) fn ask(&mut self, now: u64, request: &Request<'_>) -> Result<Decision, Error> {
        request.validate(&self.limit)?;
        let subject = request.key();
        let keys = self.keys(subject);
        if request.action() == Action::Decide(Operation::Reset) {
            keys.iter().for_each(|key| self.interpreter.delete(key));
            // The answer is computed by the client, from fresh states.
            let policies = self.limit.members().iter().map(|member| member.policy().clone());
            return Kernels::new(policies.collect(), self.clock).ask(now, request);
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
                vec![self.program.bytes(&self.limit, request, |policy| near[policy])];
            if self.clock == Clock::Injected {
                arguments.push(now.to_string().into_bytes());
            }
            let reply = self.interpreter.eval(self.script.text(), &keys, &arguments).unwrap();
            match read_reply(&self.limit, request, max_clock_back, &to_value(reply))? {
                Answer::Decided(decision) => return Ok(decision),
                Answer::AskAgain { policy, at } => near[policy] = at,
            }
        }
        panic!("asked again and again")
    }

    /// The key of a subject's packed states, and those of logs that have their own.
    pub(crate) fn keys(&self, subject: &[u8]) -> Vec<Vec<u8>> {
        let names = StoreKey::new(&KeyPrefix::default(), self.limit.name(), &TimeSource::Store);
        let mut keys = vec![Vec::new()];
        names.write(subject, &mut keys[0]);
        for member in self.limit.members() {
            if let Rule::Log(log) = member.policy().rule()
                && (!log.is_ring() || log.horizon() / log.quantum() > 64)
            {
                let mut key = Vec::new();
                names.write_own(subject, member, &mut key);
                keys.push(key);
            }
        }
        keys
    }
}

fn limit(policies: Vec<Policy>) -> Limit {
    Limit::new("test".parse().unwrap(), policies).unwrap()
}

fn program(limit: &Limit) -> Program {
    Program::new(limit, Span::from_micros(MAX_CLOCK_BACK).unwrap())
}

fn to_value(reply: Reply) -> Value {
    match reply {
        Reply::Array(items) => Value::Array(items.into_iter().map(to_value).collect()),
        Reply::Bulk(text) => Value::Bytes(text.into()),
        Reply::Int(number) => Value::Int(number),
        Reply::Nil => Value::Nil,
    }
}
