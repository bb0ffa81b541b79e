//! Hold tokens: everything that settling needs.

use std::fmt;
use std::str::FromStr;

use crate::failure::{RequestError, RequestErrorKind};
use crate::hold::HoldId;
use crate::limit::Limit;
use crate::name::LimitName;

/// A token for the hold of an allowed request, with its limits, their subjects and the record's id.
///
/// A token is a plain value. Any process can settle or renew the hold with it, so show it to the
/// holder only.
///
/// A token prints as text and parses back: `1:ID:LIMIT:KEY`, with `:LIMIT:KEY` again for each
/// further limit that was charged together. KEY is the key's bytes as lower-case hexadecimal
/// digits. LIMIT is the limit's name with `%` for each `:`, so `a%b` means the limit `a:b`.
///
/// ```
/// use sluicegate_core::HoldToken;
///
/// let text = "1:00112233445566778899aabbccddeeff:login:616c696365";
/// let token: HoldToken = text.parse()?;
/// assert_eq!(token.key(), b"alice");
/// assert!(token.limits().map(|limit| limit.as_str()).eq(["login"]));
/// assert_eq!(token.id().to_string(), "00112233445566778899aabbccddeeff");
/// assert_eq!(token.to_string(), text);
///
/// let error = "1:0011:login:616c696365".parse::<HoldToken>().unwrap_err();
/// assert!(error.to_string().starts_with("not a hold token: `0011` is not the id of a hold"));
/// # Ok::<(), sluicegate_core::HoldTokenError>(())
/// ```
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct HoldToken {
    id: HoldId,
    /// At least one part: the name of each part of the limit, and its subject.
    parts: Vec<(LimitName, Vec<u8>)>,
}

/// The error for text that isn't a hold token, or for limits and subjects that can't form one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HoldTokenError(String);

/// The version, at the start of the text.
const VERSION: &str = "1";

impl HoldToken {
    /// The maximum length of a token's text, in ASCII characters. A subject takes two per byte.
    pub const MAX_LEN: usize = 16_384;

    /// Creates the token of a record with this id, from the name and subject of each part of its
    /// limit, in order.
    ///
    /// Use it if you chose the id and lost the answer.
    ///
    /// ```
    /// use sluicegate_core::{HoldId, HoldToken};
    ///
    /// let id = HoldId::from_bytes([7; 16]);
    /// let token = HoldToken::new(id, [("login".parse()?, "alice")])?;
    /// assert_eq!(token.to_string().parse::<HoldToken>()?, token);
    /// assert!(HoldToken::new(id, [("login".parse()?, "a".repeat(10_000))]).is_err(), "too long");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if there is no part, or there are more parts than a limit has policies.
    /// Also returns an error if two parts have the same name, or the text is longer than
    /// [`HoldToken::MAX_LEN`].
    pub fn new<K: Into<Vec<u8>>>(
        id: HoldId,
        parts: impl IntoIterator<Item = (LimitName, K)>,
    ) -> Result<Self, HoldTokenError> {
        let parts = parts.into_iter().map(|(limit, subject)| (limit, subject.into()));
        let token = Self { id, parts: parts.collect() };
        let problem = match token.parts.len() {
            0 => Some("it names no limit".to_owned()),
            1..=Limit::MAX_POLICIES => token.twice().map(|name| format!("it names `{name}` twice")),
            more => {
                Some(format!("it names {more} limits, but at most {} may be", Limit::MAX_POLICIES))
            }
        };
        match (problem, token.text_len()) {
            (Some(problem), _) => Err(malformed(problem)),
            (None, length) if length > Self::MAX_LEN => Err(too_long(length)),
            (None, _) => Ok(token),
        }
    }

    /// Returns the id of the record.
    #[must_use]
    pub const fn id(&self) -> HoldId {
        self.id
    }

    /// Returns the subject; for several limits together, the subject of the first.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        self.subject(0)
    }

    /// Returns the subject of a part; empty if there is no such part.
    ///
    /// ```
    /// # let token: sluicegate_core::HoldToken =
    /// #     "1:00112233445566778899aabbccddeeff:user:61:team:62".parse()?;
    /// assert_eq!((token.subject(0), token.subject(1), token.subject(2)), (&b"a"[..], &b"b"[..], &b""[..]));
    /// # Ok::<(), sluicegate_core::HoldTokenError>(())
    /// ```
    #[must_use]
    pub fn subject(&self, part: usize) -> &[u8] {
        self.parts.get(part).map_or(&[], |(_, subject)| subject)
    }

    /// Returns the names of the limits that were charged together. Most tokens have one.
    #[must_use]
    pub fn limits(&self) -> impl ExactSizeIterator<Item = &LimitName> + Clone {
        self.parts.iter().map(|(limit, _)| limit)
    }

    /// Checks that the token belongs to a limit with these parts.
    ///
    /// ```
    /// use sluicegate_core::{HoldToken, Limit, RequestErrorKind};
    ///
    /// let token: HoldToken = "1:00112233445566778899aabbccddeeff:login:61".parse()?;
    /// let [login, search] = ["login", "search"].map(|name| Limit::new(name, ["gcra 1/s"]).unwrap());
    /// assert!(token.validate(&login).is_ok());
    /// let error = token.validate(&search).unwrap_err();
    /// assert_eq!(error.kind(), RequestErrorKind::Invalid);
    /// # Ok::<(), sluicegate_core::HoldTokenError>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error of kind [`RequestErrorKind::Invalid`] if it belongs to other limits.
    pub fn validate(&self, limit: &Limit) -> Result<(), RequestError> {
        if self.limits().eq(limit.parts()) {
            return Ok(());
        }
        let names: Vec<&str> = self.limits().map(LimitName::as_str).collect();
        let message = format!(
            "the token is of limit `{}`, not `{}`: settle it on the limit that gave it",
            names.join(" + "),
            limit.name()
        );
        Err(RequestError::new(RequestErrorKind::Invalid, message))
    }

    fn twice(&self) -> Option<&LimitName> {
        let mut names: Vec<&LimitName> = self.limits().collect();
        names.sort_unstable();
        names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
    }

    fn text_len(&self) -> usize {
        let parts = self.parts.iter();
        let parts = parts.map(|(limit, subject)| 2 + limit.as_str().len() + 2 * subject.len());
        VERSION.len() + 1 + 2 * HoldId::BYTES + parts.sum::<usize>()
    }
}

impl fmt::Display for HoldToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VERSION}:{}", self.id)?;
        for (limit, subject) in &self.parts {
            // Only a limit's name may contain colons, and no name contains a `%`.
            write!(f, ":{}:", limit.as_str().replace(':', "%"))?;
            subject.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        }
        Ok(())
    }
}

impl FromStr for HoldToken {
    type Err = HoldTokenError;

    fn from_str(text: &str) -> Result<Self, HoldTokenError> {
        if text.len() > Self::MAX_LEN {
            return Err(too_long(text.len()));
        }
        let mut fields = text.split(':');
        if fields.next() != Some(VERSION) {
            return Err(malformed(format!("it must begin with `{VERSION}:`")));
        }
        let id = fields.next().unwrap_or_default();
        let id = id.parse().map_err(|error: super::HoldIdError| malformed(error.to_string()))?;
        let fields: Vec<&str> = fields.collect();
        let pairs = fields.chunks(2).map(|pair| match pair {
            [limit, subject] => {
                let limit = limit.replace('%', ":");
                let limit = limit.parse().map_err(|error| malformed(format!("{error}")))?;
                Ok((limit, read_subject(subject)?))
            }
            _ => Err(malformed(format!("a limit has no key{PLAIN_COLON}"))),
        });
        Self::new(id, pairs.collect::<Result<Vec<(LimitName, Vec<u8>)>, HoldTokenError>>()?)
    }
}

/// The advice for a name such as `a:b`, which makes a token one field too long.
const PLAIN_COLON: &str = "; in the name of a limit write `%` for each `:`";

fn read_subject(text: &str) -> Result<Vec<u8>, HoldTokenError> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let pairs = text.as_bytes().chunks_exact(2);
    let is_even = pairs.remainder().is_empty();
    let bytes: Option<Vec<u8>> =
        pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect();
    bytes.filter(|_| is_even).ok_or_else(|| {
        malformed(format!(
            "a key is not made of pairs of digits from 0 to 9 and a to f{PLAIN_COLON}"
        ))
    })
}

#[cold]
#[expect(clippy::needless_pass_by_value, reason = "as it is called")]
fn malformed(problem: String) -> HoldTokenError {
    HoldTokenError(format!("not a hold token: {problem}"))
}

#[cold]
fn too_long(length: usize) -> HoldTokenError {
    HoldTokenError(format!(
        "a hold token of {length} characters is too long, the maximum is {}: shorten the key; all subjects together have at most {} bytes",
        HoldToken::MAX_LEN,
        HoldToken::MAX_LEN / 2
    ))
}

impl fmt::Display for HoldTokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for HoldTokenError {}

impl From<HoldTokenError> for RequestError {
    fn from(error: HoldTokenError) -> Self {
        Self::new(RequestErrorKind::Invalid, error.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: HoldId = HoldId::from_bytes([0xa5; 16]);

    fn parts() -> impl Strategy<Value = Vec<(LimitName, Vec<u8>)>> {
        let name = "[a-zA-Z0-9_.:/@-]{1,64}".prop_map(|name| name.parse().unwrap());
        let subject = prop::collection::vec(any::<u8>(), 0..40);
        prop::collection::btree_map(name, subject, 1..5)
            .prop_map(|parts| parts.into_iter().collect::<Vec<_>>())
            .prop_shuffle()
    }

    proptest! {
        #[test]
        fn a_token_reads_back_from_its_text(id in any::<[u8; 16]>(), parts in parts()) {
            let token = HoldToken::new(HoldId::from_bytes(id), parts.clone()).unwrap();
            let text = token.to_string();
            prop_assert_eq!(text.len(), token.text_len());
            prop_assert!(text.bytes().all(|byte| byte.is_ascii_graphic()));
            prop_assert_eq!(text.parse::<HoldToken>(), Ok(token.clone()));
            prop_assert!(token.limits().eq(parts.iter().map(|(limit, _)| limit)));
            for (part, (_, subject)) in parts.iter().enumerate() {
                prop_assert_eq!(token.subject(part), subject.as_slice());
            }
        }

        #[test]
        fn any_text_is_a_token_or_an_error(
            text in "[0-9a-f:%a-]{0,90}|.{0,40}|1:[0-9a-f]{31,33}(:[a-c%]{0,2}:[0-9a-fA-F]{0,4}){0,3}:?"
        ) {
            match text.parse::<HoldToken>() {
                Ok(token) => prop_assert_eq!(token.to_string(), text),
                Err(error) => prop_assert!(error.to_string().starts_with("not a hold token: ")),
            }
        }
    }

    #[test]
    fn a_malformed_token_says_what_is_wrong() {
        for (text, expected) in [
            ("", "it must begin with `1:`"),
            ("2:x", "it must begin with `1:`"),
            ("1", "`` is not the id of a hold"),
            ("1:A5", "`A5` is not the id of a hold"),
            (&format!("1:{ID}"), "it names no limit"),
            (&format!("1:{ID}:a"), "a limit has no key"),
            (&format!("1:{ID}:a:b:6b"), "write `%` for each `:`"),
            (&format!("1:{ID}:a b:00"), "`a b` is not a limit name"),
            (&format!("1:{ID}:a:0"), "pairs of digits"),
            (&format!("1:{ID}:a:0G"), "pairs of digits"),
            (&format!("1:{ID}:a:00:b:01:a:02"), "it names `a` twice"),
        ] {
            let error = text.parse::<HoldToken>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_token_is_bounded() {
        let of = |bytes: usize| HoldToken::new(ID, [("l".parse().unwrap(), vec![7; bytes])]);
        let most = (HoldToken::MAX_LEN - 37) / 2;
        let token = of(most).unwrap();
        assert_eq!(token.to_string().parse::<HoldToken>(), Ok(token));
        assert!(of(most + 1).unwrap_err().to_string().contains("too long, the maximum is 16384"));
        let text = "1".repeat(1 << 20).parse::<HoldToken>().unwrap_err().to_string();
        assert!(text.starts_with("a hold token of 1048576 characters is too long"), "{text}");
        let many = (0..65).map(|index| (format!("l{index}").parse().unwrap(), ""));
        let error = HoldToken::new(ID, many).unwrap_err().to_string();
        assert!(error.ends_with("it names 65 limits, but at most 64 may be"), "{error}");
    }
}
