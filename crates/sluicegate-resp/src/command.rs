//! Commands with their arguments.

use crate::arguments::Arguments;
use crate::command_error::CommandError;
use crate::connection_command::{ClientCommand, ConnectionCommand, Credentials, Hello};
use crate::description::{Description, Which};
use crate::number::{integer, shown};
use crate::request::{Acquire, Decide, Request, Settle, Verb};
use crate::throttle::{Form, Throttle};

/// A command of a client.
#[derive(Clone, Debug)]
pub enum Command<'a> {
    /// A command about the connection, which its [`Session`](crate::Session) answers.
    Connection(ConnectionCommand<'a>),
    /// A command about limits.
    Request(Request<'a>),
}

impl<'a> Command<'a> {
    /// Reads a command.
    ///
    /// # Errors
    /// Returns an error for an unknown command, and for arguments that are missing or wrong.
    ///
    /// ```
    /// use sluicegate_resp::{Command, Parser, Request};
    ///
    /// let mut parser = Parser::default();
    /// let (arguments, _) = parser.next(b"cl.throttle alice 15 30 60\n")?.unwrap();
    /// let Command::Request(Request::Throttle(throttle)) = Command::parse(&arguments)? else { panic!() };
    /// assert_eq!((throttle.key, throttle.numbers.burst, throttle.quantity), (&b"alice"[..], 16, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn parse(arguments: &Arguments<'a, '_>) -> Result<Self, CommandError> {
        let name = arguments.get(0).unwrap_or_default();
        let Some(found) = Description::find(name) else { return Err(unknown(name)) };
        if !found.takes(arguments.len()) {
            return Err(CommandError::err(format!(
                "wrong number of arguments for '{}' command",
                found.name
            )));
        }
        let decide = |verb| Decide::parse(verb, arguments).map(Request::Decide);
        let request = match found.which {
            Which::Check => decide(Verb::Check)?,
            Which::Peek => decide(Verb::Peek)?,
            Which::Charge => decide(Verb::Charge)?,
            Which::Refund => decide(Verb::Refund)?,
            Which::ResetKey => decide(Verb::Reset)?,
            Which::Hold => Request::Decide(Decide::parse_hold(arguments)?),
            Which::Acquire => Request::Acquire(Acquire::parse(arguments)?),
            Which::RedisCell => Request::Throttle(Throttle::parse(Form::RedisCell, arguments)?),
            Which::Throttlecrab => {
                Request::Throttle(Throttle::parse(Form::Throttlecrab, arguments)?)
            }
            Which::Settle | Which::Release => Request::Settle(Settle::parse(arguments)?.into()),
            of_connection => return connection(of_connection, arguments).map(Self::Connection),
        };
        Ok(Self::Request(request))
    }
}

/// Reads a command about the connection.
fn connection<'a>(
    which: Which,
    arguments: &Arguments<'a, '_>,
) -> Result<ConnectionCommand<'a>, CommandError> {
    let argument = |index| arguments.get(index).unwrap_or_default();
    Ok(match which {
        Which::Auth => ConnectionCommand::Auth(match arguments.get(2) {
            Some(token) => Credentials { name: Some(argument(1)), token },
            None => Credentials { name: None, token: argument(1) },
        }),
        Which::Hello => ConnectionCommand::Hello(Hello::parse(arguments)?),
        Which::Ping => ConnectionCommand::Ping(arguments.get(1)),
        Which::Echo => ConnectionCommand::Echo(argument(1)),
        Which::Client => ConnectionCommand::Client(ClientCommand::parse(arguments)?),
        Which::Select if integer(argument(1)) == Some(0) => ConnectionCommand::Select,
        Which::Select => {
            return Err(CommandError::err("DB index is out of range: there is only 0"));
        }
        Which::Multi => ConnectionCommand::Multi,
        Which::Exec => ConnectionCommand::Exec,
        Which::Discard => ConnectionCommand::Discard,
        Which::Info => ConnectionCommand::Info,
        Which::Command => ConnectionCommand::Commands,
        Which::Config if argument(1).eq_ignore_ascii_case(b"get") => ConnectionCommand::ConfigGet,
        Which::Config => {
            return Err(CommandError::err("the configuration is a file: only CONFIG GET exists"));
        }
        // Clients look for the word `cluster` to find out that there is none.
        Which::Cluster => {
            return Err(CommandError::err("This instance has cluster support disabled"));
        }
        Which::Quit => ConnectionCommand::Quit,
        _ => ConnectionCommand::Reset,
    })
}

#[cold]
fn unknown(name: &[u8]) -> CommandError {
    CommandError::err(format!("unknown command '{}'", shown(name)))
}
