//! The settings that decide how a limit treats a key.

use std::borrow::Cow;
use std::sync::Arc;

use sluicegate_core::Error;

use super::gate::Gate;
use crate::ask::Ask;
use crate::config_file::{LimitConfig, LimitOrigins, Switch};

/// The setting that decides how a limit treats a key, and the places of the limit's settings.
///
/// ```
/// use sluicegate::admin::Treatment;
/// use sluicegate::{Ask, Config, Registry};
///
/// let text = "limits:\n  api:\n    policies: [gcra 1/s]\n    block: [mallory]\n";
/// let api = Registry::open(&Config::parse(text, "limits.yaml")?)?.gate("api");
/// let standing = &api.standings(&Ask::new("mallory"))?[0];
/// assert_eq!(standing.treatment, Treatment::Blocked(0));
/// let place = standing.origins.as_ref().unwrap().block(0).unwrap();
/// assert_eq!(place.to_string(), "limits.yaml:4:13");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Standing {
    /// The name of the limit.
    pub limit: String,
    /// The key as the limit counts it.
    pub key: Vec<u8>,
    /// The setting that decides.
    pub treatment: Treatment,
    /// The limit as the configuration or the code has it, without overrides at run time. `None` if there is none.
    pub config: Option<Arc<LimitConfig>>,
    /// The places of its settings. `None` if no file has the limit.
    pub origins: Option<Arc<LimitOrigins>>,
}

/// The setting that decides how a limit treats a key. If several apply, the first of these counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Treatment {
    /// No limit of this name exists, so `unknown_limits` decides.
    Unknown,
    /// All limits are off.
    AllOff {
        /// Whether a program has switched them off, in place of the file.
        at_run_time: bool,
    },
    /// The limit is off.
    Off {
        /// Whether a program has switched it off, in place of the file.
        at_run_time: bool,
    },
    /// An override at run time of the key.
    KeyOverride,
    /// The entry of `allow` with this index.
    Allowed(usize),
    /// The entry of `block` with this index.
    Blocked(usize),
    /// An override at run time of the whole limit.
    LimitOverride,
    /// The override of the configuration with this index.
    Override(usize),
    /// The limit's own policies.
    Own,
}

impl Gate {
    /// Returns the settings that decide about keys, one for each limit of this gate. Calls no store.
    ///
    /// # Errors
    /// Returns an error if a limit can't count its key, or if the number of keys isn't that of the limits.
    pub fn standings(&self, ask: &Ask<'_>) -> Result<Vec<Standing>, Error> {
        let (resolved, writer) = (self.resolved(), self.shared().write());
        if ask.len() != resolved.parts.len() {
            return Err(resolved.miscounted(self.cell(), ask));
        }
        let parts = resolved.parts.iter().zip(self.cell().targets()).zip(ask.subjects());
        let standing = |((part, target), subject): ((_, &super::target::Target), _)| {
            let part: &super::resolved::Part = part;
            let subject: crate::ask::Subject<'_> = subject;
            let name = target.name();
            let of_file = writer.limits.iter().find(|opened| opened.name() == name);
            let configured = of_file.or_else(|| writer.code.iter().find(|it| it.name() == name));
            let known = part.known();
            let config = configured.or(known.map(|known| &known.opened));
            let counted = match known {
                Some(known) => super::given::counted_key(&known.opened, &subject)
                    .map_err(|unfit| super::given::unfit(&known.opened, &unfit))?,
                None => Cow::Borrowed(subject.key),
            };
            let is_off = |known: &super::resolved::Known| known.switch == Switch::Off;
            let treatment = match known {
                None => Treatment::Unknown,
                Some(_) if self.shared().current().switch == Switch::Off => {
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
