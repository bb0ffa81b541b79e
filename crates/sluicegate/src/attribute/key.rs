//! The keys of calls.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;
use std::sync::{Arc, Once};

use sluicegate_core::KeyPart as _;
use sluicegate_core::for_stores::{self, KEY_ESCAPE, KEY_RESERVED};
use sluicegate_http::{Cidr, Key as HttpKey};
use smallvec::SmallVec;

use super::name::enclosing;
use crate::ask::Ask;
use crate::caller::Caller;

/// The key of a call, if it has one.
#[derive(Debug)]
#[must_use]
pub struct Key(State);

#[derive(Debug)]
enum State {
    /// Bytes without a client's network.
    Bytes(Bytes),
    Given(HttpKey),
    Method,
    Refused,
    Skipped,
}

/// Keys up to this many bytes lie on the stack.
const INLINE: usize = 64;

type Bytes = SmallVec<[u8; INLINE]>;

/// The treatment of a call that lacks a part of its key.
#[derive(Clone, Copy, Debug)]
pub enum OnMissing {
    Refuse,
    Shared,
    Skip,
}

impl Key {
    /// Makes the path of the function the key.
    #[inline]
    pub const fn method() -> Self {
        Self(State::Method)
    }

    /// Makes the network of the current caller the key.
    #[inline]
    pub fn ip(on_missing: OnMissing) -> Self {
        Caller::with_current(Caller::ip)
            .map_or_else(|| Self::lacking(Lack::Ip, on_missing), Self::given)
    }

    const fn given(key: HttpKey) -> Self {
        Self(State::Given(key))
    }

    #[cold]
    fn lacking(lack: Lack, on_missing: OnMissing) -> Self {
        if matches!(on_missing, OnMissing::Shared) {
            lack.note_shared();
        }
        Self(match on_missing {
            OnMissing::Refuse => State::Refused,
            OnMissing::Shared => State::Given(HttpKey::shared()),
            OnMissing::Skip => State::Skipped,
        })
    }

    /// Makes a key for which no limit is asked.
    #[inline]
    pub const fn skipped() -> Self {
        Self(State::Skipped)
    }

    #[inline]
    pub(super) const fn is_refused(&self) -> bool {
        matches!(self.0, State::Refused)
    }

    /// Returns whether no limit is asked for it.
    #[inline]
    #[must_use]
    pub const fn is_skipped(&self) -> bool {
        matches!(self.0, State::Skipped)
    }

    /// Returns the request for this key. `method` is the key of a function without one.
    #[inline]
    pub(super) fn ask_with<'a>(
        &'a self,
        method: &'a HttpKey,
        terms: impl FnOnce(Ask<'a>) -> Ask<'a>,
    ) -> Ask<'a> {
        match &self.0 {
            // The path of the function isn't a network either.
            State::Bytes(bytes) => terms(Ask::without_network(bytes, method)),
            State::Given(key) => terms(Ask::from_key(key)),
            State::Method => terms(Ask::from_key(method)),
            State::Refused | State::Skipped => Ask::nothing(),
        }
    }
}

/// A builder of a key, from values or from the text and the values of a template.
///
/// Values alone are the parts of a joined key, as in a tuple that the library makes a key of. A template with several
/// values marks the end of each. Inside a value, a `\` is written before `\`, and before the bytes with which text after
/// a value begins.
#[derive(Debug)]
pub struct KeyWriter {
    bytes: for_stores::KeyWriter<INLINE>,
    /// The bytes to escape in the values of a template.
    separators: &'static [u8],
    network: Option<Cidr>,
    /// The missing part; a missing caller takes precedence.
    lacks: Option<Lack>,
}

/// A missing part of a key.
#[derive(Clone, Copy, Debug)]
enum Lack {
    /// The value of an option.
    Value,
    /// The address of the caller.
    Ip,
    /// The user of the caller.
    User,
}

impl Lack {
    /// Warns, once, that calls share a key for lack of a caller, which is rarely intended.
    fn note_shared(self) {
        static IP: Once = Once::new();
        static USER: Once = Once::new();
        let (once, part) = match self {
            Self::Value => return,
            Self::Ip => (&IP, "ip"),
            Self::User => (&USER, "user"),
        };
        once.call_once(|| {
            tracing::warn!(
                "a function with `{part}` in its `key` is called without one, and all such calls share a key: use middleware, a `Caller::scope`, or `missing = refuse`"
            );
        });
    }
}

impl KeyWriter {
    /// Returns a writer of a template, or of a single value.
    #[inline]
    #[must_use]
    pub fn new(separators: &'static [u8]) -> Self {
        Self { bytes: for_stores::KeyWriter::of_one_part(), separators, network: None, lacks: None }
    }

    /// Returns a writer of several values, each between [`KeyWriter::begin_part`] and [`KeyWriter::end_part`].
    #[inline]
    #[must_use]
    pub fn of_parts() -> Self {
        let bytes = for_stores::KeyWriter::of_parts();
        Self { bytes, separators: &[], network: None, lacks: None }
    }

    #[inline]
    pub fn begin_part(&mut self) {
        self.bytes.begin_part();
    }

    #[inline]
    pub fn end_part(&mut self) {
        self.bytes.end_part();
    }

    /// Text of the template.
    #[inline]
    pub fn text(&mut self, text: &str) {
        self.bytes.push(text.as_bytes());
    }

    #[inline]
    fn value(&mut self, bytes: &[u8]) {
        if self.separators.is_empty() {
            self.bytes.push(bytes);
            return;
        }
        for &byte in bytes {
            if self.separators.contains(&byte) {
                self.bytes.push_byte(KEY_ESCAPE);
            }
            self.bytes.push_byte(byte);
        }
    }

    #[inline]
    fn option<T>(&mut self, value: Option<T>, put: impl FnOnce(T, &mut Self)) {
        match value {
            Some(value) => put(value, self),
            None => {
                self.lacks.get_or_insert(Lack::Value);
            }
        }
    }

    /// Appends the network of the current caller.
    pub fn ip(&mut self) {
        Caller::with_current(|caller| match caller.ip() {
            Some(ip) => {
                self.value(ip.as_bytes());
                self.network = ip.network();
            }
            None => self.lacks = Some(Lack::Ip),
        });
    }

    /// Appends the user of the current caller.
    pub fn user(&mut self) {
        Caller::with_current(|caller| match caller.user() {
            Some(user) => self.value(user.as_bytes()),
            None => self.lacks = Some(Lack::User),
        });
    }

    /// Appends the path of the function around the item of this path.
    pub fn path(&mut self, path: &'static str) {
        self.value(enclosing(path).as_bytes());
    }

    #[inline]
    pub fn finish(self, on_missing: OnMissing) -> Key {
        if let Some(lack) = self.lacks {
            return Key::lacking(lack, on_missing);
        }
        // Keys that begin with a NUL are checked closely: one of them means no key at all.
        let bytes = self.bytes.as_bytes();
        match self.network {
            None if bytes.first() != Some(&KEY_RESERVED) => Key(State::Bytes(self.bytes.finish())),
            None => Key::given(HttpKey::new(bytes)),
            Some(network) => Key::given(HttpKey::new(bytes).in_network(network)),
        }
    }
}

impl fmt::Write for KeyWriter {
    #[inline]
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.value(text.as_bytes());
        Ok(())
    }
}

/// A value that becomes part of a key.
///
/// Method lookup picks the first of three traits that applies, each implemented for one `&` less:
///
/// - [`PutCopied`] for text and bytes, which are copied, and for addresses,
/// - [`PutOption`] for options, which may be absent,
/// - [`PutDisplay`] for everything else that implements `Display`.
#[derive(Debug)]
pub struct Component<'v, T: ?Sized>(pub &'v T);

impl<T: ?Sized> Clone for Component<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Component<'_, T> {}

/// Text, bytes and options of them.
pub trait PutCopied {
    fn put(self, key: &mut KeyWriter);
}

impl<T: Copied + ?Sized> PutCopied for &&Component<'_, T> {
    #[inline]
    fn put(self, key: &mut KeyWriter) {
        self.0.copy(key);
    }
}

/// Options of values that implement `Display`.
pub trait PutOption<T> {
    fn put(self, key: &mut KeyWriter)
    where
        T: KeyPart;
}

impl<T> PutOption<T> for &Component<'_, Option<T>> {
    #[inline]
    fn put(self, key: &mut KeyWriter)
    where
        T: KeyPart,
    {
        key.option(self.0.as_ref(), KeyPart::print);
    }
}

impl<T> PutOption<T> for &Component<'_, &Option<T>> {
    #[inline]
    fn put(self, key: &mut KeyWriter)
    where
        T: KeyPart,
    {
        key.option(self.0.as_ref(), KeyPart::print);
    }
}

/// Values that implement `Display`.
pub trait PutDisplay<T: ?Sized> {
    fn put(self, key: &mut KeyWriter)
    where
        T: KeyPart;
}

impl<T: ?Sized> PutDisplay<T> for Component<'_, T> {
    #[inline]
    fn put(self, key: &mut KeyWriter)
    where
        T: KeyPart,
    {
        self.0.print(key);
    }
}

/// Text or bytes, which are copied into a key, or an address.
pub trait Copied {
    fn copy(&self, key: &mut KeyWriter);
}

macro_rules! copied {
    ($as:ty: $($value:ty),* $(,)?) => {$(
        impl Copied for $value {
            #[inline]
            fn copy(&self, key: &mut KeyWriter) {
                key.value(AsRef::<[u8]>::as_ref(AsRef::<$as>::as_ref(self)));
            }
        }
    )*};
}

copied!(str: str, String, Box<str>, Rc<str>, Arc<str>, Cow<'_, str>);
copied!([u8]: [u8], Vec<u8>, Box<[u8]>, Rc<[u8]>, Arc<[u8]>, Cow<'_, [u8]>, HttpKey);

macro_rules! addresses {
    ($($address:ty),*) => {$(
        impl Copied for $address {
            #[inline]
            fn copy(&self, key: &mut KeyWriter) {
                self.write(&mut |text| key.value(text));
            }
        }
    )*};
}

// Their canonical text, as in every other key.
addresses!(IpAddr, Ipv4Addr, Ipv6Addr);

impl<const N: usize> Copied for [u8; N] {
    #[inline]
    fn copy(&self, key: &mut KeyWriter) {
        key.value(self);
    }
}

impl<T: Copied + ?Sized> Copied for &T {
    #[inline]
    fn copy(&self, key: &mut KeyWriter) {
        (**self).copy(key);
    }
}

impl<T: Copied + ?Sized> Copied for &mut T {
    #[inline]
    fn copy(&self, key: &mut KeyWriter) {
        (**self).copy(key);
    }
}

impl<T: Copied> Copied for Option<T> {
    #[inline]
    fn copy(&self, key: &mut KeyWriter) {
        key.option(self.as_ref(), Copied::copy);
    }
}

/// A value that can be part of a key.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be part of a key",
    label = "doesn't implement `Display`",
    note = "a part of a key implements `Display`, or is bytes, or is an option of these: use a field of it, or implement `Display`"
)]
pub trait KeyPart {
    fn print(&self, key: &mut KeyWriter);
}

#[diagnostic::do_not_recommend]
impl<T: fmt::Display + ?Sized> KeyPart for T {
    #[inline]
    fn print(&self, key: &mut KeyWriter) {
        // Writing into a key never fails. If `Display` fails, the key has what it wrote so far.
        let _ = fmt::Write::write_fmt(key, format_args!("{self}"));
    }
}
