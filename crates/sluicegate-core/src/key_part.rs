//! Values that are keys or parts of keys, and their text.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A value that is a key, or a part of one: text, bytes, an integer or an IP address.
///
/// Integers are written in decimal. An address is written in its canonical form, an IPv4-mapped IPv6 address as the
/// IPv4 address. So a number or an address makes the same key as its text.
///
/// ```
/// use std::net::Ipv6Addr;
/// use sluicegate_core::KeyPart;
///
/// struct UserId(u64);
///
/// impl KeyPart for UserId {
///     fn write(&self, write: &mut impl FnMut(&[u8])) {
///         write(b"user-");
///         self.0.write(write);
///     }
/// }
///
/// let text = |part: &dyn Fn(&mut Vec<u8>)| {
///     let mut text = Vec::new();
///     part(&mut text);
///     String::from_utf8(text)
/// };
/// assert_eq!(text(&|out| UserId(42).write(&mut |bytes| out.extend(bytes)))?, "user-42");
/// let mapped: Ipv6Addr = "::ffff:192.0.2.7".parse()?;
/// assert_eq!(text(&|out| mapped.write(&mut |bytes| out.extend(bytes)))?, "192.0.2.7");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be a part of a key",
    note = "a part is text, bytes, an integer or an IP address: use a field of it, or implement `KeyPart`"
)]
pub trait KeyPart {
    /// Calls `write` with the bytes of the value, piece by piece.
    fn write(&self, write: &mut impl FnMut(&[u8]));
}

impl<T: KeyPart + ?Sized> KeyPart for &T {
    #[inline]
    fn write(&self, write: &mut impl FnMut(&[u8])) {
        (**self).write(write);
    }
}

macro_rules! as_bytes {
    ($($value:ty),*) => {$(
        impl KeyPart for $value {
            #[inline]
            fn write(&self, write: &mut impl FnMut(&[u8])) {
                write(self.as_ref());
            }
        }
    )*};
}

as_bytes!(str, String, [u8], Vec<u8>);

impl<const N: usize> KeyPart for [u8; N] {
    #[inline]
    fn write(&self, write: &mut impl FnMut(&[u8])) {
        write(self);
    }
}

impl<T: KeyPart + ToOwned + ?Sized> KeyPart for Cow<'_, T> {
    #[inline]
    fn write(&self, write: &mut impl FnMut(&[u8])) {
        (**self).write(write);
    }
}

macro_rules! in_decimal {
    ($($integer:ty),*) => {$(
        impl KeyPart for $integer {
            #[inline]
            fn write(&self, write: &mut impl FnMut(&[u8])) {
                print(self, write);
            }
        }
    )*};
}

in_decimal!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);

impl KeyPart for IpAddr {
    fn write(&self, write: &mut impl FnMut(&[u8])) {
        match self.to_canonical() {
            Self::V4(address) => address.write(write),
            Self::V6(address) => print(&address, write),
        }
    }
}

impl KeyPart for Ipv6Addr {
    fn write(&self, write: &mut impl FnMut(&[u8])) {
        IpAddr::V6(*self).write(write);
    }
}

impl KeyPart for Ipv4Addr {
    /// Writes the digits without the slow formatting of the standard library.
    fn write(&self, write: &mut impl FnMut(&[u8])) {
        /// Four times three digits, and three periods.
        const LONGEST: usize = 15;
        let (mut text, mut end) = ([0; LONGEST], 0);
        let mut put = |byte| {
            text[end] = byte;
            end += 1;
        };
        for (index, octet) in self.octets().into_iter().enumerate() {
            if index > 0 {
                put(b'.');
            }
            if octet >= 100 {
                put(b'0' + octet / 100);
            }
            if octet >= 10 {
                put(b'0' + octet / 10 % 10);
            }
            put(b'0' + octet % 10);
        }
        write(&text[..end]);
    }
}

/// Writes the value as `Display` prints it.
#[inline]
fn print(value: &impl fmt::Display, write: &mut impl FnMut(&[u8])) {
    // Writing never fails.
    let _ = fmt::Write::write_fmt(&mut Printed(write), format_args!("{value}"));
}

struct Printed<'w, W>(&'w mut W);

impl<W: FnMut(&[u8])> fmt::Write for Printed<'_, W> {
    #[inline]
    fn write_str(&mut self, text: &str) -> fmt::Result {
        (self.0)(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(part: &impl KeyPart) -> String {
        let mut text = Vec::new();
        part.write(&mut |bytes| text.extend_from_slice(bytes));
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn integers_are_written_in_decimal() {
        assert_eq!(text(&u8::MAX), "255");
        assert_eq!(text(&0_usize), "0");
        assert_eq!(text(&i128::MIN), i128::MIN.to_string());
        assert_eq!(text(&u128::MAX), u128::MAX.to_string());
    }

    proptest! {
        #[test]
        fn an_address_is_written_as_its_canonical_text(address: IpAddr) {
            prop_assert_eq!(text(&address), address.to_canonical().to_string());
        }

        #[test]
        fn an_ipv4_address_makes_the_key_of_the_mapped_one(address: Ipv4Addr) {
            prop_assert_eq!(text(&address), text(&address.to_ipv6_mapped()));
            prop_assert_eq!(text(&address), address.to_string());
        }
    }
}
