//! Key expressions, with which config files describe keys.

mod error;
mod extract;
mod given;
mod read;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::client_address::ClientAddress;
use crate::extractor::KeyExtractor;
use crate::fields::Partition;
use crate::key::{Key, KeyWriter};
use crate::key_component::KeyComponent;
use crate::missing::MissingComponent;
use crate::request::RequestView;

pub use error::KeyExpressionError;
pub use given::UnfitKey;

/// A description of a request's key: components joined by `+`, or alternatives separated by `or`.
///
/// | component | value |
/// | --- | --- |
/// | `ip` | the client's network: an IPv4 address, or the first 64 bits of an IPv6 address |
/// | `user` | the user that the application identified |
/// | `method`, `path` | the method or path, as the client sent it |
/// | `route` | the pattern of the matched route |
/// | `host` | the requested host |
/// | `header:NAME` | a header field |
/// | `cookie:NAME` | a cookie |
/// | `query:NAME` | a query parameter |
/// | `'text'` | this text |
///
/// A name with white space, `+`, `'` or `\` needs single quotes. In quotes, `\'` stands for `'` and
/// `\\` for `\`. Each component may occur once, except for texts. An empty value counts as missing.
/// Components are joined like [`Key::join`], so two requests have the same key only if all their
/// components are equal.
///
/// `or` binds weaker than `+`. The first alternative whose components the request has makes the key:
/// with `header:x-api-key or ip`, a client without an API key is limited by address. Keys of different
/// alternatives are never equal, as with [`KeyExtractor::or`]: a client that sends
/// `x-api-key: 203.0.113.9` has another key than that address. An alternative that an earlier one
/// always precedes, such as the second in `path or ip`, is an error.
///
/// By itself, an expression takes the client's address from the connection. Behind proxies, give
/// it a [`ClientAddress`].
///
/// ```
/// use sluicegate_http::{KeyExpression, KeyExtractor, User};
///
/// let request = http::Request::get("/cart").extension(User::new("alice")).body(())?;
/// let key: KeyExpression = "user + method".parse()?;
/// assert_eq!(key.key(&request)?.as_bytes(), b"alice|GET");
/// assert_eq!(key.to_string(), "user+method");
///
/// let key: KeyExpression = "header:x-api-key".parse()?;
/// assert_eq!(
///     key.key(&request).unwrap_err().to_string(),
///     "the request has no header field `x-api-key`"
/// );
///
/// let key: KeyExpression = "header:x-api-key or user".parse()?;
/// assert_eq!(key.key(&request)?.as_bytes(), b"\0|alice");
///
/// let error = "ip+methd".parse::<KeyExpression>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "unknown component `methd`: did you mean `method`?\n  ip+methd\n     ^^^^^"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KeyExpression {
    /// At least one, and each has at least one component.
    alternatives: Arc<[Box<[KeyComponent]>]>,
    /// `None` leaves the choice to the caller.
    address: Option<Arc<ClientAddress>>,
    /// Whether it is the default, which any given text fits.
    is_default: bool,
}

impl KeyExpression {
    /// The maximum length of an expression, in bytes.
    pub const MAX_BYTES: usize = 1_024;
    /// The maximum number of alternatives.
    pub const MAX_ALTERNATIVES: usize = 4;
    /// The maximum number of components of an alternative.
    pub const MAX_COMPONENTS: usize = 16;

    /// Sets the rules that find the client's address.
    #[must_use]
    pub fn with_client_address(self, address: impl Into<Arc<ClientAddress>>) -> Self {
        Self { address: Some(address.into()), ..self }
    }

    /// Returns the rules that find the client's address, if set by
    /// [`with_client_address`](Self::with_client_address). The default is [the
    /// peer](ClientAddress::peer).
    #[must_use]
    pub fn client_address(&self) -> Option<&ClientAddress> {
        self.address.as_deref()
    }

    /// Returns the key of `request`, with the client's address found by `address`, even if
    /// [`client_address`](Self::client_address) is set.
    ///
    /// # Errors
    /// Returns an error if the request lacks a component of each alternative. The error names the one
    /// that is missing in the last alternative.
    pub fn key_found_by(
        &self,
        request: &dyn RequestView,
        address: &ClientAddress,
    ) -> Result<Key, MissingComponent> {
        let count = self.alternatives.len();
        let mut missing = None;
        for (index, components) in self.alternatives.iter().enumerate() {
            match key_of(components, request, address) {
                Ok(key) => return Ok(key.of_alternative(index, count)),
                Err(lacking) => missing = Some(lacking),
            }
        }
        Err(missing.unwrap_or(MissingComponent::absent(KeyComponent::Custom)))
    }

    /// Returns the components of each alternative, in order: at least one alternative with at least
    /// one component.
    #[must_use]
    pub fn alternatives(
        &self,
    ) -> impl DoubleEndedIterator<Item = &[KeyComponent]> + ExactSizeIterator + Clone {
        self.alternatives.iter().map(AsRef::as_ref)
    }
}

/// Returns the key that is made of these components.
fn key_of(
    components: &[KeyComponent],
    request: &dyn RequestView,
    address: &ClientAddress,
) -> Result<Key, MissingComponent> {
    let mut key = match components {
        [_] => KeyWriter::of_one_part(),
        _ => KeyWriter::of_parts(),
    };
    for component in components {
        key.begin_part();
        extract::write_component(component, request, address, &mut key)?;
        key.end_part();
    }
    Ok(key.finish())
}

impl Partition {
    /// Returns the dimensions that a key expression partitions a quota by. Components without a
    /// dimension in the draft get one with the prefix `sluicegate-`, without the name of the field,
    /// cookie or parameter. None if there are several alternatives, because then the dimensions
    /// differ from request to request.
    pub fn of(expression: &KeyExpression) -> Self {
        match &*expression.alternatives {
            [components] => Self::of_components(components),
            _ => Self::default(),
        }
    }
}

impl Default for KeyExpression {
    /// Returns the expression `ip`, for a limit without a configured key. It makes the keys of
    /// requests that `ip` makes, but accepts any text as a [given](Self::given) key, so the two
    /// aren't equal.
    fn default() -> Self {
        Self { alternatives: [[KeyComponent::Ip].into()].into(), address: None, is_default: true }
    }
}

impl KeyExtractor for KeyExpression {
    fn key(&self, request: &dyn RequestView) -> Result<Key, MissingComponent> {
        static PEER: ClientAddress = ClientAddress::peer();
        self.key_with_address(request, &PEER)
    }

    fn key_with_address(
        &self,
        request: &dyn RequestView,
        address: &ClientAddress,
    ) -> Result<Key, MissingComponent> {
        self.key_found_by(request, self.client_address().unwrap_or(address))
    }

    fn partition(&self) -> Partition {
        Partition::of(self)
    }
}

impl fmt::Display for KeyExpression {
    /// Returns the shortest text that parses as the expression.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for components in self.alternatives() {
            for component in components {
                write!(f, "{between}{component}")?;
                between = "+";
            }
            between = " or ";
        }
        Ok(())
    }
}

impl FromStr for KeyExpression {
    type Err = KeyExpressionError;

    fn from_str(text: &str) -> Result<Self, KeyExpressionError> {
        let alternatives = read::alternatives(text)
            .map_err(|problem| KeyExpressionError::new(text, problem.place, &problem.message))?;
        Ok(Self { alternatives: alternatives.into(), address: None, is_default: false })
    }
}

#[cfg(test)]
mod tests;
