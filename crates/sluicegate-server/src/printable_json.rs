//! JSON without characters that a terminal would interpret or not show, because clients choose keys.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns `true` if a text has only characters of ASCII that every terminal shows.
pub(crate) fn is_plain(text: &[u8]) -> bool {
    // Without an early end, the compiler compares many bytes at a time.
    text.iter().fold(true, |is_plain, byte| is_plain & matches!(byte, b' '..=b'~'))
}

/// Escapes such characters of a JSON text. They only are in its strings.
pub(crate) fn printable_json(text: &str) -> Cow<'_, str> {
    if is_plain(text.as_bytes()) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, ' '..='~') || character.escape_debug().len() == 1 {
            shown.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            // Writing to a string doesn't fail.
            let _ = write!(shown, "\\u{unit:04x}");
        }
    }
    shown.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_interprets_is_escaped_and_means_the_same() {
        let key = "é\u{9b}2J\u{7f}\u{202e}\u{2028}\u{1f980}";
        let text = serde_json::to_string(key).unwrap();
        let shown = printable_json(&text);
        assert_eq!(shown, "\"é\\u009b2J\\u007f\\u202e\\u2028\u{1f980}\"");
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), key);
        assert!(matches!(printable_json("{\"a\":1}"), Cow::Borrowed(_)));
    }
}
