//! Recognizes tokens without comparing them.

use std::fmt;

use ring::hmac;
use ring::rand::SystemRandom;

/// Turns tokens into tags, and knows that of the admin token.
///
/// A tag is a hash under a key that this process makes at its start, so a caller can't compute one. The time of finding
/// a tag reveals nothing about tokens or their lengths.
pub(crate) struct Tokens {
    key: hmac::Key,
    admin: Option<Tag>,
}

/// The hash of a token.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub(super) struct Tag([u8; 32]);

impl Tokens {
    /// Makes a key, and the tag of the admin token, if there is one.
    ///
    /// # Errors
    /// Returns an error if the system has no random numbers.
    pub(crate) fn new(admin: Option<&str>) -> Result<Self, String> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| "the operating system gave no random bytes for a key".to_owned())?;
        let mut tokens = Self { key, admin: None };
        tokens.admin = admin.map(|token| tokens.tag(token.as_bytes()));
        Ok(tokens)
    }

    /// Returns the tag of a token, or of any other bytes.
    pub(super) fn tag(&self, token: &[u8]) -> Tag {
        let mut tag = Tag([0; 32]);
        tag.0.copy_from_slice(hmac::sign(&self.key, token).as_ref());
        tag
    }

    pub(super) const fn has_admin(&self) -> bool {
        self.admin.is_some()
    }

    pub(super) fn is_admin(&self, tag: Tag) -> bool {
        self.admin == Some(tag)
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").finish_non_exhaustive()
    }
}
