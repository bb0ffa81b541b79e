//! The argument that sets the size of the recorder.

use clap::Args;
use sluicegate::config::{RecorderConfig, RecorderSize};

/// The argument that sets the size of the recorder.
#[derive(Args, Clone, Debug)]
pub(crate) struct RecorderArg {
    /// Memory for the newest decisions, which simulations play, 64KiB to 1GiB, or 0 for none [default: 8MiB, or the
    /// config file's]
    #[arg(long, value_name = "SIZE")]
    recorder_size: Option<RecorderSize>,
}

impl RecorderArg {
    /// Replaces the size of a configuration.
    pub(crate) fn apply(&self, config: &mut RecorderConfig) {
        if let Some(size) = self.recorder_size {
            config.size = size;
        }
    }
}
