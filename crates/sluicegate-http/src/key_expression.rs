//! What a config file says a key is made of.

mod error;
mod extract;
mod read;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::client_address::ClientAddress;
use crate::extractor::KeyExtractor;
use crate::fields::Partition;
use crate::key::{Key, KeyWriter};
use crate::key_component::KeyComponent;
use crate::missing::Missing;
use crate::request::RequestView;

pub use error::KeyExpressionError;

/// What the key of a request is made of: components joined by `+`.
///
/// | component | what it is |
/// | --- | --- |
/// | `ip` | the client's network: an IPv4 address, 64 bits of an IPv6 address |
/// | `user` | who the application says is asking |
/// | `method`, `path` | of the request, as the client chose them |
/// | `route` | the route that was found, as the application wrote it |
/// | `host` | the host that is asked |
/// | `header:NAME` | a header field |
/// | `cookie:NAME` | a cookie |
/// | `query:NAME` | a parameter of the query |
/// | `'text'` | always this text |
///
/// A name with white space, `+`, `'` or `\` stands in quotes; between quotes `'` is written `\'`,
/// and `\` is written `\\`. Each component may be there once. What is there but empty is missing.
/// The key is that of [`Key::join`]: two different requests have one key only if all components
/// are the same.
///
/// The expression alone believes no header field about the client's address; behind proxies it
/// is given a [`ClientAddress`].
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
/// let error = "ip+methd".parse::<KeyExpression>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "unknown component `methd`: did you mean `method`?\n  ip+methd\n     ^^^^^"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KeyExpression {
    components: Arc<[KeyComponent]>,
    /// Unless it is left open.
    address: Option<Arc<ClientAddress>>,
}

impl KeyExpression {
    /// The longest expression that is read, in bytes.
    pub const MAX_BYTES: usize = 1_024;
    /// The most components.
    pub const MAX_COMPONENTS: usize = 16;

    /// The same expression, with the client's address found like this.
    #[must_use]
    pub fn with_client_address(self, address: impl Into<Arc<ClientAddress>>) -> Self {
        Self { address: Some(address.into()), ..self }
    }

    /// How the client's address is found; `None` if that was left open, and then it is the peer's.
    #[must_use]
    pub fn client_address(&self) -> Option<&ClientAddress> {
        self.address.as_deref()
    }

    /// The key of `request`, with the client's address found like this, whatever
    /// [`client_address`](Self::client_address) says.
    ///
    /// # Errors
    /// When the request lacks what the key is made of.
    pub fn key_found_by(
        &self,
        request: &dyn RequestView,
        address: &ClientAddress,
    ) -> Result<Key, Missing> {
        let mut key = match *self.components {
            [_] => KeyWriter::of_one_part(),
            _ => KeyWriter::of_parts(),
        };
        for component in self.components.iter() {
            key.begin_part();
            extract::write_component(component, request, address, &mut key)?;
            key.end_part();
        }
        Ok(key.finish())
    }

    /// The components, in the order of the key.
    #[must_use]
    pub fn components(&self) -> &[KeyComponent] {
        &self.components
    }
}

impl Partition {
    /// What a key expression divides a quota by. Components that the draft has no dimension for
    /// get names that begin with `sluicegate-`; which field or cookie is meant is not told.
    pub fn of(expression: &KeyExpression) -> Self {
        Self::of_components(expression.components())
    }
}

impl Default for KeyExpression {
    /// `ip`.
    fn default() -> Self {
        Self { components: [KeyComponent::Ip].into(), address: None }
    }
}

impl KeyExtractor for KeyExpression {
    fn key(&self, request: &dyn RequestView) -> Result<Key, Missing> {
        static PEER: ClientAddress = ClientAddress::peer();
        self.key_with_address(request, &PEER)
    }

    fn key_with_address(
        &self,
        request: &dyn RequestView,
        address: &ClientAddress,
    ) -> Result<Key, Missing> {
        self.key_found_by(request, self.client_address().unwrap_or(address))
    }

    fn partition(&self) -> Partition {
        Partition::of(self)
    }
}

impl fmt::Display for KeyExpression {
    /// The shortest text that reads back to the expression.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, component) in self.components.iter().enumerate() {
            write!(f, "{}{component}", if index > 0 { "+" } else { "" })?;
        }
        Ok(())
    }
}

impl FromStr for KeyExpression {
    type Err = KeyExpressionError;

    fn from_str(text: &str) -> Result<Self, KeyExpressionError> {
        let components = read::components(text)
            .map_err(|problem| KeyExpressionError::new(text, problem.place, &problem.message))?;
        Ok(Self { components: components.into(), address: None })
    }
}

#[cfg(test)]
mod tests;
