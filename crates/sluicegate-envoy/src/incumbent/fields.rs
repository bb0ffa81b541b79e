//! Reads a domain from a file's document.

use std::sync::Arc;

use super::block::{BLOCK, Block};
use super::config::{DescriptorConfig, DomainConfig, LimitConfig, ReplacedLimit};
use super::metadata_reader;
use super::path::Path;
use super::problem::{Report, beginning};
use super::source::Source;
use super::yaml::document::{CORE, Content, Document, Node, NodeId};
use super::yaml::scalar::{Resolved, resolve};
use super::yaml::walk::for_each_entry;

/// Reads the domain of a document whose values and keys have been checked. Reports values of a wrong kind.
pub(crate) fn read(document: &Document, source: &Arc<Source>, report: &mut Report) -> DomainConfig {
    let mut config = DomainConfig {
        origin: source.name.clone(),
        source: Some(Arc::clone(source)),
        ..DomainConfig::default()
    };
    if let Some(root) = document.root {
        config.span = Some(document.target(root).1.span);
        Fields { document, source, report }.domain(root, &mut config);
    }
    config
}

struct Fields<'a> {
    document: &'a Document,
    source: &'a Arc<Source>,
    report: &'a mut Report,
}

/// Fields that a map has twice are read twice into the same value, as the incumbent does.
impl<'a> Fields<'a> {
    fn domain(&mut self, map: NodeId, config: &mut DomainConfig) {
        let document = self.document;
        for_each_entry(document, map, &mut |key, value| {
            let name = self.name(key);
            let path = Path::Field(&Path::Root, name);
            match name {
                "domain" => {
                    config.domain = self.text(value, &path);
                    config.span = Some(document.node(value).span);
                }
                "descriptors" => config.descriptors = self.descriptors(value, &path),
                BLOCK => {
                    config.block = Some(Arc::new(Block::new(document, value, self.source, &path)));
                }
                _ => {}
            }
        });
    }

    fn descriptors(&mut self, list: NodeId, path: &Path<'_>) -> Vec<DescriptorConfig> {
        let items = self.list(list, path, "descriptors");
        let read =
            |(index, &item): (usize, &NodeId)| self.descriptor(item, &Path::Item(path, index));
        items.iter().enumerate().map(read).collect()
    }

    fn descriptor(&mut self, map: NodeId, parent: &Path<'_>) -> DescriptorConfig {
        let document = self.document;
        let span = Some(document.node(map).span);
        let mut config = DescriptorConfig { span, ..DescriptorConfig::default() };
        self.check_map(map, parent);
        for_each_entry(document, map, &mut |key, value| {
            let name = self.name(key);
            let path = Path::Field(parent, name);
            match name {
                "key" => {
                    config.key = self.text(value, &path);
                    config.span = Some(document.node(value).span);
                }
                "value" => config.value = self.text(value, &path),
                "rate_limit" => self.limit(value, &path, &mut config.rate_limit),
                "descriptors" => config.descriptors = self.descriptors(value, &path),
                "shadow_mode" => config.shadow_mode = self.switch(value, &path),
                "quota_mode" => config.quota_mode = self.switch(value, &path),
                "detailed_metric" => config.detailed_metric = self.switch(value, &path),
                "value_to_metric" => config.value_to_metric = self.switch(value, &path),
                "share_threshold" => config.share_threshold = self.switch(value, &path),
                "metadata" => {
                    if let Err(message) =
                        metadata_reader::read(document, value, &mut config.metadata)
                    {
                        self.add(value, &path, &message);
                    }
                }
                BLOCK => {
                    config.block = Some(Arc::new(Block::new(document, value, self.source, &path)));
                }
                _ => {}
            }
        });
        config
    }

    fn limit(&mut self, value: NodeId, path: &Path<'_>, limit: &mut Option<LimitConfig>) {
        let document = self.document;
        let (id, node) = document.target(value);
        match &node.content {
            Content::Map(_) => {
                let limit = limit.get_or_insert_default();
                limit.span = Some(document.node(value).span);
                for_each_entry(document, id, &mut |key, value| {
                    self.limit_field(key, value, path, limit);
                });
            }
            _ if is_no_limit(node) => *limit = None,
            // Other spellings of null make a limit without fields, which has no unit.
            _ if is_null(node) => {
                *limit = Some(LimitConfig { span: Some(node.span), ..LimitConfig::default() });
            }
            _ => {
                let message = "must be a map such as `{unit: minute, requests_per_unit: 10}`";
                self.add_kind(value, path, message);
            }
        }
    }

    fn limit_field(
        &mut self,
        key: NodeId,
        value: NodeId,
        parent: &Path<'_>,
        limit: &mut LimitConfig,
    ) {
        let name = self.name(key);
        let path = Path::Field(parent, name);
        match name {
            "requests_per_unit" => limit.requests_per_unit = self.number(value, &path),
            "unit" => {
                limit.unit = self.text(value, &path);
                limit.unit_span = Some(self.document.node(value).span);
            }
            "unlimited" => limit.unlimited = self.switch(value, &path),
            "name" => limit.name = self.text(value, &path),
            "replaces" => {
                let items = self.list(value, &path, "maps such as `{name: other}`");
                let read = |(index, &item)| self.replaced(item, &Path::Item(&path, index));
                limit.replaces = items.iter().enumerate().map(read).collect();
            }
            _ => {}
        }
    }

    fn replaced(&mut self, map: NodeId, parent: &Path<'_>) -> ReplacedLimit {
        let document = self.document;
        let span = Some(document.node(map).span);
        let mut replaced = ReplacedLimit { span, ..ReplacedLimit::default() };
        self.check_map(map, parent);
        for_each_entry(document, map, &mut |key, value| {
            if self.name(key) == "name" {
                replaced.name = self.text(value, &Path::Field(parent, "name"));
                replaced.span = Some(document.node(value).span);
            }
        });
        replaced
    }

    /// Reports an item that isn't a map. A later field of the same name may have replaced its list.
    fn check_map(&mut self, item: NodeId, path: &Path<'_>) {
        let (_, node) = self.document.target(item);
        if !matches!(node.content, Content::Map(_)) && !is_null(node) {
            self.add_kind(item, path, "must be a map");
        }
    }

    fn list(&mut self, value: NodeId, path: &Path<'_>, of: &str) -> &'a [NodeId] {
        let document = self.document;
        let (_, node) = document.target(value);
        match &node.content {
            Content::List(items) => return items,
            _ if is_null(node) => {}
            _ => self.add_kind(value, path, &format!("must be a list of {of}")),
        }
        &[]
    }

    fn text(&mut self, value: NodeId, path: &Path<'_>) -> String {
        let (_, node) = self.document.target(value);
        match (resolve(node), &node.content) {
            (Some(Ok(Resolved::Null)), _) => String::new(),
            (Some(Ok(Resolved::Bytes(bytes))), _) => {
                String::from_utf8(bytes).unwrap_or_else(|_| {
                    self.add(value, path, "must be text, but its bytes aren't valid UTF-8");
                    String::new()
                })
            }
            // Numbers and booleans are text as they are written.
            (Some(_), Content::Scalar { text, .. }) => text.to_string(),
            _ => {
                self.add_kind(value, path, "must be text");
                String::new()
            }
        }
    }

    fn switch(&mut self, value: NodeId, path: &Path<'_>) -> bool {
        match resolve(self.document.target(value).1) {
            Some(Ok(Resolved::Bool(value))) => value,
            Some(Ok(Resolved::Null)) => false,
            _ => {
                self.add_kind(value, path, "must be true or false");
                false
            }
        }
    }

    fn number(&mut self, value: NodeId, path: &Path<'_>) -> Option<u32> {
        let number = match resolve(self.document.target(value).1) {
            Some(Ok(Resolved::Int(number))) => u32::try_from(number).ok(),
            Some(Ok(Resolved::Null)) => return None,
            // A fraction has passed the check of keys only if a later field replaces it.
            Some(Ok(Resolved::Float(number))) if (0.0..4_294_967_296.0).contains(&number) => {
                return None;
            }
            _ => None,
        };
        if number.is_none() {
            self.add_kind(value, path, &format!("must be a whole number from 0 to {}", u32::MAX));
        }
        number
    }

    /// Returns the name of a field; empty for a key that isn't one.
    fn name(&self, key: NodeId) -> &'a str {
        let (_, node) = self.document.target(key);
        match &node.content {
            Content::Scalar { text, .. } => text,
            _ => "",
        }
    }

    fn add_kind(&mut self, value: NodeId, path: &Path<'_>, must: &str) {
        let (_, node) = self.document.target(value);
        let is = match &node.content {
            Content::Scalar { text, .. } => format!("`{}`", beginning(text)),
            Content::List(_) => "a list".to_owned(),
            _ => "a map".to_owned(),
        };
        self.add(value, path, &format!("{must}, but is {is}"));
    }

    fn add(&mut self, value: NodeId, path: &Path<'_>, message: &str) {
        let span = self.document.node(value).span;
        self.report.add(self.source, Some(span), &path.says(message));
    }
}

fn is_null(node: &Node) -> bool {
    matches!(resolve(node), Some(Ok(Resolved::Null)))
}

/// Returns whether a limit is absent: `null`, `~` or nothing, but not `Null` or `NULL`.
fn is_no_limit(node: &Node) -> bool {
    let Content::Scalar { text, .. } = &node.content else { return false };
    let has_tag = node.tag.strip_prefix(CORE) == Some("null");
    is_null(node) && (has_tag || matches!(&**text, "null" | "~" | ""))
}
