//! Overrides as settings of a store: their names and contents.
//!
//! The name is that of the limit, then NUL and the key if the override is of a key. The content is JSON.

use serde::{Deserialize, Serialize};
use sluicegate_core::Policy;

use super::terms::{NewOverride, OverrideTo};

const NUL: u8 = 0;

/// Returns the name of the setting for a key, or for the whole limit.
pub(super) fn name_of(limit: &str, key: Option<&[u8]>) -> Vec<u8> {
    let mut name = limit.as_bytes().to_vec();
    if let Some(key) = key {
        name.push(NUL);
        name.extend_from_slice(key);
    }
    name
}

/// Returns the limit and the key that a setting is about; `None` if it isn't an override.
pub(super) fn subject_of(name: &[u8]) -> Option<(&str, Option<&[u8]>)> {
    let (limit, key) = match name.iter().position(|byte| *byte == NUL) {
        Some(end) => (&name[..end], Some(&name[end + 1..])),
        None => (name, None),
    };
    Some((std::str::from_utf8(limit).ok()?, key))
}

/// The content of a setting, and the remark of a change that removes one.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Stored {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policies: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    times: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    allow: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    block: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) by: Option<String>,
}

impl Stored {
    pub(super) fn of(new: &NewOverride) -> Self {
        let mut stored = Self { note: new.note.clone(), by: new.by.clone(), ..Self::default() };
        match &new.to {
            OverrideTo::Policies(policies) => {
                stored.policies = Some(policies.iter().map(ToString::to_string).collect());
            }
            OverrideTo::Times(times) => stored.times = Some(times.to_string()),
            OverrideTo::Allow => stored.allow = true,
            OverrideTo::Block => stored.block = true,
        }
        stored
    }

    /// Returns the remark of a change that removes an override.
    pub(super) fn remark(by: Option<&str>) -> Self {
        Self { by: by.map(str::to_owned), ..Self::default() }
    }

    pub(super) fn read(content: &[u8]) -> Option<Self> {
        serde_json::from_slice(content).ok()
    }

    pub(super) fn write(&self) -> Vec<u8> {
        // Text and flags are always valid JSON.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Returns what the override says; `None` if this version doesn't know it.
    pub(super) fn to(&self) -> Option<OverrideTo> {
        match self {
            Self { policies: Some(policies), .. } => {
                let policies: Result<Vec<Policy>, _> =
                    policies.iter().map(|it| it.parse()).collect();
                Some(OverrideTo::Policies(policies.ok()?))
            }
            Self { times: Some(times), .. } => Some(OverrideTo::Times(times.parse().ok()?)),
            Self { allow: true, .. } => Some(OverrideTo::Allow),
            Self { block: true, .. } => Some(OverrideTo::Block),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_limits_and_keys_apart() {
        for (limit, key) in [("a", None), ("a", Some(&b""[..])), ("a.b:c", Some(b"\0x\xff"))] {
            let name = name_of(limit, key);
            assert_eq!(subject_of(&name), Some((limit, key)));
        }
        assert_eq!(subject_of(b"\xff"), None);
    }

    #[test]
    fn contents_are_read_as_written() {
        let policies = vec!["gcra 5/min burst 9 as steady".parse().unwrap()];
        for to in [
            OverrideTo::Policies(policies),
            OverrideTo::Times("0.5".parse().unwrap()),
            OverrideTo::Allow,
            OverrideTo::Block,
        ] {
            let new = NewOverride::new(to.clone()).note("\"<>\n").by("maria");
            let stored = Stored::read(&Stored::of(&new).write()).unwrap();
            assert_eq!(stored.to(), Some(to));
            assert_eq!(
                (stored.note.as_deref(), stored.by.as_deref()),
                (Some("\"<>\n"), Some("maria"))
            );
        }
        let remark = Stored::read(&Stored::remark(Some("maria")).write()).unwrap();
        assert_eq!((remark.to(), remark.by.as_deref()), (None, Some("maria")));
        assert_eq!(Stored::read(b"{\"policies\":[\"nonsense\"]}").unwrap().to(), None);
        assert_eq!(Stored::read(b"nonsense"), None);
    }
}
