//! The settings that decide about the keys of a gate's limits.

use std::borrow::Cow;
use std::sync::Arc;

use sluicegate_core::Error;

use super::super::given::{counted_key, unfit};
use super::super::resolved::{Known, Part};
use super::super::standing::{Standing, Treatment};
use super::super::target::Target;
use super::Gate;
use crate::ask::{Ask, Subject};
use crate::config_file::Switch;

impl Gate {
    /// Returns the settings that decide about keys, one for each limit of this gate. Calls no store.
    ///
    /// # Errors
    /// Returns an error if a limit can't count its key, or if the number of keys isn't that of the limits.
    pub fn standings(&self, ask: &Ask<'_>) -> Result<Vec<Standing>, Error> {
        let (resolved, writer) = (self.resolved(), self.shared.write());
        if ask.len() != resolved.parts.len() {
            return Err(resolved.miscounted(&self.cell, ask));
        }
        let parts = resolved.parts.iter().zip(self.cell.targets()).zip(ask.subjects());
        let standing = |((part, target), subject): ((&Part, &Target), Subject<'_>)| {
            let name = target.name();
            let of_file = writer.limits.iter().find(|opened| opened.name() == name);
            let configured = of_file.or_else(|| writer.code.iter().find(|it| it.name() == name));
            let known = part.known();
            let config = configured.or(known.map(|known| &known.opened));
            let counted = match known {
                Some(known) => counted_key(&known.opened, &subject)
                    .map_err(|error| unfit(&known.opened, &error))?,
                None => Cow::Borrowed(subject.key),
            };
            let is_off = |known: &Known| known.switch == Switch::Off;
            let treatment = match known {
                None => Treatment::Unknown,
                Some(_) if self.shared.current().switch == Switch::Off => {
                    Treatment::AllOff { at_run_time: writer.switched.is_some() }
                }
                Some(known) if is_off(known) => {
                    Treatment::Off { at_run_time: writer.switched_limits.contains_key(name) }
                }
                Some(known) => known.opened.treatment(&counted),
            };
            Ok(Standing {
                limit: name.to_owned(),
                key: counted.into_owned(),
                treatment,
                config: config.map(|opened| Arc::clone(&opened.config)),
                origins: of_file.and_then(|_| writer.origins.limit(name)).cloned(),
            })
        };
        parts.map(standing).collect()
    }
}
