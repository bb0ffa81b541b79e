//! The explanation of a decision as JSON.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::Answer;

/// The decision about a request, and the settings and states that led to it.
#[derive(Debug, Deserialize, Serialize)]
pub struct Explanation<'a> {
    /// The decision, as a peek answers it.
    #[serde(borrow)]
    pub decision: Answer<'a>,
    /// The reasons, those of each limit together.
    pub because: Vec<Because>,
}

/// One reason for a decision.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Because {
    /// The kind: `policy`, `list`, `ban`, `pause`, `override`, `lease`, `switch`, `store`, `key` or `cost`.
    pub kind: Cow<'static, str>,
    /// Name of the limit.
    pub limit: String,
    /// Name of the policy; `null` if the reason is about the whole limit.
    pub policy: Option<String>,
    /// The reason in one or two sentences.
    pub text: String,
    /// Origin of the setting: `file`, `override`, `default` or `request`.
    pub from: Cow<'static, str>,
    /// File that has the setting; `null` if none does.
    pub file: Option<String>,
    /// Line of the setting, from 1.
    pub line: Option<u64>,
    /// Column of the setting in characters, from 1.
    pub column: Option<u64>,
    /// The numbers that were used.
    pub numbers: Vec<NumberOrigin>,
}

/// A number of a policy and its origin.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct NumberOrigin {
    /// Name of the number, such as `burst`.
    pub name: Cow<'static, str>,
    /// The number as a policy spec has it.
    pub value: String,
    /// Origin: `file`, `override`, `default` or `request`.
    pub from: Cow<'static, str>,
    /// File that has the number; `null` if none does.
    pub file: Option<String>,
    /// Line of the number, from 1.
    pub line: Option<u64>,
}
