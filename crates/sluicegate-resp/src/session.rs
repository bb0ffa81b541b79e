//! The state of a connection.

use crate::arguments::Arguments;
use crate::command::Command;
use crate::command_error::CommandError;
use crate::connection_command::{ClientCommand, ConnectionCommand, Credentials, Hello};
use crate::description::write_commands;
use crate::output::{ErrorKind, Output, Protocol};
use crate::request::Request;
use crate::transaction::Transaction;

/// The state of a connection, which answers commands about the connection itself.
#[derive(Debug)]
pub struct Session {
    id: u64,
    /// The name that the client gave to the connection.
    name: Option<Box<[u8]>>,
    transaction: Option<Transaction>,
}

/// The next step of the caller.
#[derive(Debug)]
pub enum Next<'a> {
    /// The command is answered.
    Answered,
    /// The command about limits has to be decided and answered.
    Ask(Request<'a>),
    /// The credentials have to be verified. If they are valid, [`Session::greet`] answers `HELLO`; `AUTH` is answered by
    /// `OK`.
    LogIn(Credentials<'a>, Option<Hello<'a>>),
    /// The commands in these bytes have to be carried out. They are the elements of an array that is begun.
    Execute(Vec<u8>),
    /// The credentials have to be forgotten. The command is answered.
    Forget,
    /// The answers have to be sent, and the connection closed.
    Close,
}

impl Session {
    /// Makes the state of a new connection. `id` is its number.
    #[must_use]
    pub const fn new(id: u64) -> Self {
        Self { id, name: None, transaction: None }
    }

    /// Returns `true` if the next commands wait for `EXEC`.
    #[must_use]
    pub const fn is_in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// Answers a command about the connection, or returns the next step. `is_known` is whether the caller of the
    /// connection has presented valid credentials, or needs none.
    pub fn next<'a>(
        &mut self,
        arguments: &Arguments<'_, '_>,
        command: Result<Command<'a>, CommandError>,
        is_known: bool,
        output: &mut Output,
    ) -> Next<'a> {
        if arguments.is_empty() {
            return Next::Answered;
        }
        if !is_known && !is_open_to_all(&command) {
            self.break_transaction();
            output.error(ErrorKind::NoAuth, "Authentication required: send AUTH TOKEN");
            return Next::Answered;
        }
        let command = match command {
            Ok(command) => command,
            Err(error) => {
                self.break_transaction();
                error.write(output);
                return Next::Answered;
            }
        };
        if let Some(transaction) = &mut self.transaction
            && !is_immediate(&command)
        {
            if transaction.queue(arguments) {
                output.simple("QUEUED");
            } else {
                let most = Transaction::MAX_BYTES;
                let message = format!(
                    "a command of the transaction was refused, or it has more than {most} bytes"
                );
                output.error(ErrorKind::Err, message);
            }
            return Next::Answered;
        }
        match command {
            Command::Request(request) => Next::Ask(request),
            Command::Connection(command) => self.answer(arguments, command, is_known, output),
        }
    }

    /// Answers `HELLO`, whose credentials are valid if it has some.
    pub fn greet(&mut self, hello: &Hello<'_>, output: &mut Output) {
        if let Some(protocol) = hello.protocol {
            output.speak(protocol);
        }
        if let Some(name) = hello.name {
            self.name = Some(name.into());
        }
        output.map(7);
        output.bulk(b"server");
        output.bulk(b"sluicegate");
        output.bulk(b"version");
        output.bulk(env!("CARGO_PKG_VERSION").as_bytes());
        output.bulk(b"proto");
        output.integer(if output.protocol() == Protocol::Resp3 { 3 } else { 2 });
        output.bulk(b"id");
        output.integer(self.id.try_into().unwrap_or(i64::MAX));
        output.bulk(b"mode");
        output.bulk(b"standalone");
        output.bulk(b"role");
        output.bulk(b"master");
        output.bulk(b"modules");
        output.array(0);
    }

    fn answer<'a>(
        &mut self,
        arguments: &Arguments<'_, '_>,
        command: ConnectionCommand<'a>,
        is_known: bool,
        output: &mut Output,
    ) -> Next<'a> {
        match command {
            ConnectionCommand::Auth(credentials) => return Next::LogIn(credentials, None),
            ConnectionCommand::Hello(hello) => match hello.credentials {
                Some(credentials) => return Next::LogIn(credentials, Some(hello)),
                None if !is_known => output.error(ErrorKind::NoAuth, HELLO_WITHOUT_AUTH),
                None => self.greet(&hello, output),
            },
            ConnectionCommand::Ping(None) => output.simple("PONG"),
            ConnectionCommand::Ping(Some(text)) | ConnectionCommand::Echo(text) => {
                output.bulk(text);
            }
            ConnectionCommand::Client(command) => self.client(command, output),
            ConnectionCommand::Select => output.simple("OK"),
            ConnectionCommand::Commands => write_commands(arguments, output),
            ConnectionCommand::ConfigGet => output.map(0),
            ConnectionCommand::Info => output.bulk(INFO.as_bytes()),
            ConnectionCommand::Multi if self.transaction.is_some() => {
                output.error(ErrorKind::Err, "MULTI calls can not be nested");
            }
            ConnectionCommand::Multi => {
                self.transaction = Some(Transaction::default());
                output.simple("OK");
            }
            ConnectionCommand::Exec => return self.execute(output),
            ConnectionCommand::Discard => match self.transaction.take() {
                Some(_) => output.simple("OK"),
                None => output.error(ErrorKind::Err, "DISCARD without MULTI"),
            },
            ConnectionCommand::Reset => {
                (self.name, self.transaction) = (None, None);
                output.speak(Protocol::Resp2);
                output.simple("RESET");
                return Next::Forget;
            }
            ConnectionCommand::Quit => {
                output.simple("OK");
                return Next::Close;
            }
        }
        Next::Answered
    }

    fn execute<'a>(&mut self, output: &mut Output) -> Next<'a> {
        match self.transaction.take().map(Transaction::commands) {
            Some(Some((count, commands))) => {
                output.array(count);
                return Next::Execute(commands);
            }
            Some(None) => output
                .error(ErrorKind::ExecAbort, "Transaction discarded because of previous errors."),
            None => output.error(ErrorKind::Err, "EXEC without MULTI"),
        }
        Next::Answered
    }

    fn client(&mut self, command: ClientCommand<'_>, output: &mut Output) {
        match command {
            ClientCommand::GetName => match &self.name {
                Some(name) => output.bulk(name),
                None => output.null(),
            },
            ClientCommand::Id => output.integer(self.id.try_into().unwrap_or(i64::MAX)),
            ClientCommand::SetName(name) => {
                self.name = (!name.is_empty()).then(|| name.into());
                output.simple("OK");
            }
            ClientCommand::Accepted => output.simple("OK"),
        }
    }

    fn break_transaction(&mut self) {
        if let Some(transaction) = &mut self.transaction {
            transaction.break_off();
        }
    }
}

const HELLO_WITHOUT_AUTH: &str =
    "HELLO must be called with the client already authenticated: send HELLO 3 AUTH NAME TOKEN";

/// Clients look for `loading:0` or nothing.
const INFO: &str = concat!(
    "# Server\r\nserver_name:sluicegate\r\nsluicegate_version:",
    env!("CARGO_PKG_VERSION"),
    "\r\nredis_mode:standalone\r\n# Replication\r\nrole:master\r\n# Persistence\r\nloading:0\r\n"
);

/// Returns `true` for commands that need no credentials.
fn is_open_to_all(command: &Result<Command<'_>, CommandError>) -> bool {
    use ConnectionCommand::{Auth, Hello, Quit, Reset};
    matches!(command, Ok(Command::Connection(Auth(_) | Hello(_) | Quit | Reset)))
}

/// Returns `true` for commands that don't wait for `EXEC`.
const fn is_immediate(command: &Command<'_>) -> bool {
    use ConnectionCommand::{Discard, Exec, Multi, Quit, Reset};
    matches!(command, Command::Connection(Multi | Exec | Discard | Quit | Reset))
}
