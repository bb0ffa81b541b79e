//! The conversation with one client.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use sluicegate::config::Switch;
use sluicegate::error::RequestErrorKind;
use sluicegate::policy::LimitName;
use sluicegate::question::batched;
use sluicegate::{Decision, Error, Gate, Grant};
use sluicegate_resp::{
    Acquire, Command, CommandError, Credentials, Decide, ErrorKind, Hello, Next, Output, Parser,
    Request, Session, Settle, write_settled,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::Shared;
use super::problem::Problem;
use super::question::{Asked, question, usage};
use crate::access::{Call, Caller, Login, LoginError};
use crate::http::Service;
use crate::http::acquire::{Waited, wait};
use crate::serving::{Client, Connected, Seat, UntilEnding};

/// Bytes of answers after which they are sent, even before the end of a pipeline.
const MOST_OUTPUT: usize = 64 * 1_024;
/// Bytes of a pipeline that are read before they are answered.
const MOST_INPUT: usize = 64 * 1_024;
/// Memory that a waiting connection keeps, each for its input and its output.
const IDLE_BYTES: usize = 16 * 1_024;
/// Memory for the first bytes of a connection.
const FIRST_BYTES: usize = 512;
/// Time limit of a client that doesn't read its answers.
const PATIENCE: Duration = Duration::from_secs(60);

/// The conversation with one client.
pub(super) struct Talk {
    shared: Arc<Shared>,
    stream: UntilEnding,
    client: Client,
    seat: Arc<Seat>,
    session: Session,
    login: Login,
    output: Output,
}

/// The end of a conversation.
struct Ended;

/// A request whose store doesn't answer immediately.
struct Pending<'i> {
    asked: Asked<'i>,
    gate: Gate,
    caller: Caller,
}

impl Talk {
    pub(super) fn new(shared: Arc<Shared>, id: u64, connected: Connected) -> Self {
        let Connected { stream, client, certificate, seat } = connected;
        let login = Login::new(client.peer(), certificate);
        let (session, output) = (Session::new(id), Output::default());
        Self { shared, stream, client, seat, session, login, output }
    }

    /// Answers pipelines until the client disconnects, or the service stops.
    pub(super) async fn run(mut self) {
        let (mut parser, mut input) = (Parser::default(), Vec::with_capacity(FIRST_BYTES));
        while self.read(&mut input).await.is_ok() {
            self.seat.mark_active();
            let Ok(used) = self.answer(&mut parser, &input).await else { return };
            input.drain(..used);
            if input.is_empty() {
                input.shrink_to(IDLE_BYTES);
            }
            if self.send().await.is_err() {
                return;
            }
        }
    }

    /// Reads all that has arrived, up to a bound.
    async fn read(&mut self, input: &mut Vec<u8>) -> Result<(), Ended> {
        input.reserve(FIRST_BYTES);
        match self.stream.read_buf(input).await {
            Ok(1..) => {}
            _ => return Err(Ended),
        }
        while input.len() == input.capacity() && input.len() < MOST_INPUT {
            input.reserve(input.len());
            tokio::select! {
                biased;
                read = self.stream.read_buf(input) => match read {
                    Ok(1..) => {}
                    // Earlier bytes are answered first; the next read has the same result.
                    _ => return Ok(()),
                },
                () = std::future::ready(()) => return Ok(()),
            }
        }
        Ok(())
    }

    /// Sends the answers.
    async fn send(&mut self) -> Result<(), Ended> {
        if self.output.bytes().is_empty() {
            return Ok(());
        }
        let sending = self.stream.write_all(self.output.bytes());
        let sent = tokio::time::timeout(PATIENCE, sending).await;
        self.output.sent(IDLE_BYTES);
        match sent {
            Ok(Ok(())) => Ok(()),
            _ => Err(Ended),
        }
    }

    /// Answers the commands that have arrived completely, in their order. Returns the number of their bytes.
    ///
    /// Decisions that a store makes immediately are made one after another. Others wait for each other, so the store gets
    /// them in one call.
    async fn answer(&mut self, parser: &mut Parser, input: &[u8]) -> Result<usize, Ended> {
        let (mut used, mut pending) = (0, Vec::new());
        let mut is_known = self.shared.service.access.knows(&mut self.login);
        loop {
            let (arguments, length) = match parser.next(&input[used..]) {
                Ok(Some(next)) => next,
                Ok(None) => break,
                Err(error) => {
                    self.decide_all(&mut pending).await;
                    self.output.error(ErrorKind::Err, error);
                    self.close().await;
                    return Err(Ended);
                }
            };
            used += length;
            let command = Command::parse(&arguments);
            let joins = is_decision(&command) && !self.session.is_in_transaction();
            if !joins {
                self.decide_all(&mut pending).await;
            }
            match self.session.next(&arguments, command, is_known, &mut self.output) {
                Next::Answered => {}
                Next::Ask(Request::Decide(decide)) => {
                    self.decide(Asked::Decide(decide), &mut pending).await;
                }
                Next::Ask(Request::Throttle(throttle)) => {
                    self.decide(Asked::Throttle(throttle), &mut pending).await;
                }
                Next::Ask(Request::Acquire(acquire)) => self.acquire(&acquire).await?,
                Next::Ask(Request::Settle(settle)) => self.settle(&settle).await,
                Next::LogIn(credentials, hello) => {
                    self.log_in(credentials, hello);
                    is_known = self.shared.service.access.knows(&mut self.login);
                }
                Next::Forget => {
                    self.login.forget();
                    is_known = self.shared.service.access.knows(&mut self.login);
                }
                Next::Execute(commands) => {
                    self.execute(commands).await?;
                    is_known = self.shared.service.access.knows(&mut self.login);
                }
                Next::Close => {
                    self.close().await;
                    return Err(Ended);
                }
            }
            if self.output.bytes().len() > MOST_OUTPUT {
                self.send().await?;
            }
        }
        self.decide_all(&mut pending).await;
        Ok(used)
    }

    /// Answers the commands of a transaction.
    fn execute(
        &mut self,
        commands: Vec<u8>,
    ) -> Pin<Box<dyn Future<Output = Result<(), Ended>> + Send + '_>> {
        // Boxed, because it calls its caller.
        Box::pin(async move {
            self.answer(&mut Parser::default(), &commands).await?;
            Ok(())
        })
    }

    /// Makes a decision, or adds it to those that wait for the store.
    async fn decide<'i>(&mut self, asked: Asked<'i>, pending: &mut Vec<Pending<'i>>) {
        let (gate, caller) = match find(&self.shared, &mut self.login, &asked) {
            Ok(found) => found,
            Err(problem) => {
                self.decide_all(pending).await;
                return problem.write(&mut self.output);
            }
        };
        if pending.is_empty() {
            let answer = caller.deciding_now(|| asked.question(&gate).now());
            if !answer.as_ref().is_err_and(would_block) {
                return asked.write(&gate, &answer, &mut self.output);
            }
        }
        let caller = caller.clone();
        pending.push(Pending { asked, gate, caller });
    }

    /// Makes the decisions that wait for the store, in one call of it.
    async fn decide_all(&mut self, pending: &mut Vec<Pending<'_>>) {
        if pending.is_empty() {
            return;
        }
        let _work = self.seat.begin();
        match self.shared.service.turns.next().await {
            Ok(_turn) => {
                let answers = batched(pending.iter().map(Pending::deciding)).await;
                for (Pending { asked, gate, .. }, answer) in pending.iter().zip(answers) {
                    asked.write(gate, &answer, &mut self.output);
                }
            }
            Err(error) => {
                let problem = Problem::from(error);
                pending.iter().for_each(|_| problem.write(&mut self.output));
            }
        }
        pending.clear();
    }

    /// Waits for units, and answers. Earlier answers are sent first.
    async fn acquire(&mut self, acquire: &Acquire<'_>) -> Result<(), Ended> {
        self.send().await?;
        let _work = self.seat.begin();
        let asked = Asked::Decide(acquire.decide);
        match find(&self.shared, &mut self.login, &asked) {
            Err(problem) => problem.write(&mut self.output),
            Ok((gate, caller)) => {
                let (service, within) = (&self.shared.service, acquire.within.into());
                let question = question(&acquire.decide, &gate);
                // Boxed, so other commands don't pay for its size.
                let waiting = wait(service, caller, question, within, self.client.gone());
                match Box::pin(waiting).await {
                    Ok(Waited { grant, .. }) => asked.write(&gate, &Ok(grant), &mut self.output),
                    Err(error) => Problem::from(error).write(&mut self.output),
                }
            }
        }
        Ok(())
    }

    /// Settles a hold, and answers.
    async fn settle(&mut self, settle: &Settle<'_>) {
        let _work = self.seat.begin();
        let settling = try_settle(&self.shared.service, &mut self.login, settle);
        match Box::pin(settling).await {
            Ok(decision) => write_settled(&decision, &mut self.output),
            Err(problem) => problem.write(&mut self.output),
        }
    }

    /// Verifies credentials, and answers.
    fn log_in(&mut self, credentials: Credentials<'_>, hello: Option<Hello<'_>>) {
        let access = &self.shared.service.access;
        let (name, token) = (credentials.own_name(), credentials.token);
        match access.log_in(&mut self.login, name, token) {
            Ok(()) => {}
            // As in Redis, any password is right where there is none, unless it is sent alone.
            Err(LoginError::NoTokens) if credentials.name.is_some() && name.is_none() => {}
            Err(LoginError::NoTokens) if name.is_none() => {
                return self.output.error(ErrorKind::Err, AUTH_WITHOUT_TOKENS);
            }
            Err(LoginError::NoTokens) => {
                let message = "invalid username-password pair: the service has no clients";
                return self.output.error(ErrorKind::WrongPass, message);
            }
            Err(LoginError::Refused(refusal)) => {
                return self.output.error(ErrorKind::WrongPass, refusal.message);
            }
        }
        match hello {
            Some(hello) => self.session.greet(&hello, &mut self.output),
            None => self.output.simple("OK"),
        }
    }

    /// Sends the last answers.
    async fn close(&mut self) {
        // A client that is gone needs no answers.
        let _ = self.send().await;
        let _ = self.stream.shutdown().await;
    }
}

/// The text of Redis, by which clients recognize that they need no password.
const AUTH_WITHOUT_TOKENS: &str = "AUTH <password> called without any password configured for the default user. Are you sure your \
                                   configuration is correct?";

impl Pending<'_> {
    fn deciding(&self) -> Pin<Box<dyn Future<Output = Result<Grant, Error>> + Send + '_>> {
        Box::pin(self.caller.deciding(self.asked.question(&self.gate)))
    }
}

/// Returns the gate of a request's limit, and the caller of the connection.
fn find<'l>(
    shared: &Shared,
    login: &'l mut Login,
    asked: &Asked<'_>,
) -> Result<(Gate, &'l Caller), Problem> {
    let Shared { service, throttle_gates, .. } = shared;
    let call = asked.call();
    let caller = service.access.admit_on(login, call)?;
    let gate = match asked {
        Asked::Decide(Decide { limit, .. }) => {
            let gate = service.gates.named(caller, call, limit);
            gate.map_err(|error| Problem::of_limit(error, limit))?
        }
        Asked::Throttle(throttle) if service.registry.resp().throttle == Switch::On => {
            caller.may(call, throttle.form.limit())?;
            throttle_gates.get(throttle.form, throttle.numbers)?
        }
        Asked::Throttle(throttle) => return Err(Problem::Off(throttle.form)),
    };
    Ok((gate, caller))
}

async fn try_settle(
    service: &Service,
    login: &mut Login,
    settle: &Settle<'_>,
) -> Result<Decision, Problem> {
    let caller = service.access.admit_on(login, Call::Hold)?;
    let names: Vec<&str> = settle.token.limits().map(LimitName::as_str).collect();
    service.gates.may_settle(caller, &names)?;
    let _turn = service.turns.next().await?;
    let settling = service.registry.settle(&settle.token, usage(settle.used));
    caller.deciding(settling).await.map_err(|error| Problem::from(&error))
}

/// Returns `true` for commands that make one decision and wait for no units.
const fn is_decision(command: &Result<Command<'_>, CommandError>) -> bool {
    matches!(command, Ok(Command::Request(Request::Decide(_) | Request::Throttle(_))))
}

fn would_block(error: &Error) -> bool {
    error.as_request().is_some_and(|error| error.kind() == RequestErrorKind::WouldBlock)
}
