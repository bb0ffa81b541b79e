//! The settings of a call in which a proxy asks about a request.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use http::StatusCode;
use percent_encoding::percent_decode_str;
use sluicegate_core::{MAX_EXACT, printable};

/// The settings of a call in which a proxy asks about a request: the limits, their cost, and the statuses of answers.
///
/// The configuration of the proxy has them, and its clients can't change them.
///
/// ```
/// use sluicegate_http::AuthTerms;
///
/// let terms = AuthTerms::of_query("address,account", Some("cost=3&denied=403"))?;
/// assert_eq!(terms.limits().collect::<Vec<_>>(), ["address", "account"]);
/// assert_eq!(terms.cost(), Some(3));
/// let error = AuthTerms::of_query("login", Some("denied=99")).unwrap_err();
/// assert_eq!(error.to_string(), "`denied` is `99`: write an HTTP status from 200 to 599");
/// # Ok::<(), sluicegate_http::AuthTermsError>(())
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AuthTerms {
    limits: Vec<String>,
    cost: Option<u64>,
    denied: Option<StatusCode>,
    failed: Option<StatusCode>,
}

impl AuthTerms {
    /// Maximum number of limits in one decision.
    pub const MOST_LIMITS: usize = 16;

    /// Reads the names of limits, separated by commas and percent-encoded, and the parameters of a query.
    ///
    /// # Errors
    /// Returns an error for a name or a parameter that is empty, repeated, unknown or out of range.
    pub fn of_query(limits: &str, query: Option<&str>) -> Result<Self, AuthTermsError> {
        Self::of_call(limits, query.unwrap_or_default().split('&'))
    }

    /// Reads a path that begins with the names of limits and parameters: `login,day;cost=2/cart`. Returns the rest of
    /// the path too, which begins with `/` or is empty. It is a client's, and never has parameters.
    ///
    /// ```
    /// use sluicegate_http::AuthTerms;
    ///
    /// let (terms, path) = AuthTerms::of_prefix("login;cost=2/cart;cost=0")?;
    /// assert_eq!((terms.cost(), path), (Some(2), "/cart;cost=0"));
    /// # Ok::<(), sluicegate_http::AuthTermsError>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error for a name or a parameter that is empty, repeated, unknown or out of range.
    pub fn of_prefix(path: &str) -> Result<(Self, &str), AuthTermsError> {
        let (prefix, rest) = path.split_at(path.find('/').unwrap_or(path.len()));
        let mut parts = prefix.split(';');
        let limits = parts.next().unwrap_or_default();
        Ok((Self::of_call(limits, parts)?, rest))
    }

    /// Reads settings by name. Other names are ignored.
    ///
    /// # Errors
    /// Returns an error for a value that is out of range, or if `limits` is missing.
    pub fn of_settings<'s>(
        settings: impl IntoIterator<Item = (&'s str, &'s str)>,
    ) -> Result<Self, AuthTermsError> {
        let mut terms = Self::default();
        for (name, value) in settings {
            match name {
                "limits" => {
                    let names = value.split(',').map(|name| Ok(name.trim().into()));
                    terms.name_limits(value, names)?;
                }
                _ => _ = terms.set(name, value)?,
            }
        }
        if terms.limits.is_empty() {
            let message = "there is no limit: set `limits`, such as `limits: login`";
            return Err(AuthTermsError(message.to_owned()));
        }
        Ok(terms)
    }

    /// Returns the names of the limits. There is at least one, and they differ.
    pub fn limits(&self) -> impl Iterator<Item = &str> {
        self.limits.iter().map(String::as_str)
    }

    /// Returns the units that each limit takes; `None` for its own cost.
    #[must_use]
    pub const fn cost(&self) -> Option<u64> {
        self.cost
    }

    /// Returns the status of denied requests; `None` for 429.
    #[must_use]
    pub const fn denied(&self) -> Option<StatusCode> {
        self.denied
    }

    /// Returns the status if the store fails; `None` if it isn't set.
    #[must_use]
    pub const fn failed(&self) -> Option<StatusCode> {
        self.failed
    }

    fn of_call<'c>(
        limits: &'c str,
        pairs: impl Iterator<Item = &'c str>,
    ) -> Result<Self, AuthTermsError> {
        let mut terms = Self::default();
        terms.name_limits(limits, limits.split(',').map(decode))?;
        let mut known: Vec<Cow<'_, str>> = Vec::new();
        for pair in pairs.filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decode(name)?, decode(value)?);
            if known.contains(&name) {
                let message = format!("the parameter `{name}` is given twice: give it once");
                return Err(AuthTermsError(message));
            }
            if !terms.set(&name, &value)? {
                return Err(AuthTermsError(format!(
                    "the parameter `{}` is unknown: the parameters are cost, denied and failed",
                    shown(&name)
                )));
            }
            known.push(name);
        }
        Ok(terms)
    }

    fn name_limits<'n>(
        &mut self,
        text: &str,
        names: impl Iterator<Item = Result<Cow<'n, str>, AuthTermsError>>,
    ) -> Result<(), AuthTermsError> {
        let mut limits: Vec<String> = Vec::new();
        for name in names {
            let name = name?;
            if name.is_empty() || limits.len() == Self::MOST_LIMITS {
                return Err(AuthTermsError(format!(
                    "`{}` isn't a list of limits: write 1 to {} names, separated by commas",
                    shown(text),
                    Self::MOST_LIMITS
                )));
            }
            if limits.iter().any(|other| *other == name) {
                let message = format!("the limit `{}` is named twice: name it once", shown(&name));
                return Err(AuthTermsError(message));
            }
            limits.push(name.into_owned());
        }
        self.limits = limits;
        Ok(())
    }

    /// Changes a setting. Returns `false` if there is none of this name.
    fn set(&mut self, name: &str, value: &str) -> Result<bool, AuthTermsError> {
        match name {
            "cost" => self.cost = Some(cost(value)?),
            "denied" => self.denied = Some(status(name, value)?),
            "failed" => self.failed = Some(status(name, value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn cost(value: &str) -> Result<u64, AuthTermsError> {
    let cost = number(value).filter(|cost| (1..=MAX_EXACT).contains(cost));
    cost.ok_or_else(|| {
        let value = shown(value);
        AuthTermsError(format!("`cost` is `{value}`: write a whole number from 1 to {MAX_EXACT}"))
    })
}

fn status(name: &str, value: &str) -> Result<StatusCode, AuthTermsError> {
    let code = number(value).filter(|code| (200..=599).contains(code) && value.len() == 3);
    let status = code.and_then(|code| StatusCode::from_u16(u16::try_from(code).ok()?).ok());
    status.ok_or_else(|| {
        let value = shown(value);
        AuthTermsError(format!("`{name}` is `{value}`: write an HTTP status from 200 to 599"))
    })
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Decodes a part of a URL.
fn decode(text: &str) -> Result<Cow<'_, str>, AuthTermsError> {
    percent_decode_str(text)
        .decode_utf8()
        .map_err(|_| AuthTermsError(format!("`{}` isn't percent-encoded UTF-8", shown(text))))
}

/// Returns the beginning of a text that a client may have chosen.
fn shown(text: &str) -> String {
    printable(&text.chars().take(64).collect::<String>())
}

/// Unusable [`AuthTerms`]. The message says what to write.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AuthTermsError(String);

impl fmt::Display for AuthTermsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for AuthTermsError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_query(limits: &str, query: &str) -> Result<AuthTerms, String> {
        AuthTerms::of_query(limits, Some(query)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_call_names_limits_and_may_set_cost_and_statuses() {
        let terms = of_query("a,shop%2Fb,%c3%a9", "&cost=3&denied=403&f%61iled=200&").unwrap();
        assert_eq!(terms.limits().collect::<Vec<_>>(), ["a", "shop/b", "é"]);
        assert_eq!((terms.cost(), terms.denied()), (Some(3), Some(StatusCode::FORBIDDEN)));
        assert_eq!(terms.failed(), Some(StatusCode::OK));
        let plain = AuthTerms::of_query("a", None).unwrap();
        assert_eq!((plain.cost(), plain.denied(), plain.failed()), (None, None, None));
        let settings = [("limits", "a, b"), ("cost", "3"), ("x", "y")];
        let terms = AuthTerms::of_settings(settings).unwrap();
        assert_eq!((terms.limits().count(), terms.cost()), (2, Some(3)));
        assert!(AuthTerms::of_settings([("cost", "3")]).is_err());
    }

    #[test]
    fn nothing_after_the_prefix_is_a_setting() {
        for (path, cost, rest) in [
            ("a;cost=3/b;cost=4/c;denied=200", Some(3), "/b;cost=4/c;denied=200"),
            ("a/;cost=4", None, "/;cost=4"),
            ("a//", None, "//"),
            ("a;", None, ""),
        ] {
            let (terms, own_rest) = AuthTerms::of_prefix(path).unwrap();
            assert_eq!((terms.cost(), own_rest), (cost, rest), "{path}");
        }
        assert!(AuthTerms::of_prefix("/a").is_err());
    }

    #[test]
    fn an_unusable_setting_is_named_with_its_value_and_range() {
        let many = ["a"; 17].join(",");
        for (limits, query, expected) in [
            ("", "", "write 1 to 16 names"),
            ("a,,b", "", "`a,,b` isn't a list"),
            ("a,%61", "", "the limit `a` is named twice"),
            ("%ff", "", "UTF-8"),
            (&many, "", "named twice"),
            ("a", "cost=0", "from 1 to 9007199254740991"),
            ("a", "cost=", "`cost` is ``"),
            ("a", "cost=+1", "is `+1`"),
            ("a", "cost=9007199254740992", "whole number"),
            ("a", "cost=99999999999999999999999", "whole number"),
            ("a", "cost=1&cost=1", "`cost` is given twice"),
            ("a", "cost=1&c%6fst=1", "`cost` is given twice"),
            ("a", "denied=99", "from 200 to 599"),
            ("a", "denied=199", "from 200 to 599"),
            ("a", "denied=0403", "is `0403`"),
            ("a", "denied=600", "is `600`"),
            ("a", "failed=2000", "`failed`"),
            ("a", "Cost=1", "`Cost` is unknown"),
            ("a", "next=%2Fcart", "cost, denied and failed"),
            ("a", "=", "is unknown"),
        ] {
            let error = of_query(limits, query).unwrap_err();
            assert!(error.contains(expected), "{limits} {query}: {error}");
        }
        let names: Vec<String> = (0..17).map(|number| format!("l{number}")).collect();
        assert!(of_query(&names[..16].join(","), "").is_ok());
        assert!(of_query(&names.join(","), "").unwrap_err().contains("1 to 16 names"));
    }
}
