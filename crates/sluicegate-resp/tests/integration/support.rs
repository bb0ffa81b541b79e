//! A connection whose requests an embedded store decides.

use std::sync::Arc;

use sluicegate::testing::ManualClock;
use sluicegate::{Limit, Limiter, MemoryStore};
use sluicegate_resp::{
    Command, Decide, Next, Output, Parser, Request, Session, Throttle, write_decision,
};

/// A connection whose requests an embedded store decides. Its time stands still.
pub(crate) struct Connection {
    parser: Parser,
    pub(crate) session: Session,
    pub(crate) output: Output,
    throttle: Limiter<MemoryStore>,
    api: Limiter<MemoryStore>,
    pub(crate) is_known: bool,
    input: Vec<u8>,
}

impl Connection {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(ManualClock::default());
        let store = MemoryStore::builder().clock(clock).build();
        let limiter = |name: &str, policy: &str| {
            Limiter::new(store.clone(), Limit::new(name, [policy]).unwrap())
        };
        Self {
            parser: Parser::default(),
            session: Session::new(7),
            output: Output::default(),
            throttle: limiter("cl.throttle", "gcra 1/s"),
            api: limiter("api", "gcra 1/min burst 2"),
            is_known: true,
            input: Vec::new(),
        }
    }

    /// Returns the answers to bytes of a client.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> String {
        self.input.extend_from_slice(bytes.as_ref());
        let input = std::mem::take(&mut self.input);
        let used = self.carry_out(&input);
        self.input = input[used..].to_vec();
        let answers = String::from_utf8(self.output.bytes().to_vec()).unwrap();
        self.output.clear();
        answers
    }

    fn carry_out(&mut self, input: &[u8]) -> usize {
        let (mut parser, mut used) = (std::mem::take(&mut self.parser), 0);
        while let Some((arguments, length)) = parser.next(&input[used..]).unwrap() {
            let command = Command::parse(&arguments);
            let next = self.session.next(&arguments, command, self.is_known, &mut self.output);
            match next {
                Next::Ask(request) => self.ask(&request),
                Next::Execute(commands) => {
                    assert_eq!(self.carry_out(&commands), commands.len());
                }
                Next::Answered | Next::LogIn(..) | Next::Forget | Next::Close => {}
            }
            used += length;
        }
        self.parser = parser;
        used
    }

    fn ask(&mut self, request: &Request<'_>) {
        match request {
            Request::Throttle(throttle) => self.throttle(throttle),
            Request::Decide(Decide { verb, key, .. }) => {
                let decision = self.api.decide(verb.operation(), *key).now().unwrap();
                write_decision(&decision, None, &mut self.output);
            }
            other => panic!("{other:?}"),
        }
    }

    fn throttle(&mut self, throttle: &Throttle<'_>) {
        let policy = match throttle.numbers.policy() {
            Ok(policy) => policy,
            Err(error) => return error.write(&mut self.output),
        };
        let question = match throttle.quantity {
            0 => self.throttle.peek(throttle.key),
            units => self.throttle.check(throttle.key).cost(units),
        };
        throttle.write(&question.with([policy]).now().unwrap(), &mut self.output);
    }
}

/// Returns a command as clients send it.
pub(crate) fn command(words: &str) -> String {
    let words: Vec<&str> = words.split(' ').collect();
    let bulks: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    format!("*{}\r\n{bulks}", words.len())
}
