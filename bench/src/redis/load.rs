//! Requests that are encoded in advance.

use crate::embedded::next;

/// The expected answer to every request of a load.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Answer {
    Allowed,
    Denied,
}

/// One encoded command per key.
pub struct Load {
    commands: Vec<Vec<u8>>,
    pub answer: Answer,
}

impl Load {
    pub fn new(commands: Vec<Vec<u8>>, answer: Answer) -> Self {
        Self { commands, answer }
    }

    /// Returns the command for a key, in the order of the keys of this load.
    pub fn command(&self, key: u32) -> &[u8] {
        &self.commands[key as usize % self.commands.len()]
    }
}

/// Encodes a command in the server's protocol.
pub fn encode(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Draws keys uniformly.
pub fn draw(keys: usize, count: usize) -> Vec<u32> {
    let mut state = 0x9e37_79b9_7f4a_7c15;
    (0..count).map(|_| (next(&mut state) % keys as u64) as u32).collect()
}
