//! Extractors, which make keys from requests.

use std::fmt;
use std::sync::Arc;

use crate::client_address::ClientAddress;
use crate::fields::Partition;
use crate::key::Key;
use crate::key_component::KeyComponent;
use crate::missing::MissingComponent;
use crate::request::RequestView;

/// Makes the key of a request.
///
/// Implemented for [`KeyExpression`](crate::KeyExpression), for every function from a request to
/// `Option<Key>`, and for tuples of two to four extractors, whose keys are joined. Combine extractors
/// with [`and`](Self::and), [`or`](Self::or) and [`map`](Self::map).
///
/// ```
/// use sluicegate_http::{Key, KeyExpression, KeyExtractor, RequestView, User, from_fn};
///
/// // The tenant is the first label of the host. Anonymous requests are limited by address.
/// let tenant = from_fn(|request| Some(Key::new(request.authority()?.split('.').next()?)));
/// let user: KeyExpression = "user".parse()?;
/// let by_tenant = tenant.and(user.or(KeyExpression::default()));
///
/// let request = http::Request::get("https://acme.example/").extension(User::new("eve")).body(())?;
/// assert_eq!(by_tenant.key(&request)?.as_bytes(), b"acme|eve");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` isn't a source of keys",
    label = "expected a `KeyExpression`, or a function made by `from_fn`",
    note = "text is parsed first: `\"header:x-api-key\".parse::<KeyExpression>()?`"
)]
pub trait KeyExtractor: Send + Sync {
    /// Returns the key of `request`.
    ///
    /// # Errors
    /// Returns an error if the request lacks a component of the key.
    fn key(&self, request: &dyn RequestView) -> Result<Key, MissingComponent>;

    /// Returns the key of `request`, with the client's address found by `address`.
    ///
    /// An extractor with a [`ClientAddress`] of its own ignores `address`. Middleware calls this
    /// method, because its configuration knows the proxies.
    ///
    /// # Errors
    /// Returns an error under the conditions of [`key`](Self::key).
    fn key_with_address(
        &self,
        request: &dyn RequestView,
        address: &ClientAddress,
    ) -> Result<Key, MissingComponent> {
        let _ = address;
        self.key(request)
    }

    /// Returns the dimensions that the keys partition a quota by, for response fields. By default
    /// none.
    fn partition(&self) -> Partition {
        Partition::default()
    }

    /// Joins the keys of both like [`Key::join`].
    fn and<E: KeyExtractor>(self, other: E) -> And<Self, E>
    where
        Self: Sized,
    {
        And { first: self, second: other }
    }

    /// Returns the key of this extractor, or the key of `other` if the request lacks the first. It
    /// corresponds to `or` in a [`KeyExpression`](crate::KeyExpression).
    ///
    /// Keys of `other` begin with a mark, so they never equal keys of the first. A user whose name is
    /// an address doesn't share a limit with that address. Because of the mark, only list entries
    /// that are ranges match keys of `other`.
    fn or<E: KeyExtractor>(self, other: E) -> Or<Self, E>
    where
        Self: Sized,
    {
        Or { first: self, second: other }
    }

    /// Applies `change` to the key.
    fn map<F: Fn(Key) -> Key + Send + Sync>(self, change: F) -> Map<Self, F>
    where
        Self: Sized,
    {
        Map { extractor: self, change }
    }
}

/// Returns `function` unchanged. The compiler needs this to infer the argument type of a closure
/// that serves as a [`KeyExtractor`].
pub fn from_fn<F>(function: F) -> F
where
    F: Fn(&dyn RequestView) -> Option<Key> + Send + Sync,
{
    function
}

/// Makes an extractor that returns the same key for all requests.
///
/// ```
/// use sluicegate_http::{KeyExtractor, fixed};
///
/// let request = http::Request::new(());
/// assert_eq!(fixed("everybody").key(&request)?.as_bytes(), b"everybody");
/// # Ok::<(), sluicegate_http::MissingComponent>(())
/// ```
#[must_use]
pub fn fixed(key: impl AsRef<[u8]>) -> Fixed {
    Fixed(Key::new(key))
}

/// One fixed key for all requests: returned by [`fixed`].
#[derive(Clone, Debug)]
pub struct Fixed(Key);

/// Two keys joined: returned by [`KeyExtractor::and`].
#[derive(Clone, Copy, Debug)]
pub struct And<A, B> {
    first: A,
    second: B,
}

/// The key of one extractor, or of another if it is missing: returned by [`KeyExtractor::or`].
#[derive(Clone, Copy, Debug)]
pub struct Or<A, B> {
    first: A,
    second: B,
}

/// A changed key: returned by [`KeyExtractor::map`].
#[derive(Clone, Copy)]
pub struct Map<E, F> {
    extractor: E,
    change: F,
}

impl<F> KeyExtractor for F
where
    F: Fn(&dyn RequestView) -> Option<Key> + Send + Sync,
{
    fn key(&self, request: &dyn RequestView) -> Result<Key, MissingComponent> {
        self(request).ok_or(MissingComponent::absent(KeyComponent::Custom))
    }
}

impl KeyExtractor for Arc<dyn KeyExtractor> {
    fn key(&self, request: &dyn RequestView) -> Result<Key, MissingComponent> {
        (**self).key(request)
    }

    fn key_with_address(
        &self,
        request: &dyn RequestView,
        address: &ClientAddress,
    ) -> Result<Key, MissingComponent> {
        (**self).key_with_address(request, address)
    }

    fn partition(&self) -> Partition {
        (**self).partition()
    }
}

impl KeyExtractor for Fixed {
    fn key(&self, _: &dyn RequestView) -> Result<Key, MissingComponent> {
        Ok(self.0.clone())
    }
}

/// The call that a combination makes on each of its extractors.
type Extract<'e> = &'e dyn Fn(&dyn KeyExtractor) -> Result<Key, MissingComponent>;

/// The methods of combinations: each passes the call on to its parts.
macro_rules! combined_keys {
    () => {
        fn key(&self, request: &dyn RequestView) -> Result<Key, MissingComponent> {
            self.combine(&|part| part.key(request))
        }

        fn key_with_address(
            &self,
            request: &dyn RequestView,
            address: &ClientAddress,
        ) -> Result<Key, MissingComponent> {
            self.combine(&|part| part.key_with_address(request, address))
        }
    };
}

impl<A: KeyExtractor, B: KeyExtractor> And<A, B> {
    fn combine(&self, extract: Extract<'_>) -> Result<Key, MissingComponent> {
        Ok(Key::join_all([&extract(&self.first)?, &extract(&self.second)?]))
    }
}

impl<A: KeyExtractor, B: KeyExtractor> KeyExtractor for And<A, B> {
    combined_keys!();

    fn partition(&self) -> Partition {
        self.first.partition().and(self.second.partition())
    }
}

macro_rules! tuple {
    ($($extractor:ident)*) => {
        impl<$($extractor: KeyExtractor),*> KeyExtractor for ($($extractor,)*) {
            fn key(&self, request: &dyn RequestView) -> Result<Key, MissingComponent> {
                #[expect(non_snake_case, reason = "a field has the name of its type")]
                let ($($extractor,)*) = self;
                Ok(Key::join_all([$(&$extractor.key(request)?),*]))
            }

            fn key_with_address(
                &self,
                request: &dyn RequestView,
                address: &ClientAddress,
            ) -> Result<Key, MissingComponent> {
                #[expect(non_snake_case, reason = "a field has the name of its type")]
                let ($($extractor,)*) = self;
                Ok(Key::join_all([$(&$extractor.key_with_address(request, address)?),*]))
            }

            fn partition(&self) -> Partition {
                #[expect(non_snake_case, reason = "a field has the name of its type")]
                let ($($extractor,)*) = self;
                Partition::default()$(.and($extractor.partition()))*
            }
        }
    };
}

tuple!(A B);
tuple!(A B C);
tuple!(A B C D);

impl<A: KeyExtractor, B: KeyExtractor> Or<A, B> {
    fn combine(&self, extract: Extract<'_>) -> Result<Key, MissingComponent> {
        match extract(&self.first) {
            Ok(key) => Ok(key.of_alternative(0, 2)),
            Err(_) => Ok(extract(&self.second)?.of_alternative(1, 2)),
        }
    }
}

impl<A: KeyExtractor, B: KeyExtractor> KeyExtractor for Or<A, B> {
    combined_keys!();
}

impl<E: KeyExtractor, F: Fn(Key) -> Key + Send + Sync> Map<E, F> {
    fn combine(&self, extract: Extract<'_>) -> Result<Key, MissingComponent> {
        extract(&self.extractor).map(&self.change)
    }
}

impl<E: KeyExtractor, F: Fn(Key) -> Key + Send + Sync> KeyExtractor for Map<E, F> {
    combined_keys!();

    fn partition(&self) -> Partition {
        self.extractor.partition()
    }
}

impl<E: fmt::Debug, F> fmt::Debug for Map<E, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map").field("extractor", &self.extractor).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_expression::KeyExpression;
    use crate::missing::MissingReason;
    use crate::request::{Peer, User};

    fn expression(text: &str) -> KeyExpression {
        text.parse().unwrap()
    }

    fn bytes(extractor: &dyn KeyExtractor, request: &http::Request<()>) -> Vec<u8> {
        extractor.key(request).unwrap().as_bytes().to_vec()
    }

    fn anonymous() -> http::Request<()> {
        let peer = Peer(([192, 0, 2, 1], 80).into());
        http::Request::get("/cart").extension(peer).body(()).unwrap()
    }

    fn known_as(name: &str) -> http::Request<()> {
        let mut request = anonymous();
        request.extensions_mut().insert(User::new(name));
        request
    }

    #[test]
    fn extractors_join_like_an_expression() {
        let request = known_as("a|b");
        let one = expression("user+method+path");
        let three = (expression("user"), expression("method"), expression("path"));
        assert_eq!(bytes(&one, &request), br"a\|b|GET|/cart");
        assert_eq!(one.key(&request), three.key(&request));
        let request = known_as("\0|192.0.2.1");
        assert_eq!(one.key(&request), three.key(&request));
        let two = expression("user").and(expression("method"));
        assert_eq!(two.key(&request), expression("user+method").key(&request));
        assert_eq!(two.key(&anonymous()).unwrap_err().component, KeyComponent::User);
    }

    #[test]
    fn a_user_called_like_an_address_is_not_that_address() {
        let extractor = expression("user").or(expression("ip"));
        assert_eq!(bytes(&extractor, &known_as("192.0.2.1")), b"192.0.2.1");
        let of_address = extractor.key(&anonymous()).unwrap();
        assert_ne!(of_address, extractor.key(&known_as("192.0.2.1")).unwrap());
        assert_ne!(of_address, extractor.key(&known_as("\0|192.0.2.1")).unwrap());
        assert_eq!(of_address.network(), Some("192.0.2.1".parse().unwrap()));
    }

    #[test]
    fn an_expression_with_alternatives_makes_the_keys_of_or() {
        let whole = expression("user or header:x-api-key or ip");
        let combined = expression("user").or(expression("header:x-api-key").or(expression("ip")));
        let mut named = anonymous();
        named.headers_mut().insert("x-api-key", "192.0.2.1".parse().unwrap());
        for request in [known_as("192.0.2.1"), known_as("\0|192.0.2.1"), named, anonymous()] {
            assert_eq!(whole.key(&request), combined.key(&request));
        }
        assert_eq!(whole.partition(), combined.partition());
        let nobody = http::Request::new(());
        assert_eq!(whole.key(&nobody), combined.key(&nobody));
    }

    #[test]
    fn functions_and_changes_make_keys() {
        let first_letter = from_fn(|request| {
            let user = request.user()?;
            user.as_bytes().first_chunk::<1>().map(Key::from)
        });
        assert_eq!(bytes(&first_letter, &known_as("alice")), b"a");
        let missing = first_letter.key(&anonymous()).unwrap_err();
        assert_eq!(missing.reason, MissingReason::Absent);
        assert_eq!(missing.component, KeyComponent::Custom);
        let shared: Arc<dyn KeyExtractor> =
            Arc::new(expression("user").map(|key| Key::new(key.as_bytes().to_ascii_lowercase())));
        assert_eq!(bytes(&shared, &known_as("ALICE")), b"alice");
        assert_eq!(bytes(&shared.or(fixed("nobody")), &anonymous()), b"\0|nobody");
    }

    #[test]
    fn combinations_pass_on_how_to_find_the_address() {
        use crate::client_address::AddressHeader;

        let behind =
            ClientAddress::behind(["192.0.2.0/24".parse().unwrap()], AddressHeader::XForwardedFor);
        let mut request = anonymous();
        request.headers_mut().insert("x-forwarded-for", "198.51.100.7".parse().unwrap());
        let ip = || expression("ip");
        let at_peer = ip().with_client_address(ClientAddress::peer());
        let extractors: [(Arc<dyn KeyExtractor>, &str); 7] = [
            (Arc::new(ip()), "198.51.100.7"),
            (Arc::new(at_peer), "192.0.2.1"),
            (Arc::new(ip().and(fixed("a"))), "198.51.100.7|a"),
            (Arc::new((ip(), fixed("a"))), "198.51.100.7|a"),
            (Arc::new(expression("user").or(ip())), "\0|198.51.100.7"),
            (Arc::new(ip().map(|key| key)), "198.51.100.7"),
            (Arc::new(from_fn(|_| Some(Key::new("k")))), "k"),
        ];
        for (extractor, expected) in extractors {
            let key = extractor.key_with_address(&request, &behind).unwrap();
            assert_eq!(key.as_bytes(), expected.as_bytes());
        }
    }

    #[test]
    fn a_partition_is_that_of_the_parts() {
        let of = |extractor: &dyn KeyExtractor| extractor.partition().to_string();
        assert_eq!(of(&expression("user+ip")), ";user_id;sluicegate-ip");
        assert_eq!(of(&expression("user").and(expression("user+ip"))), ";user_id;sluicegate-ip");
        assert_eq!(of(&(fixed("a"), expression("method"))), ";method");
        assert_eq!(of(&expression("user").or(expression("ip"))), "");
    }
}
