use std::fs;
use std::num::NonZeroUsize;

use proptest::prelude::*;
use sluicegate_core::{KeyPrefix, OnExpiry};

use sluicegate_http::KeyMatcher;

use super::*;
use crate::on_store_failure::OnStoreFailure;

fn parse(text: &str) -> Config {
    Config::parse(text, "c.yaml").unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

fn problems(text: &str) -> String {
    match Config::parse(text, "c.yaml") {
        Ok(config) => panic!("this was read as {config:?}:\n{text}"),
        Err(errors) => errors.to_string(),
    }
}

fn policies(config: &LimitConfig) -> Vec<String> {
    config
        .limit
        .members()
        .iter()
        .map(|member| format!("{}: {}", member.name(), member.policy()))
        .collect()
}

/// Checks every file of `messages.txt` and the complete text of its problems or warnings, so that changes of messages
/// to users are reviewed here.
#[test]
fn messages() {
    let table = include_str!("messages.txt");
    let mut found = String::new();
    for case in table.split("=====\n").filter(|case| !case.is_empty()) {
        let (text, _) = case.split_once("-----\n").unwrap();
        let said = match Config::parse(text, "c.yaml") {
            Ok(config) => config.warnings().iter().map(|it| format!("warning: {it}\n")).collect(),
            Err(errors) => {
                // A `main` that returns the errors prints the same text.
                assert_eq!(format!("{errors:?}"), errors.to_string());
                format!("{errors}\n")
            }
        };
        found.push_str(&format!("=====\n{text}-----\n{said}"));
    }
    assert!(found == table, "messages.txt should hold:\n{found}");
}

#[test]
fn the_smallest_file_has_every_default() {
    let config = parse("limits: {demo: {policies: [\"token_bucket 10/s burst 20\"]}}");
    assert_eq!(config.store, StoreUrl::Memory);
    assert_eq!(config.listeners, ListenersConfig::default());
    assert_eq!(config.listeners.http.address.to_string(), "127.0.0.1:8080");
    assert_eq!(
        config.memory,
        MemoryConfig { max_keys: None, max_bytes: None, overflow: Overflow::Evict }
    );
    assert_eq!(config.redis.prefix, KeyPrefix::default());
    let demo = config.limit("demo").unwrap();
    assert_eq!(demo.key.to_string(), "ip");
    assert_eq!(demo.on_store_failure, OnStoreFailure::Error);
    assert_eq!(demo.deadline, Some(Duration::from_millis(50)));
    assert_eq!(policies(demo), ["token_bucket: token_bucket 10/s burst 20"]);
    assert!(config.warnings().is_empty());

    assert_eq!(config, Config::default());
    assert!(config.limit("other").is_none());
}

#[test]
fn a_file_with_every_field() {
    let config = parse(
        "store: valkey://user:secret@db:6380/2   # a comment
listeners: {http: \"[::1]:0\", grpc: {address: \"unix:/run/grpc?mode=660\"}}
limits:
  login:
    key: ip + user
    policies:
      - gcra 5/min
      - 'gcra 20/h'
      - >-
        fixed_window 100/d
        calendar Asia/Tokyo
      - sliding_log 10/s and 100/min as log
    on_store_failure: deny
    deadline: 1s
  404: {policies: [shaper 5/s queue 10], on_store_failure: allow}
memory: {}
redis:
  prefix: shop:sg
",
    );
    let StoreUrl::Redis(url) = &config.store else { panic!("{:?}", config.store) };
    assert_eq!(url, &"redis://user:secret@db:6380/2".parse().unwrap());
    assert_eq!(config.listeners.http.address.to_string(), "[::1]:0");
    let grpc = config.listeners.grpc.as_ref().unwrap();
    assert_eq!(grpc.address.to_string(), "unix:/run/grpc?mode=660");
    assert_eq!(config.redis.prefix.as_str(), "shop:sg");
    let names: Vec<_> = config.limits.iter().map(|limit| limit.limit.name().as_str()).collect();
    assert_eq!(names, ["login", "404"]);
    let login = &config.limits[0];
    assert_eq!(login.key.to_string(), "ip+user");
    assert_eq!(login.on_store_failure, OnStoreFailure::Deny);
    assert_eq!(login.deadline, Some(Duration::from_secs(1)));
    assert_eq!(
        policies(login),
        [
            "gcra: gcra 5/min",
            "gcra-2: gcra 20/h",
            "fixed_window: fixed_window 100/d calendar Asia/Tokyo",
            "log: sliding_log 10/s and 100/min as log",
        ]
    );
    assert_eq!(config.limits[1].on_store_failure, OnStoreFailure::Allow);
}

#[test]
fn the_embedded_store_can_be_bounded() {
    let config = parse(
        "memory: {max_keys: 500, max_bytes: 9000000, overflow: deny}\nlimits: {a: {policies: [gcra 5/s]}}",
    );
    assert_eq!(config.memory.max_keys.map(NonZeroUsize::get), Some(500));
    assert_eq!(config.memory.max_bytes.map(NonZeroUsize::get), Some(9_000_000));
    assert_eq!(config.memory.overflow, Overflow::Deny);
}

#[test]
fn replicas_acknowledge_what_the_configuration_says() {
    let config = parse(
        "store: redis://db
limits:
  a: {policies: [gcra 5/s], replicas: {within: 25ms}}
  b: {policies: [gcra 5/s], deadline: 1s, replicas: {acknowledge: 16, within: 500ms}}
  c: {policies: [gcra 5/s]}
",
    );
    let replicas =
        config.limits.iter().map(|limit| limit.replicas.map(|it| (it.replicas.get(), it.within)));
    let expected =
        [Some((1, Duration::from_millis(25))), Some((16, Duration::from_millis(500))), None];
    assert_eq!(replicas.collect::<Vec<_>>(), expected);
    assert!(config.warnings().is_empty());
}

#[test]
fn several_connections_to_a_server_are_a_whole_number_up_to_sixteen() {
    let with = |connections: &str| {
        format!(
            "store: redis://db\nredis: {{connections: {connections}}}\nlimits: {{a: {{policies: [gcra 5/s]}}}}"
        )
    };
    assert_eq!(parse(&with("16")).redis.connections.get(), 16);
    assert_eq!(parse("limits: {a: {policies: [gcra 5/s]}}").redis.connections.get(), 1);
    for wrong in ["0", "17", "2.5", "two", "-1"] {
        let expected =
            "c.yaml:2:22: redis.connections: must be a whole number from 1 to 16, but is";
        assert!(problems(&with(wrong)).contains(expected), "{}", problems(&with(wrong)));
    }
}

#[test]
fn anchors_aliases_and_merge_keys_stand_for_what_they_name() {
    let config = parse(
        "limits:
  a: &a {key: user, deadline: 1s, policies: &usual [gcra 5/s]}
  b: {policies: *usual}
  c:
    <<: *a
    key: host
",
    );
    assert_eq!(policies(&config.limits[1]), ["gcra: gcra 5/s"]);
    assert_eq!(config.limits[2].key.to_string(), "host");
    assert_eq!(config.limits[2].deadline, Some(Duration::from_secs(1)));
    assert_eq!(policies(&config.limits[2]), ["gcra: gcra 5/s"]);
}

#[test]
fn a_number_that_is_a_key_twice_is_refused_wherever_it_stands() {
    for text in [
        "limits: {404: {policies: [gcra 5/s]}, 404: {policies: [gcra 6/s]}}",
        "limits: {404: {policies: [gcra 5/s]}, a: {policies: [gcra 5/s]}, a: {policies: [gcra 6/s]}}",
        "limits: {a: {policies: [gcra 5/s]}, 404: {policies: [gcra 5/s]}, a: {policies: [gcra 6/s]}}",
    ] {
        assert!(problems(text).contains("is set twice: keep one"), "{}", problems(text));
    }
}

#[test]
fn what_can_hardly_be_meant_is_warned_of() {
    let config = parse(
        "limits:
  log:
    policies:
      - sliding_log 10/s and 100/min and 600/min and 10/s and 1000/h as a
      - sliding_log 5/s and 1000/min and 5/500ms as b
  watch:
    policies: [gcra 5/s shadow, fixed_window 5/s shadow]
redis: {prefix: x}
",
    );
    let warnings: Vec<String> = config.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "c.yaml:4:9: limits.log.policies[0]: the tier `600/min` never refuses what `10/s` admits: remove it, or lower its limit",
            "c.yaml:4:9: limits.log.policies[0]: the tier `10/s` never refuses what `10/s` admits: remove it, or lower its limit",
            "c.yaml:5:9: limits.log.policies[1]: the tier `1000/min` never refuses what `5/s` admits: remove it, or lower its limit",
            "c.yaml:5:9: limits.log.policies[1]: the tier `5/500ms` never refuses what `5/s` admits: remove it, or lower its limit",
            "c.yaml:7:15: limits.watch.policies: every policy is a shadow: the limit never refuses anything",
            "c.yaml:8:1: redis: has no effect while `store` is memory:",
        ]
    );

    let former =
        parse("store: redis://db\nredis: {prefix: tg}\nlimits: {a: {policies: [gcra 5/s]}}");
    assert_eq!(former.redis.prefix, "tg".parse().unwrap());
    let warning = former.warnings()[0].to_string();
    assert!(warning.starts_with("c.yaml:2:17: redis.prefix: `tg` was the default"), "{warning}");

    let idle =
        parse("store: redis://db\nmemory: {max_keys: 5}\nlimits: {a: {policies: [gcra 5/s]}}");
    assert_eq!(
        idle.warnings()[0].to_string(),
        "c.yaml:2:1: memory: has no effect while `store` is redis://db:6379"
    );
}

#[test]
fn files_are_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("limits.yaml");
    let shown = path.display().to_string();
    let failure = || Config::load(&path).unwrap_err();

    // The spelling depends on the system.
    assert!(
        failure().to_string().starts_with(&format!("{shown}: can't be read: ")),
        "{}",
        failure()
    );
    assert_eq!(failure().problems()[0].line(), None);
    assert!(Config::load(folder.path()).is_err());

    // Some editors begin a file with a byte order mark.
    fs::write(&path, format!("\u{feff}{}", Config::DEMO)).unwrap();
    assert_eq!(Config::load(&path).unwrap(), Config::default());

    fs::write(&path, b"limits:\n  b\xc3\xb6se: \xff\n").unwrap();
    assert_eq!(
        failure().to_string(),
        format!("{shown}:2:9: the file is not UTF-8: byte 0xff stands here; save it as UTF-8")
    );
    // Cut off inside of a character.
    fs::write(&path, b"limits: \xc3").unwrap();
    assert_eq!(failure().problems()[0].column(), Some(9));

    let padded = |bytes: usize| Config::DEMO.to_owned() + &"\n".repeat(bytes - Config::DEMO.len());
    let caps = ConfigCaps::default().max_bytes(1_000);
    fs::write(&path, padded(1_000)).unwrap();
    assert_eq!(Config::load_within(&path, caps).unwrap(), Config::default());
    fs::write(&path, padded(1_001)).unwrap();
    let too_large = "the file has more than 1000 bytes, the maximum: raise it with \
                     --config-max-bytes, or in code with `ConfigCaps`";
    let errors = Config::load_within(&path, caps).unwrap_err();
    assert_eq!(errors.to_string(), format!("{shown}: {too_large}"));
    let errors = Config::parse_within(&padded(1_001), "c.yaml", caps).unwrap_err();
    assert_eq!(errors.problems()[0].message(), too_large);
    assert_eq!(Config::load(&path).unwrap(), Config::default());
}

#[test]
fn a_file_of_very_many_values_is_refused() {
    let text = format!("limits: [{}]", "x,".repeat(200_000));
    let caps = ConfigCaps::default();
    assert_eq!((caps.max_bytes, caps.max_values), (64 << 20, 5_000_000));
    let errors = Config::parse_within(&text, "c.yaml", caps.max_values(100_000)).unwrap_err();
    assert!(
        errors.to_string().contains("the file has more than 100000 values, the maximum: raise it"),
        "{errors}"
    );
    // Under the default caps it is read, and the limits are wrong.
    assert!(problems(&text).contains("limits: must be a map"), "{}", problems(&text));
    for open in ["[", "{a: ", "- ", "? "] {
        assert!(Config::parse(&open.repeat(200_000), "c.yaml").is_err());
    }
}

#[test]
fn an_alias_for_every_limit_is_no_bomb() {
    let mut text =
        "limits:\n  first: &all {policies: [gcra 5/s, gcra 50/min as b], key: user}\n".to_owned();
    for index in 0..20_000 {
        text.push_str(&format!("  limit{index}: *all\n"));
    }
    assert_eq!(parse(&text).limits.len(), 20_001);
    // A small file whose aliases double ten times for each line is refused.
    let mut bomb = "a: &a0 [x]\n".to_owned();
    for index in 1..30 {
        let all = vec![format!("*a{}", index - 1); 10].join(", ");
        bomb.push_str(&format!("b{index}: &a{index} [{all}]\n"));
    }
    assert!(problems(&bomb).contains("stand for too much"), "{}", problems(&bomb));
}

#[test]
fn keys_are_read_from_files_with_one_entry_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let text = format!(
        "limits:\n  api:\n    key: user\n    policies: [gcra 1/h burst 2]\n    block: [eve]\n    \
         allow_file: {}\n    block_file: {}\n    overrides: [{{key: first, times: 2}}]\n    \
         overrides_file: {}\n",
        path("allow.txt"),
        path("block.txt"),
        path("overrides.txt"),
    );
    let write = |name: &str, text: &str| fs::write(path(name), text).unwrap();
    write("allow.txt", "\u{feff}# staff\nalice\r\n\n  team-*  \n");
    write("block.txt", "mallory\n\\x23hash\n10.0.0.0/8");
    write(
        "overrides.txt",
        "{key: acme, times: 10}\n# JSON\n{\"key\": \"globex\", \"policies\": [\"gcra 1/h burst 7\"]}\n",
    );
    let config = parse(&text);
    let api = config.limit("api").unwrap();
    let shown = |list: &[KeyMatcher]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(shown(&api.allow), ["alice", "team-*"]);
    assert_eq!(shown(&api.block), ["eve", "mallory", "#hash", "10.0.0.0/8"]);
    let overrides = api
        .overrides
        .iter()
        .map(|it| (it.key().to_string(), it.limit().members()[0].policy().to_string()));
    assert_eq!(
        overrides.map(|(key, policy)| format!("{key} {policy}")).collect::<Vec<_>>(),
        ["first gcra 2/h burst 4", "acme gcra 10/h burst 20", "globex gcra 1/h burst 7"]
    );
    assert_eq!(config.files().len(), 3);

    // Each mistake is reported with its file and line.
    write("allow.txt", "alice\n\n  a*b\nalice\n");
    write("block.txt", "ok\nalice\n");
    write(
        "overrides.txt",
        "{key: acme, times: 10}\n{key: acme, times: 2}\n  {key: a, times: x}\n{key: b\nnothing\n{key: c, time: 3}\n",
    );
    let shown = problems(&text).replace(&format!("{}/", folder.path().display()), "");
    let expected = [
        "allow.txt:3:4: limits.api.allow_file: `a*b` has a `*`",
        "allow.txt:4:1: limits.api.allow_file: is set twice",
        "block.txt:2:1: limits.api.block_file: is listed twice, here or in `allow`",
        "overrides.txt:2:7: limits.api.overrides_file: is set twice",
        "overrides.txt:3:19: limits.api.overrides_file.times: must be a number",
        "overrides.txt:4:",
        "overrides.txt:5:1: limits.api.overrides_file: must be a map with the fields key, policies, times",
        "overrides.txt:6:10: limits.api.overrides_file.time: is not a field",
        "overrides.txt:6:1: limits.api.overrides_file: has no numbers",
    ];
    for line in expected {
        assert!(shown.lines().any(|shown| shown.starts_with(line)), "no `{line}` in\n{shown}");
    }
    // A file that can't be read is reported at the place that names it.
    fs::remove_file(path("allow.txt")).unwrap();
    let shown = problems(&text);
    assert!(shown.contains("c.yaml:6:17: limits.api.allow_file: `"), "{shown}");
    write("allow.txt", "");
    fs::write(path("block.txt"), b"ok\nbad \xff\n").unwrap();
    let shown = problems(&text);
    assert!(
        shown.contains("block.txt:2:5: limits.api.block_file: the file is not UTF-8"),
        "{shown}"
    );
}

#[test]
fn the_caps_bound_a_configuration_together_with_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("block.txt");
    fs::write(&path, "a\n".repeat(50) + &(0..100).map(|n| format!("k{n}\n")).collect::<String>())
        .unwrap();
    let text = format!("limits: {{a: {{policies: [gcra 5/s], block_file: {}}}}}", path.display());
    let caps = ConfigCaps::default();
    let refused = |caps| Config::parse_within(&text, "c.yaml", caps).unwrap_err().to_string();
    assert!(refused(caps.max_values(60)).contains("raise the maximum with --config-max-values"));
    assert!(
        refused(caps.max_bytes(text.len() + 60))
            .contains("raise the maximum with --config-max-bytes")
    );
    // Many mistakes of one kind don't take more memory than some of them.
    fs::write(&path, "a*b\n".repeat(20_000)).unwrap();
    let errors = Config::parse_within(&text, "c.yaml", caps).unwrap_err();
    assert_eq!(errors.problems().len(), 1_001);
    assert!(
        errors.to_string().ends_with("c.yaml: 19000 more like these are not listed"),
        "{errors}"
    );
}

#[test]
fn very_many_overrides_are_read_and_none_is_alone_within_a_wider_one() {
    use std::fmt::Write as _;
    let mut text =
        "limits:\n  api:\n    key: user\n    policies: [gcra 1/h burst 2]\n    overrides:\n"
            .to_owned();
    for index in 0..20_000 {
        writeln!(text, "      - {{key: user-{index}, times: {}}}", index % 100 + 2).unwrap();
    }
    let config = parse(&text);
    assert!(config.warnings().is_empty());
    assert_eq!(config.limit("api").unwrap().overrides.len(), 20_000);
    // An override that changes nothing is useful only within a wider entry.
    text.push_str("      - {key: same, times: 1}\n");
    assert_eq!(parse(&text).warnings().len(), 1);
    text.push_str("      - {key: sa*, times: 2}\n");
    assert_eq!(parse(&text).warnings().len(), 0);
}

#[test]
fn a_week_that_is_aligned_turns_over_on_thursdays_and_the_check_says_so() {
    for (spec, is_told) in [
        ("fixed_window 1/w aligned", true),
        ("fixed_window 1/2w aligned", true),
        ("fixed_window 1/14d aligned", true),
        ("fixed_window 1/d aligned", false),
        ("fixed_window 1/w", false),
        ("fixed_window 1/w calendar UTC", false),
        ("fixed_window 1/w calendar UTC start thursday", false),
    ] {
        let config = parse(&format!("limits: {{a: {{policies: [{spec}]}}}}"));
        let told: Vec<String> = config.warnings().iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), usize::from(is_told), "{spec}: {told:?}");
        assert!(told.iter().all(|it| it.contains("Thursdays at 00:00 UTC")), "{told:?}");
    }
}

#[test]
fn passwords_are_never_shown() {
    for text in [
        "store: redis://user:secret@:1",
        "store: redis://user:secret@db:x",
        "store: redis://user:secret@db/x",
        "store: redis://user:secret@db?x",
        "store: redis://user:secret@db/0 x",
        "store: rediss://user:secret@db",
        "store: user:secret@db",
        "store: user:secret@db://x",
        "store: memory://secret",
        "store: redis://user:secret@db",
    ] {
        let shown = problems(text);
        assert!(!shown.contains("secret"), "{shown}");
    }
    let config =
        parse("store: redis://user:se@cret@db\nmemory: {}\nlimits: {a: {policies: [gcra 5/s]}}");
    assert!(!format!("{config:?} {}", config.store).contains("cret"), "{config:?}");
}

#[test]
fn store_urls() {
    for (text, shown) in [
        ("memory", "memory:"),
        ("memory:", "memory:"),
        ("redis://localhost", "redis://localhost:6379"),
        ("valkeys://:p@[::1]/0?ca=/ca", "rediss://***@[::1]:6379?ca=/ca"),
    ] {
        assert_eq!(text.parse::<StoreUrl>().unwrap().to_string(), shown);
    }
    for (text, why) in [
        ("memory:x", "`memory:` takes nothing"),
        ("memory://", "`memory:` takes nothing"),
        ("redis://", "no host"),
    ] {
        let error = text.parse::<StoreUrl>().unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
}

/// Checks the properties of every answer, for any request.
fn is_an_answer(text: &str) -> Result<(), TestCaseError> {
    let lines = text.lines().count() as u64 + 1;
    match Config::parse(text, "c.yaml") {
        Ok(config) => prop_assert!(!config.limits.is_empty()),
        Err(errors) => {
            prop_assert!(!errors.problems().is_empty());
            for problem in errors.problems() {
                prop_assert!(problem.line().is_some_and(|line| line <= lines), "{problem}");
                prop_assert!(problem.column().is_some_and(|column| column >= 1), "{problem}");
                prop_assert_eq!(problem.message().lines().count(), 1);
            }
            let shown = errors.to_string();
            prop_assert!(!shown.chars().any(|c| c.is_control() && c != '\n'));
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_text_is_answered(text in any::<String>()) {
        is_an_answer(&text)?;
    }

    #[test]
    fn any_limit_is_answered(value in "[ -~\n\u{e9}]{0,40}") {
        is_an_answer(&format!("limits:\n  demo:\n    policies: [gcra 5/s]\n    {value}\n"))?;
        is_an_answer(&format!("limits:\n  demo:\n    policies:\n      - {value}\n"))?;
    }

    #[test]
    fn one_changed_character_is_answered(
        at in any::<prop::sample::Index>(),
        new in prop_oneof![any::<char>(), "[-:&*!|>'\"{}\\[\\]#%@,? \t\n]".prop_map(|text| text.chars().next().unwrap_or(' '))],
    ) {
        let mut text: Vec<char> = Config::DEMO.chars().collect();
        let at = at.index(text.len());
        text[at] = new;
        is_an_answer(&text.into_iter().collect::<String>())?;
    }
}

#[test]
fn every_character_that_changes_or_ends_a_file_is_answered() {
    let every_field = examples(include_str!("../../../../docs/configuration.md"))[0];
    // The long text has a quarter of the new characters at each place, by turns.
    for (text, step) in [(Config::DEMO, 1), (every_field, 4)] {
        for (at, old) in text.char_indices() {
            let (before, after) = (&text[..at], &text[at + old.len_utf8()..]);
            let new = "#:-[]{}\"'|>&*!%@,? \t\nx0".chars().skip(at % step).step_by(step);
            let changed = new.map(|new| format!("{before}{new}{after}"));
            for changed in changed.chain([before.to_owned(), format!("{before}{after}")]) {
                is_an_answer(&changed).unwrap_or_else(|error| panic!("{error}\n{changed}"));
            }
        }
    }
}

#[test]
fn a_field_without_a_value_is_named() {
    let errors = Config::parse("limits:\n  demo:\n    policies:\n", "c.yaml").unwrap_err();
    assert!(errors.to_string().starts_with("c.yaml:2:3: limits.demo: has no policies"), "{errors}");
}

/// Returns the examples of a guide.
fn examples(guide: &str) -> Vec<&str> {
    guide.split("```yaml\n").skip(1).map(|rest| rest.split_once("```").unwrap().0).collect()
}

#[test]
fn the_limits_of_guides_and_recipes_are_right() {
    let pages = [
        (include_str!("../../../../docs/coming-from.md"), 2),
        (include_str!("../../../../docs/start.md"), 1),
        (include_str!("../../../../docs/recipes/bans.md"), 1),
        (include_str!("../../../../docs/recipes/grpc.md"), 1),
        (include_str!("../../../../docs/recipes/lockout.md"), 1),
        (include_str!("../../../../docs/recipes/public-api.md"), 1),
        (include_str!("../../../../docs/recipes/tiers.md"), 1),
        (include_str!("../../../../docs/recipes/zones.md"), 1),
    ];
    for (page, count) in pages {
        let examples = examples(page);
        assert_eq!(examples.len(), count, "{page}");
        for example in examples {
            assert!(parse(example).warnings().is_empty(), "{example}");
        }
    }
}

/// Checks the examples of Envoy's page; others on it are Envoy's own configuration.
#[test]
fn the_limits_of_envoys_page_are_right() {
    let examples = examples(include_str!("../../../../docs/envoy.md"));
    let is_ours = |text: &&str| text.lines().any(|line| line == "limits:");
    let ours: Vec<_> = examples.into_iter().filter(is_ours).collect();
    assert_eq!(ours.len(), 2);
    for example in ours {
        let config = parse(example);
        assert!(config.warnings().is_empty() && !config.envoy.domains.is_empty(), "{example}");
    }
}

/// Checks the examples of the guide. The first one shows every default.
#[test]
fn the_guide_is_right() {
    let examples = examples(include_str!("../../../../docs/configuration.md"));
    assert_eq!(examples.len(), 7);
    for example in &examples {
        assert!(parse(example).warnings().is_empty(), "{example}");
    }
    let written = parse(examples[0]);
    let mut least = parse(
        "limits: {login: {policies: [\"token_bucket 5/min burst 3\", \"fixed_window 100/d as day\"]}}",
    );
    let login = Arc::make_mut(&mut least.limits[0]);
    // The default makes the same keys of requests.
    assert_eq!(login.key.to_string(), written.limits[0].key.to_string());
    login.key.clone_from(&written.limits[0].key);
    login.allow.clone_from(&written.limits[0].allow);
    login.block.clone_from(&written.limits[0].block);
    login.overrides.clone_from(&written.limits[0].overrides);
    least.memory.max_keys = written.memory.max_keys;
    least.memory.max_bytes = written.memory.max_bytes;
    least.metrics.max_series = written.metrics.max_series;
    assert_eq!(written, least);
}

/// Checks the values in the guide's tables that are written as in a file.
#[test]
fn every_value_that_the_guide_names_is_one() {
    let guide = include_str!("../../../../docs/configuration.md");
    let (mut section, mut tried) = ("", 0);
    for line in guide.lines() {
        section = line.strip_prefix("## ").unwrap_or(section);
        let mut cells = line.split(" | ");
        let (Some(fields), Some(values), Some(_)) = (cells.next(), cells.next(), cells.next())
        else {
            continue;
        };
        let words = |cell: &str| -> Vec<String> {
            cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
        };
        let has_placeholders = values.contains(char::is_uppercase);
        if has_placeholders || section.starts_with("URLs") || !values.starts_with('`') {
            continue;
        }
        for (field, value) in words(fields)
            .iter()
            .flat_map(|field| words(values).into_iter().map(move |value| (field.clone(), value)))
        {
            let text = match (section, field.split_once('.')) {
                ("The whole", None) => format!("{field}: {value}\n{LIMIT}"),
                ("A limit", _) => format!("{PROCESSES}{LIMIT}    {field}: {value}\n"),
                (_, Some((map, field))) => format!("{map}: {{{field}: {value}}}\n{LIMIT}"),
                (map, None) => format!("{}: {{{field}: {value}}}\n{LIMIT}", map.replace('`', "")),
            };
            if let Err(error) = Config::parse(&text, "c.yaml") {
                panic!("{error}\n{text}");
            }
            tried += 1;
        }
    }
    assert!(tried >= 30, "{tried} were found");
}

const LIMIT: &str = "limits:\n  demo:\n    policies: [gcra 5/s]\n";
const PROCESSES: &str = "fallback: {processes: 4}\n";

#[test]
fn a_blocked_address_that_a_key_of_the_client_s_choice_passes_by_is_warned_of() {
    let warnings = |key: &str, block: &str| {
        let text =
            format!("limits: {{a: {{policies: [gcra 1/s], key: '{key}', block: [{block}]}}}}");
        parse(&text).warnings().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    for (key, block) in
        [("header:x-api-key or ip", "k, 10.0.0.0/8"), ("header:x-k+ip or user", "10.1.6.6")]
    {
        let told = warnings(key, block);
        assert!(
            told.len() == 1 && told[0].contains("block addresses in a limit with `key: ip`"),
            "{told:?}"
        );
    }
    for (key, block) in
        [("ip", "10.0.0.0/8"), ("header:x-api-key or ip", "k"), ("user+ip or ip", "10.1.6.6")]
    {
        assert_eq!(warnings(key, block), [""; 0], "{key}");
    }
}

#[test]
fn permits_are_not_decided_locally() {
    let text = format!(
        "{PROCESSES}limits: {{jobs: {{policies: [concurrency 9 hold 30s], on_store_failure: local}}}}"
    );
    let error = Config::parse(&text, "limits.yaml").unwrap_err().to_string();
    let expected = "limits.jobs.on_store_failure: `local` doesn't support `concurrency`";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn an_override_multiplies_permits_and_their_queue() {
    let text = "limits: {jobs: {policies: [concurrency 9 hold 30s queue 4], overrides: [{key: k, times: 2}]}}";
    let limit = parse(text).limits[0].overrides[0].limit().clone();
    assert_eq!(limit.members()[0].policy().to_string(), "concurrency 18 hold 30s queue 8");
}

#[test]
fn what_becomes_of_expired_holds_is_one_of_two_words() {
    let limit = |word: &str| format!("limits: {{l: {{policies: [gcra 1/s], on_expiry: {word}}}}}");
    let on_expiry = |text: &str| parse(text).limits[0].limit.on_expiry(0);
    assert_eq!(on_expiry("limits: {l: {policies: [gcra 1/s]}}"), OnExpiry::Keep);
    assert_eq!(on_expiry(&limit("keep")), OnExpiry::Keep);
    assert_eq!(on_expiry(&limit("return")), OnExpiry::Return);
    for (word, message) in [
        (
            "returned",
            "limits.l.on_expiry: must be one of keep, return, but is `returned`: did you mean `return`?",
        ),
        ("true", "limits.l.on_expiry: must be one of keep, return"),
    ] {
        let error = Config::parse(&limit(word), "limits.yaml").unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    // Keys with other numbers also have it.
    let with_override =
        "limits: {l: {policies: [gcra 1/s], on_expiry: return, overrides: [{key: k, times: 2}]}}";
    let config = parse(with_override);
    assert_eq!(config.limits[0].overrides[0].limit().on_expiry(0), OnExpiry::Return);
}

#[test]
fn a_ban_is_a_line_or_a_map_and_what_is_wrong_with_it_is_said() {
    let limit = |ban: &str| format!("limits: {{l: {{policies: [gcra 1/s], ban: {ban}}}}}");
    let ban = |text: &str| parse(&limit(text)).limits[0].limit.ban(0).map(ToString::to_string);
    let expected = Some("5/min for 15min doubling up to 1d".to_owned());
    assert_eq!(ban("5/1min for 15min doubling"), expected);
    assert_eq!(ban("{after: 5/1min, for: 15min, doubling: true, up_to: 24h}"), expected);
    assert_eq!(ban("{after: 2/h, for: 1h}"), Some("2/h for 1h up to 1d".to_owned()));
    for (text, message) in [
        ("true", "limits.l.ban: must be a ban such as"),
        ("{after: 5/1min}", "limits.l.ban: has no `for`: add it, such as `for: 15min`"),
        ("{for: 5min}", "limits.l.ban: has no `after`: add it, such as `after: 5/1min`"),
        ("{after: 0/min, for: 5min}", "limits.l.ban.after: is 0 denials, but must be from 1 to"),
        ("{after: 5/min, for: 1ms}", "limits.l.ban.for: is 1ms, but must be from 1s to 30d"),
        ("{after: 5/min, for: 15}", "limits.l.ban.for: `15` has no unit"),
        ("{after: 5/min, for: 1h, up_to: 1min}", "limits.l.ban.up_to: is 1min, shorter than"),
        ("{after: 5/min, for: 1h, upto: 2h}", "did you mean `up_to`?"),
        ("5/min 15min", "limits.l.ban: ban: `5/min 15min` doesn't say for how long"),
    ] {
        let error = Config::parse(&limit(text), "limits.yaml").unwrap_err().to_string();
        assert!(error.contains(message), "{text}: {error}");
    }
    let leased = "limits: {l: {policies: [gcra 1/s], ban: 5/min for 1h, leases: true}}";
    let error = Config::parse(leased, "limits.yaml").unwrap_err().to_string();
    assert!(error.contains("can't be leased, since it bans keys"), "{error}");
    let shadow = parse("limits: {l: {policies: [gcra 1/s shadow], ban: 5/min for 1h}}");
    let warnings: Vec<String> = shadow.warnings().iter().map(ToString::to_string).collect();
    assert!(
        warnings.iter().any(|it| it.contains("only manual bans have an effect")),
        "{warnings:?}"
    );
}
