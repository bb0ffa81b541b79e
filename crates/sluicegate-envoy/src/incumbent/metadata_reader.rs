//! Reads metadata from a file's document.

use super::metadata::{Metadata, MetadataValue};
use super::yaml::document::{Content, Document, NodeId};
use super::yaml::scalar::{Resolved, resolve};
use super::yaml::walk::for_each_entry;

/// Adds the fields of a map to `metadata`, or empties it for null.
///
/// # Errors
///
/// Returns the message if the node isn't a map, or has bytes that aren't text.
pub(crate) fn read(document: &Document, id: NodeId, metadata: &mut Metadata) -> Result<(), String> {
    let (id, node) = document.target(id);
    match (&node.content, resolve(node)) {
        (Content::Map(_), _) => add(document, id, metadata, outer_key),
        (_, Some(Ok(Resolved::Null))) => {
            metadata.clear();
            Ok(())
        }
        _ => Err("must be a map".to_owned()),
    }
}

fn add(
    document: &Document,
    map: NodeId,
    metadata: &mut Metadata,
    key_text: fn(Resolved, &str) -> Option<String>,
) -> Result<(), String> {
    let mut result = Ok(());
    for_each_entry(document, map, &mut |key, value_id| {
        let (_, key) = document.target(key);
        let text = match (resolve(key), &key.content) {
            (Some(Ok(resolved)), Content::Scalar { text, .. }) => key_text(resolved, text),
            _ => None,
        };
        match (text.ok_or_else(not_text), value(document, value_id)) {
            (Ok(text), Ok(value)) => {
                metadata.insert(text, value);
            }
            (Err(message), _) | (_, Err(message)) => result = Err(message),
        }
    });
    result
}

fn value(document: &Document, id: NodeId) -> Result<MetadataValue, String> {
    let (id, node) = document.target(id);
    match &node.content {
        Content::List(items) => {
            let items = items.iter().map(|&item| value(document, item));
            return items.collect::<Result<_, _>>().map(MetadataValue::List);
        }
        Content::Map(_) => {
            let mut fields = Metadata::new();
            add(document, id, &mut fields, inner_key)?;
            return Ok(MetadataValue::Map(fields));
        }
        _ => {}
    }
    Ok(match resolve(node) {
        Some(Ok(Resolved::Bool(value))) => MetadataValue::Bool(value),
        #[expect(clippy::cast_precision_loss, reason = "protobuf's `Value` has only floats")]
        Some(Ok(Resolved::Int(number))) => MetadataValue::Number(number as f64),
        Some(Ok(Resolved::Large(number))) => MetadataValue::count(number),
        Some(Ok(Resolved::Float(number))) => MetadataValue::Number(number),
        Some(Ok(Resolved::Text(text))) => MetadataValue::Text(text),
        Some(Ok(Resolved::Bytes(bytes))) => {
            MetadataValue::Text(String::from_utf8(bytes).map_err(|_| not_text())?)
        }
        _ => MetadataValue::Null,
    })
}

/// Returns a key of the outermost map, which is text as it is written.
fn outer_key(key: Resolved, written: &str) -> Option<String> {
    match key {
        Resolved::Null => Some(String::new()),
        Resolved::Bytes(bytes) => String::from_utf8(bytes).ok(),
        _ => Some(written.to_owned()),
    }
}

/// Returns a key of a nested map, which is the text of its value: `0x10` is `16`.
fn inner_key(key: Resolved, _: &str) -> Option<String> {
    Some(match key {
        Resolved::Null => "<nil>".to_owned(),
        Resolved::Bool(value) => value.to_string(),
        Resolved::Int(number) => number.to_string(),
        Resolved::Large(number) => number.to_string(),
        Resolved::Float(number) => float_text(number),
        Resolved::Text(text) => text,
        Resolved::Bytes(bytes) => return String::from_utf8(bytes).ok(),
    })
}

/// Writes a float as Go does: the shortest digits, with an exponent below 1e-4 and from 1e6 on.
fn float_text(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return number.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

fn not_text() -> String {
    "has bytes that aren't valid UTF-8: write text".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_in_go() {
        for (number, text) in [
            (1.5, "1.5"),
            (1000.0, "1000"),
            (1e6, "1e+06"),
            (1e20, "1e+20"),
            (100_000.0, "100000"),
            (0.0001, "0.0001"),
            (0.000_01, "1e-05"),
            (-2.5e-7, "-2.5e-07"),
            (123_456_789.0, "1.23456789e+08"),
            (f64::NEG_INFINITY, "-Inf"),
        ] {
            assert_eq!(float_text(number), text);
        }
    }
}
