//! Base 64, in which `!!binary` is written.

/// Decodes base 64 with padding. Line breaks are skipped.
///
/// The unused bits of the last character may have any value.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
    let (groups, rest) = digits.as_chunks::<4>();
    if !rest.is_empty() {
        return None;
    }
    let mut bytes = Vec::with_capacity(groups.len() * 3);
    for (index, group) in groups.iter().enumerate() {
        let padding = group.iter().rev().take_while(|&&digit| digit == b'=').count();
        if padding > 2 || padding > 0 && index + 1 < groups.len() {
            return None;
        }
        let mut bits = 0_u32;
        for &digit in group.iter().take(4 - padding) {
            bits = bits << 6 | u32::from(value(digit)?);
        }
        let [_, first, second, third] = (bits << (6 * padding)).to_be_bytes();
        bytes.extend([first, second, third].iter().take(3 - padding));
    }
    Some(bytes)
}

const fn value(digit: u8) -> Option<u8> {
    match digit {
        b'A'..=b'Z' => Some(digit - b'A'),
        b'a'..=b'z' => Some(digit - b'a' + 26),
        b'0'..=b'9' => Some(digit - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        for (text, bytes) in [
            ("", Some(&b""[..])),
            ("aGk=", Some(b"hi")),
            ("aGl=", Some(b"hi")),
            ("aA==", Some(b"h")),
            ("aG\nkh", Some(b"hi!")),
            ("////", Some(b"\xFF\xFF\xFF")),
            ("aGk", None),
            ("a===", None),
            ("aA==aGk=", None),
            ("aG k", None),
            ("a=k=", None),
        ] {
            assert_eq!(decode(text).as_deref(), bytes, "{text:?}");
        }
    }
}
