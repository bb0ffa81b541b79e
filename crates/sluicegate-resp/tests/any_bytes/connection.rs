//! Any bytes of a client: each answer is well formed, and they are the same however the bytes arrive.

use sluicegate_core::Decision;
use sluicegate_core::for_stores::DecisionForStores as _;
use sluicegate_resp::{
    Command, ErrorKind, Next, Output, Parser, Request, Session, write_decision, write_settled,
};

/// Checks the answers to bytes of a client. The first byte is the size of the pieces in which the others arrive.
pub(crate) fn holds(input: &[u8]) {
    let Some((size, bytes)) = input.split_first() else { return };
    let whole = Connection::new().answers(bytes, bytes.len().max(1));
    assert_eq!(Connection::new().answers(bytes, usize::from(*size) + 1), whole);
    let mut rest = &whole[..];
    while !rest.is_empty() {
        rest = after_value(rest, 0);
    }
}

struct Connection {
    session: Session,
    output: Output,
    is_known: bool,
}

/// The client is disconnected.
struct Ended;

impl Connection {
    fn new() -> Self {
        Self { session: Session::new(1), output: Output::default(), is_known: true }
    }

    /// Returns the answers to bytes that arrive in pieces.
    fn answers(mut self, bytes: &[u8], size: usize) -> Vec<u8> {
        let (mut parser, mut start, mut end) = (Parser::default(), 0, 0);
        while end < bytes.len() {
            end = (end + size).min(bytes.len());
            match self.carry_out(&mut parser, &bytes[start..end]) {
                Ok(used) => start += used,
                Err(Ended) => break,
            }
        }
        self.output.bytes().to_vec()
    }

    fn carry_out(&mut self, parser: &mut Parser, input: &[u8]) -> Result<usize, Ended> {
        let mut used = 0;
        loop {
            let (arguments, length) = match parser.next(&input[used..]) {
                Ok(Some(next)) => next,
                Ok(None) => return Ok(used),
                Err(error) => {
                    self.output.error(ErrorKind::Err, error);
                    return Err(Ended);
                }
            };
            assert!(arguments.len() <= Parser::MAX_ARGUMENTS && length <= Parser::MAX_COMMAND);
            used += length;
            let command = Command::parse(&arguments);
            match self.session.next(&arguments, command, self.is_known, &mut self.output) {
                Next::Answered => {}
                Next::Ask(request) => self.decide(&request),
                Next::LogIn(credentials, hello) => {
                    self.is_known = credentials.token != b"wrong";
                    match hello {
                        Some(hello) => self.session.greet(&hello, &mut self.output),
                        None => self.output.simple("OK"),
                    }
                }
                Next::Forget => self.is_known = true,
                Next::Execute(commands) => {
                    let used = self.carry_out(&mut Parser::default(), &commands)?;
                    assert_eq!(used, commands.len(), "a transaction has whole commands");
                }
                Next::Close => return Err(Ended),
            }
        }
    }

    /// Answers a request as if its limit were off.
    fn decide(&mut self, request: &Request<'_>) {
        let decision = Decision::bypass(true);
        match request {
            Request::Throttle(throttle) => match throttle.numbers.policy() {
                Ok(_) => throttle.write(&decision, &mut self.output),
                Err(error) => error.write(&mut self.output),
            },
            Request::Settle(_) => write_settled(&decision, &mut self.output),
            Request::Decide(decide) => {
                write_decision(&decision, decide.hold.map(|_| None), &mut self.output);
            }
            Request::Acquire(acquire) => {
                assert!(acquire.within.as_secs() <= 600);
                write_decision(&decision, None, &mut self.output);
            }
        }
    }
}

/// Returns the bytes after the first value.
fn after_value(bytes: &[u8], depth: usize) -> &[u8] {
    assert!(depth < 5, "no answer is nested so deep");
    let end = bytes.windows(2).position(|pair| pair == b"\r\n").expect("a line ends");
    let (line, mut rest) = (&bytes[1..end], &bytes[end + 2..]);
    let number = || -> i64 { str::from_utf8(line).expect("digits").parse().expect("a number") };
    let values = match bytes[0] {
        b'+' | b'-' => 0,
        b':' => {
            let _ = number();
            0
        }
        b'_' | b'#' => {
            assert!(matches!(line, b"" | b"t" | b"f"));
            0
        }
        b'$' => {
            if let Ok(length) = usize::try_from(number()) {
                assert_eq!(&rest[length..length + 2], b"\r\n");
                rest = &rest[length + 2..];
            }
            0
        }
        b'*' => number(),
        b'%' => 2 * number(),
        other => panic!("no value begins with {}", other.escape_ascii()),
    };
    for _ in 0..values {
        rest = after_value(rest, depth + 1);
    }
    rest
}
