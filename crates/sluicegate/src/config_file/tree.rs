//! YAML as a tree of values with their positions, before they are interpreted.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::options::{DuplicateKeyPolicy, NonFiniteFloatPolicy};
use serde_saphyr::{Error, Location, MessageFormatter, Options, Spanned, UserMessageFormatter};

use super::problem::Position;

/// A value of a file, with its position.
#[derive(Clone, Debug)]
pub struct Node {
    pub(super) value: Value,
    pub(super) position: Position,
    /// The byte range of a scalar as written, including quotes; empty if unknown.
    written: std::ops::Range<usize>,
}

impl Node {
    /// Makes a value that another parser has read. Its line and column are counted from 1, the column in characters. A
    /// scalar has the byte range in which the text has it, including quotes.
    #[must_use]
    pub const fn new(
        value: Value,
        line: u64,
        column: u64,
        written: std::ops::Range<usize>,
    ) -> Self {
        Self { value, position: Position { line, column }, written }
    }

    /// Returns a field of a map.
    pub(super) fn get(&self, name: &str) -> Option<&Self> {
        let Value::Map(entries) = &self.value else { return None };
        entries.iter().find(|(key, _)| key.name == name).map(|(_, node)| node)
    }
}

/// The value of a [`Node`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Value {
    /// No value.
    Null,
    /// A boolean.
    Bool(bool),
    /// A number, as it is written.
    Number,
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// Values by name, in the order of the file.
    Map(Vec<(Key, Node)>),
}

/// The name of a value in a map, with its position.
#[derive(Clone, Debug)]
pub struct Key {
    pub(super) name: String,
    pub(super) position: Position,
}

impl Key {
    /// Makes a name at a line and a column, both counted from 1.
    #[must_use]
    pub const fn new(name: String, line: u64, column: u64) -> Self {
        Self { name, position: Position { line, column } }
    }
}

/// The position at which a file stops being YAML, and the reason.
#[derive(Debug)]
pub(super) struct Malformed {
    pub(super) position: Option<Position>,
    pub(super) message: String,
}

/// The maximum nesting of lists and maps; a valid file has 6 levels.
const MAX_DEPTH: usize = 16;
/// Minimum number of parser events that aliases may expand to. A larger file may have one for each of its bytes.
const MIN_REPLAYED: usize = 100_000;

/// A key that a map has twice, and the position of the second one.
pub(super) type Duplicate = (Position, String);

/// Parses `text`, which may have `max_values` values. Also returns the first duplicate key in a map. A duplicate key is
/// in the tree twice, unless the map has a numeric key.
pub(super) fn read(text: &str, max_values: usize) -> Result<(Node, Option<Duplicate>), Malformed> {
    let parse = |duplicate_keys| {
        let options = options(text.len(), max_values, duplicate_keys);
        serde_saphyr::from_str_with_options::<Node>(text, options)
    };
    let malformed = |error| malformed(&error, max_values);
    match parse(DuplicateKeyPolicy::Error) {
        Ok(root) => Ok((root, None)),
        Err(error) => {
            let duplicate = match &error {
                Error::DuplicateMappingKey { key, location } => {
                    Some((position(*location), key.clone().unwrap_or_default()))
                }
                _ => None,
            };
            // The file has more problems than this one: the tree shows them.
            let root = match duplicate {
                Some(_) => parse(DuplicateKeyPolicy::LastWins),
                None => Err(error),
            };
            Ok((root.map_err(malformed)?, duplicate))
        }
    }
}

fn options(bytes: usize, max_values: usize, duplicate_keys: DuplicateKeyPolicy) -> Options {
    // A list or map is two events, and a file has a beginning and an end.
    let max_events = max_values.saturating_mul(2).saturating_add(8);
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_nodes: max_values,
            max_events: max_events,
            max_aliases: max_values,
            max_total_scalar_bytes: usize::MAX,
            // The expansion of an alias counts against a bound of its own.
            enforce_alias_anchor_ratio: false,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: bytes.max(MIN_REPLAYED),
        },
        duplicate_keys: duplicate_keys,
        // `on`, `off`, `yes` and `no` are strings.
        strict_booleans: true,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        reject_unsupported_tags: true,
        with_snippet: false,
    }
}

fn malformed(error: &Error, max_values: usize) -> Malformed {
    let message = match innermost(error) {
        Error::MultipleDocuments { .. } => {
            "a second document begins here: a config file is one document".to_owned()
        }
        Error::Budget { breach, .. } => match breach {
            serde_saphyr::budget::BudgetBreach::Depth { .. } => {
                format!("lists and maps are more than {MAX_DEPTH} levels deep here: a config has 6")
            }
            serde_saphyr::budget::BudgetBreach::Nodes { .. } => {
                format!(
                    "the file has more than {max_values} values, the maximum: raise it with \
                     --config-max-values, or in code with `ConfigCaps`"
                )
            }
            _ => format!("the file is too complex: {}", UserMessageFormatter.format_message(error)),
        },
        Error::AliasReplayLimitExceeded { .. } | Error::AliasReplayStackDepthExceeded { .. } => {
            "the aliases up to here stand for too much: write the values out".to_owned()
        }
        Error::RecursiveReferencesRequireWeakTypes { .. } => {
            "this alias stands for a value that holds it: write the value out".to_owned()
        }
        Error::UnknownAnchor { .. } => {
            "this alias has no anchor: write `&NAME` before the value that it stands for, or quote the text".to_owned()
        }
        Error::NullIntoString { .. } | Error::Unexpected { expected: "string scalar", .. } => {
            "a key of a map must be a name".to_owned()
        }
        other => format!("not valid YAML: {}", UserMessageFormatter.format_message(other)),
    };
    let position = error.location().filter(|location| location.line() > 0).map(position);
    Malformed { position, message }
}

fn innermost(error: &Error) -> &Error {
    match error.without_snippet() {
        Error::AliasError { error, .. } => innermost(error),
        other => other,
    }
}

fn position(location: Location) -> Position {
    Position { line: location.line().max(1), column: location.column().max(1) }
}

impl Node {
    /// Text as it is written in a line by itself.
    pub(super) fn line(text: &str, position: Position) -> Self {
        Self { value: Value::Text(text.to_owned()), position, written: 0..text.len() }
    }

    /// Returns the entries, if it is a map.
    #[cfg(feature = "watch")]
    pub(super) fn entries(&self) -> &[(Key, Self)] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// Moves the positions of a line by the `characters` before it.
    pub(super) fn shift(&mut self, characters: usize) {
        self.position = self.position.right(characters);
        match &mut self.value {
            Value::List(nodes) => nodes.iter_mut().for_each(|node| node.shift(characters)),
            Value::Map(entries) => {
                for (key, node) in entries {
                    key.position = key.position.right(characters);
                    node.shift(characters);
                }
            }
            _ => {}
        }
    }

    /// Returns the number of values: this one and all inside it.
    pub(super) fn count(&self) -> usize {
        1 + match &self.value {
            Value::List(nodes) => nodes.iter().map(Self::count).sum(),
            Value::Map(entries) => entries.iter().map(|(_, node)| 1 + node.count()).sum(),
            _ => 0,
        }
    }

    /// Returns the bytes of a scalar, including quotes; none if they are unknown.
    pub(super) fn bytes(&self) -> std::ops::Range<usize> {
        self.written.clone()
    }

    /// Returns a scalar as written in `text`, including quotes.
    pub(super) fn written<'a>(&self, text: &'a str) -> &'a str {
        text.get(self.written.clone()).unwrap_or_default()
    }

    /// Returns the position after the first `characters` characters of this text, if it is written
    /// verbatim: without escapes and line breaks.
    pub(super) fn position_inside(&self, text: &str, characters: usize) -> Position {
        let Value::Text(value) = &self.value else { return self.position };
        let written = self.written(text);
        let unquoted = written.strip_prefix(['"', '\'']).unwrap_or(written);
        if value.contains('\n') || !unquoted.starts_with(value.as_str()) {
            return self.position;
        }
        self.position.right(written.chars().count() - unquoted.chars().count() + characters)
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Spanned { value, referenced, defined } = Spanned::<Value>::deserialize(deserializer)?;
        let span = defined.span();
        let bytes = || {
            let start = usize::try_from(span.byte_offset()?).ok()?;
            Some(start..start.checked_add(usize::try_from(span.byte_len()?).ok()?)?)
        };
        Ok(Self { value, position: position(referenced), written: bytes().unwrap_or_default() })
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = Spanned::<String>::deserialize(deserializer)?;
        Ok(Self { name: name.value, position: position(name.referenced) })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text, a number, a list or a map")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Value, E> {
        Ok(Value::Number)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Value, E> {
        Ok(Value::Number)
    }

    fn visit_i128<E>(self, _: i128) -> Result<Value, E> {
        Ok(Value::Number)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Value, E> {
        Ok(Value::Number)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Value, E> {
        Ok(Value::Number)
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = access.next_element()? {
            nodes.push(node);
        }
        // A file can have very many small lists and maps, and each has capacity for four entries.
        nodes.shrink_to_fit();
        Ok(Value::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = access.next_key()? {
            entries.push((key, access.next_value()?));
        }
        entries.shrink_to_fit();
        Ok(Value::Map(entries))
    }
}
