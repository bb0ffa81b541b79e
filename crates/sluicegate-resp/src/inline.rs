//! Commands on a line, as a person types them.

use std::ops::Range;

use crate::protocol_error::ProtocolError;

/// Finds the words of a line, at most `most`. Quotes keep spaces together; they have no escapes, so each word is a part of
/// the line.
pub(crate) fn split(
    line: &[u8],
    most: usize,
    words: &mut Vec<Range<usize>>,
) -> Result<(), ProtocolError> {
    let mut at = 0;
    loop {
        let is_space = |byte: &u8| byte.is_ascii_whitespace();
        at += line[at..].iter().take_while(|byte| is_space(byte)).count();
        let Some(first) = line.get(at) else { return Ok(()) };
        if words.len() >= most {
            return Err(ProtocolError::new("too many words in an inline request"));
        }
        let (start, end, next) = if let quote @ (b'"' | b'\'') = first {
            let start = at + 1;
            let length = line[start..].iter().position(|byte| byte == quote);
            let end = start + length.ok_or_else(unbalanced)?;
            if line.get(end + 1).is_some_and(|byte| !is_space(byte)) {
                return Err(unbalanced());
            }
            (start, end, end + 1)
        } else {
            let length = line[at..].iter().take_while(|byte| !is_space(byte)).count();
            (at, at + length, at + length)
        };
        words.push(start..end);
        at = next;
    }
}

#[cold]
fn unbalanced() -> ProtocolError {
    ProtocolError::new("unbalanced quotes in request")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<Vec<&str>, ProtocolError> {
        let mut ranges = Vec::new();
        split(line.as_bytes(), 4, &mut ranges)?;
        Ok(ranges.into_iter().map(|range| &line[range]).collect())
    }

    #[test]
    fn words_are_separated_by_spaces_and_quotes_keep_them() {
        assert_eq!(words("  SG.CHECK\tapi  alice ").unwrap(), ["SG.CHECK", "api", "alice"]);
        assert_eq!(words(r#"ECHO "a 'b'" '' 'c "d"'"#).unwrap(), ["ECHO", "a 'b'", "", "c \"d\""]);
        assert_eq!(words(" ").unwrap(), [""; 0]);
        assert_eq!(words(r#"a"b c"#).unwrap(), ["a\"b", "c"]);
        for wrong in ["ECHO \"a", "'", r#""a"b"#, "a b c d e"] {
            assert!(words(wrong).is_err(), "{wrong}");
        }
    }
}
