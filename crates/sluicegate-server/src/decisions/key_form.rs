//! The form of keys in the decision log and in lists.

use std::borrow::Cow;
use std::fmt::Write as _;

use ring::{digest, hmac};

/// The form in which keys are written.
#[derive(Clone, Debug)]
pub(super) enum KeyForm {
    /// Keys as they are, up to a length.
    Plain,
    /// Keyed hashes.
    Hashed(hmac::Key),
}

/// A key as it is written. Different keys are written differently.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum WrittenKey<'k> {
    /// Text: the key, the beginning of a long one with its hash, or a hash.
    Text(Cow<'k, str>),
    /// The bytes of a key that isn't text, in hexadecimal.
    Bytes(String),
}

impl KeyForm {
    /// Maximum length in bytes of a key that is written whole, because a client may choose a long one.
    pub(super) const MOST_WHOLE: usize = 256;
    /// Number of characters that are written of a longer key, before its hash.
    const BEGINNING: usize = 64;
    /// Number of bytes of a hash that are written.
    const HASH: usize = 16;

    /// Replaces `text` with the beginning of a long key and its hash. Allocates nothing if there is enough memory.
    pub(super) fn cut_into(key: &[u8], text: &mut String) {
        text.clear();
        // A character has at most 4 bytes.
        let beginning = key.get(..4 * Self::BEGINNING).unwrap_or(key);
        let chars = beginning.utf8_chunks().flat_map(|chunk| {
            let invalid = (!chunk.invalid().is_empty()).then_some(char::REPLACEMENT_CHARACTER);
            chunk.valid().chars().chain(invalid)
        });
        text.extend(chars.take(Self::BEGINNING));
        let hash = digest::digest(&digest::SHA256, key);
        text.push('…');
        add_hexadecimal(text, hash.as_ref(), Self::HASH);
    }

    /// Returns a key as it is written.
    pub(super) fn write<'k>(&self, key: &'k [u8]) -> WrittenKey<'k> {
        match (self, str::from_utf8(key)) {
            (Self::Hashed(secret), _) => {
                let hash = hmac::sign(secret, key);
                WrittenKey::Text(hexadecimal(hash.as_ref(), Self::HASH).into())
            }
            (Self::Plain, _) if key.len() > Self::MOST_WHOLE => {
                let mut text = String::new();
                Self::cut_into(key, &mut text);
                WrittenKey::Text(text.into())
            }
            (Self::Plain, Ok(text)) => WrittenKey::Text(text.into()),
            (Self::Plain, Err(_)) => WrittenKey::Bytes(hexadecimal(key, key.len())),
        }
    }
}

impl WrittenKey<'_> {
    /// Returns the key as text: the bytes of one that isn't text in hexadecimal.
    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Bytes(digits) => digits,
        }
    }
}

/// Returns the first bytes in hexadecimal.
fn hexadecimal(bytes: &[u8], most: usize) -> String {
    let mut text = String::with_capacity(2 * most);
    add_hexadecimal(&mut text, bytes, most);
    text
}

fn add_hexadecimal(text: &mut String, bytes: &[u8], most: usize) {
    for byte in bytes.iter().take(most) {
        // Writing to a `String` can't fail.
        let _ = write!(text, "{byte:02x}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(key: &str) -> WrittenKey<'_> {
        WrittenKey::Text(key.into())
    }

    #[test]
    fn a_key_is_text_bytes_or_a_beginning_with_a_hash() {
        assert_eq!(KeyForm::Plain.write(b"alice"), text("alice"));
        assert_eq!(KeyForm::Plain.write("é\u{1b}\"".as_bytes()), text("é\u{1b}\""));
        assert_eq!(KeyForm::Plain.write(b"\xff\0a"), WrittenKey::Bytes("ff0061".to_owned()));
        let [one, two] = ["é".repeat(500), format!("{}x", "é".repeat(500))]
            .map(|key| KeyForm::Plain.write(key.as_bytes()).as_str().to_owned());
        assert!(
            one != two && one.starts_with(&"é".repeat(64)) && one.chars().count() == 97,
            "{one}"
        );
        let bytes = KeyForm::Plain.write(&[0xff; 999]).as_str().to_owned();
        assert_eq!(bytes.chars().count(), 97);
    }

    #[test]
    fn a_hashed_key_depends_on_the_secret() {
        let form = |secret: u8| KeyForm::Hashed(hmac::Key::new(hmac::HMAC_SHA256, &[secret; 32]));
        let [one, same, other] =
            [1, 1, 2].map(|secret| form(secret).write(b"alice").as_str().to_owned());
        assert!(one == same && one != other && !one.contains("alice"), "{one} {other}");
        assert_eq!(form(1).write(&[0xff; 999]).as_str().len(), 32);
    }
}
