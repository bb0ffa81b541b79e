//! The commands that exist.

use crate::arguments::Arguments;
use crate::output::Output;

/// A command that exists.
#[derive(Debug)]
pub(crate) struct Description {
    /// The name, in small letters.
    pub(crate) name: &'static str,
    pub(crate) which: Which,
    /// The minimum and maximum number of parts, with the name.
    parts: (usize, usize),
    /// The index of the key; 0 if there is none.
    key: u8,
}

/// The commands, without their arguments.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Which {
    Acquire,
    Auth,
    Charge,
    Check,
    Client,
    Cluster,
    Command,
    Config,
    Discard,
    Echo,
    Exec,
    Hello,
    Hold,
    Info,
    Multi,
    Peek,
    Ping,
    Quit,
    RedisCell,
    Refund,
    Release,
    Reset,
    ResetKey,
    Select,
    Settle,
    Throttlecrab,
}

const ANY: usize = usize::MAX;

/// All commands. The ones that decide are first.
const ALL: [Description; 26] = [
    describe("sg.check", Which::Check, (3, 4), 2),
    describe("cl.throttle", Which::RedisCell, (5, 6), 1),
    describe("throttle", Which::Throttlecrab, (5, 6), 1),
    describe("sg.peek", Which::Peek, (3, 4), 2),
    describe("sg.charge", Which::Charge, (3, 4), 2),
    describe("sg.refund", Which::Refund, (3, 4), 2),
    describe("sg.reset", Which::ResetKey, (3, 3), 2),
    describe("sg.hold", Which::Hold, (5, 6), 2),
    describe("sg.settle", Which::Settle, (2, 3), 0),
    describe("sg.release", Which::Release, (2, 2), 0),
    describe("sg.acquire", Which::Acquire, (5, 8), 2),
    describe("ping", Which::Ping, (1, 2), 0),
    describe("echo", Which::Echo, (2, 2), 0),
    describe("hello", Which::Hello, (1, ANY), 0),
    describe("auth", Which::Auth, (2, 3), 0),
    describe("client", Which::Client, (2, ANY), 0),
    describe("select", Which::Select, (2, 2), 0),
    describe("multi", Which::Multi, (1, 1), 0),
    describe("exec", Which::Exec, (1, 1), 0),
    describe("discard", Which::Discard, (1, 1), 0),
    describe("info", Which::Info, (1, ANY), 0),
    describe("command", Which::Command, (1, ANY), 0),
    describe("config", Which::Config, (2, ANY), 0),
    describe("cluster", Which::Cluster, (1, ANY), 0),
    describe("quit", Which::Quit, (1, ANY), 0),
    describe("reset", Which::Reset, (1, 1), 0),
];

const fn describe(name: &'static str, which: Which, parts: (usize, usize), key: u8) -> Description {
    Description { name, which, parts, key }
}

impl Description {
    /// Returns the command of this name, in small or large letters.
    pub(crate) fn find(name: &[u8]) -> Option<&'static Self> {
        ALL.iter().find(|it| it.name.as_bytes().eq_ignore_ascii_case(name))
    }

    /// Returns `true` if a command may have this number of parts.
    pub(crate) fn takes(&self, parts: usize) -> bool {
        (self.parts.0..=self.parts.1).contains(&parts)
    }

    /// Writes the command as `COMMAND` lists it.
    fn write(&self, output: &mut Output) {
        let (least, most) = self.parts;
        let least = i64::try_from(least).unwrap_or(i64::MAX);
        output.array(6);
        output.bulk(self.name.as_bytes());
        // A negative number is a minimum.
        output.integer(if self.parts.0 == most { least } else { -least });
        output.array(0);
        output.integer(self.key.into());
        output.integer(self.key.into());
        output.integer(i64::from(self.key > 0));
    }
}

/// Answers `COMMAND`, and the subcommands that clients use.
pub(crate) fn write_commands(arguments: &Arguments<'_, '_>, output: &mut Output) {
    let subcommand = arguments.get(1).map(<[u8]>::to_ascii_lowercase);
    match subcommand.as_deref() {
        None => {
            output.array(ALL.len());
            ALL.iter().for_each(|it| it.write(output));
        }
        Some(b"count") => output.integer(i64::try_from(ALL.len()).unwrap_or(i64::MAX)),
        Some(b"list") => {
            output.array(ALL.len());
            ALL.iter().for_each(|it| output.bulk(it.name.as_bytes()));
        }
        Some(b"info") => {
            output.array(arguments.len() - 2);
            for name in arguments.from(2) {
                match Description::find(name) {
                    Some(found) => found.write(output),
                    None => output.null(),
                }
            }
        }
        // The guide has them.
        Some(b"docs") => output.map(0),
        Some(_) => output.error(
            crate::output::ErrorKind::Err,
            "unknown subcommand of COMMAND: send COMMAND, COMMAND COUNT, DOCS, INFO or LIST",
        ),
    }
}
