//! Rules and verdicts that no recording has.

use sluicegate_envoy::incumbent::{
    Charge, Code, Descriptor, DescriptorConfig, DomainConfig, LimitConfig, LoadOptions, Look,
    Match, MetadataValue, Override, Reading, ReplacedLimit, Request, Rules, Settings, TreeValue,
};

const NOW: u64 = 1_795_810_837_250_000;

fn rules(descriptors: &str) -> Rules {
    let text = format!("domain: d\ndescriptors:\n{descriptors}");
    Rules::load([("f.yaml", text)], LoadOptions::default()).expect("the file is valid")
}

fn errors(text: &str, options: LoadOptions) -> String {
    Rules::load([("f.yaml", text)], options).expect_err("the file is refused").to_string()
}

fn request<'a>(descriptors: Vec<Descriptor<'a>>) -> Request<'a> {
    Request { domain: "d", descriptors, hits_addend: 0 }
}

fn descriptor<'a>(entries: &[(&'a str, &'a str)]) -> Descriptor<'a> {
    Descriptor { entries: entries.to_vec(), ..Descriptor::default() }
}

#[test]
fn a_refund_is_answered_ok() {
    let rules = rules("  - key: k\n    rate_limit: {unit: hour, requests_per_unit: 3}\n");
    let refund =
        Descriptor { hits_addend: Some(2), is_negative_hits: true, ..descriptor(&[("k", "v")]) };
    let request = request(vec![refund]);
    let settings = Settings::default();
    let matches = rules.matches(&request, &settings);
    assert_eq!(matches.charges(&request, &settings, &[]), [Some(Charge::Refund(2))]);
    for (after, remaining) in [(0, 3), (1, 2), (9, 0)] {
        let verdict = matches.verdict(&request, &settings, &[Some(Reading::After(after))], NOW);
        assert_eq!(
            (verdict.answer.code, verdict.answer.statuses[0].remaining),
            (Code::Ok, remaining)
        );
        assert!(verdict.increments[0].on_page().iter().all(|(_, count)| *count == 0));
    }
}

#[test]
fn very_many_hits_are_over_the_limit() {
    let rules = rules("  - key: k\n    rate_limit: {unit: hour, requests_per_unit: 3}\n");
    for hits in [1 << 63, u64::MAX] {
        let many = Descriptor { hits_addend: Some(hits), ..descriptor(&[("k", "v")]) };
        let request = request(vec![many]);
        let settings = Settings { stop_increment_when_over: true, ..Settings::default() };
        let matches = rules.matches(&request, &settings);
        let look = Look { is_known_over: false, count: u64::MAX };
        assert_eq!(matches.charges(&request, &settings, &[look]), [Some(Charge::Add(hits))]);
        for after in [0, hits, u64::MAX] {
            let verdict = matches.verdict(&request, &settings, &[Some(Reading::After(after))], NOW);
            assert_eq!(verdict.answer.code, Code::OverLimit);
        }
    }
}

#[test]
fn keys_and_values_are_not_joined_in_counters() {
    let rules = rules(
        "  - {key: a, rate_limit: {unit: hour, requests_per_unit: 3}}\n  - {key: a_b, rate_limit: {unit: hour, requests_per_unit: 3}}\n",
    );
    let request = request(vec![descriptor(&[("a", "b_c")]), descriptor(&[("a_b", "c")])]);
    let matches = rules.matches(&request, &Settings::default());
    let keys: Vec<_> =
        matches.descriptors.iter().map(|found| &found.limited().expect("limits").counter).collect();
    assert_ne!(keys[0], keys[1]);
}

#[test]
fn metadata_is_kept_with_every_kind_of_metric() {
    let rules = rules(
        "  - {key: k, detailed_metric: true, metadata: {m: {a: 1}}, rate_limit: {unit: hour, requests_per_unit: 3}}\n  - {key: l, value_to_metric: true, metadata: {m: {b: 2}}, rate_limit: {unit: hour, requests_per_unit: 3}}\n",
    );
    let settings = Settings { response_dynamic_metadata: true, ..Settings::default() };
    let request = request(vec![descriptor(&[("k", "v")]), descriptor(&[("l", "v")])]);
    let matches = rules.matches(&request, &settings);
    for _ in 0..2 {
        let verdict = matches.verdict(&request, &settings, &[None, None], NOW);
        let fields = verdict.answer.dynamic_metadata.expect("it is on");
        let Some(MetadataValue::Map(merged)) = fields.get("metadata") else { panic!("{fields:?}") };
        let Some(MetadataValue::Map(merged)) = merged.get("m") else { panic!("{merged:?}") };
        assert_eq!(merged.len(), 2);
    }
    let names: Vec<_> = matches
        .descriptors
        .iter()
        .map(|found| found.limited().expect("limits").metric.as_str().to_owned())
        .collect();
    assert_eq!(names, ["d.k_v", "d.l_v"]);
}

#[test]
fn an_override_needs_a_known_unit() {
    assert!(Override::new(5, 0).is_none() && Override::new(5, 8).is_none());
    let limit = Override::new(5, 3);
    let rules = rules("  - {key: k, rate_limit: {unit: hour, requests_per_unit: 3}}\n");
    let with_limit = Descriptor { limit, ..descriptor(&[("k", "v")]) };
    let request = request(vec![with_limit, descriptor(&[("k", "v")])]);
    let matches = rules.matches(&request, &Settings::default());
    let limits: Vec<_> = matches.descriptors.iter().filter_map(Match::limited).collect();
    assert_eq!((limits[0].requests_per_unit, limits[1].requests_per_unit), (5, 3));
    assert_eq!(limits[0].counter, limits[1].counter);
}

#[test]
fn rules_are_made_of_structs_too() {
    let limit = |requests, unit| Some(LimitConfig::new(requests, unit));
    let mut child = DescriptorConfig::new("path", "/v1/*");
    child.rate_limit = limit(7, "Minute");
    let mut parent = DescriptorConfig::new("plan", "gold");
    parent.rate_limit = limit(5, "HOUR");
    parent.descriptors = vec![child];
    let domain = |descriptors| vec![DomainConfig::new("xds", "edge", descriptors)];
    let rules = Rules::new(domain(vec![parent.clone()]), false).expect("the rules are valid");
    let lines: Vec<String> = rules.lines().collect();
    assert_eq!(
        lines,
        [
            "edge.plan_gold: unit=HOUR requests_per_unit=5, shadow_mode: false, quota_mode: false",
            "edge.plan_gold.path_/v1/*: unit=MINUTE requests_per_unit=7, shadow_mode: false, quota_mode: false",
        ]
    );
    let limit = parent.rate_limit.as_mut().expect("it has one");
    limit.name = "own".to_owned();
    limit.replaces = vec![ReplacedLimit::new("own")];
    let errors =
        Rules::new(domain(vec![parent.clone(), parent]), false).expect_err("they are refused");
    assert_eq!(
        errors.to_string(),
        "\
xds: descriptors[0].rate_limit.replaces[0]: `own` is the limit's own name: write another's
xds: descriptors[1]: another descriptor of this level has the key and value `plan_gold`: remove one"
    );
}

#[test]
fn a_problem_has_a_position_and_carets() {
    let text = "\
domain: d
descriptors:
  - key: k
    value: v
    rate_limit:
      unit: fortnight
      requests_per_unit: many
  - key: k_v
    rate_limit: {unit: day, requests_per_unit: -1}
";
    assert_eq!(
        errors(text, LoadOptions::default()),
        "\
f.yaml:7:26: descriptors[0].rate_limit.requests_per_unit: must be a whole number from 0 to 4294967295, but is `many`
        requests_per_unit: many
                           ^^^^
f.yaml:9:48: descriptors[1].rate_limit.requests_per_unit: must be a whole number from 0 to 4294967295, but is `-1`
      rate_limit: {unit: day, requests_per_unit: -1}
                                                 ^^"
    );
    let text = text.replace("many", "5").replace("-1", "1");
    assert_eq!(
        errors(&text, LoadOptions::default()),
        "\
f.yaml:6:13: descriptors[0].rate_limit: the unit must be second, minute, hour, day, week, month or year, but is `fortnight`
        unit: fortnight
              ^^^^^^^^^
f.yaml:8:10: descriptors[1]: another descriptor of this level has the key and value `k_v`: remove one
    - key: k_v
           ^^^"
    );
}

#[test]
fn syntax_and_keys_have_positions_too() {
    for (text, message) in [
        (
            "domain: d\nx: 1\n",
            "f.yaml:2:1: `x` is not a field: use domain or descriptors\n  x: 1\n  ^",
        ),
        (
            "domain: d\ndescriptors: [{key: k, on: 1}]\n",
            "f.yaml:2:24: descriptors[0]: a key must be text, but is `on`",
        ),
        (
            "domain: 1.5\n",
            "f.yaml:1:9: domain: must be a whole number below 2^63 or text, but is `1.5`",
        ),
        ("domain: @d\n", "f.yaml:1:9: isn't valid YAML"),
        ("%YAML 1.2\n---\ndomain: d\n", "f.yaml:1:1: must be `%YAML 1.1` or a `%TAG`"),
        ("domain: *x\n", "f.yaml:1:9: this alias has no anchor"),
        ("domain: !!int x\n", "f.yaml:1:15: `x` isn't a value of its tag `!!int`"),
        ("- domain\n", "f.yaml:1:1: the file must be a map"),
        ("", "f.yaml: has no domain"),
        ("domain: d\u{7}\n", "f.yaml:1:10: the character U+0007 isn't allowed"),
    ] {
        let found = errors(text, LoadOptions::default());
        assert!(found.starts_with(message), "{text:?} gives {found}");
    }
}

#[test]
fn domains_are_merged_only_if_allowed() {
    let files = |merge_domains| {
        let options = LoadOptions { merge_domains, strict: false };
        let file = |key: &str| {
            format!(
                "domain: d\ndescriptors: [{{key: {key}, rate_limit: {{unit: day, requests_per_unit: 1}}}}]\n"
            )
        };
        Rules::load([("a", file("k*")), ("b", file("'*'"))], options)
    };
    let refused = files(false).expect_err("two files have the domain").to_string();
    assert!(refused.contains("b:1:9: another file has the domain `d`"), "{refused}");
    let merged = files(true).expect("they are merged");
    assert_eq!((merged.domain_count(), merged.rules().len()), (1, 2));
    let request = request(vec![descriptor(&[("k", "v")])]);
    let matches = merged.matches(&request, &Settings::default());
    let rule =
        matches.descriptors[0].limited().and_then(|limit| limit.rule.clone()).expect("a rule");
    assert_eq!(rule.path(), "d.k*");
}

#[test]
fn our_blocks_are_kept_unless_strict() {
    let text =
        "domain: d\nx_sluicegate: {a: [1, {b: ~}]}\ndescriptors: [{key: k, x_sluicegate: text}]\n";
    let rules = Rules::load([("f.yaml", text)], LoadOptions::default());
    let strict = LoadOptions { strict: true, ..LoadOptions::default() };
    let refused = errors(text, strict);
    assert!(
        refused.contains("f.yaml:2:1: `x_sluicegate` is not a field of the incumbent"),
        "{refused}"
    );
    assert!(refused.contains("f.yaml:3:24: descriptors[0]:"), "{refused}");
    let misplaced = "domain: d\ndescriptors: [{key: k, rate_limit: {x_sluicegate: 1}}]\n";
    assert!(errors(misplaced, LoadOptions::default()).contains("must be in a descriptor"));
    let rules = rules.expect("it is valid");
    let rule = &rules.rules()[0];
    let block = rule.block().expect("a block");
    assert_eq!((block.path(), block.file()), ("descriptors[0].x_sluicegate", "f.yaml"));
    assert_eq!((block.text(), block.settings().text()), (text, Some("text")));
    assert_eq!(&text[block.settings().bytes.clone()], "text");
    let settings = rules.domain_block("d").expect("a block").settings();
    assert_eq!((settings.position.line, settings.position.column), (2, 15));
    let TreeValue::List(items) = &settings.get("a").expect("a list").value else {
        panic!("{settings:?}")
    };
    assert_eq!(items[0].value, TreeValue::Number);
    assert_eq!(items[0].position.column, 20);
    assert!(items[1].get("b").is_none(), "null counts as absent");
}

#[test]
fn anchors_and_merges_are_resolved_in_blocks() {
    let text = "\
domain: d
x: &base {x_sluicegate: &block {ban: a, policies: [p], deadline: 1s}}
descriptors:
  - {key: a, x_sluicegate: {policies: [q], <<: *block}}
  - {key: b, x_sluicegate: {<<: [{ban: b}, *block], policies: [r]}}
  - {<<: *base, key: c}
";
    let text = text.replace("x: &base", "metadata: &base");
    let rules = Rules::load([("f.yaml", &text)], LoadOptions::default()).expect("it is valid");
    let of = |index: usize, name: &str| {
        let settings = rules.rules()[index].block().expect("a block").settings();
        assert_eq!(settings.entries().len(), 3, "{settings:?}");
        match &settings.get(name).expect("a value").value {
            TreeValue::List(items) => items[0].text().expect("text").to_owned(),
            TreeValue::Text(text) => text.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!([of(0, "policies"), of(0, "ban")], ["q", "a"]);
    assert_eq!([of(1, "policies"), of(1, "ban")], ["r", "b"]);
    assert_eq!([of(2, "policies"), of(2, "deadline")], ["p", "1s"]);
}

#[test]
fn the_key_of_a_rule_with_a_block_has_the_values_of_open_entries() {
    let rules = rules(
        "  - key: plan
    value: gold
    x_sluicegate: {}
    descriptors:
      - key: user
        x_sluicegate: {}
        descriptors: [{key: path, value: /a*, x_sluicegate: {}}]
  - {key: zone, value: e*, share_threshold: true, x_sluicegate: {}}
  - {key: h*, x_sluicegate: {}}
",
    );
    let settings = Settings::default();
    for (entries, key) in [
        (&[("plan", "gold")][..], "all"),
        (&[("plan", "gold"), ("user", "a|b")], "a|b"),
        (&[("plan", "gold"), ("user", "a|b"), ("path", "/ab")], "a\\|b|/ab"),
        (&[("zone", "eu")], "all"),
        (&[("host", "a")], "host_a"),
        (&[("h", "a")], "h_a"),
    ] {
        let matches = rules.matches(&request(vec![descriptor(entries)]), &settings);
        let native = matches.descriptors[0].native().expect("a rule with a block");
        assert_eq!(String::from_utf8_lossy(&native.key), key, "{entries:?}");
    }
    assert_eq!(rules.rules()[2].open_entries(), ["user", "path"]);
}

#[test]
fn a_rule_with_a_block_replaces_others_and_is_replaced() {
    let rules = rules(
        "  - {key: a, rate_limit: {name: x, unit: hour, requests_per_unit: 1}, x_sluicegate: {}}
  - {key: b, rate_limit: {name: y, unit: hour, requests_per_unit: 1, replaces: [{name: x}]}}
  - {key: c, rate_limit: {unit: hour, requests_per_unit: 1, replaces: [{name: y}]}, x_sluicegate: {}}
",
    );
    let settings = Settings::default();
    let matched = |keys: &[&str]| -> Vec<bool> {
        let asked = keys.iter().map(|key| descriptor(&[(key, "v")])).collect();
        let matches = rules.matches(&request(asked), &settings);
        matches.descriptors.iter().map(|found| !matches!(found, Match::None)).collect()
    };
    assert_eq!(matched(&["a", "b"]), [false, true]);
    assert_eq!(matched(&["b", "c"]), [false, true]);
    assert_eq!(matched(&["a", "c"]), [true, true]);
}

#[test]
fn a_block_must_be_of_one_file_and_of_a_limited_rule() {
    let options = LoadOptions { merge_domains: true, ..LoadOptions::default() };
    let block = "domain: d\nx_sluicegate: {}\n";
    for files in [[block, "domain: d\n"], ["domain: d\n", block]] {
        let files = [("a", files[0]), ("b", files[1])];
        let refused = Rules::load(files, options).expect_err("two files").to_string();
        assert!(refused.starts_with("b:1:9: the domain is in several files"), "{refused}");
    }
    let text =
        "domain: d\ndescriptors:\n  - {key: k, rate_limit: {unlimited: true}, x_sluicegate: {}}\n";
    let refused = errors(text, LoadOptions::default());
    assert!(refused.contains("is unlimited, but the descriptor has `x_sluicegate`"), "{refused}");
}

#[test]
fn a_limit_without_a_number_denies_with_a_warning() {
    let rules = rules("  - key: k\n    rate_limit: {unit: hour}\n");
    let warning = rules.warnings()[0].to_string();
    assert!(
        warning.starts_with("f.yaml:4:17: descriptors[0].rate_limit: has no requests_per_unit"),
        "{warning}"
    );
    let request = request(vec![descriptor(&[("k", "v")])]);
    let matches = rules.matches(&request, &Settings::default());
    let verdict = matches.verdict(&request, &Settings::default(), &[Some(Reading::After(1))], NOW);
    assert_eq!(verdict.answer.code, Code::OverLimit);
}

#[test]
fn a_field_that_is_written_twice_is_read_twice() {
    let lines = |text: &str| -> Vec<String> {
        let rules =
            Rules::load([("f.yaml", text)], LoadOptions::default()).expect("the file is valid");
        rules.lines().collect()
    };
    let text = "\
domain: d
descriptors:
  - key: k
    rate_limit: {unit: hour, requests_per_unit: 1.5, name: a, <<: {requests_per_unit: 9}}
    rate_limit: !!null {unit: day}
";
    assert_eq!(
        lines(text),
        ["d.k: unit=DAY requests_per_unit=9, shadow_mode: false, quota_mode: false"]
    );
    let text = "domain: d\ndescriptors: [[a]]\ndescriptors: ~\n";
    assert!(
        errors(text, LoadOptions::default())
            .contains("descriptors[0]: must be a map, but is a list")
    );
}
