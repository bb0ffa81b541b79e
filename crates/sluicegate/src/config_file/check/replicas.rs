//! The acknowledgements by replicas that a limit's decisions need.

use std::num::NonZeroU8;
use std::time::Duration;

use sluicegate_core::{Acknowledgement, Span};

use super::{Checker, Node, Value, excerpt, field, path};

/// More replicas than any primary has.
const MOST: u8 = 16;

impl Checker<'_> {
    /// Reads the number of acknowledgements, and the time for them: half of the deadline at most.
    pub(super) fn replicas(
        &mut self,
        node: &Node,
        parent: &str,
        deadline: Option<Duration>,
    ) -> Option<Acknowledgement> {
        let fields = self.fields(node, parent, &["acknowledge", "within"])?;
        let replicas = match field(&fields, "acknowledge") {
            Some(node) => self.acknowledge(node, &path(parent, "acknowledge")),
            None => Some(NonZeroU8::MIN),
        };
        let Some(within) = field(&fields, "within") else {
            let message = "has no `within`: add how long a decision may wait for its replicas, such as `within: 20ms`";
            self.report(node.position, parent, message);
            return None;
        };
        let within = self.within(within, &path(parent, "within"), deadline);
        Some(Acknowledgement { replicas: replicas?, within: within? })
    }

    /// Warns about settings that a store without replicas ignores.
    pub(super) fn warn_of_replicas(&mut self, limits: &Node) {
        let Value::Map(limits) = &limits.value else { return };
        for (name, limit) in limits {
            let Value::Map(fields) = &limit.value else { continue };
            for (key, _) in fields.iter().filter(|(key, _)| key.name == "replicas") {
                let message = format!(
                    "limits.{}.replicas: has no effect while `store` is memory:, which has none",
                    excerpt(&name.name)
                );
                self.warnings.report(key.position, &message);
            }
        }
    }

    fn acknowledge(&mut self, node: &Node, path: &str) -> Option<NonZeroU8> {
        let replicas = self.number::<NonZeroU8>(node).filter(|replicas| replicas.get() <= MOST);
        if replicas.is_none() {
            let described = self.described(node);
            let message =
                format!("must be a whole number of replicas from 1 to {MOST}, but is {described}");
            self.report(node.position, path, &message);
        }
        replicas
    }

    fn within(&mut self, node: &Node, path: &str, deadline: Option<Duration>) -> Option<Duration> {
        let written = match &node.value {
            Value::Text(text) => text,
            // A number without a unit: the span's own error says what to add.
            Value::Number => node.written(self.text),
            _ => {
                self.expected(node, path, "a length of time such as 20ms");
                return None;
            }
        };
        // The longest span has 18 characters: the excerpt in an error is enough.
        let within = match excerpt(written).parse::<Span>() {
            Ok(within) => within,
            Err(error) => {
                self.report(node.position, path, &error.to_string());
                return None;
            }
        };
        if within < Span::MILLISECOND {
            let message = format!("is {within}, but must be at least 1ms");
            self.report(node.position, path, &message);
            return None;
        }
        let deadline = Span::from(deadline?);
        if within.as_micros() > deadline.as_micros() / 2 {
            let message = format!(
                "is {within}, but must be at most half of the `deadline` ({deadline}): a decision may first wait that long for earlier decisions"
            );
            self.report(node.position, path, &message);
            return None;
        }
        Some(within.into())
    }
}
