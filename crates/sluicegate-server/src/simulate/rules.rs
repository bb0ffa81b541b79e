//! The lists, overrides and switch of a limit, as rules for keys of a replay.

use std::sync::Arc;

use sluicegate::Registry;
use sluicegate::admin::{Hypothetical, KeyTreatment};
use sluicegate::config::{LimitConfig, Switch};
use sluicegate_replay::{KeyRule, KeyRules};
use tokio::time::Instant;

use super::played;

/// The rules of a proposed limit.
#[derive(Debug)]
pub(super) struct Rules {
    limit: Hypothetical,
    is_off: bool,
    end: Instant,
}

impl Rules {
    /// Keys that aren't begun by `end` are left out.
    pub(super) fn new(
        config: &Arc<LimitConfig>,
        registry: Option<&Registry>,
        is_one: bool,
        end: Instant,
    ) -> Self {
        let limit = Hypothetical::new(Arc::clone(config));
        let limit = match registry {
            Some(registry) => limit.with_overrides_of(registry, is_one),
            None => limit,
        };
        // Other policies of a limit that is off are tried as if it were on.
        Self { limit, is_off: config.enabled == Switch::Off && !is_one, end }
    }
}

impl KeyRules for Rules {
    fn rule(&self, key: &[u8]) -> KeyRule {
        if Instant::now() >= self.end {
            return KeyRule::Skip;
        }
        if self.is_off {
            return KeyRule::Allow;
        }
        match self.limit.treatment(key) {
            KeyTreatment::Blocked => KeyRule::Block,
            KeyTreatment::Counted(limit) => played(limit).map_or(KeyRule::Allow, KeyRule::Limit),
            _ => KeyRule::Allow,
        }
    }
}
