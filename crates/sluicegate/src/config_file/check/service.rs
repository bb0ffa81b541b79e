//! Limits on the load of the service.

use std::num::NonZeroUsize;
use std::time::Duration;

use sluicegate_core::Span;

use super::{Checker, excerpt, field};
use crate::config_file::metrics::MetricsConfig;
use crate::config_file::service::ServiceConfig;
use crate::config_file::tree::{Node, Value};

/// More than any process has connections, and few enough for every counter of them.
const MOST: usize = 10_000_000;

impl Checker<'_> {
    pub(super) fn service(&mut self, node: &Node) -> Option<ServiceConfig> {
        const FIELDS: [&str; 4] =
            ["max_connections", "max_connections_per_address", "max_requests", "max_waiting"];
        let fields = self.fields(node, "service", &FIELDS)?;
        let [connections, per_address, requests, waiting] =
            FIELDS.map(|name| match field(&fields, name) {
                Some(node) => self.most_of(node, &format!("service.{name}")).map(Some),
                None => Some(None),
            });
        let default = ServiceConfig::default();
        Some(ServiceConfig {
            max_connections: connections?.unwrap_or(default.max_connections),
            max_connections_per_address: per_address?,
            max_requests: requests?.unwrap_or(default.max_requests),
            max_waiting: waiting?.unwrap_or(default.max_waiting),
        })
    }

    pub(super) fn metrics(&mut self, node: &Node) -> Option<MetricsConfig> {
        let fields = self.fields(node, "metrics", &["max_series"])?;
        let max_series = match field(&fields, "max_series") {
            Some(node) => Some(self.most_of(node, "metrics.max_series")?),
            None => None,
        };
        Some(MetricsConfig { max_series })
    }

    pub(super) fn max_clock_back(&mut self, node: &Node) -> Option<Duration> {
        const PATH: &str = "max_clock_back";
        let written = match &node.value {
            Value::Text(text) => text,
            // A number without a unit: the span's own error says what to add.
            Value::Number => node.written(self.text),
            _ => {
                self.expected(node, PATH, "a length of time such as 5s");
                return None;
            }
        };
        // The longest span has 18 characters: the excerpt in an error is enough.
        match excerpt(written).parse::<Span>() {
            Err(error) => self.report(node.position, PATH, &error.to_string()),
            Ok(span) if span < Span::MILLISECOND || span > Span::DAY => {
                let message = format!("is {span}, but must be from 1ms to 1d");
                self.report(node.position, PATH, &message);
            }
            Ok(span) => return Some(span.into()),
        }
        None
    }

    fn most_of(&mut self, node: &Node, path: &str) -> Option<NonZeroUsize> {
        let number = self.number::<NonZeroUsize>(node).filter(|number| number.get() <= MOST);
        if number.is_none() {
            self.expected(node, path, &format!("a whole number from 1 to {MOST}"));
        }
        number
    }
}
