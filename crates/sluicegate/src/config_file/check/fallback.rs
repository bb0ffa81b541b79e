//! The fallback for a store that fails.

use super::{Checker, field, is_misspelt};
use crate::config_file::FallbackConfig;
use crate::config_file::tree::{Node, Value};
use crate::layers::Processes;

const PROCESSES: &str =
    "a whole number from 1 to 65535 of processes that share the limits, such as 4, or `counted`";

/// The message for a limit that needs the section, if it is missing.
pub(super) const MISSING: &str = "`local` needs to know how many processes share the limit: add `fallback: {processes: 4}` at the top, or `counted` in place of the number";

/// The message for a limit with permits that would be decided locally while its store fails.
pub(super) const PERMITS: &str = "`local` doesn't support `concurrency`, because units taken locally can't be given back to the store: write `error`, `allow` or `deny`";

impl Checker<'_> {
    pub(super) fn fallback(&mut self, node: &Node) -> Option<FallbackConfig> {
        const FIELDS: [&str; 1] = ["processes"];
        let fields = self.fields(node, "fallback", &FIELDS)?;
        let Some(node) = field(&fields, "processes") else {
            if !is_misspelt(node, "processes", &FIELDS) {
                let message = format!("has no `processes`: it is {PROCESSES}");
                self.report(node.position, "fallback", &message);
            }
            return None;
        };
        let processes = match &node.value {
            Value::Text(text) if text == "counted" => Some(Processes::Counted),
            _ => self.number(node).map(Processes::Number),
        };
        if processes.is_none() {
            self.expected(node, "fallback.processes", PROCESSES);
        }
        processes.map(|processes| FallbackConfig { processes })
    }
}
