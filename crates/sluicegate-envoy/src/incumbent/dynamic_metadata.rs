//! Metadata that an answer gives to the proxy.

use super::metadata::{Metadata, MetadataValue, merge};
use super::request::{Descriptor, Override, Request};
use super::rule::Rule;

/// Makes the metadata: the request, and the merged metadata of the rules that let it pass.
pub(crate) fn new<'a>(request: &Request<'_>, passed: impl Iterator<Item = &'a Rule>) -> Metadata {
    let descriptors = request.descriptors.iter().map(descriptor).collect();
    let mut fields = Metadata::from([
        ("domain".to_owned(), MetadataValue::Text(request.domain.to_owned())),
        ("descriptors".to_owned(), MetadataValue::List(descriptors)),
    ]);
    if request.hits_addend > 0 {
        fields.insert(HITS.to_owned(), MetadataValue::count(request.hits_addend.into()));
    }
    let mut merged = Metadata::new();
    passed.for_each(|rule| merge(&mut merged, rule.metadata()));
    if !merged.is_empty() {
        fields.insert("metadata".to_owned(), MetadataValue::Map(merged));
    }
    fields
}

const HITS: &str = "hitsAddend";

fn descriptor(descriptor: &Descriptor<'_>) -> MetadataValue {
    let entries = descriptor.entries.iter();
    let entries =
        entries.map(|(key, value)| MetadataValue::Text(format!("{key}={value}"))).collect();
    let mut fields = Metadata::from([("entries".to_owned(), MetadataValue::List(entries))]);
    if let Some(limit) = descriptor.limit {
        fields.insert("limit".to_owned(), MetadataValue::Text(text(limit)));
    }
    if let Some(hits) = descriptor.hits_addend {
        fields.insert(HITS.to_owned(), MetadataValue::count(hits));
    }
    MetadataValue::Map(fields)
}

/// Writes a limit as protobuf's text format does: a number of 0 is left out.
fn text(limit: Override) -> String {
    let Override { requests_per_unit, unit } = limit;
    match requests_per_unit {
        0 => format!("unit:{unit}"),
        _ => format!("requests_per_unit:{requests_per_unit} unit:{unit}"),
    }
}
