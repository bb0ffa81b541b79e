//! Names of the limits of rules.

use std::collections::{HashMap, HashSet};

use sluicegate_core::{LimitError, LimitName};

/// The names of the limits so far. They don't depend on other rules, unless two rules have one path.
#[derive(Default)]
pub(super) struct LimitNames {
    taken: HashSet<LimitName>,
    /// By domain and group.
    groups: HashMap<(String, String), LimitName>,
}

impl LimitNames {
    /// Returns the name of a group of rules, which all of them have.
    pub(super) fn of_group(&mut self, domain: &str, group: &str) -> Result<LimitName, LimitError> {
        let place = (domain.to_owned(), group.to_owned());
        if let Some(name) = self.groups.get(&place) {
            return Ok(name.clone());
        }
        let name = self.of(domain, &format!("{domain}.group:{group}"))?;
        self.groups.insert(place, name.clone());
        Ok(name)
    }

    /// Returns a name for the rule of a path: its domain, a slash and the rest of its path.
    ///
    /// A path that isn't a name, or is too long, ends with a hash of the path.
    pub(super) fn of(&mut self, domain: &str, path: &str) -> Result<LimitName, LimitError> {
        let rest =
            path.strip_prefix(domain).and_then(|rest| rest.strip_prefix('.')).unwrap_or(path);
        let plain = format!("{domain}/{rest}");
        let mut name = plain.parse::<LimitName>();
        let mut tries = 0_u32;
        while name.as_ref().map_or(true, |name| self.taken.contains(name)) {
            let is_allowed = |it: &char| it.is_ascii_alphanumeric() || "_-.:/@".contains(*it);
            let fits = LimitName::MAX_LEN - "-0123456789abcdef".len();
            let shown: String =
                plain.chars().map(|it| if is_allowed(&it) { it } else { '_' }).take(fits).collect();
            name = format!("{shown}-{:016x}", hash(&format!("{path}\0{tries}"))).parse();
            tries += 1;
        }
        let name = name?;
        self.taken.insert(name.clone());
        Ok(name)
    }
}

/// Returns the FNV-1a hash of a text: equal in all versions, because names of limits are part of stored keys.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
