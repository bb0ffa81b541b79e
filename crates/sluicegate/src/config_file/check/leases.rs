//! The leases of a limit.

use std::time::Duration;

use sluicegate_core::for_stores::Leasing;
use sluicegate_core::{Limit, Span};

use super::{Checker, Node, Value, field, path};
use crate::layers::LeaseOptions;

/// Five slots of these are a lease.
const SHORTEST: u64 = Leasing::SLOTS_AHEAD * Leasing::MIN_WIDTH.as_micros();
const LONGEST: u64 = Leasing::SLOTS_AHEAD * Leasing::MAX_WIDTH.as_micros();

impl Checker<'_> {
    /// Reads `true`, `false`, or the amount and duration of leases.
    pub(super) fn leases(&mut self, node: &Node, parent: &str) -> Option<LeaseOptions> {
        let usual = LeaseOptions::default();
        match &node.value {
            Value::Bool(false) => Some(LeaseOptions::NONE),
            Value::Bool(true) => Some(usual),
            Value::Map(_) => {
                let fields = self.fields(node, parent, &["most", "lasts"])?;
                let most =
                    field(&fields, "most").map(|node| self.most(node, &path(parent, "most")));
                let lasts =
                    field(&fields, "lasts").map(|node| self.lasts(node, &path(parent, "lasts")));
                Some(LeaseOptions {
                    most: most.unwrap_or(Some(usual.most))?,
                    lasts: lasts.unwrap_or(Some(usual.lasts))?,
                })
            }
            _ => {
                self.expected(node, parent, "true, false, or a map with the fields most, lasts");
                None
            }
        }
    }

    /// Returns whether the limit can be leased; reports why not.
    pub(super) fn can_be_leased(&mut self, node: &Node, parent: &str, limit: &Limit) -> bool {
        let can = limit.can_lease();
        if !can {
            self.report(
                node.position,
                parent,
                if limit.has_bans() {
                    "this limit can't be leased, since it bans keys: remove the leases, or the `ban`"
                } else {
                    "this limit can't be leased: every policy has to be a token_bucket, gcra, leaky_bucket \
                     or fixed_window, without `shadow`, `charge_denied` and `count_denied`. Remove the leases, or the policy"
                },
            );
        }
        can
    }

    fn most(&mut self, node: &Node, path: &str) -> Option<u64> {
        let most = self.number(node).filter(|most| (4..=1_000_000).contains(most));
        if most.is_none() {
            let described = self.described(node);
            let message = format!(
                "must be a whole number of requests from 4 to 1000000, such as 100, but is {described}"
            );
            self.report(node.position, path, &message);
        }
        most
    }

    fn lasts(&mut self, node: &Node, path: &str) -> Option<Duration> {
        let text = self.text(node, path, "a time such as 1s")?;
        match text.parse::<Span>() {
            Ok(lasts) if (SHORTEST..=LONGEST).contains(&lasts.as_micros()) => Some(lasts.into()),
            Ok(lasts) => {
                let message = format!("is {lasts}, but must be from 5ms to 50s");
                self.report(node.position, path, &message);
                None
            }
            Err(error) => {
                self.report(node.position, path, &error.to_string());
                None
            }
        }
    }
}
