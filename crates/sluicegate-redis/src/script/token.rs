//! The tokens of Lua, as far as the templates need them: words, texts, comments, and single bytes.

/// Returns the end of the first token.
fn token_end(text: &[u8]) -> usize {
    let mut end = 1;
    match text[0] {
        b'-' if end < text.len() && text[end] == b'-' => {
            while end < text.len() && text[end] != b'\n' {
                end += 1;
            }
        }
        quote @ (b'\'' | b'"') => {
            while end < text.len() && text[end] != quote {
                end += if text[end] == b'\\' { 2 } else { 1 };
            }
            end += 1;
        }
        byte if is_of_word(byte) => {
            while end < text.len() && is_of_word(text[end]) {
                end += 1;
            }
        }
        _ => {}
    }
    end.min(text.len())
}

/// Returns the tokens of a text, one after the other: together they are the text.
pub(super) fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut end = token_end(rest.as_bytes());
        // Non-ASCII bytes are in comments and texts; a damaged file may have them anywhere.
        while !rest.is_char_boundary(end) {
            end += 1;
        }
        let (token, after) = rest.split_at(end);
        rest = after;
        Some(token)
    })
}

/// Returns `true` for an upper-case word.
pub(super) fn is_capital(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_uppercase())
        && word.bytes().all(|byte| is_of_word(byte) && !byte.is_ascii_lowercase())
}

/// Returns `true` for a name or a keyword.
pub(super) fn is_name(token: &str) -> bool {
    token.bytes().all(is_of_word) && !token.starts_with(|first: char| first.is_ascii_digit())
}

const fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_words_texts_comments_and_bytes() {
        let text = "x = 'it\\'s' -- é \"\ny(0x1F)";
        let all = ["x", " ", "=", " ", "'it\\'s'", " ", "-- é \"", "\n", "y", "(", "0x1F", ")"];
        assert_eq!(tokens(text).collect::<Vec<_>>(), all);
        assert_eq!(tokens("'é").collect::<String>(), "'é");
    }
}
