//! The settings of the recorder of decisions.

use super::{Checker, excerpt, field};
use crate::config_file::recorder::{RecorderConfig, RecorderSize, RecorderSizeError};
use crate::config_file::tree::{Node, Value};

impl Checker<'_> {
    pub(super) fn recorder(&mut self, node: &Node) -> Option<RecorderConfig> {
        let fields = self.fields(node, "recorder", &["size"])?;
        let size = field(&fields, "size").map(|node| self.recorder_size(node));
        Some(RecorderConfig { size: size.unwrap_or(Some(RecorderSize::default()))? })
    }

    fn recorder_size(&mut self, node: &Node) -> Option<RecorderSize> {
        let written = match &node.value {
            Value::Text(text) => text,
            _ => node.written(self.text),
        };
        let size = written.parse().map_err(|error: RecorderSizeError| {
            let message = format!("{error}, but is `{}`", excerpt(written));
            self.report(node.position, "recorder.size", &message);
        });
        size.ok()
    }
}
