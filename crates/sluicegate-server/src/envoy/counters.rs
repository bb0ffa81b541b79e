//! The counters of envoyproxy/ratelimit, under its names.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use sluicegate_envoy::incumbent::MetricKey;
use sluicegate_envoy::service::Decided;

/// The counters of rules, and those of domains without rules.
#[derive(Debug, Default)]
pub(super) struct Counters {
    counted: Mutex<Counted>,
}

#[derive(Debug, Default)]
struct Counted {
    /// By name, then by the text of their labels.
    rules: BTreeMap<&'static str, BTreeMap<String, u64>>,
    unknown_domains: u64,
    shadowed: u64,
    series: usize,
}

impl Counters {
    /// Maximum number of series. Clients choose the values in names of `detailed_metric` and `value_to_metric`; further
    /// ones aren't counted.
    const MOST: usize = 50_000;

    /// Counts an answer.
    pub(super) fn count(&self, decided: &Decided) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.unknown_domains += u64::from(!decided.is_known_domain);
        counted.shadowed += u64::from(decided.verdict.is_shadowed);
        for increments in &decided.verdict.increments {
            let labels = labels(&increments.metric);
            for (name, added) in increments.on_page() {
                counted.add(name, &labels, added);
            }
        }
    }

    /// Returns the text of the counters. `loads` are the good and the failed loads of files.
    pub(super) fn page(&self, (good, failed): (u64, u64)) -> String {
        let counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let mut page = String::new();
        let mut write = |name: &str, series: &mut dyn Iterator<Item = (&str, u64)>| {
            let _ = writeln!(page, "# TYPE ratelimit_service_{name} counter");
            for (labels, number) in series {
                let _ = writeln!(page, "ratelimit_service_{name}{labels} {number}");
            }
        };
        for (name, series) in &counted.rules {
            let mut series = series.iter().map(|(labels, number)| (labels.as_str(), *number));
            write(&format!("rate_limit_{name}"), &mut series);
        }
        for (name, number) in [
            ("rate_limit_none_domain_not_found", counted.unknown_domains),
            ("global_shadow_mode", counted.shadowed),
            ("config_load_success", good),
            ("config_load_error", failed),
        ] {
            write(name, &mut std::iter::once(("", number)));
        }
        page
    }
}

impl Counted {
    fn add(&mut self, name: &'static str, labels: &str, added: u64) {
        let series = self.rules.entry(name).or_default();
        if let Some(number) = series.get_mut(labels) {
            // The incumbent's numbers wrap too.
            *number = number.wrapping_add(added);
        } else if added > 0 && self.series < Counters::MOST {
            series.insert(labels.to_owned(), added);
            self.series += 1;
        }
    }
}

/// Returns the text of the labels.
fn labels(key: &MetricKey) -> String {
    let (domain, first, second) = key.labels();
    let mut labels = String::from("{");
    for (name, value) in [("domain", Some(domain)), ("key1", Some(first)), ("key2", second)] {
        let Some(value) = value else { continue };
        let value = value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
        let comma = if labels.len() > 1 { "," } else { "" };
        let _ = write!(labels, "{comma}{name}=\"{value}\"");
    }
    labels.push('}');
    labels
}
