//! A gate with other numbers than those of its limit.

use std::sync::Arc;

use sluicegate_core::{Error, Limit, Policy, Purpose};

use super::super::gate_cache::GateCache;
use super::super::resolved::Part;
use super::super::route::Route;
use super::super::target::Target as Named;
use super::Gate;
use crate::ask::Ask;
use crate::config_file::{LimitConfig, Switch};
use crate::question::{WithNumbers, no_limit, numbers_for_several};

impl WithNumbers for Gate {
    fn limit_name(&self) -> &str {
        self.name()
    }

    fn with_numbers(&self, policies: Vec<Policy>) -> Result<Self, Error> {
        let [target] = self.cell.targets() else {
            return Err(numbers_for_several(self.name()));
        };
        let open = |policies| {
            let name = target.name();
            let config = match target {
                // The configuration has the other settings.
                Named::Named(_) => Limit::new(name, policies).map(LimitConfig::new),
                Named::Inline(given) | Named::Keyed(given) => {
                    let limit = given.config.limit.with_policies(policies);
                    limit.map(|limit| given.config.with_numbers_of(limit))
                }
            };
            let opened = self.shared.write().open_limit(config?);
            let targets = [Named::Keyed(opened)].into();
            Ok(Arc::new(GateCache::showing(targets, self.cell.shown.clone())))
        };
        let cell = self.cell.by_numbers.get_or_open(policies, open);
        let cell = cell.map_err(|error| no_limit(self.name(), &error))?;
        Ok(Self { shared: Arc::clone(&self.shared), cell })
    }

    fn needs_no_numbers(&self, key: &[u8]) -> bool {
        let resolved = self.resolved();
        match &*resolved.parts {
            [Part::Known(_)] => {
                let route =
                    resolved.route(&self.shared, &self.cell, &Ask::new(key), Purpose::Admit);
                !matches!(route, Ok(Route::Ask(..)))
            }
            [Part::Unknown { .. }] => self.shared.current().switch == Switch::Off,
            _ => false,
        }
    }
}
