//! The bans of a limit.

use std::time::Duration;

use sluicegate_core::{Ban, Enforcement, Limit, PolicyError, Rate, Span};

use super::{Checker, excerpt, field, path};
use crate::config::Switch;
use crate::config_file::tree::{Node, Value};

const EXAMPLE: &str = "`5/1min for 15min doubling up to 24h`";

impl Checker<'_> {
    /// Reads a ban: a line of text, or a map with equivalent fields.
    pub(super) fn ban(&mut self, node: &Node, parent: &str, limit: Option<&Limit>) -> Option<Ban> {
        let ban = match &node.value {
            Value::Text(text) => match text.parse::<Ban>() {
                Ok(ban) => Some(ban),
                Err(error) => {
                    self.report(node.position, parent, &error.to_string());
                    None
                }
            },
            Value::Map(_) => self.ban_fields(node, parent),
            _ => {
                let expected = format!(
                    "a ban such as {EXAMPLE}, or a map with after, for, doubling and up_to"
                );
                self.expected(node, parent, &expected);
                None
            }
        }?;
        let members = limit.map_or(&[][..], Limit::members);
        let is_shadow = |enforcement| enforcement == Enforcement::Shadow;
        if !members.is_empty() && members.iter().all(|it| is_shadow(it.policy().enforcement())) {
            let warning = "every policy is a shadow, so no denials are counted: only manual bans have an effect";
            self.warnings.report(node.position, &format!("{parent}: {warning}"));
        }
        Some(ban)
    }

    fn ban_fields(&mut self, node: &Node, parent: &str) -> Option<Ban> {
        let fields = self.fields(node, parent, &["after", "for", "doubling", "up_to"])?;
        let missing = |checker: &mut Self, name: &str, example: &str| {
            let message = format!("has no `{name}`: add it, such as `{name}: {example}`");
            checker.report(node.position, parent, &message);
        };
        let after = match field(&fields, "after") {
            Some(node) => self.rate(node, &path(parent, "after")).map(|rate| (rate, node)),
            None => {
                missing(self, "after", "5/1min");
                None
            }
        };
        let lasts = match field(&fields, "for") {
            Some(node) => self.span(node, &path(parent, "for")).map(|span| (span, node)),
            None => {
                missing(self, "for", "15min");
                None
            }
        };
        let doubling = field(&fields, "doubling");
        let doubling = doubling.map(|node| self.switch(node, &path(parent, "doubling")));
        let up_to = field(&fields, "up_to");
        let up_to = up_to.map(|node| Some((self.span(node, &path(parent, "up_to"))?, node)));
        let ((after, after_node), (lasts, for_node)) = (after?, lasts?);
        let mut wrong = |error: &PolicyError, node: &Node| {
            let message = error.to_string();
            let message = message.split_once(": ").map_or(message.as_str(), |(_, rest)| rest);
            self.report(node.position, &path(parent, error.parameter), message);
        };
        let ban = match Ban::new(after, lasts) {
            Ok(ban) => ban,
            Err(error) => {
                wrong(&error, if error.parameter == "for" { for_node } else { after_node });
                return None;
            }
        };
        let ban = match up_to {
            None => ban,
            Some(up_to) => {
                let (up_to, node) = up_to?;
                ban.with_up_to(up_to).map_err(|error| wrong(&error, node)).ok()?
            }
        };
        Some(if doubling.unwrap_or(Some(Switch::Off))? == Switch::On {
            ban.doubling()
        } else {
            ban
        })
    }

    fn rate(&mut self, node: &Node, path: &str) -> Option<Rate> {
        let text = self.text(node, path, "denials within a time, such as 5/1min")?;
        match excerpt(text).parse::<Rate>() {
            Ok(rate) => Some(rate),
            Err(error) => {
                self.report(node.position, path, &error.to_string());
                None
            }
        }
    }

    fn span(&mut self, node: &Node, path: &str) -> Option<Duration> {
        let written = match &node.value {
            Value::Text(text) => text,
            Value::Number => node.written(self.text),
            _ => {
                self.expected(node, path, "a length of time such as 15min");
                return None;
            }
        };
        match excerpt(written).parse::<Span>() {
            Ok(span) => Some(span.into()),
            Err(error) => {
                self.report(node.position, path, &error.to_string());
                None
            }
        }
    }
}
