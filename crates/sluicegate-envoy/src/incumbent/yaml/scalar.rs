//! Scalars by the rules of YAML 1.1, as go-yaml v2 applies them.
//!
//! Sexagesimal numbers such as `1:30` are text there, and dates are too.

use super::base64;
use super::document::{CORE, Content, Node};
use super::timestamp::is_timestamp;

/// The value of a scalar.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Resolved {
    Null,
    Bool(bool),
    Int(i64),
    /// A whole number above the range of [`Int`](Self::Int).
    Large(u64),
    Float(f64),
    Text(String),
    /// The content of a `!!binary`, which may be text.
    Bytes(Vec<u8>),
}

/// A scalar that isn't what its tag says.
#[derive(Debug)]
pub(crate) struct Mismatch {
    /// The part of the tag after `!!`.
    pub(crate) tag: String,
}

/// Returns the value of a scalar, or `None` for another node.
pub(crate) fn resolve(node: &Node) -> Option<Result<Resolved, Mismatch>> {
    let Content::Scalar { text, is_implicit } = &node.content else { return None };
    if node.tag.is_empty() {
        let value = if *is_implicit { untagged(text) } else { Resolved::Text(text.to_string()) };
        return Some(Ok(value));
    }
    let Some(tag) = node.tag.strip_prefix(CORE) else {
        return Some(Ok(Resolved::Text(text.to_string())));
    };
    let value = tagged(tag, text).ok_or_else(|| Mismatch { tag: tag.to_owned() });
    Some(value)
}

fn tagged(tag: &str, text: &str) -> Option<Resolved> {
    match (tag, untagged(text)) {
        ("binary", _) => base64::decode(text).map(Resolved::Bytes),
        ("bool", value @ Resolved::Bool(_))
        | ("int", value @ (Resolved::Int(_) | Resolved::Large(_)))
        | ("float", value @ Resolved::Float(_))
        | ("null", value @ Resolved::Null) => Some(value),
        #[expect(clippy::cast_precision_loss, reason = "the tag asks for the nearest float")]
        ("float", Resolved::Int(number)) => Some(Resolved::Float(number as f64)),
        ("bool" | "int" | "float" | "null", _) => None,
        ("timestamp", _) => is_timestamp(text).then(|| Resolved::Text(text.to_owned())),
        _ => Some(Resolved::Text(text.to_owned())),
    }
}

fn untagged(text: &str) -> Resolved {
    let value = match text.bytes().next() {
        None => Some(Resolved::Null),
        Some(b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~') => {
            word(text)
        }
        Some(b'.') => infinite(text).or_else(|| fraction(text)),
        Some(b'0'..=b'9' | b'+' | b'-') => infinite(text).or_else(|| number(text)),
        _ => None,
    };
    value.unwrap_or_else(|| Resolved::Text(text.to_owned()))
}

fn word(text: &str) -> Option<Resolved> {
    Some(match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Resolved::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Resolved::Bool(false)
        }
        "~" | "null" | "Null" | "NULL" => Resolved::Null,
        _ => return None,
    })
}

fn infinite(text: &str) -> Option<Resolved> {
    Some(Resolved::Float(match text {
        ".nan" | ".NaN" | ".NAN" => f64::NAN,
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => f64::INFINITY,
        "-.inf" | "-.Inf" | "-.INF" => f64::NEG_INFINITY,
        _ => return None,
    }))
}

/// Reads a number that begins with a dot: underscores may only be between digits.
fn fraction(text: &str) -> Option<Resolved> {
    let bytes = text.as_bytes();
    let is_digit = |index: Option<usize>| {
        index.and_then(|index| bytes.get(index)).is_some_and(u8::is_ascii_digit)
    };
    let is_placed =
        |(index, _): (usize, &str)| is_digit(index.checked_sub(1)) && is_digit(Some(index + 1));
    text.match_indices('_').all(is_placed).then(|| float(&text.replace('_', "")))?
}

fn number(text: &str) -> Option<Resolved> {
    let plain = text.replace('_', "");
    let (is_negative, digits) = signed(&plain);
    whole(digits, is_negative).or_else(|| float(&plain)).or_else(|| signed_binary(&plain))
}

fn signed(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

/// Reads a whole number of 64 bits: `0x`, `0b` and `0o` are prefixes, and `0` begins an octal number.
fn whole(digits: &str, is_negative: bool) -> Option<Resolved> {
    let (digits, base) = radix(digits)?;
    let absolute = digits_in(digits, base)?;
    let signed = if is_negative { -i128::from(absolute) } else { i128::from(absolute) };
    match i64::try_from(signed) {
        Ok(number) => Some(Resolved::Int(number)),
        Err(_) if is_negative => None,
        Err(_) => Some(Resolved::Large(absolute)),
    }
}

fn radix(digits: &str) -> Option<(&str, u32)> {
    let Some(rest) = digits.strip_prefix('0') else {
        return (!digits.is_empty()).then_some((digits, 10));
    };
    Some(match rest.split_at_checked(1) {
        Some(("b" | "B", digits)) if !digits.is_empty() => (digits, 2),
        Some(("o" | "O", digits)) if !digits.is_empty() => (digits, 8),
        Some(("x" | "X", digits)) if !digits.is_empty() => (digits, 16),
        _ if rest.is_empty() => (digits, 10),
        _ => (rest, 8),
    })
}

fn digits_in(digits: &str, base: u32) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(base));
    is_number.then(|| u64::from_str_radix(digits, base).ok())?
}

/// Reads a decimal number with a fraction, an exponent, both or neither. A number above the range is text.
fn float(text: &str) -> Option<Resolved> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (_, rest) = signed(text);
    let before = digits(rest);
    let mut rest = rest.get(before..)?;
    if let Some(after) = rest.strip_prefix('.') {
        let count = digits(after);
        if before + count == 0 {
            return None;
        }
        rest = after.get(count..)?;
    } else if before == 0 {
        return None;
    }
    if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if exponent.is_empty() || digits(exponent) < exponent.len() {
            return None;
        }
    } else if !rest.is_empty() {
        return None;
    }
    let value = text.parse::<f64>().ok().filter(|value| value.is_finite());
    value.map(Resolved::Float)
}

/// Reads a binary number with a sign after its prefix.
fn signed_binary(plain: &str) -> Option<Resolved> {
    let (is_negative, digits) = signed(plain.strip_prefix("0b")?);
    let absolute = i128::from(digits_in(digits, 2)?);
    let signed = if is_negative { -absolute } else { absolute };
    i64::try_from(signed).ok().map(Resolved::Int)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        let text = |text: &str| Resolved::Text(text.to_owned());
        for (written, value) in [
            ("", Resolved::Null),
            ("~", Resolved::Null),
            ("Null", Resolved::Null),
            ("nUll", text("nUll")),
            ("yes", Resolved::Bool(true)),
            ("y", Resolved::Bool(true)),
            ("tRue", text("tRue")),
            ("OFF", Resolved::Bool(false)),
            ("010", Resolved::Int(8)),
            ("0", Resolved::Int(0)),
            ("-0", Resolved::Int(0)),
            ("00", Resolved::Int(0)),
            ("08", Resolved::Float(8.0)),
            ("0o10", Resolved::Int(8)),
            ("-0x10", Resolved::Int(-16)),
            ("0x", text("0x")),
            ("0b11", Resolved::Int(3)),
            ("0b+11", Resolved::Int(3)),
            ("0b12", text("0b12")),
            ("1__0", Resolved::Int(10)),
            ("1_", Resolved::Int(1)),
            ("_1", text("_1")),
            ("1:30", text("1:30")),
            ("1e3", Resolved::Float(1000.0)),
            ("1.", Resolved::Float(1.0)),
            ("-.5", Resolved::Float(-0.5)),
            (".1_0", Resolved::Float(0.1)),
            ("._1", text("._1")),
            (".", text(".")),
            ("+.inf", Resolved::Float(f64::INFINITY)),
            ("1e400", text("1e400")),
            ("9223372036854775807", Resolved::Int(i64::MAX)),
            ("9223372036854775808", Resolved::Large(1 << 63)),
            ("-9223372036854775808", Resolved::Int(i64::MIN)),
            ("18446744073709551616", Resolved::Float(18_446_744_073_709_551_616.0)),
            ("2001-01-01", text("2001-01-01")),
            ("<<", text("<<")),
            ("+", text("+")),
        ] {
            assert_eq!(untagged(written), value, "{written}");
        }
    }
}
