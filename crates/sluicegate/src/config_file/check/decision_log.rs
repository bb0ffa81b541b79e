//! The settings of the decision log.

use std::path::PathBuf;

use super::{Checked, Checker, excerpt, field};
use crate::config_file::decision_log::{DecisionLogConfig, LoggedKeys, Sample, SampleError};
use crate::config_file::tree::{Node, Value};

impl Checker<'_> {
    pub(super) fn decision_log(&mut self, node: &Node) -> Option<DecisionLogConfig> {
        const FIELDS: [&str; 4] = ["file", "sample", "denials_at_most", "keys"];
        let fields = self.fields(node, "decision_log", &FIELDS)?;
        let file = field(&fields, "file").map(|node| self.logged_file(node));
        let sample = field(&fields, "sample").map(|node| self.sample(node));
        let denials = field(&fields, "denials_at_most").map(|node| {
            let number = self.number::<u64>(node);
            if number.is_none() {
                self.expected(node, "decision_log.denials_at_most", "a whole number such as 1000");
            }
            number
        });
        let keys = field(&fields, "keys").map(|node| {
            let words = [("plain", LoggedKeys::Plain), ("hashed", LoggedKeys::Hashed)];
            self.one_of(node, "decision_log.keys", &words)
        });
        Some(DecisionLogConfig {
            file: file.map_or(Some(None), |checked| checked.map(Some))?,
            sample: sample.unwrap_or(Some(Sample::ALL))?,
            denials_at_most: denials.unwrap_or(Some(DecisionLogConfig::DENIALS_AT_MOST))?,
            keys: keys.unwrap_or_default_if_absent()?,
        })
    }

    fn logged_file(&mut self, node: &Node) -> Option<PathBuf> {
        const WANTED: &str = "the path of a file, or `-` for standard output";
        let text = self.text(node, "decision_log.file", WANTED)?;
        if text.is_empty() {
            self.expected(node, "decision_log.file", WANTED);
            return None;
        }
        Some(text.into())
    }

    fn sample(&mut self, node: &Node) -> Option<Sample> {
        let written = match &node.value {
            Value::Text(text) => text,
            _ => node.written(self.text),
        };
        let sample = written.parse().map_err(|error: SampleError| {
            let message = format!("`{}` {error}", excerpt(written));
            self.report(node.position, "decision_log.sample", &message);
        });
        sample.ok()
    }
}
