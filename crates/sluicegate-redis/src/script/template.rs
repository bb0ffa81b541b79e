//! A piece of Lua with constants of the Rust code in it: words in capitals. So the files are Lua
//! to any editor, and no number is written twice.

use std::fmt::Write as _;

use super::constants;

/// The words in capitals that a server gives to every script.
const GIVEN: [&str; 2] = ["KEYS", "ARGV"];

/// A piece of Lua whose words in capitals are all known.
#[derive(Debug)]
pub(crate) struct Template(&'static str);

impl Template {
    /// A template of this text.
    ///
    /// # Panics
    /// While it is compiled, when a word in capitals has no value.
    pub(crate) const fn new(text: &'static str) -> Self {
        let mut rest = text;
        while let Some((word, after)) = next_word(rest) {
            assert!(constants::find(word).is_some(), "a word in capitals that no constant has");
            rest = after;
        }
        Self(text)
    }

    /// Writes the text with the values in place of the words.
    pub(crate) fn write(&self, script: &mut String) {
        #[cfg(not(lua_mutants))]
        let mut rest = self.0;
        #[cfg(lua_mutants)]
        let mut rest = super::mutant::in_place_of(self.0);
        while let Some((word, after)) = next_word(rest) {
            script.push_str(&rest[..rest.len() - after.len() - word.len()]);
            if let Some(value) = constants::find(word) {
                // Writing into a string does not fail.
                let _ = write!(script, "{value}");
            }
            rest = after;
        }
        script.push_str(rest);
    }
}

/// The next word in capitals, outside of comments and quotes, and what follows it.
pub(super) const fn next_word(text: &str) -> Option<(&str, &str)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let from = at;
        match bytes[at] {
            b'-' if at + 1 < bytes.len() && bytes[at + 1] == b'-' => {
                while at < bytes.len() && bytes[at] != b'\n' {
                    at += 1;
                }
            }
            quote @ (b'\'' | b'"') => {
                at += 1;
                while at < bytes.len() && bytes[at] != quote {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
            }
            b'A'..=b'Z' | b'a'..=b'z' | b'_' | b'0'..=b'9' => {
                let mut is_capital = bytes[at].is_ascii_uppercase();
                while at < bytes.len() && (bytes[at].is_ascii_alphanumeric() || bytes[at] == b'_') {
                    is_capital = is_capital && !bytes[at].is_ascii_lowercase();
                    at += 1;
                }
                let (before, after) = text.split_at(at);
                let (_, word) = before.split_at(from);
                if is_capital && !is_given(word) {
                    return Some((word, after));
                }
            }
            _ => at += 1,
        }
    }
    None
}

const fn is_given(word: &str) -> bool {
    constants::is_same(word, GIVEN[0]) || constants::is_same(word, GIVEN[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_stand_for_their_values_and_nothing_else_is_touched() {
        const TEXT: &str =
            "if KEYS[1] == 'MAX' then -- MAX\n  x = Max + \"\\\"MAX\" + MAX_ + 0x1F + MAX";
        let words: Vec<_> = std::iter::successors(next_word(TEXT), |(_, rest)| next_word(rest))
            .map(|(word, _)| word)
            .collect();
        assert_eq!(words, ["MAX_", "MAX"]);
        let mut script = String::new();
        Template::new("return MAX -- MAX").write(&mut script);
        assert_eq!(script, "return 9007199254740991 -- MAX");
    }
}
