//! Patterns for the names of limits.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

use sluicegate_core::LimitName;

use super::problem::excerpt;

/// A pattern for the names of limits: `*` stands for any characters, also for none, and `?` for one character.
///
/// ```
/// use sluicegate::config::LimitPattern;
///
/// let shop: LimitPattern = "shop-*".parse()?;
/// assert!(shop.matches("shop-api") && shop.matches("shop-"));
/// assert!(!shop.matches("shop") && !shop.matches("my-shop-api"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct LimitPattern(Box<str>);

impl LimitPattern {
    /// Returns the pattern as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the pattern matches the whole name. It never matches text that is longer than any name.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        // Clients choose the text, and a pattern with many `*` takes time for each of its characters.
        name.len() <= LimitName::MAX_LEN && matches(self.0.as_bytes(), name.as_bytes())
    }
}

/// Matches without recursion: if a mismatch follows a `*`, the `*` takes one byte more. Earlier ones stay as they are,
/// because the latest can take any bytes that they could.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut next) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while let Some(byte) = name.get(next) {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, next));
                at += 1;
            }
            Some(wanted) if wanted == byte || *wanted == b'?' => (at, next) = (at + 1, next + 1),
            _ => match &mut star {
                Some((star_at, taken)) => {
                    *taken += 1;
                    (at, next) = (*star_at + 1, *taken);
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(at).all(|byte| *byte == b'*')
}

impl FromStr for LimitPattern {
    type Err = LimitPatternError;

    fn from_str(text: &str) -> Result<Self, LimitPatternError> {
        // A name with the same characters is valid, unless the pattern has none.
        let named = text.replace(['*', '?'], "x");
        match named.parse::<LimitName>() {
            Ok(_) => Ok(Self(text.into())),
            Err(_) => Err(LimitPatternError { text: excerpt(text) }),
        }
    }
}

impl fmt::Display for LimitPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Text that isn't a [`LimitPattern`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LimitPatternError {
    text: String,
}

impl fmt::Display for LimitPatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a pattern for names of limits: use 1 to {} ASCII letters, digits or any of _ - . : / @, `*` \
             for any characters and `?` for one",
            self.text.escape_debug(),
            LimitName::MAX_LEN
        )
    }
}

impl Error for LimitPatternError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn matching(pattern: &str, name: &str) -> bool {
        pattern.parse::<LimitPattern>().unwrap().matches(name)
    }

    #[test]
    fn a_star_stands_for_any_characters_and_a_question_mark_for_one() {
        for (pattern, names, others) in [
            ("*", &["a", "a-b", "x.y/z"][..], &[][..]),
            ("a", &["a"], &["", "aa", "b", "A"]),
            ("a*", &["a", "ab", "a*"], &["", "ba"]),
            ("*a", &["a", "ba", "aa"], &["ab", ""]),
            ("a*b*c", &["abc", "axxbyyc", "abcbc"], &["ab", "acb", "abcd"]),
            ("**", &["a", "ab"], &[]),
            ("a?c", &["abc", "a?c"], &["ac", "abbc"]),
            ("?", &["a"], &["", "ab"]),
            ("*?*", &["a", "abc"], &[""]),
            ("shop/*-v?", &["shop/a-v1", "shop/-v2", "shop/-v1-v2"], &["shop/a-v", "shop/a-v12"]),
        ] {
            for name in names {
                assert!(matching(pattern, name), "{pattern} {name}");
            }
            for name in others {
                assert!(!matching(pattern, name), "{pattern} {name}");
            }
        }
    }

    #[test]
    fn a_pattern_with_many_stars_takes_no_time_for_any_name() {
        let pattern = "*a".repeat(32);
        assert!(matching(&pattern, &"a".repeat(64)));
        assert!(!matching(&pattern, &"b".repeat(64)));
        assert!(!matching("*", &"a".repeat(1 << 20)), "it is no name");
    }

    #[test]
    fn a_pattern_has_the_characters_of_names() {
        for text in ["", "a b", "a,b", "ä*", "[a]", "a\0", "\n", &"a".repeat(65)] {
            assert!(text.parse::<LimitPattern>().is_err(), "{text:?}");
        }
        let longest = "*".repeat(64);
        assert_eq!(longest.parse::<LimitPattern>().unwrap().to_string(), longest);
    }
}
