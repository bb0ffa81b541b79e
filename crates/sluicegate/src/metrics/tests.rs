use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::for_stores::DecisionForStores as _;
use sluicegate_core::{Limit, Operation};

use super::*;
use crate::{Ask, Config, Limiter, MemoryStore, Registry};

fn page(metrics: &Metrics) -> String {
    metrics.render(MetricsFormat::Text).unwrap()
}

#[track_caller]
fn assert_lines(metrics: &Metrics, lines: &[&str]) {
    let text = page(metrics);
    for line in lines {
        assert!(text.lines().any(|other| other == *line), "{line}:\n{text}");
    }
}

/// Returns the label sets of limits.
fn series(metrics: &Metrics) -> Vec<String> {
    let text = page(metrics);
    let lines = text.lines().filter(|line| line.contains("{limit=\""));
    let mut series: Vec<String> =
        lines.map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect();
    let number = series.len();
    series.sort_unstable();
    series.dedup();
    assert_eq!(series.len(), number, "no label set is there twice:\n{text}");
    series
}

fn config(text: &str) -> Config {
    Config::parse(text, "limits.yaml").unwrap()
}

/// Returns a registry with the limits of a configuration, and its metrics.
fn registry(text: &str) -> (Registry, Arc<Metrics>) {
    let metrics = Arc::new(Metrics::new());
    let builder = Registry::builder(MemoryStore::new()).config(&config(text));
    (builder.observer(metrics.clone()).build(), metrics)
}

fn limits(names: impl IntoIterator<Item = String>) -> String {
    let limits = names.into_iter().map(|name| format!("  {name}: {{policies: [gcra 1/h]}}\n"));
    format!("limits:\n{}", limits.collect::<String>())
}

#[test]
fn a_shadow_that_would_have_denied_is_counted_by_its_name() {
    let metrics = Arc::new(Metrics::new());
    let limit = Limit::new("l", ["gcra 9/s", "gcra 1/s burst 1 shadow as strict"]).unwrap();
    let limiter = Limiter::builder(MemoryStore::new(), limit).observer(metrics.clone()).build();
    for _ in 0..3 {
        assert!(limiter.check("k").now().unwrap().is_allowed());
    }
    assert!(limiter.peek("k").now().unwrap().is_allowed());
    assert_lines(
        &metrics,
        &[
            r#"sluicegate_decisions_total{limit="l",policy="",outcome="allowed"} 3"#,
            r#"sluicegate_decisions_total{limit="l",policy="strict",outcome="shadow_denied"} 2"#,
            r#"sluicegate_decisions_together_total{limit="l"} 0"#,
            "sluicegate_decision_seconds_count 3",
            r#"sluicegate_store_errors_total{kind="timeout"} 0"#,
        ],
    );
    assert!(metrics.render(MetricsFormat::OpenMetrics).unwrap().ends_with("\n# EOF\n"));
    assert!(!page(&metrics).contains("EOF"));
}

#[test]
fn what_was_not_asked_took_no_time_and_what_is_noted_is_counted() {
    let metrics = Metrics::new();
    let limit = Limit::new("l", ["gcra 1/s"]).unwrap();
    let mut store = MemoryStore::builder();
    store = store.max_keys(NonZeroUsize::MIN).overflow(sluicegate_memory::Overflow::Deny);
    let limiter = Limiter::new(store.build(), limit.clone());
    let answers = [
        Decision::bypass(true),
        limiter.check("a").now().unwrap(),
        limiter.check("b").now().unwrap(),
    ];
    for decision in &answers {
        metrics.answered(&Answered {
            limit: &limit,
            keys: &[b"k"],
            unasked: &[],
            operation: Operation::Check,
            costs: sluicegate_core::Costs::Own,
            outcome: Ok(decision),
            failure: None,
            at: tokio::time::Instant::now().into_std(),
            took: Duration::ZERO,
        });
    }
    assert_lines(
        &metrics,
        &[
            "sluicegate_decision_seconds_count 2",
            r#"sluicegate_state_notes_total{note="full"} 1"#,
            r#"sluicegate_state_notes_total{note="discarded"} 0"#,
            r#"sluicegate_decisions_total{limit="l",policy="",outcome="bypassed"} 1"#,
            r#"sluicegate_decisions_total{limit="l",policy="",outcome="store_full"} 1"#,
            r#"sluicegate_decisions_total{limit="l",policy="gcra",outcome="denied"} 0"#,
        ],
    );
}

#[test]
fn a_denial_of_several_limits_is_counted_for_the_one_that_refused() {
    let (registry, metrics) = registry(
        "limits: {global: {policies: [gcra 1/h burst 9]}, user: {policies: [gcra 1/h burst 1], allow: [root]}}",
    );
    let both = registry.gate("global").and(registry.gate("user")).unwrap();
    let check = |user: &str| both.check(Ask::new("everybody").and(Ask::new(user))).now().unwrap();
    assert!(check("alice").is_allowed());
    assert!(check("alice").is_denied());
    assert!(check("root").is_allowed());
    assert_lines(
        &metrics,
        &[
            r#"sluicegate_decisions_total{limit="global",policy="",outcome="allowed"} 2"#,
            r#"sluicegate_decisions_total{limit="global",policy="",outcome="denied_together"} 1"#,
            r#"sluicegate_decisions_total{limit="global",policy="gcra",outcome="denied"} 0"#,
            r#"sluicegate_decisions_total{limit="user",policy="",outcome="allowed"} 1"#,
            r#"sluicegate_decisions_total{limit="user",policy="",outcome="denied_together"} 0"#,
            r#"sluicegate_decisions_total{limit="user",policy="gcra",outcome="denied"} 1"#,
            r#"sluicegate_decisions_total{limit="user",policy="",outcome="bypassed"} 1"#,
            r#"sluicegate_decisions_together_total{limit="global"} 3"#,
            r#"sluicegate_decisions_together_total{limit="user"} 3"#,
            "sluicegate_decision_seconds_count 3",
        ],
    );
}

#[test]
fn a_ban_of_one_of_several_limits_is_counted_for_that_one() {
    let (registry, metrics) = registry(
        "limits: {global: {policies: [gcra 1/h burst 9]}, user: {policies: [gcra 1/h burst 1], ban: 1/1min for 15min}}",
    );
    let both = registry.gate("global").and(registry.gate("user")).unwrap();
    for _ in 0..3 {
        let _ = both.check(Ask::new("everybody").and(Ask::new("alice"))).now().unwrap();
    }
    assert_lines(
        &metrics,
        &[
            r#"sluicegate_decisions_total{limit="global",policy="",outcome="denied_together"} 2"#,
            r#"sluicegate_decisions_total{limit="user",policy="gcra",outcome="denied"} 1"#,
            // By the ban alone.
            r#"sluicegate_decisions_total{limit="user",policy="",outcome="denied"} 1"#,
            r#"sluicegate_bans_total{limit="user"} 1"#,
        ],
    );
    assert!(!page(&metrics).contains(r#"sluicegate_bans_total{limit="global"}"#));
}

#[test]
fn orders_of_the_same_limits_do_not_fill_the_cap() {
    let names = ["a", "b", "c", "d", "e"];
    let (registry, metrics) = registry(&limits(names.map(str::to_owned)));
    let before = series(&metrics);
    let mut orders = vec![Vec::new()];
    for _ in names {
        orders = orders
            .into_iter()
            .flat_map(|order| {
                let rest = names.iter().filter(|name| !order.contains(*name));
                rest.map(|name| [order.as_slice(), &[*name]].concat()).collect::<Vec<_>>()
            })
            .collect();
    }
    assert_eq!(orders.len(), 120);
    for (index, order) in orders.iter().enumerate() {
        let gates = order.iter().map(|name| Ok(registry.gate(name)));
        let gate = gates.reduce(|one, two| one?.and(two?)).unwrap().unwrap();
        let key = index.to_string();
        let asks = order.iter().map(|_| Ask::new(&key));
        assert!(gate.check(asks.reduce(Ask::and).unwrap()).now().unwrap().is_allowed());
    }
    assert_eq!(series(&metrics), before);
    assert_lines(
        &metrics,
        &[r#"sluicegate_decisions_total{limit="e",policy="",outcome="allowed"} 120"#],
    );
}

#[test]
fn the_series_of_a_limit_exist_before_its_first_request() {
    let (registry, metrics) = registry(
        "limits: {l: {policies: [gcra 1/h, gcra 2/h shadow as s], on_store_failure: allow, ban: 2/1min for 1min}}",
    );
    let of = |limit: &str| series(&metrics).into_iter().filter(|it| it.contains(limit)).count();
    assert_lines(
        &metrics,
        &[
            r#"sluicegate_decisions_total{limit="l",policy="",outcome="allowed"} 0"#,
            r#"sluicegate_decisions_total{limit="l",policy="gcra",outcome="denied"} 0"#,
            r#"sluicegate_decisions_total{limit="l",policy="",outcome="failed_open"} 0"#,
            r#"sluicegate_decisions_total{limit="l",policy="s",outcome="shadow_denied"} 0"#,
            r#"sluicegate_bans_total{limit="l"} 0"#,
        ],
    );
    let before = of("\"l\"");
    for _ in 0..9 {
        let _ = registry.gate("l").check("k").now().unwrap();
    }
    assert_eq!(of("\"l\""), before, "no request adds one");

    registry.replace(&config("limits: {m: {policies: [gcra 1/h]}}")).unwrap();
    assert_lines(
        &metrics,
        &[r#"sluicegate_decisions_total{limit="m",policy="gcra",outcome="denied"} 0"#],
    );
    assert_eq!(of("\"l\""), 0, "a limit that was removed has no series");
}

#[test]
fn a_counter_does_not_go_back_when_the_configuration_changes() {
    let (registry, metrics) = registry("limits: {l: {policies: [gcra 1/h burst 2]}}");
    let denied = |number: u64| {
        let line = format!(
            r#"sluicegate_decisions_total{{limit="l",policy="gcra",outcome="denied"}} {number}"#
        );
        assert_lines(&metrics, &[&line]);
    };
    let gate = registry.gate("l");
    for _ in 0..5 {
        let _ = gate.check("k").now().unwrap();
    }
    denied(3);
    for text in [
        "limits: {l: {policies: [gcra 1/h burst 2, gcra 100/h as more]}}",
        "limits: {more: {policies: [gcra 1/h]}, l: {policies: [gcra 1/h burst 1]}}",
    ] {
        registry.replace(&config(text)).unwrap();
        denied(3);
    }
    // Also if the limit was missing in one configuration, as when a file is written in two steps.
    registry.replace(&config("limits: {more: {policies: [gcra 1/h]}}")).unwrap();
    registry.replace(&config("limits: {l: {policies: [gcra 1/h burst 1]}}")).unwrap();
    denied(3);
    let _ = gate.check("k").now().unwrap();
    denied(4);
}

#[test]
fn limits_beyond_the_maximum_are_counted_together() {
    let names = |range: std::ops::Range<u32>| range.map(|number| format!("l{number:04}"));
    let text =
        |most: usize, range| format!("metrics: {{max_series: {most}}}\n{}", limits(names(range)));
    let (registry, metrics) = registry(&text(100, 0..50));
    // The series of limits other than `other`.
    let named = || series(&metrics).iter().filter(|it| !it.contains("\"other\"")).count();
    assert!((90..=100).contains(&named()) && metrics.is_full(), "{}", named());
    let check = |limit: &str| {
        let _ = registry.gate(limit).check("k").now().unwrap();
    };
    check("l0000");
    check("l0049");
    check("l0048");
    assert_lines(
        &metrics,
        &[
            r#"sluicegate_decisions_total{limit="l0000",policy="",outcome="allowed"} 1"#,
            r#"sluicegate_decisions_total{limit="other",policy="",outcome="allowed"} 2"#,
        ],
    );
    // Limits with other names replace those that were removed.
    registry.replace(&config(&text(100, 40..90))).unwrap();
    assert!((90..=100).contains(&named()), "{}", named());
    check("l0040");
    assert_lines(
        &metrics,
        &[
            r#"sluicegate_decisions_total{limit="l0040",policy="",outcome="allowed"} 1"#,
            r#"sluicegate_decisions_total{limit="other",policy="",outcome="allowed"} 2"#,
        ],
    );
    registry.replace(&config(&text(10_000, 40..90))).unwrap();
    assert!(!metrics.is_full());
    check("l0089");
    assert_lines(
        &metrics,
        &[
            r#"sluicegate_decisions_total{limit="l0040",policy="",outcome="allowed"} 1"#,
            r#"sluicegate_decisions_total{limit="l0089",policy="",outcome="allowed"} 1"#,
            r#"sluicegate_decisions_total{limit="other",policy="",outcome="allowed"} 2"#,
        ],
    );
}

#[test]
fn limits_made_in_code_are_counted_by_name_up_to_the_maximum() {
    let metrics = Arc::new(Metrics::with_max_series(50));
    let store = MemoryStore::new();
    for number in 0..20 {
        let limit = Limit::new(format!("l{number}"), ["gcra 1/h"]).unwrap();
        let limiter = Limiter::builder(store.clone(), limit).observer(metrics.clone()).build();
        assert!(limiter.check("k").now().unwrap().is_allowed());
    }
    let named = series(&metrics).iter().filter(|it| !it.contains("\"other\"")).count();
    assert!((30..=50).contains(&named), "{named}");
    assert_lines(
        &metrics,
        &[r#"sluicegate_decisions_total{limit="l0",policy="",outcome="allowed"} 1"#],
    );
    let text = page(&metrics);
    let allowed = text.lines().filter(|line| line.contains("outcome=\"allowed\""));
    let sum: u64 =
        allowed.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(sum, 20);
}

#[test]
fn a_limit_called_other_has_no_series_twice() {
    let (registry, metrics) = registry(&format!(
        "metrics: {{max_series: 20}}\n{}",
        limits(["a", "other", "c", "d"].map(str::to_owned))
    ));
    for limit in ["other", "d", "a"] {
        let _ = registry.gate(limit).check("k").now().unwrap();
    }
    assert_eq!(series(&metrics).iter().filter(|it| it.contains("\"d\"")).count(), 0);
    assert_lines(
        &metrics,
        &[r#"sluicegate_decisions_total{limit="other",policy="",outcome="allowed"} 2"#],
    );
}

#[test]
fn limits_that_fail_together_are_counted_each() {
    let metrics = Arc::new(Metrics::new());
    let both =
        Limit::together(["a", "b"].map(|name| Limit::new(name, ["gcra 1/s"]).unwrap())).unwrap();
    let decision = Decision::fallback(&both, false);
    metrics.answered(&Answered {
        limit: &both,
        keys: &[b"k", b"k"],
        unasked: &[],
        operation: Operation::Check,
        costs: sluicegate_core::Costs::Own,
        outcome: Ok(&decision),
        failure: None,
        at: tokio::time::Instant::now().into_std(),
        took: Duration::ZERO,
    });
    for name in ["a", "b"] {
        let line = format!(
            r#"sluicegate_decisions_total{{limit="{name}",policy="",outcome="failed_closed"}} 1"#
        );
        assert_lines(&metrics, &[&line]);
    }
}
