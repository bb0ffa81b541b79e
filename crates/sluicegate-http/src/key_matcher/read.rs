//! Parses and prints entries of lists.

use std::fmt::Write as _;
use std::net::IpAddr;

use super::{KeyMatcher, Pattern};
use crate::cidr::{Cidr, CidrError};
use crate::escape::byte_of;

/// Parses an entry. An error is the index of the byte at fault and a message that continues the
/// text of the entry.
pub(super) fn matcher(text: &str) -> Result<KeyMatcher, (usize, String)> {
    if text.is_empty() {
        return Err((0, "is empty: write a key such as alice, or `*` for all".to_owned()));
    }
    if text.len() > KeyMatcher::MAX_BYTES {
        let max = KeyMatcher::MAX_BYTES;
        return Err((0, format!("has {} bytes, but may have at most {max}", text.len())));
    }
    let mut components = Vec::new();
    let mut at = 0;
    for component in split(text) {
        let found = match range(component) {
            Some(Ok(range)) => Ok(Pattern::Range(range)),
            // The message continues the text of the whole entry.
            Some(Err(error)) if component == text => Err((0, error.problem().to_owned())),
            Some(Err(error)) => Err((0, format!("can't be used: {error}"))),
            None => text_or_prefix(component),
        };
        components.push(found.map_err(|(inside, problem)| (at + inside, problem))?);
        at += component.len() + 1;
    }
    Ok(KeyMatcher { components: components.into() })
}

/// Returns the components of an entry: the texts between `|`. A `|` after a `\` doesn't separate.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut is_escaped = false;
    text.split(move |character| {
        let is_end = character == '|' && !is_escaped;
        is_escaped = character == '\\' && !is_escaped;
        is_end
    })
}

/// Parses a text that looks like a range: an address, alone or before a slash and digits. `None`
/// for any other text.
fn range(text: &str) -> Option<Result<Cidr, CidrError>> {
    let (address, length) = text.split_once('/').unwrap_or((text, "0"));
    let looks_like_one = address.parse::<IpAddr>().is_ok()
        && !length.is_empty()
        && length.bytes().all(|byte| byte.is_ascii_digit());
    looks_like_one.then(|| text.parse())
}

fn text_or_prefix(text: &str) -> Result<Pattern, (usize, String)> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let at = text.len() - rest.len();
        rest = after;
        match (byte, after) {
            (b'*', []) => return Ok(Pattern::Prefix(bytes.into())),
            (b'*', _) => {
                let problem =
                    r"has a `*` that isn't at the end of a component: write `\*` for the character";
                return Err((at, problem.to_owned()));
            }
            (b'\\', [escaped @ (b'*' | b'\\' | b'|'), after @ ..]) => {
                bytes.push(*escaped);
                rest = after;
            }
            (b'\\', escape) => {
                let hexadecimal = match escape {
                    [b'x', high, low, after @ ..] => byte_of([*high, *low]).zip(Some(after)),
                    _ => None,
                };
                let Some((byte, after)) = hexadecimal else {
                    let problem = r"has a `\` without a meaning: write `\\` for the character";
                    return Err((at, problem.to_owned()));
                };
                bytes.push(byte);
                rest = after;
            }
            (other, _) => bytes.push(other),
        }
    }
    Ok(Pattern::Exact(bytes.into()))
}

/// Returns the text that parses as these bytes of a component.
pub(super) fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '*' | '\\' | '|' => text.extend(['\\', character]),
                control if control.is_ascii_control() => {
                    let _ = write!(text, "\\x{:02x}", u32::from(control));
                }
                other => text.push(other),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    if range(&text).is_some()
        && let Some(first) = text.bytes().next()
    {
        // Without an escape it would parse as a range.
        text.replace_range(..1, &format!("\\x{first:02x}"));
    }
    text
}

/// Returns the first 40 characters of an entry, without control characters.
pub(super) fn excerpt(text: &str) -> String {
    const MAX_CHARS: usize = 40;
    let mut excerpt: String = text
        .chars()
        .take(MAX_CHARS)
        .flat_map(|character| match character {
            '"' | '\'' | '\\' => character.to_string().chars().collect::<Vec<_>>(),
            other => other.escape_debug().collect(),
        })
        .collect();
    if text.chars().nth(MAX_CHARS).is_some() {
        excerpt.push('…');
    }
    excerpt
}
