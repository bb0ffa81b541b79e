//! Formats whose lines are words, quoted texts and bracketed times in a fixed order.

use memchr::memchr;

use super::access::{quoted, skip_space, word};
use super::role::{Form, Role};
use super::values::{Value, Values};
use crate::malformed::Malformed;
use crate::record::{Field, Fields};

/// The parts of a line, in order.
pub(crate) type Layout = &'static [Part];

/// A part of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    /// An unused word, quoted text or bracketed text.
    Skip,
    /// A word from a fixed list.
    OneOf(&'static [&'static [u8]]),
    Word(Role, Form),
    Bracketed(Role),
    /// Quoted text, which may have several roles.
    Quoted(&'static [(Role, Form)]),
    /// Unused words up to the next quote.
    ToQuote,
    /// The line may be truncated from here on.
    MayEnd,
}

use Part::{Bracketed, MayEnd, OneOf, Quoted, Skip, ToQuote, Word};

const HOST: Role = Role::Text(Field::Host);
const STATUS: Part = Word(Role::Text(Field::Status), Form::Plain);
const AGENT: Part = Quoted(&[(Role::Text(Field::Agent), Form::Plain)]);
const REQUEST: Part =
    Quoted(&[(Role::Text(Field::Method), Form::Method), (Role::Text(Field::Path), Form::Path)]);

/// AWS Application Load Balancer.
pub(crate) const ALB: Layout = &[
    OneOf(&[b"http", b"https", b"h2", b"grpcs", b"ws", b"wss"]),
    Word(Role::Time, Form::Plain),
    Skip,
    Word(HOST, Form::WithPort),
    MayEnd,
    // Target, three durations.
    Skip,
    Skip,
    Skip,
    Skip,
    STATUS,
    // Target's status, bytes received and sent.
    Skip,
    Skip,
    Skip,
    REQUEST,
    AGENT,
    // Cipher, protocol, target group, trace, domain, certificate, priority of the rule.
    Skip,
    Skip,
    Skip,
    Skip,
    Skip,
    Skip,
    Skip,
    Word(Role::Start, Form::Plain),
];

/// Envoy's default format.
pub(crate) const ENVOY: Layout = &[
    Bracketed(Role::Start),
    REQUEST,
    STATUS,
    // Flags, bytes received and sent.
    Skip,
    Skip,
    Skip,
    Word(Role::Duration, Form::Millis),
    // Envoy's upstream service time.
    Skip,
    Quoted(&[(HOST, Form::Forwarded)]),
    MayEnd,
    AGENT,
];

/// Istio's default format, which is Envoy's with more parts.
pub(crate) const ISTIO: Layout = &[
    Bracketed(Role::Start),
    REQUEST,
    STATUS,
    // Flags, details of the response and the connection, the upstream's failure.
    Skip,
    Skip,
    Skip,
    Quoted(&[]),
    // Bytes received and sent.
    Skip,
    Skip,
    Word(Role::Duration, Form::Millis),
    Skip,
    Quoted(&[]),
    AGENT,
    // Request id, authority, upstream host.
    Quoted(&[]),
    Quoted(&[]),
    Quoted(&[]),
    // Cluster, local addresses.
    Skip,
    Skip,
    Skip,
    Word(HOST, Form::WithPort),
];

/// HAProxy's `option httplog`.
pub(crate) const HAPROXY: Layout = &[
    Word(HOST, Form::WithPort),
    Bracketed(Role::Start),
    // Frontend, backend and server.
    Skip,
    Skip,
    Word(Role::Duration, Form::Timers),
    STATUS,
    MayEnd,
    ToQuote,
    REQUEST,
];

/// Returns the parts of a line, or `None` if the line doesn't match the layout.
fn parts<'l>(layout: Layout, line: &'l [u8]) -> Option<Values<'l>> {
    let mut values = Values::default();
    let mut rest = line;
    let mut may_end = false;
    for part in layout {
        rest = skip_space(rest);
        let next = match part {
            MayEnd => {
                may_end = true;
                continue;
            }
            ToQuote => memchr(b'"', rest).map(|quote| &rest[quote..]),
            Quoted(roles) => rest.strip_prefix(b"\"").map(|inside| {
                let (text, rest) = quoted(inside);
                for (role, form) in *roles {
                    values.set(*role, Value::plain(text, *form));
                }
                rest
            }),
            Bracketed(role) => bracketed(rest).map(|(text, rest)| {
                values.set(*role, Value::plain(text, Form::Plain));
                rest
            }),
            Skip => match rest.first() {
                None => None,
                Some(b'"') => Some(quoted(&rest[1..]).1),
                Some(_) => Some(word(rest).1),
            },
            Word(..) | OneOf(_) if rest.is_empty() => None,
            Word(role, form) => {
                let (text, rest) = word(rest);
                values.set(*role, Value::plain(text, *form));
                Some(rest)
            }
            OneOf(words) => {
                let (text, rest) = word(rest);
                words.contains(&text).then_some(rest)
            }
        };
        match next {
            Some(next) => rest = next,
            None if may_end => break,
            None => return None,
        }
    }
    Some(values)
}

/// Returns the parts of a line.
pub(crate) fn read<'l>(layout: Layout, line: &'l [u8]) -> Result<Values<'l>, Malformed> {
    parts(layout, line).ok_or(Malformed::Shape)
}

/// Returns the texts that lines of the layout have.
pub(crate) fn fields(layout: Layout) -> Fields {
    let texts = layout.iter().flat_map(|part| match part {
        Word(role, _) => vec![*role],
        Quoted(roles) => roles.iter().map(|(role, _)| *role).collect(),
        _ => Vec::new(),
    });
    texts.filter_map(Role::field).collect()
}

/// Splits off the bracketed text that a text begins with.
fn bracketed(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let inside = text.strip_prefix(b"[")?;
    let end = memchr(b']', inside)?;
    Some((&inside[..end], &inside[end + 1..]))
}
