//! Settings from the incumbent's environment variables.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use sluicegate_core::printable;

use super::duration;
use super::near_limit::NearLimitRatio;

/// The settings that rules and verdicts depend on.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// `NEAR_LIMIT_RATIO`: the part of a limit from which hits count as near it.
    pub near_limit_ratio: NearLimitRatio,
    /// `SHADOW_MODE`: whether every request passes.
    pub shadow_mode: bool,
    /// `QUOTA_MODE`: whether every limit is a quota.
    pub quota_mode: bool,
    /// `RESPONSE_DYNAMIC_METADATA`: whether answers have metadata.
    pub response_dynamic_metadata: bool,
    /// `LIMIT_RESPONSE_HEADERS_ENABLED` and the names of the headers.
    pub response_headers: Option<HeaderNames>,
    /// `CACHE_KEY_PREFIX`: the beginning of every counter's name.
    pub cache_key_prefix: String,
    /// `STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT`: whether denied requests aren't counted.
    pub stop_increment_when_over: bool,
    /// `LOCAL_CACHE_SIZE_IN_BYTES`: the size of the memory of counters over their limit; 0 for none.
    pub local_cache_bytes: u64,
    /// `EXPIRATION_JITTER_MAX_SECONDS`: the maximum time that a counter is kept beyond its window.
    pub expiration_jitter_seconds: u64,
    /// `MERGE_DOMAIN_CONFIG`: whether several files may have the same domain.
    pub merge_domains: bool,
}

/// The names of the headers that tell a client its limit.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HeaderNames {
    /// `LIMIT_LIMIT_HEADER`: the header with the limit.
    pub limit: String,
    /// `LIMIT_REMAINING_HEADER`: the header with the remaining requests.
    pub remaining: String,
    /// `LIMIT_RESET_HEADER`: the header with the seconds until the window ends.
    pub reset: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            near_limit_ratio: NearLimitRatio::default(),
            shadow_mode: false,
            quota_mode: false,
            response_dynamic_metadata: false,
            response_headers: None,
            cache_key_prefix: String::new(),
            stop_increment_when_over: false,
            local_cache_bytes: 0,
            expiration_jitter_seconds: 300,
            merge_domains: false,
        }
    }
}

impl Settings {
    /// Reads the settings from the variables that `lookup` returns by name.
    ///
    /// # Errors
    ///
    /// Returns the problems if variables have wrong values, one sentence for each.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, SettingErrors> {
        let mut variables = Variables::new(lookup);
        let settings = Self::read(&mut variables);
        variables.finish(settings)
    }

    /// Reads the settings, and notes the problems of their variables.
    pub(crate) fn read<L: Fn(&str) -> Option<String>>(variables: &mut Variables<L>) -> Self {
        let default = Self::default();
        let names = HeaderNames {
            limit: variables.header("LIMIT_LIMIT_HEADER", "RateLimit-Limit"),
            remaining: variables.header("LIMIT_REMAINING_HEADER", "RateLimit-Remaining"),
            reset: variables.header("LIMIT_RESET_HEADER", "RateLimit-Reset"),
        };
        Self {
            near_limit_ratio: variables.ratio("NEAR_LIMIT_RATIO", default.near_limit_ratio),
            shadow_mode: variables.switch("SHADOW_MODE"),
            quota_mode: variables.switch("QUOTA_MODE"),
            response_dynamic_metadata: variables.switch("RESPONSE_DYNAMIC_METADATA"),
            response_headers: variables.switch("LIMIT_RESPONSE_HEADERS_ENABLED").then_some(names),
            cache_key_prefix: variables.text("CACHE_KEY_PREFIX").unwrap_or_default(),
            stop_increment_when_over: variables.switch("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT"),
            local_cache_bytes: variables
                .number("LOCAL_CACHE_SIZE_IN_BYTES", default.local_cache_bytes),
            expiration_jitter_seconds: variables
                .number("EXPIRATION_JITTER_MAX_SECONDS", default.expiration_jitter_seconds),
            merge_domains: variables.switch("MERGE_DOMAIN_CONFIG"),
        }
    }
}

/// Wrong values of environment variables, at least one.
///
/// Prints one sentence for each, such as ``SHADOW_MODE must be true or false, but is `maybe` ``.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SettingErrors(Vec<String>);

impl SettingErrors {
    /// Returns the sentences.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for SettingErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl Error for SettingErrors {}

/// Environment variables, and the problems found in them so far.
pub(crate) struct Variables<L> {
    lookup: L,
    problems: Vec<String>,
}

impl<L: Fn(&str) -> Option<String>> Variables<L> {
    pub(crate) const fn new(lookup: L) -> Self {
        Self { lookup, problems: Vec::new() }
    }

    /// Returns what was read, if no variable has a problem.
    pub(crate) fn finish<T>(self, read: T) -> Result<T, SettingErrors> {
        if self.problems.is_empty() { Ok(read) } else { Err(SettingErrors(self.problems)) }
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        (self.lookup)(name)
    }

    pub(crate) fn switch(&mut self, name: &str) -> bool {
        self.switch_or(name, false)
    }

    pub(crate) fn switch_or(&mut self, name: &str, default: bool) -> bool {
        let Some(value) = self.text(name) else { return default };
        match value.as_str() {
            "1" | "t" | "T" | "true" | "True" | "TRUE" => true,
            "0" | "f" | "F" | "false" | "False" | "FALSE" => false,
            _ => {
                self.add(name, "must be true or false", &value);
                default
            }
        }
    }

    /// Returns the value of one of some words, in letters of any case. The first is the default.
    pub(crate) fn word<T: Copy>(&mut self, name: &str, words: &[(&str, T)]) -> T {
        let default = words[0].1;
        let Some(value) = self.text(name) else { return default };
        let found = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(&value));
        if found.is_none() {
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.add(name, &format!("must be one of {}", words.join(", ")), &value);
        }
        found.map_or(default, |(_, value)| *value)
    }

    pub(crate) fn port(&mut self, name: &str, default: u16) -> u16 {
        let Some(value) = self.text(name) else { return default };
        value.parse().unwrap_or_else(|_| {
            self.add(name, "must be a port from 0 to 65535", &value);
            default
        })
    }

    pub(crate) fn number(&mut self, name: &str, default: u64) -> u64 {
        let Some(value) = self.text(name) else { return default };
        let digits = value.strip_prefix('+').unwrap_or(&value);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = digits.parse::<i64>().ok().filter(|_| is_number);
        number.and_then(|number| u64::try_from(number).ok()).unwrap_or_else(|| {
            self.add(name, &format!("must be a whole number from 0 to {}", i64::MAX), &value);
            default
        })
    }

    pub(crate) fn duration(&mut self, name: &str, default: Duration) -> Duration {
        let Some(written) = self.text(name) else { return default };
        duration::parse(&written).unwrap_or_else(|| {
            self.add(name, "must be a duration, such as 10s", &written);
            default
        })
    }

    /// Returns an address from a variable with a host and one with a port.
    pub(crate) fn address(&mut self, host: &str, port: &str, default: u16) -> String {
        let given = self.text(host).filter(|host| host != "0.0.0.0" && host != "::");
        let port = self.port(port, default);
        match given {
            None => format!(":{port}"),
            Some(host) if host.contains(':') && !host.starts_with('[') => {
                format!("[{host}]:{port}")
            }
            Some(host) => format!("{host}:{port}"),
        }
    }

    fn ratio(&mut self, name: &str, default: NearLimitRatio) -> NearLimitRatio {
        let Some(value) = self.text(name) else { return default };
        value.parse().ok().and_then(NearLimitRatio::new).unwrap_or_else(|| {
            self.add(name, "must be a number from 0 on, such as 0.8", &value);
            default
        })
    }

    fn header(&mut self, name: &str, default: &str) -> String {
        let Some(value) = self.text(name) else { return default.to_owned() };
        let is_token =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if value.is_empty() || !value.bytes().all(is_token) {
            self.add(name, &format!("must be the name of a header, such as {default}"), &value);
        }
        value
    }

    pub(crate) fn add(&mut self, name: &str, must: &str, value: &str) {
        self.problems.push(format!("{name} {must}, but is `{}`", printable(value)));
    }

    /// Notes a problem of a variable whose value may be secret.
    pub(crate) fn add_without_value(&mut self, name: &str, must: &str) {
        self.problems.push(format!("{name} {must}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Result<Settings, SettingErrors> {
        Settings::from_lookup(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn no_variables_are_the_defaults() {
        assert_eq!(settings(&[]), Ok(Settings::default()));
    }

    #[test]
    fn each_wrong_value_has_a_sentence() {
        let wrong = settings(&[
            ("SHADOW_MODE", "maybe"),
            ("NEAR_LIMIT_RATIO", "-1"),
            ("LOCAL_CACHE_SIZE_IN_BYTES", "1 MB"),
            ("LIMIT_RESET_HEADER", "x reset\n"),
        ]);
        assert_eq!(
            wrong.expect_err("four are wrong").problems(),
            [
                r"LIMIT_RESET_HEADER must be the name of a header, such as RateLimit-Reset, but is `x reset\n`",
                "NEAR_LIMIT_RATIO must be a number from 0 on, such as 0.8, but is `-1`",
                "SHADOW_MODE must be true or false, but is `maybe`",
                "LOCAL_CACHE_SIZE_IN_BYTES must be a whole number from 0 to 9223372036854775807, but is `1 MB`",
            ]
        );
    }

    #[test]
    fn headers_have_their_names() {
        let names =
            settings(&[("LIMIT_RESPONSE_HEADERS_ENABLED", "T"), ("LIMIT_LIMIT_HEADER", "x-lim")]);
        let names = names.expect("it is valid").response_headers.expect("they are on");
        assert_eq!((names.limit.as_str(), names.reset.as_str()), ("x-lim", "RateLimit-Reset"));
    }
}
