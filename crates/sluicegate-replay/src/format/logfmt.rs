//! Lines of `name=value` pairs. Values with spaces are quoted.

use memchr::{memchr, memchr2};

use super::role::{Form, Role};
use super::values::{Value, Values};
use crate::malformed::Malformed;

/// Calls `visit` with each pair. The flag says whether the value is quoted and contains escapes.
pub(crate) fn pairs<'l>(line: &'l [u8], mut visit: impl FnMut(&'l [u8], &'l [u8], bool)) {
    let mut rest = line.trim_ascii_start();
    while !rest.is_empty() {
        let end = memchr2(b'=', b' ', rest).unwrap_or(rest.len());
        let name = &rest[..end];
        rest = &rest[end..];
        if let Some(value) = rest.strip_prefix(b"=") {
            let (text, after) = match value.strip_prefix(b"\"") {
                Some(inside) => super::access::quoted(inside),
                None => value.split_at(memchr(b' ', value).unwrap_or(value.len())),
            };
            let is_escaped = value.starts_with(b"\"") && memchr(b'\\', text).is_some();
            visit(name, text, is_escaped);
            rest = after;
        }
        rest = rest.trim_ascii_start();
    }
}

/// Returns the parts of a line that have one of the names.
pub(crate) fn read<'l>(
    names: &[(Role, Form, String)],
    line: &'l [u8],
) -> Result<Values<'l>, Malformed> {
    let mut values = Values::default();
    let mut twice = None;
    pairs(line, |name, text, is_escaped| {
        for (role, form, _) in names.iter().filter(|(_, _, other)| other.as_bytes() == name) {
            if !values.set(*role, Value { text, form: *form, is_escaped }) {
                twice.get_or_insert(*role);
            }
        }
    });
    twice.map_or(Ok(values), |role| Err(Malformed::Twice(role)))
}
