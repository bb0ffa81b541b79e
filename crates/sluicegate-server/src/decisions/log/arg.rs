//! The argument that names the decision log.

use std::path::PathBuf;

use clap::Args;
use sluicegate::config::DecisionLogConfig;

/// The argument that names the decision log.
#[derive(Args, Clone, Debug)]
pub(crate) struct DecisionLogArg {
    /// A file that gets a line of JSON for each decision, or `-` for standard output [default: none, or the config
    /// file's]
    #[arg(long, value_name = "FILE")]
    decision_log: Option<PathBuf>,
}

impl DecisionLogArg {
    /// Replaces the file of a configuration.
    pub(crate) fn apply(&self, config: &mut DecisionLogConfig) {
        if let Some(file) = &self.decision_log {
            config.file = Some(file.clone());
        }
    }
}
