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
use crate::program_frame::push;
use crate::twin::Lane;
use crate::unexpected::nonsense;

/// The beginning of an entry, up to the length of its name.
pub(crate) const ENTRY: Format = Format(&[&[Item::Numbers(1), Item::Whole(4)]]);

/// Returns the program that puts an entry on a board, and lists the board.
pub(crate) fn exchange(post: Option<Post<'_>>) -> Vec<u8> {
    let mut program = errand(Lane::Board);
    push(&mut program, post.map_or(0, |post| post.lasts.as_micros()));
    for word in post.map_or([&b""[..]; 2], |post| [post.name, post.value]) {
        // An entry has less than 17 kB.
        let length = u32::try_from(word.len()).unwrap_or(u32::MAX);
        program.extend_from_slice(&length.to_be_bytes());
        program.extend_from_slice(word);
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
        let name = word(&mut said)?;
        let value = word(&mut said)?;
        board.push(Posted { name, value });
    }
    board.sort();
    Ok(board)
}

fn word(said: &mut Bytes) -> Result<Vec<u8>, Error> {
    let length = said.get(..4).and_then(|length| length.try_into().ok()).map(u32::from_be_bytes);
    let length = length.and_then(|length| usize::try_from(length).ok());
    let length = length.filter(|length| said.len() - 4 >= *length);
    let length = length.ok_or_else(|| nonsense("a board cut short"))?;
    said.advance(4);
    Ok(said.split_to(length).to_vec())
}
