//! Signed tokens of reservations, and hidden cursors.
//!
//! A receipt contains the state that a cancellation restores, so a client that could forge one
//! could write states. The service stores nothing about its clients, so it gives the receipt away
//! as text and signs it. The key is generated at startup, or shared by several services.

use std::fmt;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use sluicegate::admin::Cursor;
use sluicegate::decision::Receipt;
use sluicegate::testing::Timestamp;

use crate::token::{SEALED, Token};

/// Signs the tokens of reservations, and verifies them. Hides cursors from clients without the right
/// to ids.
pub(crate) struct Seal(hmac::Key);

/// The reason that a token can't be used.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum SealError {
    /// The text isn't a token.
    Malformed(String),
    /// No service with this key signed the token.
    Foreign,
    /// The token has expired.
    Expired,
}

impl Seal {
    /// Minimum length in bytes of a configured key.
    pub(crate) const LEAST_KEY: usize = 32;

    /// Returns a seal with a key that services share.
    pub(crate) fn with_key(key: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    /// Returns a seal with a random key.
    ///
    /// # Errors
    /// Returns an error if the system has no random numbers.
    pub(crate) fn random() -> Result<Self, String> {
        hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map(Self)
            .map_err(|_| "the operating system gave no random bytes for a key".to_owned())
    }

    /// Returns the key of the hashes of logged keys, which is made of the key of signatures.
    pub(crate) fn log_key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&self.0, b"logged keys").as_ref())
    }

    /// Returns a token for a reservation that can be cancelled until `end`.
    pub(super) fn seal(&self, receipt: &Receipt, end: Timestamp) -> String {
        let signed = format!("{}:{receipt}", end.as_micros());
        let signature = hmac::sign(&self.0, signed.as_bytes());
        let signature: String =
            signature.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{SEALED}{signature}:{signed}")
    }

    /// Returns a cursor that says nothing about the entry at which it stands; `None` if the system has
    /// no random numbers.
    pub(super) fn hide(&self, cursor: &Cursor) -> Option<String> {
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).ok()?;
        let mut bytes = cursor.as_str().as_bytes().to_vec();
        let sealed_by = Nonce::assume_unique_for_key(nonce);
        self.cursors()?.seal_in_place_append_tag(sealed_by, Aad::empty(), &mut bytes).ok()?;
        Some(nonce.iter().chain(&bytes).map(|byte| format!("{byte:02x}")).collect())
    }

    /// Returns the cursor that was [hidden](Self::hide) by a service with this key.
    pub(super) fn reveal(&self, hidden: &Cursor) -> Option<Cursor> {
        let mut bytes = bytes(hidden.as_str())?;
        let (nonce, sealed) = bytes.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let opened = self.cursors()?.open_in_place(nonce, Aad::empty(), sealed).ok()?;
        str::from_utf8(opened).ok()?.parse().ok()
    }

    /// Returns the key of cursors, which is made of the key of signatures.
    fn cursors(&self) -> Option<LessSafeKey> {
        let key = hmac::sign(&self.0, b"cursors");
        Some(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key.as_ref()).ok()?))
    }

    /// Parses a token of a hold, or of a reservation that this service signed.
    ///
    /// # Errors
    /// Returns an error if the token is malformed, has a foreign signature, or has expired.
    pub(super) fn open(&self, text: &str, now: Timestamp) -> Result<Token, SealError> {
        let Some(sealed) = text.strip_prefix(SEALED) else {
            return Token::read_hold(text).map_err(SealError::Malformed);
        };
        let malformed = || SealError::Malformed("not a token: it is cut off".to_owned());
        let (signature, signed) = sealed.split_once(':').ok_or_else(malformed)?;
        let signature = bytes(signature).ok_or_else(malformed)?;
        if hmac::verify(&self.0, signed.as_bytes(), &signature).is_err() {
            return Err(SealError::Foreign);
        }
        // From here on the text is authentic.
        let (end, receipt) = signed.split_once(':').ok_or_else(malformed)?;
        let end: u64 = end.parse().map_err(|_| malformed())?;
        let receipt: Receipt = receipt.parse().map_err(|_| malformed())?;
        if now.as_micros() >= end {
            Err(SealError::Expired)
        } else {
            Ok(Token::Reservation(receipt))
        }
    }
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seal").finish_non_exhaustive()
    }
}

/// Decodes an even number of hexadecimal digits.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros_clamped(micros)
    }

    fn receipt() -> Receipt {
        "1:mail:616c696365:-:0102".parse().unwrap()
    }

    #[test]
    fn a_token_is_known_again_until_it_ends() {
        let seal = Seal::random().unwrap();
        let text = seal.seal(&receipt(), at(1_000));
        assert_eq!(seal.open(&text, at(999)), Ok(Token::Reservation(receipt())));
        assert_eq!(seal.open(&text, at(1_000)), Err(SealError::Expired));
        let shared = [(); 2].map(|()| Seal::with_key(&[7; Seal::LEAST_KEY]));
        let text = shared[0].seal(&receipt(), at(1_000));
        assert!(shared[1].open(&text, at(0)).is_ok());
    }

    #[test]
    fn a_hidden_cursor_is_revealed_by_the_same_key_alone() {
        let seal = Seal::random().unwrap();
        let cursor: Cursor = "0a00112233445566778899aabbccddeeff".parse().unwrap();
        let hidden = seal.hide(&cursor).unwrap();
        assert!(!hidden.contains("00112233"), "{hidden}");
        let hidden: Cursor = hidden.parse().unwrap();
        assert_eq!(seal.reveal(&hidden), Some(cursor.clone()));
        assert_eq!(Seal::random().unwrap().reveal(&hidden), None);
        assert_eq!(seal.reveal(&cursor), None, "it isn't hidden");
        let cut: Cursor = hidden.as_str()[2..].parse().unwrap();
        assert_eq!(seal.reveal(&cut), None);
        assert!(seal.hide(&"x".repeat(99).parse().unwrap()).unwrap().len() <= Cursor::MAX_LEN);
    }

    /// A client that could forge a receipt could write states.
    #[test]
    fn a_token_that_was_changed_or_made_by_others_is_none() {
        let seal = Seal::random().unwrap();
        let text = seal.seal(&receipt(), at(1_000));
        assert_eq!(Seal::random().unwrap().open(&text, at(0)), Err(SealError::Foreign));
        for index in SEALED.len()..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[index] = if changed[index] == b'1' { b'0' } else { b'1' };
            let changed = String::from_utf8(changed).unwrap();
            assert!(seal.open(&changed, at(0)).is_err(), "{changed}");
        }
        for cut in 0..text.len() {
            assert!(seal.open(&text[..cut], at(0)).is_err(), "{}", &text[..cut]);
        }
        let bare = crate::token::bare(&receipt());
        assert!(matches!(seal.open(&bare, at(0)), Err(SealError::Malformed(_))));
        let empty = format!("{SEALED}:1000:{}", receipt());
        assert_eq!(seal.open(&empty, at(0)), Err(SealError::Foreign));
    }
}
