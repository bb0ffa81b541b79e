//! An answer over HTTP/1.1, as bytes.

use anyhow::{Context as _, Result};

/// A whole answer, whose body has a known length.
#[derive(Clone, Copy)]
pub struct Answer<'a> {
    head: &'a [u8],
    pub body: &'a [u8],
}

impl<'a> Answer<'a> {
    /// Returns the answer that some bytes are, or `None` if they are only its beginning.
    pub fn read(bytes: &'a [u8]) -> Result<Option<Self>> {
        const END: &[u8] = b"\r\n\r\n";
        let end = bytes.windows(END.len()).position(|part| part == END);
        let Some(end) = end else { return Ok(None) };
        let (head, body) = (&bytes[..end], &bytes[end + END.len()..]);
        let length = fields(head).find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        let length: usize = length.context("an answer has no length")?.1.parse()?;
        Ok((body.len() >= length).then_some(Self { head, body }))
    }

    /// Returns whether a rate limit service lets the request pass.
    pub fn passes(&self) -> bool {
        const DENIED: &[u8] = b"\"allowed\":false";
        let is_denied = self.body.windows(DENIED.len()).any(|part| part == DENIED);
        self.head.starts_with(b"HTTP/1.1 200 ") && !is_denied
    }

    /// Returns the fields that a server doesn't write by itself.
    pub fn fields(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let by_server = |name: &str| ["content-length", "date"].contains(&name);
        fields(self.head).filter(move |(name, _)| !by_server(name))
    }
}

impl std::fmt::Display for Answer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [head, body] = [self.head, self.body].map(String::from_utf8_lossy);
        write!(f, "{head}\r\n\r\n{body}")
    }
}

fn fields(head: &[u8]) -> impl Iterator<Item = (&str, &str)> {
    let lines = std::str::from_utf8(head).unwrap_or_default().split("\r\n");
    lines.filter_map(|line| line.split_once(": "))
}
