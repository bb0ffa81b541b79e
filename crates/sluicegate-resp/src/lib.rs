//! Redis' protocol for the Sluicegate rate limiter, without I/O.
//!
//! A [`Parser`] finds the [`Arguments`] of the next command in the bytes of a connection. [`Command::parse`] reads
//! them, and the connection's [`Session`] answers commands about the connection itself into an [`Output`]. Other
//! commands are a [`Request`] for the caller. It decides, and writes the answer by a method of the request.
//!
//! ```
//! use sluicegate_resp::{Command, Next, Output, Parser, Session};
//!
//! let (mut parser, mut session, mut output) = (Parser::default(), Session::new(7), Output::default());
//! let input = b"*1\r\n$4\r\nPING\r\n*3\r\n$8\r\nSG.CHECK\r\n$3\r\napi\r\n$5\r\nalice\r\n";
//! let (ping, length) = parser.next(input)?.expect("it is whole");
//! assert!(matches!(session.next(&ping, Command::parse(&ping), true, &mut output), Next::Answered));
//! assert_eq!(output.bytes(), b"+PONG\r\n");
//! let (check, _) = parser.next(&input[length..])?.expect("it is whole");
//! let next = session.next(&check, Command::parse(&check), true, &mut output);
//! assert!(matches!(next, Next::Ask(_)));
//! # Ok::<(), sluicegate_resp::ProtocolError>(())
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod answer;
mod arguments;
mod command;
mod command_error;
mod connection_command;
mod cost;
mod description;
mod exact_rate;
mod inline;
mod number;
mod output;
mod parser;
mod protocol_error;
mod request;
mod session;
mod throttle;
mod transaction;

pub use answer::{Held, write_decision, write_settled};
pub use arguments::Arguments;
pub use command::Command;
pub use command_error::CommandError;
pub use connection_command::{ClientCommand, ConnectionCommand, Credentials, Hello};
pub use cost::{Cost, EachCost};
pub use output::{ErrorKind, Output, Protocol};
pub use parser::Parser;
pub use protocol_error::ProtocolError;
pub use request::{Acquire, Decide, Request, Settle, Verb};
pub use session::{Next, Session};
pub use throttle::{Form, Numbers, Throttle};
