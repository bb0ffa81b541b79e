//! Key names in a shared store: injective, bounded in length, and one cluster slot per subject.
//!
//! The keys are:
//!
//! - `PREFIX:LIMIT:{SUBJECT}` for the states of one subject.
//! - `PREFIX:LIMIT:{SUBJECT}:POLICY:IDENTITY` for a state that has its own key.
//! - `PREFIX:LIMIT:{SUBJECT}:holds` for the records of holds.
//! - `PREFIX:LIMIT:{SUBJECT}:board` for what processes tell each other about it.
//! - `PREFIX:LIMIT:{SUBJECT}:ids#ID` for the decision about a request id.
//!
//! The braces enclose the subject alone, so all limits of one subject share a slot.

use std::fmt;
use std::str::FromStr;

use crate::hold::HoldId;
use crate::limit::Member;
use crate::listed_key::{ListedKey, hexadecimal};
use crate::name::LimitName;
use crate::request::TimeSource;
use crate::request_id::RequestId;

/// The prefix of all keys of one installation: 1 to 32 printable ASCII characters except
/// space and `{ } % ~`.
///
/// ```
/// use sluicegate_core::KeyPrefix;
///
/// assert_eq!(KeyPrefix::default().as_str(), "sg");
/// assert!("shop:sg".parse::<KeyPrefix>().is_ok());
/// assert!("{shop}".parse::<KeyPrefix>().is_err());
/// ```
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct KeyPrefix(String);

impl KeyPrefix {
    /// The maximum length of a prefix, in characters.
    pub const MAX_LEN: usize = 32;

    /// Returns the prefix as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns glob patterns for all keys under the prefix, which a server must permit its user.
    ///
    /// The first pattern is for keys evaluated by the store's clock, the second for runs under
    /// injected time.
    ///
    /// ```
    /// use sluicegate_core::KeyPrefix;
    ///
    /// assert_eq!(KeyPrefix::default().patterns(), ["sg:*", "sg~*"]);
    /// assert_eq!("a*".parse::<KeyPrefix>()?.patterns(), [r"a\*:*", r"a\*~*"]);
    /// # Ok::<(), sluicegate_core::KeyPrefixError>(())
    /// ```
    #[must_use]
    pub fn patterns(&self) -> [String; 2] {
        [':', '~'].map(|end| {
            let head = format!("{}{end}", self.0);
            String::from_utf8_lossy(&pattern_of(head.as_bytes())).into_owned()
        })
    }
}

impl Default for KeyPrefix {
    fn default() -> Self {
        Self("sg".to_owned())
    }
}

impl FromStr for KeyPrefix {
    type Err = KeyPrefixError;

    fn from_str(text: &str) -> Result<Self, KeyPrefixError> {
        let is_valid = |byte: u8| byte.is_ascii_graphic() && !b"{}%~".contains(&byte);
        if text.is_empty() || text.len() > Self::MAX_LEN || !text.bytes().all(is_valid) {
            return Err(KeyPrefixError(text.chars().take(Self::MAX_LEN + 1).collect()));
        }
        Ok(Self(text.to_owned()))
    }
}

/// The error for an invalid prefix, with which keys could collide or move to another cluster slot.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KeyPrefixError(String);

impl fmt::Display for KeyPrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a key prefix: use 1 to {} printable ASCII characters except space and {{ }} % ~",
            self.0.escape_debug(),
            KeyPrefix::MAX_LEN
        )
    }
}

impl std::error::Error for KeyPrefixError {}

/// A builder for the keys of one limit.
#[derive(Clone, Debug)]
pub struct StoreKey {
    head: Vec<u8>,
}

impl StoreKey {
    /// Creates the builder for the keys of a limit.
    #[must_use]
    pub fn new(prefix: &KeyPrefix, limit: &LimitName, time: &TimeSource) -> Self {
        let mut head = prefix.as_str().as_bytes().to_vec();
        if let TimeSource::Injected { run } = time {
            head.push(b'~');
            escape(run.as_bytes(), &mut head);
        }
        head.push(b':');
        escape(limit.as_str().as_bytes(), &mut head);
        head.extend_from_slice(b":{");
        Self { head }
    }

    /// Appends the key of a subject's packed states to `key`.
    pub fn write(&self, subject: &[u8], key: &mut Vec<u8>) {
        key.extend_from_slice(&self.head);
        ListedKey::of(subject).write(key);
        key.push(b'}');
    }

    /// Appends the key of a hold's record to `key`, in the same slot. No policy's name contains the
    /// character before the id.
    pub fn write_hold(&self, subject: &[u8], id: HoldId, key: &mut Vec<u8>) {
        self.write(subject, key);
        key.extend_from_slice(b":hold#");
        for byte in id.to_bytes() {
            key.extend_from_slice(&hexadecimal(byte));
        }
    }

    /// Appends the key of a subject's requests in flight to `key`, in the same slot. It differs
    /// from all policies' keys, which have another colon after the name.
    pub fn write_holds(&self, subject: &[u8], key: &mut Vec<u8>) {
        self.write(subject, key);
        key.extend_from_slice(b":holds");
    }

    /// Appends the key of the stored data about a request id to `key`, in the same slot. No
    /// policy's name contains the character before the id.
    pub fn write_request(&self, subject: &[u8], id: RequestId, key: &mut Vec<u8>) {
        self.write_ids(subject, key);
        key.push(b'#');
        for byte in id.to_bytes() {
            key.extend_from_slice(&hexadecimal(byte));
        }
    }

    /// Appends the key of the count of a subject's request ids to `key`, in the same slot. It
    /// differs from all policies' keys, as with [holds](StoreKey::write_holds).
    pub fn write_ids(&self, subject: &[u8], key: &mut Vec<u8>) {
        self.write(subject, key);
        key.extend_from_slice(b":ids");
    }

    /// Appends the key of a subject's board to `key`, in the same slot. It is named like the key of
    /// its holds.
    pub fn write_board(&self, subject: &[u8], key: &mut Vec<u8>) {
        self.write(subject, key);
        key.extend_from_slice(b":board");
    }

    /// Appends the key of a subject's reservation queue to `key`, in the same slot. It is named
    /// like the key of its holds.
    pub fn write_line(&self, subject: &[u8], key: &mut Vec<u8>) {
        self.write(subject, key);
        key.extend_from_slice(b":line");
    }

    /// Returns the subject of a key of packed states, as far as the key shows it; `None` for any
    /// other key.
    ///
    /// ```
    /// use sluicegate_core::for_stores::StoreKey;
    /// use sluicegate_core::{KeyPrefix, ListedKey, TimeSource};
    ///
    /// let keys = StoreKey::new(&KeyPrefix::default(), &"login".parse()?, &TimeSource::Store);
    /// assert_eq!(keys.subject(b"sg:login:{a%7db}"), Some(ListedKey::of(b"a}b")));
    /// assert_eq!(keys.subject(b"sg:login:{alice}:holds"), None);
    /// # Ok::<(), sluicegate_core::NameError>(())
    /// ```
    #[must_use]
    pub fn subject(&self, key: &[u8]) -> Option<ListedKey> {
        ListedKey::read(key.strip_prefix(&*self.head)?.strip_suffix(b"}")?)
    }

    /// Returns a glob pattern that matches only the keys of this limit's packed states, for subjects that begin with
    /// `prefix`. A subject that is stored as a hash matches the empty prefix alone.
    ///
    /// ```
    /// use sluicegate_core::for_stores::StoreKey;
    /// use sluicegate_core::{KeyPrefix, TimeSource};
    ///
    /// let keys = StoreKey::new(&KeyPrefix::default(), &"login".parse()?, &TimeSource::Store);
    /// assert_eq!(keys.subjects_pattern(b"a*}"), br"sg:login:{a\*%7d*}");
    /// # Ok::<(), sluicegate_core::NameError>(())
    /// ```
    #[must_use]
    pub fn subjects_pattern(&self, prefix: &[u8]) -> Vec<u8> {
        let mut head = self.head.clone();
        if !prefix.is_empty() {
            ListedKey::Whole(prefix.into()).write(&mut head);
        }
        let mut pattern = pattern_of(&head);
        pattern.push(b'}');
        pattern
    }

    /// Returns a glob pattern that matches only the keys of this limit.
    #[must_use]
    pub fn pattern(&self) -> Vec<u8> {
        pattern_of(&self.head)
    }

    /// Appends the key of a separately stored policy state to `key`, in the same slot. The identity
    /// separates versions of the policy with other windows, as in the packed states.
    pub fn write_own(&self, subject: &[u8], policy: &Member, key: &mut Vec<u8>) {
        self.write(subject, key);
        key.push(b':');
        key.extend_from_slice(policy.name().as_str().as_bytes());
        key.push(b':');
        for byte in policy.identity().to_bytes() {
            key.extend_from_slice(&hexadecimal(byte));
        }
    }
}

/// Returns the glob pattern for keys with this beginning.
fn pattern_of(head: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(head.len() + 1);
    for &byte in head {
        if b"*?[\\".contains(&byte) {
            pattern.push(b'\\');
        }
        pattern.push(byte);
    }
    pattern.push(b'*');
    pattern
}

/// Escapes a limit or run: colons, percent signs, braces, and any byte that isn't printable ASCII.
fn escape(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        if byte.is_ascii_graphic() && !b":%{}".contains(&byte) {
            out.push(byte);
        } else {
            out.push(b'%');
            out.extend_from_slice(&hexadecimal(byte));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn key(limit: &str, subject: &[u8]) -> Vec<u8> {
        let limit = limit.parse().unwrap();
        let mut key = Vec::new();
        StoreKey::new(&KeyPrefix::default(), &limit, &TimeSource::Store).write(subject, &mut key);
        key
    }

    #[test]
    fn a_plain_subject_stays_readable() {
        assert_eq!(key("demo", b"tenant:42:user:7"), b"sg:demo:{tenant:42:user:7}");
    }

    #[test]
    fn braces_separators_nul_and_newlines_stay_inside_the_tag() {
        assert_eq!(key("a:b", b"}x{\0\n%"), b"sg:a%3ab:{%7dx%7b%00%0a%25}");
        assert_eq!(key("a", b""), b"sg:a:{%}");
    }

    #[test]
    fn long_subjects_are_bounded_and_still_differ() {
        let long = key("a", &[b'x'; 1 << 20]);
        assert_eq!(long.len(), "sg:a:{%#}".len() + 32);
        assert_ne!(long, key("a", &[b'x'; (1 << 20) + 1]));
        // Escaping makes the key long.
        assert_eq!(key("a", &[0; 64]).len(), long.len());
    }

    #[test]
    fn limits_and_subjects_join_injectively() {
        let limits = ["a", "a:b", "a:", ":a", "b:a", "a/b"];
        let subjects: [&[u8]; 9] = [b"", b"%", b"a", b":a", b"b}:{a", b"}", b"%#", b"%25", b"%00"];
        let keys: HashSet<_> = limits
            .iter()
            .flat_map(|limit| subjects.iter().map(move |subject| key(limit, subject)))
            .collect();
        assert_eq!(keys.len(), limits.len() * subjects.len());
    }

    #[test]
    fn holds_have_a_key_that_no_policy_has() {
        let names = StoreKey::new(&KeyPrefix::default(), &"a".parse().unwrap(), &TimeSource::Store);
        let (mut holds, mut own) = (Vec::new(), Vec::new());
        names.write_holds(b"alice", &mut holds);
        let limit = crate::Limit::new("a", ["sliding_log 1/s as holds"]).unwrap();
        names.write_own(b"alice", &limit.members()[0], &mut own);
        assert_eq!(holds, b"sg:a:{alice}:holds");
        assert!(own.starts_with(b"sg:a:{alice}:holds:"), "{}", own.escape_ascii());
    }

    proptest! {
        #[test]
        fn two_subjects_never_share_a_key(a in prop::collection::vec(any::<u8>(), 0..100),
                                          b in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(a == b, key("l", &a) == key("l", &b));
            prop_assert!(key("l", &a).len() <= 80);
        }
    }
}
