//! Boards: an entry in a program, and the reply.
//!
//! | bytes | entry: in the program of an auxiliary command (`lua/auxiliary.lua`), in the value, in the reply |
//! | --- | --- |
//! | 7 | in a program its lifetime in µs, 0 for no entry; otherwise its end, µs since the epoch |
//! | 4, … | its name, after its length |
//! | 4, … | its content, after its length |

use bytes::{Buf as _, Bytes};
use sluicegate_core::Error;
use sluicegate_core::for_stores::{Post, Posted};
use sluicegate_core::kernel::NUMBER_BYTES;

use crate::format::{Format, Item};
use crate::program::errand;
use crate::program_frame::{push, push_word};
use crate::reply_frame::take_word;
use crate::twin::Lane;
use crate::unexpected::nonsense;

/// The beginning of an entry, up to the length of its name.
pub(crate) const ENTRY: Format = Format(&[&[Item::Numbers(1), Item::Whole(4)]]);

/// Returns the program that puts an entry on a board, and lists the board.
pub(crate) fn exchange(post: Option<Post<'_>>) -> Vec<u8> {
    let mut program = errand(Lane::Board);
    push(&mut program, post.map_or(0, |post| post.lasts.as_micros()));
    for word in post.map_or([&b""[..]; 2], |post| [post.name, post.value]) {
        push_word(&mut program, word);
    }
    program
}

/// Parses a board, and sorts it by name.
///
/// # Errors
/// Returns an error if the reply is malformed.
pub(crate) fn read(mut said: Bytes) -> Result<Vec<Posted>, Error> {
    let mut board = Vec::new();
    while !said.is_empty() {
        let end = said.len().min(NUMBER_BYTES);
        said.advance(end);
        let mut word = || take_word(&mut said).ok_or_else(|| nonsense("a board cut short"));
        let (name, value) = (word()?, word()?);
        board.push(Posted { name: name.to_vec(), value: value.to_vec() });
    }
    board.sort();
    Ok(board)
}
