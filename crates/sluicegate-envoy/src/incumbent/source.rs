//! The text of a file.

use std::char::{REPLACEMENT_CHARACTER, decode_utf16};

use super::position::Span;

/// A file's name and text, without a byte order mark.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// A problem with a file's text, before it is known to a report.
#[derive(Debug)]
pub(crate) struct Flaw {
    pub(crate) span: Option<Span>,
    pub(crate) message: String,
}

impl Source {
    /// Decodes a file: UTF-8, or UTF-16 after a byte order mark.
    pub(crate) fn decode(name: &str, bytes: &[u8]) -> (Self, Option<Flaw>) {
        let (text, flaw) = match decode(bytes) {
            Ok(text) => {
                let flaw = unprintable(&text);
                (text, flaw)
            }
            Err(flaw) => (String::from_utf8_lossy(bytes).into_owned(), Some(flaw)),
        };
        (Self { name: name.to_owned(), text }, flaw)
    }

    /// Returns the line at `span` and a line with carets under the span.
    pub(crate) fn excerpt(&self, span: Span) -> Option<String> {
        /// Number of characters that are shown at most.
        const MOST: usize = 76;
        let line = self.lines().nth(usize::try_from(span.start.line).ok()?.checked_sub(1)?)?;
        let column = usize::try_from(span.start.column).ok()?.checked_sub(1)?;
        // A value at the end of a long line is shown with some of the text before it.
        let first = if line.len() <= MOST { 0 } else { column.saturating_sub(MOST / 2) };
        let shown: String = line.chars().skip(first).take(MOST).map(visible).collect();
        if shown.trim().is_empty() {
            return None;
        }
        let carets = span.width.clamp(1, MOST.saturating_sub(column - first).max(1));
        Some(format!("{}\n{}{}", shown.trim_end(), " ".repeat(column - first), "^".repeat(carets)))
    }

    fn lines(&self) -> impl Iterator<Item = &str> {
        let mut rest = Some(self.text.as_str());
        std::iter::from_fn(move || {
            let text = rest?;
            let Some(end) = text.find(['\n', '\r']) else {
                rest = None;
                return Some(text);
            };
            let (line, after) = text.split_at(end);
            let width = if after.starts_with("\r\n") { 2 } else { 1 };
            rest = after.get(width..);
            Some(line)
        })
    }
}

fn decode(bytes: &[u8]) -> Result<String, Flaw> {
    let units = |bytes: &[u8], of: fn([u8; 2]) -> u16| -> Option<String> {
        let (pairs, rest) = bytes.as_chunks::<2>();
        let text = decode_utf16(pairs.iter().copied().map(of)).collect::<Result<String, _>>().ok();
        text.filter(|_| rest.is_empty())
    };
    let utf16 = match bytes {
        [0xFF, 0xFE, rest @ ..] => Some(units(rest, u16::from_le_bytes)),
        [0xFE, 0xFF, rest @ ..] => Some(units(rest, u16::from_be_bytes)),
        _ => None,
    };
    if let Some(text) = utf16 {
        return text.ok_or_else(|| Flaw {
            span: None,
            message: "isn't valid UTF-16: save the file as UTF-8".to_owned(),
        });
    }
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(error) => {
            let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
            let before = String::from_utf8_lossy(valid);
            Err(Flaw {
                span: Some(span_after(&before)),
                message: "isn't valid UTF-8 here: save the file as UTF-8".to_owned(),
            })
        }
    }
}

/// Returns the first character that a YAML file must not have.
fn unprintable(text: &str) -> Option<Flaw> {
    let (offset, character) = text.char_indices().find(|&(_, character)| !is_allowed(character))?;
    let message = format!(
        "the character U+{:04X} isn't allowed in YAML: write it as an escape in double quotes, or remove it",
        u32::from(character)
    );
    Some(Flaw { span: Some(span_after(text.get(..offset).unwrap_or_default())), message })
}

/// Allows the characters of YAML 1.1, but no line breaks other than those of ASCII: YAML 1.2 reads these as text.
const fn is_allowed(character: char) -> bool {
    matches!(
        character,
        '\t' | '\n'
            | '\r'
            | ' '..='~'
            | '\u{A0}'..='\u{2027}'
            | '\u{202A}'..='\u{D7FF}'
            | '\u{E000}'..='\u{FFFD}'
            | '\u{1_0000}'..='\u{10_FFFF}'
    )
}

fn span_after(text: &str) -> Span {
    let line = text.replace("\r\n", "\n").matches(['\n', '\r']).count() + 1;
    let column = text.rsplit(['\n', '\r']).next().unwrap_or_default().chars().count() + 1;
    Span::at(line as u64, column as u64)
}

/// Returns a character that takes one column, so that carets are under their value.
fn visible(character: char) -> char {
    match character {
        '\t' => ' ',
        other if other.is_control() => REPLACEMENT_CHARACTER,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flaw(bytes: &[u8]) -> Option<(u64, u64)> {
        let span = Source::decode("f", bytes).1?.span?;
        Some((span.start.line, span.start.column))
    }

    #[test]
    fn text_in_utf_16_is_decoded() {
        for bytes in [&b"\xFF\xFEa\0:\0"[..], b"\xFE\xFF\0a\0:", b"\xEF\xBB\xBFa:", b"a:"] {
            let (source, flaw) = Source::decode("f", bytes);
            assert_eq!((source.text.as_str(), flaw.is_none()), ("a:", true), "{bytes:?}");
        }
        assert!(Source::decode("f", b"\xFF\xFEa").1.is_some());
    }

    #[test]
    fn a_wrong_character_has_a_position() {
        assert_eq!(flaw(b"a\r\nb\x07"), Some((2, 2)));
        assert_eq!(flaw(b"a\nbc\xFF"), Some((2, 3)));
        assert_eq!(flaw(b"a\x7F"), Some((1, 2)));
        assert_eq!(flaw("a\u{A0}ü\u{FEFF}".as_bytes()), None);
        assert_eq!(flaw("a: b\u{2028}".as_bytes()), Some((1, 5)));
    }

    #[test]
    fn an_excerpt_has_carets_under_the_value() {
        let (source, _) = Source::decode("f", b"a: 1\r\n\tb: word\n");
        let span = |line, column, width| Span { width, ..Span::at(line, column) };
        assert_eq!(source.excerpt(span(2, 5, 4)).as_deref(), Some(" b: word\n    ^^^^"));
        assert_eq!(source.excerpt(span(3, 1, 1)), None);
        assert_eq!(source.excerpt(span(9, 1, 1)), None);
        let (long, _) = Source::decode("f", "x".repeat(300).as_bytes());
        let excerpt = long.excerpt(span(1, 200, 200)).expect("the line exists");
        assert!(excerpt.lines().all(|line| line.len() <= 76), "{excerpt}");
    }
}
