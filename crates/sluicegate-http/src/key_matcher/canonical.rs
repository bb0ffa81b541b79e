//! Converts entries to the form of the keys that they match.

use super::{KeyMatcher, Pattern};
use crate::client_address::ClientAddress;
use crate::key_component::KeyComponent;
use crate::key_expression::KeyExpression;

impl KeyMatcher {
    /// Returns the entry in the form of the keys that `expression` makes, as [`KeyExpression::given`]
    /// does for keys. An address becomes the network of the client with that address. A text becomes
    /// the key that it is given for. Prefixes and ranges of several addresses are unchanged.
    ///
    /// ```
    /// use sluicegate_http::{ClientAddress, KeyExpression, KeyMatcher};
    ///
    /// let of = |entry: &str, expression: &str| {
    ///     let expression: KeyExpression = expression.parse().unwrap();
    ///     let entry: KeyMatcher = entry.parse().unwrap();
    ///     entry.for_keys(&expression, &ClientAddress::peer()).to_string()
    /// };
    /// assert_eq!(of("2001:DB8:1:2::1", "ip"), "2001:db8:1:2::/64");
    /// assert_eq!(of("[2001:db8:1:2::1]:443", "ip"), "2001:db8:1:2::/64");
    /// assert_eq!(of("acme|2001:db8:1:2::1", "header:x-tenant + ip"), "acme|2001:db8:1:2::/64");
    /// assert_eq!(of("API.example.com", "host"), "api.example.com");
    /// assert_eq!(of("2001:db8::/32", "ip"), "2001:db8::/32");
    /// ```
    #[must_use]
    pub fn for_keys(&self, expression: &KeyExpression, address: &ClientAddress) -> Self {
        let mut alternatives = expression.alternatives();
        let only = alternatives.next().filter(|_| alternatives.next().is_none());
        if let ([Pattern::Exact(text)], Some([component])) = (&*self.components, only) {
            let pattern = match component {
                KeyComponent::Ip => address.network_of_text(text).map(Pattern::Range),
                _ => expression.given(text).ok().map(|key| Pattern::Exact(key.into())),
            };
            return pattern.map_or_else(|| self.clone(), Self::of);
        }
        let of_client = |pattern: &Pattern| match pattern {
            // A range of a single address.
            Pattern::Range(range)
                if range.len() == if range.address().is_ipv4() { 32 } else { 128 } =>
            {
                let network = address.network_of_text(range.to_string().as_bytes());
                Pattern::Range(network.unwrap_or(*range))
            }
            other => other.clone(),
        };
        Self { components: self.components.iter().map(of_client).collect() }
    }
}
