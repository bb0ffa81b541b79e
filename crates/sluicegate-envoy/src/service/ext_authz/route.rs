//! The settings of a route, in its `context_extensions`.

use std::collections::HashMap;

use http::StatusCode;
use sluicegate::middleware::Middleware;
use sluicegate::{Gate, Registry};
use sluicegate_core::{MAX_EXACT, printable};
use tonic::Status;

/// The limits of a route, and the cost of its requests.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Route {
    /// Names of the limits, in the order of the route.
    limits: Vec<String>,
    /// Units that a request takes; `None` for the limits' own costs.
    cost: Option<u64>,
}

/// The statuses of answers that the route chooses itself.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Statuses {
    pub(super) denied: Option<StatusCode>,
    pub(super) failed: Option<StatusCode>,
}

/// Maximum number of limits of a route.
const MOST_LIMITS: usize = 16;

impl Route {
    /// Reads the settings of a route.
    ///
    /// # Errors
    /// Returns a status that says what to write.
    pub(super) fn read(settings: &HashMap<String, String>) -> Result<(Self, Statuses), Status> {
        let mut route = Self { limits: Vec::new(), cost: None };
        let mut statuses = Statuses::default();
        for (name, value) in settings {
            match name.as_str() {
                "limits" => route.limits = limits(value)?,
                "cost" => route.cost = Some(cost(value)?),
                "denied" => statuses.denied = Some(status(name, value)?),
                "failed" => statuses.failed = Some(status(name, value)?),
                // Other services of the route may have settings of their own.
                _ => {}
            }
        }
        if route.limits.is_empty() {
            return Err(Status::invalid_argument(
                "the route names no limit: set `limits` in its context_extensions, such as `limits: login`",
            ));
        }
        Ok((route, statuses))
    }

    /// Returns the names of the limits.
    pub(super) fn limits(&self) -> impl Iterator<Item = &str> {
        self.limits.iter().map(String::as_str)
    }

    /// Returns the middleware that asks the limits in one decision.
    ///
    /// # Errors
    /// Returns a status if a limit doesn't exist, or can't be asked like this.
    pub(super) fn middleware(&self, registry: &Registry) -> Result<Middleware, Status> {
        let mut joined: Option<Gate> = None;
        for name in &self.limits {
            let gate = registry.find(name).ok_or_else(|| {
                let shown = printable(name);
                Status::not_found(format!(
                    "there is no limit called `{shown}`, which `limits` in the context_extensions names"
                ))
            })?;
            if gate.limit().is_some_and(|limit| limit.has_permits()) {
                return Err(Status::failed_precondition(format!(
                    "limit `{name}` counts requests in flight, and a check has no end: name another limit"
                )));
            }
            joined = Some(match joined {
                None => gate,
                Some(others) => others.and(gate).map_err(|error| {
                    Status::invalid_argument(format!("the route's limits can't be joined: {error}"))
                })?,
            });
        }
        // `read` returns at least one limit.
        let gate = joined.ok_or_else(|| Status::invalid_argument("the route names no limit"))?;
        let middleware = Middleware::new(gate);
        Ok(match self.cost {
            Some(cost) => middleware.cost(move |_| cost),
            None => middleware,
        })
    }
}

fn limits(value: &str) -> Result<Vec<String>, Status> {
    let names: Vec<String> = value.split(',').map(|name| name.trim().to_owned()).collect();
    if names.iter().any(String::is_empty) || names.len() > MOST_LIMITS {
        return Err(Status::invalid_argument(format!(
            "`limits` in the context_extensions is `{}`: write 1 to {MOST_LIMITS} names, separated by commas",
            printable(value)
        )));
    }
    Ok(names)
}

fn cost(value: &str) -> Result<u64, Status> {
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
    let cost: Option<u64> = value.parse().ok().filter(|_| is_number);
    cost.filter(|cost| (1..=MAX_EXACT).contains(cost)).ok_or_else(|| {
        Status::invalid_argument(format!(
            "`cost` in the context_extensions is `{}`: write a whole number from 1 to {MAX_EXACT}",
            printable(value)
        ))
    })
}

fn status(name: &str, value: &str) -> Result<StatusCode, Status> {
    let is_number = value.len() == 3 && value.bytes().all(|byte| byte.is_ascii_digit());
    let code: Option<u16> = value.parse().ok().filter(|_| is_number);
    let status = code.filter(|code| (200..=599).contains(code));
    status.and_then(|code| StatusCode::from_u16(code).ok()).ok_or_else(|| {
        Status::invalid_argument(format!(
            "`{name}` in the context_extensions is `{}`: write an HTTP status from 200 to 599",
            printable(value)
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(settings: &[(&str, &str)]) -> Result<(Route, Statuses), Status> {
        let own = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        Route::read(&settings.iter().map(own).collect())
    }

    #[test]
    fn a_route_names_its_limits_and_may_set_cost_and_statuses() {
        let settings =
            [("limits", "a, b"), ("cost", "3"), ("denied", "403"), ("failed", "200"), ("x", "y")];
        let (route, statuses) = read(&settings).unwrap();
        assert_eq!(route, Route { limits: vec!["a".into(), "b".into()], cost: Some(3) });
        assert_eq!(statuses.denied, Some(StatusCode::FORBIDDEN));
        assert_eq!(statuses.failed, Some(StatusCode::OK));
    }

    #[test]
    fn an_unusable_setting_is_named_with_its_value_and_range() {
        for (setting, expected) in [
            (("limits", ""), "write 1 to 16 names"),
            (("limits", "a,,b"), "is `a,,b`"),
            (("cost", "0"), "from 1 to 9007199254740991"),
            (("cost", "+1"), "is `+1`"),
            (("cost", "9007199254740992"), "whole number"),
            (("denied", "99"), "from 200 to 599"),
            (("denied", "600"), "is `600`"),
            (("failed", "2000"), "`failed`"),
            (("failed", "ok\n"), "is `ok"),
        ] {
            let status = read(&[("limits", "a"), setting]).unwrap_err();
            assert_eq!(status.code(), tonic::Code::InvalidArgument);
            assert!(status.message().contains(expected), "{}", status.message());
        }
        assert!(read(&[]).unwrap_err().message().contains("names no limit"));
    }
}
