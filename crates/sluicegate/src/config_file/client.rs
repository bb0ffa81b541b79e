//! The clients of the service, and what they may do.

use std::fmt;

use super::limit_pattern::LimitPattern;

/// A client of the service, and what it may do.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ClientConfig {
    /// The name, for metrics, logs and lists of decisions: 1 to 64 characters as in names of limits. `admin` is the
    /// holder of the admin token.
    pub name: String,
    /// The proof of its identity.
    pub credential: ClientCredential,
    /// The rights, at least one.
    pub may: Vec<Right>,
    /// The limits that it may use; without any pattern, all.
    pub limits: Vec<LimitPattern>,
}

/// The proof of a client's identity.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ClientCredential {
    /// One token, or two while one is being replaced.
    Tokens(Vec<ClientToken>),
    /// A name in the certificate by which it connects.
    Certificate(String),
}

/// A client's token. It prints without the token.
#[derive(Clone, Eq, PartialEq)]
pub struct ClientToken(Box<str>);

/// A group of calls that a client may make.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Right {
    /// Checks, and what else takes units without holding them.
    Check,
    /// All of [`Check`](Self::Check), and holds.
    Hold,
    /// Calls that only read, also administrative ones.
    Read,
    /// Everything.
    Admin,
}

impl ClientConfig {
    /// The name of the holder of the admin token, which no client has.
    pub const ADMIN: &str = "admin";
    /// The maximum number of a client's tokens.
    pub const MOST_TOKENS: usize = 2;
    /// The maximum size of a token, and of a file of tokens, in bytes.
    pub const MOST_TOKEN_BYTES: usize = 4_096;
}

impl ClientToken {
    /// Makes a token; `None` unless it has 1 to [`ClientConfig::MOST_TOKEN_BYTES`] printable ASCII characters and no
    /// space.
    pub(super) fn new(text: &str) -> Option<Self> {
        let is_valid = (1..=ClientConfig::MOST_TOKEN_BYTES).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_valid.then(|| Self(text.into()))
    }

    /// Returns the token itself.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ClientToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Right {
    /// The words of a file.
    pub(super) const WORDS: [(&'static str, Self); 4] = [
        ("check", Self::Check),
        ("hold", Self::Hold),
        ("read", Self::Read),
        ("admin", Self::Admin),
    ];
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Self::WORDS.iter().find(|(_, right)| right == self);
        f.write_str(word.map_or("", |(word, _)| word))
    }
}
