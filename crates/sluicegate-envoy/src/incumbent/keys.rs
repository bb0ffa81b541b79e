//! The keys and kinds of values that a file may have anywhere.
//!
//! The incumbent knows 16 keys, at any depth: one at a wrong place is ignored. It refuses numbers with a fraction, and
//! numbers from 2^63 on, wherever they are.

use super::block::BLOCK;
use super::path::Path;
use super::position::Span;
use super::problem::{Report, beginning};
use super::source::Source;
use super::yaml::document::{Content, Document, NodeId};
use super::yaml::scalar::{Resolved, resolve};
use super::yaml::walk::for_each_entry;

const KNOWN: [&str; 16] = [
    "domain",
    "key",
    "value",
    "descriptors",
    "rate_limit",
    "unit",
    "requests_per_unit",
    "unlimited",
    "shadow_mode",
    "quota_mode",
    "name",
    "replaces",
    "detailed_metric",
    "value_to_metric",
    "share_threshold",
    "metadata",
];

/// Reports wrong keys and kinds of values in a checked document. With `strict`, our own blocks are wrong too.
pub(crate) fn check(document: &Document, strict: bool, source: &Source, report: &mut Report) {
    let Some(root) = document.root else { return };
    let mut keys = Keys { document, strict, source, report };
    match document.target(root).1.content {
        Content::Map(_) => keys.map(root, Place::Root, &Path::Root),
        _ if is_null(document, root) => {}
        _ => keys.add(
            root,
            &Path::Root,
            "the file must be a map with the fields domain and descriptors",
        ),
    }
}

/// The kind of a map, by the field that it is in.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Place {
    Root,
    Descriptor,
    Other,
}

struct Keys<'a> {
    document: &'a Document,
    strict: bool,
    source: &'a Source,
    report: &'a mut Report,
}

impl Keys<'_> {
    fn map(&mut self, map: NodeId, place: Place, path: &Path<'_>) {
        // A later value of a name replaces the earlier one, which then isn't checked.
        let mut values: Vec<(&'static str, NodeId)> = Vec::new();
        let document = self.document;
        for_each_entry(document, map, &mut |key, value| {
            let Some(name) = self.name(key, place, path) else { return };
            match values.iter_mut().find(|(known, _)| *known == name) {
                Some(entry) => entry.1 = value,
                None => values.push((name, value)),
            }
        });
        for (name, value) in values {
            if name != "metadata" {
                self.value(value, name, place, &Path::Field(path, name));
            }
        }
    }

    /// Returns the name of a key that the incumbent knows.
    fn name(&mut self, key: NodeId, place: Place, path: &Path<'_>) -> Option<&'static str> {
        let (_, node) = self.document.target(key);
        let written = match &node.content {
            Content::Scalar { text, .. } => beginning(text),
            _ => String::new(),
        };
        let name = match resolve(node) {
            Some(Ok(Resolved::Text(name))) => name,
            Some(Ok(Resolved::Bytes(bytes))) => String::from_utf8_lossy(&bytes).into_owned(),
            _ => {
                self.add(key, path, &format!("a key must be text, but is `{written}`"));
                return None;
            }
        };
        if let Some(known) = KNOWN.into_iter().find(|known| *known == name) {
            return Some(known);
        }
        if name != BLOCK {
            let fields = fields(place);
            self.add(key, path, &format!("`{written}` is not a field: use {fields}"));
        } else if place == Place::Other {
            self.add(key, path, "`x_sluicegate` must be in a descriptor or next to `domain`");
        } else if self.strict {
            self.add(key, path, "`x_sluicegate` is not a field of the incumbent: remove the block");
        }
        None
    }

    fn value(&mut self, value: NodeId, name: &str, place: Place, path: &Path<'_>) {
        let (id, node) = self.document.target(value);
        match &node.content {
            Content::Map(_) => self.map(id, Place::Other, path),
            Content::List(items) => {
                let is_level = name == "descriptors" && place != Place::Other;
                let place = if is_level { Place::Descriptor } else { Place::Other };
                for (index, &item) in items.iter().enumerate() {
                    let path = Path::Item(path, index);
                    match self.document.target(item).1.content {
                        Content::Map(_) => self.map(item, place, &path),
                        _ => self.add(item, &path, "must be a map: lists have only maps"),
                    }
                }
            }
            Content::Scalar { text, .. } => {
                if let Some(Ok(Resolved::Float(_) | Resolved::Large(_))) = resolve(node) {
                    let message = format!(
                        "must be a whole number below 2^63 or text, but is `{}`: put text in quotes",
                        beginning(text)
                    );
                    self.add(value, path, &message);
                }
            }
            Content::Alias(_) => {}
        }
    }

    fn add(&mut self, id: NodeId, path: &Path<'_>, message: &str) {
        let span: Span = self.document.node(id).span;
        self.report.add(self.source, Some(span), &path.says(message));
    }
}

const fn fields(place: Place) -> &'static str {
    match place {
        Place::Root => "domain or descriptors",
        Place::Descriptor => {
            "key, value, rate_limit, descriptors, shadow_mode, quota_mode, detailed_metric, value_to_metric, \
             share_threshold or metadata"
        }
        Place::Other => "unit, requests_per_unit, unlimited, name or replaces",
    }
}

fn is_null(document: &Document, id: NodeId) -> bool {
    matches!(resolve(document.target(id).1), Some(Ok(Resolved::Null)))
}
