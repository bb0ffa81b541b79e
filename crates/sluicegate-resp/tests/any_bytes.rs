//! Any bytes of a client. A program of its own, because the fuzzer runs the same checks.

#![expect(clippy::expect_used, clippy::panic, reason = "helpers of tests fail like tests")]

#[path = "any_bytes/connection.rs"]
mod connection;

use proptest::prelude::*;

/// Pieces of commands, valid and not.
const PIECES: [&str; 34] = [
    "*1\r\n",
    "*2\r\n",
    "*3\r\n",
    "*4\r\n",
    "*5\r\n",
    "*0\r\n",
    "*-1\r\n",
    "$4\r\n",
    "PING\r\n",
    "ECHO\r\n",
    "MULTI\r\n",
    "EXEC\r\n",
    "DISCARD\r\n",
    "SG.CHECK a b\r\n",
    "SG.HOLD a b 5 FOR 3s\r\n",
    "HELLO 3\r\n",
    "HELLO 2 AUTH a wrong\r\n",
    "AUTH x\r\n",
    "RESET\r\n",
    "CL.THROTTLE a 1 2 3 4\r\n",
    "THROTTLE a 9 9 9\r\n",
    "COMMAND\r\n",
    "COMMAND INFO get ping\r\n",
    "CLIENT GETNAME\r\n",
    "CLIENT SETNAME x\r\n",
    "\"",
    "'",
    " ",
    "\r\n",
    "\n",
    "$1\r\na\r\n",
    "$0\r\n\r\n",
    "SG.ACQUIRE a b WITHIN 1s\r\n",
    "CL.THROTTLE a 9999999 7 3600\r\n",
];

proptest! {
    #[test]
    fn answers_to_any_bytes_are_well_formed(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        connection::holds(&bytes);
    }

    #[test]
    fn answers_to_pieces_of_commands_are_well_formed(
        size in any::<u8>(),
        pieces in proptest::collection::vec(proptest::sample::select(&PIECES[..]), 0..40),
    ) {
        let mut bytes = vec![size];
        bytes.extend(pieces.concat().bytes());
        connection::holds(&bytes);
    }
}
