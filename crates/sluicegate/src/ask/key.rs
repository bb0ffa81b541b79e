//! The key of an [`Ask`](super::Ask), and the values that make one.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Deref;

use sluicegate_core::KeyPart;
use sluicegate_core::for_stores::KeyWriter;
use smallvec::SmallVec;

use super::Ask;

/// Keys that are written from values need no allocation up to this length: the longest address and integer, or a short
/// tuple.
const INLINE: usize = 40;

/// A key as the caller gave it, or written from values.
#[derive(Clone, Debug)]
pub(super) enum AskKey<'a> {
    Given(&'a [u8]),
    Written(SmallVec<[u8; INLINE]>),
}

impl<'a> AskKey<'a> {
    pub(super) fn to_cow(&self) -> Cow<'a, [u8]> {
        match self {
            Self::Given(key) => Cow::Borrowed(key),
            Self::Written(key) => Cow::Owned(key.to_vec()),
        }
    }
}

impl Deref for AskKey<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Given(key) => key,
            Self::Written(key) => key,
        }
    }
}

impl From<Vec<u8>> for AskKey<'_> {
    fn from(key: Vec<u8>) -> Self {
        Self::Written(key.into())
    }
}

/// Text or bytes, borrowed.
impl<'a, K: AsRef<[u8]> + ?Sized> From<&'a K> for Ask<'a> {
    #[inline]
    fn from(key: &'a K) -> Self {
        Self::new(key)
    }
}

macro_rules! from_values {
    ($($value:ty),*) => {$(
        impl From<$value> for Ask<'_> {
            #[inline]
            fn from(value: $value) -> Self {
                let mut key = SmallVec::new();
                value.write(&mut |bytes| key.extend_from_slice(bytes));
                Self::of(AskKey::Written(key))
            }
        }
    )*};
}

from_values!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);
from_values!(IpAddr, Ipv4Addr, Ipv6Addr);

macro_rules! from_tuples {
    ($($part:ident $index:tt),*) => {
        impl<$($part: KeyPart),*> From<($($part,)*)> for Ask<'_> {
            /// Joins the parts into one key, as [`Key::join`](crate::http::Key::join) and the attribute do.
            #[inline]
            fn from(parts: ($($part,)*)) -> Self {
                let mut key = KeyWriter::of_parts();
                $(
                    key.begin_part();
                    parts.$index.write(&mut |bytes| key.push(bytes));
                    key.end_part();
                )*
                Self::of(AskKey::Written(key.finish()))
            }
        }
    };
}

from_tuples!(A 0, B 1);
from_tuples!(A 0, B 1, C 2);
from_tuples!(A 0, B 1, C 2, D 3);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(ask: impl Into<Ask<'static>>) -> Vec<u8> {
        ask.into().key().to_vec()
    }

    #[test]
    fn any_bytes_are_a_key() {
        let (text, bytes) = (String::from("alice"), b"alice".to_vec());
        for ask in [Ask::from("alice"), Ask::from(&text), Ask::from(b"alice"), Ask::from(&bytes)] {
            assert_eq!(ask.key(), b"alice");
        }
    }

    #[test]
    fn numbers_and_addresses_make_the_key_of_their_text() {
        assert_eq!(key(42_u64), b"42");
        assert_eq!(key(i8::MIN), b"-128");
        assert_eq!(key(u128::MAX), u128::MAX.to_string().as_bytes());
        assert_eq!(key(Ipv4Addr::new(192, 0, 2, 7)), b"192.0.2.7");
        assert_eq!(key(IpAddr::from(Ipv4Addr::LOCALHOST.to_ipv6_mapped())), b"127.0.0.1");
        assert_eq!(key("2001:DB8:0::1".parse::<Ipv6Addr>().unwrap()), b"2001:db8::1");
    }

    #[test]
    fn a_tuple_is_a_joined_key() {
        assert_eq!(key(("acme", 42_u64)), b"acme|42");
        assert_eq!(key((7_u8, Ipv6Addr::LOCALHOST, b"a|b")), br"7|::1|a\|b");
        let (text, bytes) = (String::from("a"), vec![b'\\']);
        assert_eq!(key((&text, &bytes, "", [0_u8; 1])), b"a|\\\\||\0\0");
    }

    fn part() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![Just(0), Just(b'|'), Just(b'\\'), Just(b'a'), any::<u8>()];
        prop::collection::vec(byte, 0..4)
    }

    fn joined(parts: &[Vec<u8>]) -> Vec<u8> {
        match parts {
            [a, b] => Ask::from((a, b)).key().to_vec(),
            [a, b, c] => Ask::from((a, b, c)).key().to_vec(),
            [a, b, c, d] => Ask::from((a, b, c, d)).key().to_vec(),
            _ => unreachable!("a tuple has 2 to 4 parts"),
        }
    }

    proptest! {
        #[test]
        fn different_tuples_never_make_one_key(
            a in prop::collection::vec(part(), 2..=4),
            b in prop::collection::vec(part(), 2..=4),
        ) {
            prop_assert_eq!(a == b, joined(&a) == joined(&b));
        }
    }

    #[cfg(feature = "config")]
    proptest! {
        #[test]
        fn a_tuple_makes_the_key_that_http_makes_of_the_same_parts(
            parts in prop::collection::vec(part(), 2..=4),
        ) {
            let keys: Vec<_> = parts.iter().map(sluicegate_http::Key::new).collect();
            let made = sluicegate_http::Key::join(&keys);
            prop_assert_eq!(made.as_bytes(), joined(&parts));
        }

        #[test]
        fn an_address_makes_the_key_that_http_makes_of_it(address: IpAddr) {
            let made = sluicegate_http::Key::of_network(address.into());
            prop_assert_eq!(made.as_bytes(), key(address));
        }
    }
}
