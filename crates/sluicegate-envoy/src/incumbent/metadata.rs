//! Free-form metadata of rules and answers.

use std::collections::BTreeMap;

/// Fields by name, as in protobuf's `Struct`.
pub type Metadata = BTreeMap<String, MetadataValue>;

/// A value of metadata, as in protobuf's `Value`.
#[derive(Clone, Debug, PartialEq)]
pub enum MetadataValue {
    /// No value.
    Null,
    /// A boolean.
    Bool(bool),
    /// A number.
    Number(f64),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<MetadataValue>),
    /// Fields by name.
    Map(Metadata),
}

impl MetadataValue {
    /// Makes a number of a count; above 2^53 it is the nearest float.
    #[expect(clippy::cast_precision_loss, reason = "protobuf's `Value` has only floats")]
    pub(crate) const fn count(count: u64) -> Self {
        Self::Number(count as f64)
    }
}

/// Adds the fields of `other` that `metadata` doesn't have. Maps that both have are merged in the same way.
pub(crate) fn merge(metadata: &mut Metadata, other: &Metadata) {
    for (name, value) in other {
        match (metadata.get_mut(name), value) {
            (None, _) => {
                metadata.insert(name.clone(), value.clone());
            }
            (Some(MetadataValue::Map(fields)), MetadataValue::Map(others)) => merge(fields, others),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_of_a_name_counts() {
        let map = |fields: &[(&str, MetadataValue)]| {
            fields
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect::<Metadata>()
        };
        let number = MetadataValue::Number;
        let mut merged =
            map(&[("a", number(1.0)), ("m", MetadataValue::Map(map(&[("x", number(2.0))])))]);
        let other = map(&[
            ("a", number(9.0)),
            ("b", number(3.0)),
            ("m", MetadataValue::Map(map(&[("x", number(9.0)), ("y", number(4.0))]))),
        ]);
        merge(&mut merged, &other);
        let nested = MetadataValue::Map(map(&[("x", number(2.0)), ("y", number(4.0))]));
        assert_eq!(merged, map(&[("a", number(1.0)), ("b", number(3.0)), ("m", nested)]));
    }
}
