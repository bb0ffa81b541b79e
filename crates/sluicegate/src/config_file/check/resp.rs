//! The settings for commands in Redis' protocol.

use super::{Checked, Checker, field};
use crate::config_file::resp::RespConfig;
use crate::config_file::tree::Node;

impl Checker<'_> {
    pub(super) fn resp(&mut self, node: &Node) -> Option<RespConfig> {
        let fields = self.fields(node, "resp", &["throttle"])?;
        let throttle = field(&fields, "throttle").map(|node| self.switch(node, "resp.throttle"));
        Some(RespConfig { throttle: throttle.unwrap_or_default_if_absent()? })
    }
}
