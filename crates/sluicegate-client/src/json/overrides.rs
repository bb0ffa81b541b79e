//! Overrides at run time and their audit, as JSON.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// The content of an override: one of the fields.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct OverrideTo {
    /// Policies with other numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies: Option<Vec<String>>,
    /// A multiple of the configuration's numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<serde_json::Number>,
    /// Requests pass, and are not counted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub allow: bool,
    /// Requests are denied.
    #[serde(default, skip_serializing_if = "is_false")]
    pub block: bool,
}

/// An override.
#[derive(Debug, Deserialize, Serialize)]
pub struct OverrideEntry<'a> {
    /// Name of the limit.
    pub limit: Cow<'a, str>,
    /// Key, if it is text; `null` if the override is of the whole limit.
    pub key: Option<Cow<'a, str>>,
    /// Key in hexadecimal, if it isn't text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_bytes: Option<String>,
    /// Content.
    #[serde(flatten)]
    pub to: OverrideTo,
    /// Time until it ends, in milliseconds; `null` without an end.
    pub ends_in_ms: Option<u64>,
    /// Exact time until it ends, in microseconds.
    pub ends_in_us: Option<u64>,
    /// Time at which it was set, by the clock of the store, as RFC 3339 has it.
    pub since: Cow<'a, str>,
    /// Note of the caller that set it.
    pub note: Option<Cow<'a, str>>,
    /// Name of that caller: a client's, or `admin`; `null` without credentials.
    pub by: Option<Cow<'a, str>>,
    /// Whether it outlasts the process.
    pub durable: bool,
    /// Why it isn't in force; `null` if it is.
    pub problem: Option<Cow<'a, str>>,
}

/// A page of the overrides of a limit's keys.
#[derive(Debug, Deserialize, Serialize)]
pub struct OverrideList<'a> {
    /// Name of the limit.
    pub limit: Cow<'a, str>,
    /// Override of the whole limit; `null` without one.
    pub whole: Option<OverrideEntry<'a>>,
    /// Overrides of keys, in the order of the keys.
    pub overrides: Vec<OverrideEntry<'a>>,
    /// Start of the next page; `null` on the last one.
    pub next: Option<Cow<'a, str>>,
}

/// A change of an override.
#[derive(Debug, Deserialize, Serialize)]
pub struct AuditEntry<'a> {
    /// Time, by the clock of the store, as RFC 3339 has it.
    pub at: Cow<'a, str>,
    /// Name of the caller that made it: a client's, or `admin`; `null` without credentials.
    pub by: Option<Cow<'a, str>>,
    /// Name of the limit.
    pub limit: Cow<'a, str>,
    /// Key, if it is text; `null` if the override is of the whole limit.
    pub key: Option<Cow<'a, str>>,
    /// Key in hexadecimal, if it isn't text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_bytes: Option<String>,
    /// Content before; `null` if there was no override.
    pub from: Option<OverrideTo>,
    /// Content now; `null` if there is no override any more.
    pub to: Option<OverrideTo>,
    /// Lifetime of the override, in milliseconds; `null` without an end.
    pub lasts_ms: Option<u64>,
    /// Note of that caller.
    pub note: Option<Cow<'a, str>>,
}

/// A page of changes.
#[derive(Debug, Deserialize, Serialize)]
pub struct AuditList<'a> {
    /// Changes, the newest first.
    pub audit: Vec<AuditEntry<'a>>,
    /// Start of the next page; `null` on the last one.
    pub next: Option<Cow<'a, str>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the serializer passes references")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}
