//! Blocks that can't be used, and the documented ones.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample;
use sluicegate::{Config, MemoryStore, Registry};
use sluicegate_envoy::incumbent::{LoadOptions, Rules, Settings};
use sluicegate_envoy::service::RateLimits;

/// Loads a file. Returns the lines of its rules, or the problems.
fn load(file: &str) -> Result<Vec<String>, String> {
    load_with(file, Settings::default())
}

fn load_with(file: &str, settings: Settings) -> Result<Vec<String>, String> {
    let rules = Rules::load([("f.yaml", file)], LoadOptions::default());
    let rules = rules.map_err(|errors| errors.to_string())?;
    let mut base = Config::default();
    base.limits.clear();
    let registry = Registry::builder(MemoryStore::new()).build();
    let limits = RateLimits::new(registry, base, settings);
    limits.load(rules).map_err(|error| error.to_string())?;
    Ok(limits.lines())
}

#[test]
fn wrong_blocks_have_a_message_with_the_position() {
    for (block, expected) in [
        ("text", "4:17: descriptors[0].x_sluicegate: must be a map with the fields policies, "),
        ("[a]", "4:17: descriptors[0].x_sluicegate: must be a map with the fields policies, "),
        ("~", "4:17: descriptors[0].x_sluicegate: has no policies: add `policies: "),
        ("{}", "4:17: descriptors[0].x_sluicegate: has no policies: add `policies: "),
        (
            "{polices: [gcra 1/s]}",
            "4:18: descriptors[0].x_sluicegate.polices: is not a field: did you mean `policies`",
        ),
        (
            "{key: ip, policies: [gcra 1/s]}",
            "4:18: descriptors[0].x_sluicegate.key: is not a field: ",
        ),
        (
            "{policies: gcra 1/s}",
            "4:28: descriptors[0].x_sluicegate.policies: must be a list of policies such as ",
        ),
        ("{policies: []}", "4:28: descriptors[0].x_sluicegate.policies: is empty: "),
        (
            "{policies: [7]}",
            "4:29: descriptors[0].x_sluicegate.policies[0]: must be a policy such as ",
        ),
        (
            "{policies: [gcra 5/m]}",
            "4:36: descriptors[0].x_sluicegate.policies[0]: `m` is ambiguous: ",
        ),
        (
            "{policies: [gcra 1/s, gcra 1/s as gcra]}",
            "4:39: descriptors[0].x_sluicegate.policies: ",
        ),
        (
            "{policies: [concurrency 5 hold 30s]}",
            "4:28: descriptors[0].x_sluicegate.policies: `concurrency` counts requests in flight, ",
        ),
        (
            "{policies: [gcra 1/s], on_store_failure: local}",
            "4:58: descriptors[0].x_sluicegate.on_store_failure: `local` isn't supported",
        ),
        (
            "{policies: [gcra 1/s], on_store_failure: alow}",
            "4:58: descriptors[0].x_sluicegate.on_store_failure: must be one of error, allow, deny, local, but is `alow`: did you mean `allow`",
        ),
        (
            "{policies: [gcra 1/s], enabled: 1.5}",
            "4:49: descriptors[0].x_sluicegate.enabled: must be true or false, but is `1.5`",
        ),
        (
            "{policies: [gcra 1/s], policies: [gcra 2/s]}",
            "4:40: descriptors[0].x_sluicegate.policies: is set twice: keep one",
        ),
        ("{policies: [gcra 1/s], 7: 8}", "4:40: descriptors[0].x_sluicegate.7: is not a field: "),
        (
            "{policies: [gcra 1/s], charge: force}",
            "4:48: descriptors[0].x_sluicegate.charge: must be `forced`, but is `force`",
        ),
        (
            "{policies: [gcra 1/s], charge: [forced]}",
            "4:48: descriptors[0].x_sluicegate.charge: must be `forced`, but is a list",
        ),
        (
            "{policies: [gcra 1/s], group: 7}",
            "4:47: descriptors[0].x_sluicegate.group: must be a name of 1 to 64 ASCII letters, ",
        ),
        (
            "{policies: [gcra 1/s], group: a b}",
            "4:47: descriptors[0].x_sluicegate.group: must be a name of 1 to 64 ASCII letters, ",
        ),
        (
            "{policies: [gcra 1/s], hold: 30}",
            "4:46: descriptors[0].x_sluicegate.hold: must be a time from 1ms to 1d, such as 30s, but is `30`",
        ),
        (
            "{policies: [gcra 1/s], hold: 2d}",
            "4:46: descriptors[0].x_sluicegate.hold: must be a time from 1ms to 1d, such as 30s, but is `2d`",
        ),
        (
            "{policies: [gcra 1/s], hold: 1s, charge: forced}",
            "4:46: descriptors[0].x_sluicegate.hold: a forced charge is final: ",
        ),
        ("{policies: [gcra 1/s], ban: 5/1min}", "4:45: descriptors[0].x_sluicegate.ban: "),
        ("{policies: [sliding_log 5/min], leases: true}", "descriptors[0].x_sluicegate.leases: "),
        (
            "{policies: [gcra 1/s], all_or_none: true}",
            "4:40: descriptors[0].x_sluicegate.all_or_none: is not a field: ",
        ),
    ] {
        let file = format!("domain: d\ndescriptors:\n- key: k\n  x_sluicegate: {block}\n");
        let refused = load(&file).expect_err(block);
        assert!(refused.starts_with("f.yaml:4:"), "{block}: {refused}");
        assert!(refused.contains(expected), "{block}: {refused}");
    }
}

#[test]
fn wrong_blocks_of_a_domain_are_reported_once() {
    for (block, expected) in [
        ("text", "f.yaml:2:15: x_sluicegate: must be a map with the fields all_or_none, "),
        (
            "{all_or_none: maybe}",
            "f.yaml:2:29: x_sluicegate.all_or_none: must be true or false, but is `maybe`",
        ),
        ("{policies: [gcra 1/s]}", "f.yaml:2:16: x_sluicegate.policies: is not a field: "),
        (
            "{on_store_failure: local}",
            "f.yaml:2:34: x_sluicegate.on_store_failure: `local` isn't supported",
        ),
        (
            "{deadline: 2h}",
            "f.yaml:2:26: x_sluicegate.deadline: is 2h, but must be from 1ms to 60s",
        ),
    ] {
        let file = format!(
            "domain: d\nx_sluicegate: {block}\ndescriptors:\n- {{key: a, x_sluicegate: {{policies: [gcra 1/s]}}}}\n- {{key: b, rate_limit: {{unit: day}}}}\n"
        );
        let refused = load(&file).expect_err(block);
        assert!(refused.starts_with(expected), "{block}: {refused}");
        assert_eq!(refused.matches("f.yaml:").count(), 1, "{refused}");
    }
}

#[test]
fn a_rule_has_policies_or_a_rate_limit() {
    let file = "\
domain: d
descriptors:
- {key: a, rate_limit: {unit: day, requests_per_unit: 1}, x_sluicegate: {policies: [gcra 1/s]}}
- {key: b, x_sluicegate: {ban: 5/1min for 1min}}
";
    assert_eq!(
        load(file).expect_err("two problems"),
        r#"f.yaml:3:84: descriptors[0].x_sluicegate.policies: the descriptor has a `rate_limit` too: remove one of them
  er_unit: 1}, x_sluicegate: {policies: [gcra 1/s]}}
                                        ^
f.yaml:4:26: descriptors[1].x_sluicegate: has no policies: add `policies: ["token_bucket 10/s burst 20"]`
  - {key: b, x_sluicegate: {ban: 5/1min for 1min}}
                           ^"#
    );
}

#[test]
fn the_rules_of_a_group_must_be_alike() {
    let file = |one: &str, two: &str| format!("domain: d\ndescriptors:\n- {one}\n- {two}\n");
    let rule = |key: &str, settings: &str| {
        format!("{{key: {key}, x_sluicegate: {{{settings}, group: g}}}}")
    };
    let a = rule("a", "policies: [gcra 1/s]");
    for (two, expected) in [
        (rule("b", "policies: [gcra 2/s]"), "`g` has other settings in `d.a`: write the same ones"),
        (rule("b", "policies: [gcra 1/s], deadline: 1s"), "`g` has other settings in `d.a`"),
        (rule("b", "policies: [gcra 1/s]"), "`g` counts by other entries in `d.a`"),
    ] {
        let refused = load(&file(&a, &two)).expect_err(&two);
        assert!(refused.contains("descriptors[1].x_sluicegate.group: "), "{refused}");
        assert!(refused.contains(expected), "{refused}");
    }
    let numbers = "rate_limit: {unit: day, requests_per_unit: 1}, x_sluicegate: {group: g}";
    let alike = file(
        &format!("{{key: a, value: x, {numbers}}}"),
        &format!("{{key: a, value: y, {numbers}}}"),
    );
    assert_eq!(load(&alike).expect("they are alike").len(), 2);
}

#[test]
fn quotas_contradict_one_decision() {
    let block = "domain: d\nx_sluicegate: {all_or_none: true}\ndescriptors:\n";
    let quota = format!(
        "{block}- {{key: a, quota_mode: true, rate_limit: {{unit: day, requests_per_unit: 1}}}}\n"
    );
    let refused = load(&quota).expect_err("a quota");
    assert!(
        refused.starts_with("f.yaml:2:29: x_sluicegate.all_or_none: `d.a` has `quota_mode`, "),
        "{refused}"
    );
    let plain = quota.replace("quota_mode: true, ", "");
    assert!(load(&plain).is_ok());
    let settings = Settings { quota_mode: true, ..Settings::default() };
    let refused = load_with(&plain, settings).expect_err("quotas everywhere");
    assert!(refused.contains("QUOTA_MODE is set, "), "{refused}");
}

#[test]
fn charges_of_denied_requests_contradict_all_or_none() {
    for word in ["count_denied", "charge_denied"] {
        let file = |all_or_none: bool| {
            format!(
                "domain: d\nx_sluicegate: {{all_or_none: {all_or_none}}}\ndescriptors:\n\
                 - {{key: a, x_sluicegate: {{policies: [fixed_window 5/s aligned {word}]}}}}\n"
            )
        };
        assert!(load(&file(false)).is_ok());
        let refused = load(&file(true)).expect_err("a contradiction");
        assert!(
            refused.starts_with(
                "f.yaml:4:37: descriptors[0].x_sluicegate.policies: denied requests are charged, "
            ),
            "{refused}"
        );
    }
}

#[test]
fn all_problems_are_reported_also_those_of_a_domain_without_rules() {
    let refused = load("domain: d\nx_sluicegate: {all_or_none: 1}\n").expect_err("no switch");
    assert!(refused.starts_with("f.yaml:2:29: x_sluicegate.all_or_none: "), "{refused}");
    let file = "domain: d\ndescriptors: [{key: k, x_sluicegate: {group: 7, policies: [gcra 5/m], charge: 8}}]\n";
    let refused = load(file).expect_err("three problems");
    for field in ["group: must be ", "policies[0]: `m` is ambiguous", "charge: must be "] {
        assert!(refused.contains(&format!("x_sluicegate.{field}")), "{refused}");
    }
}

#[test]
fn a_decision_of_several_limits_holds_nothing() {
    let file = "domain: d\nx_sluicegate: {all_or_none: true}\ndescriptors:\n- {key: a, x_sluicegate: {policies: [gcra 1/s], hold: 1s}}\n";
    let refused = load(file).expect_err("a hold");
    assert!(
        refused.contains("x_sluicegate.hold: a domain with `all_or_none` holds nothing"),
        "{refused}"
    );
}

#[test]
fn very_many_policies_and_groups_are_refused_or_read_quickly() {
    let policies = (0..10_000).map(|it| format!("gcra {}/s as p{it}", it + 1)).collect::<Vec<_>>();
    let file = format!(
        "domain: d\ndescriptors: [{{key: k, x_sluicegate: {{policies: [{}]}}}}]\n",
        policies.join(", ")
    );
    let refused = load(&file).expect_err("too many policies");
    assert!(refused.contains("10000"), "{refused}");
    let rules: String = (0..10_000)
        .map(|it| {
            format!(
                "- {{key: k, value: v{it}, x_sluicegate: {{policies: [gcra 1/s], group: g}}}}\n"
            )
        })
        .collect();
    let lines = load(&format!("domain: d\ndescriptors:\n{rules}")).expect("one group");
    assert_eq!(lines.len(), 10_000);
}

#[test]
fn the_documented_blocks_are_right() {
    let page = include_str!("../../../../docs/envoy.md");
    let examples =
        page.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
    let own: Vec<&str> = examples.filter(|it| it.contains("x_sluicegate:")).collect();
    assert_eq!(own.len(), 2);
    let mut lines = Vec::new();
    for example in own {
        lines.extend(load(example).expect("it is valid"));
    }
    let shown = page.split("```text\n").nth(1).and_then(|rest| rest.split("\n```").next());
    assert_eq!(lines.first().map(String::as_str), shown);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Any block is a limit, or has a problem with a position in the file.
    #[test]
    fn any_block_is_read_or_refused_with_a_position(
        parts in vec(sample::select(PARTS), 0..24),
        of_domain in any::<bool>(),
    ) {
        let block = parts.concat();
        let file = if of_domain {
            format!("domain: d\nx_sluicegate: {{{block}}}\ndescriptors: [{{key: k, rate_limit: {{unit: day}}}}]\n")
        } else {
            format!("domain: d\ndescriptors: [{{key: k, x_sluicegate: {{{block}}}}}]\n")
        };
        match load(&file) {
            Ok(lines) => prop_assert!(lines[0].contains("policies=["), "{file}: {lines:?}"),
            Err(refused) => prop_assert!(refused.starts_with("f.yaml:"), "{file}: {refused}"),
        }
    }
}

/// Parts of blocks, valid in some orders.
const PARTS: &[&str] = &[
    "policies: ",
    "[gcra 1/s]",
    "[token_bucket 1/s burst 3, gcra 9/h]",
    "charge: ",
    "forced",
    "hold: ",
    "30s",
    "group: ",
    "g",
    "all_or_none: ",
    "true",
    "on_store_failure: ",
    "allow",
    "leases: ",
    "{most: 5}",
    "ban: ",
    "5/1min for 1min",
    "overrides: ",
    "[{key: a, times: 2}]",
    "block: ",
    "[a, b]",
    "deadline: ",
    ", ",
    ", ",
    ", ",
    "~",
    "\"",
    "{",
    "}",
    "&a ",
    "*a",
    "<<: ",
    "é",
    "1.5",
    "? ",
    "!!binary ",
    "\n",
];
