//! Tests commands, their output and their exit status.

use serde_json::json;

use sluicegate_testkit::servers::{fresh_prefix, shared};

use crate::support::{File, Service, own_store, sluicegate};

const LIMITS: &str = r#"
limits:
  login: {policies: ["token_bucket 1/h burst 2", "fixed_window 100/d as day"]}
  none: {policies: ["fixed_window 0/d"]}
"#;

/// Note on standard error about the store `memory:`.
const FRESH: &str = "note: this command's store `memory:` is new, and every key is unused; --server or --store redis://HOST:PORT names a shared one\n";

#[test]
fn a_check_prints_a_line_per_policy() {
    let file = File::new("limits.yaml", LIMITS);
    let check = |args: &[&str]| {
        sluicegate(
            &[&["check", "--config", file.path(), "--limit", "login", "--key", "alice"], args]
                .concat(),
        )
    };
    let allowed = check(&[]);
    assert_eq!((allowed.status, allowed.stderr.as_str()), (0, FRESH));
    assert_eq!(
        allowed.stdout,
        "allowed  login/token_bucket  1 of 2 left, like new in 1 h\n\
         allowed  login/day  99 of 100 left, like new in 1 d\n"
    );
    let denied = check(&["--cost", "3"]);
    assert_eq!((denied.status, denied.stderr.as_str()), (1, FRESH));
    assert_eq!(
        denied.stdout,
        "denied   login/token_bucket  2 of 2 left, could never pass, like new\n\
         allowed  login/day  100 of 100 left, like new\n"
    );
    let each = check(&["--cost", "token_bucket=0", "--cost", "day=100", "--json"]);
    assert_eq!(each.status, 0);
    assert_eq!(each.json()["policies"][1]["remaining"], 0);
    let named = check(&["--cost", "day=3", "--json"]);
    let left = [0, 1].map(|index| named.json()["policies"][index]["remaining"].clone());
    assert_eq!(left, [2, 97], "who isn't named isn't touched");
    let rest = check(&["--cost", "1", "--cost", "day=3", "--json"]);
    let left = [0, 1].map(|index| rest.json()["policies"][index]["remaining"].clone());
    assert_eq!(left, [1, 97]);
}

#[test]
fn every_verb_has_json_like_the_service() {
    let (url, prefix) = (shared().unwrap().url(), fresh_prefix("bin"));
    let config = format!(
        "redis: {{prefix: \"{prefix}\"}}\nlimits: {{demo: {{policies: [token_bucket 10/s burst 20]}}}}"
    );
    let config = File::new("limits.yaml", &config);
    let to = ["--store", &url, "--config", config.path()];
    for (verb, remaining) in [
        ("acquire", 19),
        ("charge", 19),
        ("check", 19),
        ("peek", 20),
        ("refund", 20),
        ("reset", 20),
        ("take", 19),
    ] {
        let within = if verb == "acquire" { &["--within", "2s"][..] } else { &[] };
        let args = [&[verb, "--limit", "demo", "--key", "alice", "--json"], within, &to].concat();
        let done = sluicegate(&args);
        sluicegate(&[&["reset", "--limit", "demo", "--key", "alice"][..], &to].concat());
        assert_eq!((done.status, done.stderr.as_str()), (0, ""), "{verb}");
        let mut expected = json!({
            "allowed": true, "limit": "demo", "source": "store", "binding": null,
            "retry_after_ms": 0, "retry_after_us": 0,
            "policies": [{
                "name": "token_bucket", "limit": 20, "remaining": remaining,
                "retry_after_ms": 0, "retry_after_us": 0, "reset_after_ms": (20 - remaining) * 100,
                "reset_after_us": (20 - remaining) * 100_000, "allowed": true,
            }],
        });
        match verb {
            "refund" => expected["policies"][0]["given_back"] = json!(0),
            "reset" => expected["forgotten"] = json!(false),
            "take" => expected["granted"] = json!(1),
            _ => {}
        }
        assert_eq!(done.json(), expected, "{verb}");
    }
    let denied =
        sluicegate(&["peek", "--limit", "demo", "--key", "alice", "--cost", "21", "--json"]);
    assert_eq!((denied.status, denied.json()["retry_after_ms"].clone()), (1, json!(null)));
}

#[test]
fn what_is_to_be_corrected_is_exit_2_and_says_how() {
    let broken = File::new("limits.yaml", "limits: {login: {policies: [gcra 5/m]}}");
    for (args, words) in [
        (
            vec!["check", "--limit", "demo", "--key", "a", "--cost", "0"],
            "from 1 to 9007199254740991",
        ),
        (vec!["check", "--limit", "demo", "--key", "a", "--cost", "1.5"], "whole number"),
        (vec!["check", "--limit", "demo", "--key", "a", "--cost=-1"], "whole number"),
        (vec!["check", "--limit", "nobody", "--key", "a", "--cost", "0"], "whole number"),
        (
            vec!["check", "--limit", "demo", "--key", "a", "--cost", "1", "--cost", "2"],
            "more than once",
        ),
        (vec!["check", "--limit", "demo", "--key", "a", "--cost", "other=1"], "token_bucket"),
        (vec!["check", "--limit", "nobody", "--key", "a"], "the limits are demo"),
        (vec!["check", "--limit", "demo"], "--key"),
        (vec!["check", "--limit", "demo", "--key", "a", "--deadline", "5m"], "min"),
        (vec!["check", "--limit", "demo", "--key", "a", "--deadline", "1h"], "from 1ms to 60s"),
        (vec!["check", "--limit", "demo", "--key", "a", "--store", "http://x"], "memory:"),
        (
            vec!["check", "--limit", "demo", "--key", "a", "--config", "/no/such.yaml"],
            "/no/such.yaml",
        ),
        (vec!["check", "--limit", "login", "--key", "a", "--config", broken.path()], ":1:36: "),
        (vec!["serve", "--listen", "nowhere"], "has no port: write nowhere:8080"),
        (vec!["serve", "--health", "8080"], "write :8080 for all addresses"),
        (
            vec!["serve", "--listen", "no-such-host.invalid:0"],
            "can't listen on no-such-host.invalid:0",
        ),
        (vec!["serve", "--config", broken.path()], ":1:36: "),
        (vec!["serve", "--store", "redis://"], "no host"),
        (vec!["conformance"], "FILE"),
        (vec!["frobnicate"], "frobnicate"),
    ] {
        let done = sluicegate(&args);
        assert_eq!((done.status, done.stdout.as_str()), (2, ""), "{args:?}");
        assert!(
            done.stderr.starts_with("error: ") && done.stderr.contains(words),
            "{args:?}: {}",
            done.stderr
        );
    }
}

/// Telegram's group ids begin with a dash.
#[test]
fn a_key_that_begins_with_a_dash_is_a_key() {
    for key in ["-1001234567890", "-", "--", "--key", "-h", "--json"] {
        let done = sluicegate(&["check", "--limit", "demo", "--key", key]);
        assert_eq!(done.status, 0, "{key}: {done:?}");
    }
    let limits = "limits: {\"-a\": {policies: [token_bucket 1/h burst 9, concurrency 9 hold 30s], ban: 5/min for 15min}}";
    let file = File::new("limits.yaml", &(own_store(shared().unwrap().url()) + limits));
    let key = ["--config", file.path(), "--limit", "-a", "--key", "-100"];
    for (verb, more) in [
        ("acquire", &["--within", "1s"][..]),
        ("ban", &["--for", "1h"]),
        ("unban", &[]),
        ("pause", &["--for", "1h"]),
        ("resume", &[]),
        ("charge", &["--request-id", "-1"]),
        ("check", &["--request-id", "-2"]),
        ("peek", &[]),
        ("refund", &[]),
        ("take", &[]),
        ("holders", &[]),
        ("reset", &[]),
    ] {
        let done = sluicegate(&[&[verb], &key[..], more].concat());
        assert_eq!(done.status, 0, "{verb}: {done:?}");
    }
    let id = ["--hold", "00112233445566778899aabbccddeeff"];
    assert_eq!(sluicegate(&[&["revoke"], &key[..], &id].concat()).status, 1);
    // The error for an invalid value says what it must be.
    let done = sluicegate(&["check", "--limit", "demo", "--key", "a", "--cost", "-1"]);
    assert!(done.stderr.contains("a cost must be a whole number"), "{}", done.stderr);
}

#[test]
fn a_reset_of_a_store_that_no_other_process_has_said_unchanged() {
    let file =
        File::new("limits.yaml", &LIMITS.replace("}\n  none", ", ban: 5/min for 15min}\n  none"));
    let token = ["--hold", "1:00112233445566778899aabbccddeeff:login:61"];
    let key = ["--limit", "login", "--key", "a"];
    for args in [
        [&["ban", "--for", "1h"], &key[..]].concat(),
        [&["charge"], &key[..]].concat(),
        [&["refund"], &key[..]].concat(),
        [&["reserve", "--within", "1s"], &key[..]].concat(),
        [&["reset"], &key[..]].concat(),
        [&["unban"], &key[..]].concat(),
        [&["pause", "--for", "1h"], &key[..]].concat(),
        [&["resume"], &key[..]].concat(),
        [&["holders"], &key[..]].concat(),
        [&["revoke", "--hold", "00112233445566778899aabbccddeeff"], &key[..]].concat(),
        vec!["bans", "--limit", "login"],
        [&["cancel"], &token[..]].concat(),
        [&["release"], &token[..]].concat(),
        [&["renew", "--for", "30s"], &token[..]].concat(),
        [&["settle", "--used", "1"], &token[..]].concat(),
    ] {
        for to in [&["--config", file.path()][..], &["--config", file.path(), "--store", "memory:"]]
        {
            let done = sluicegate(&[&args[..], to].concat());
            assert_eq!((done.status, &*done.stdout), (2, ""), "{args:?}: {done:?}");
            assert!(
                done.stderr.contains("name a running service with --server"),
                "{}",
                done.stderr
            );
        }
    }
    let reset = sluicegate(&["reset", "--limit", "demo", "--key", "x"]);
    assert!(
        reset.status == 2 && reset.stderr.starts_with("error: `memory:` is a new, empty store")
    );
    for verb in [&["acquire", "--within", "0s"][..], &["check"], &["peek"], &["take"]] {
        let done = sluicegate(&[verb, &["--limit", "demo", "--key", "x"]].concat());
        assert_eq!((done.status, &*done.stderr), (0, FRESH), "{verb:?}");
    }
}

#[test]
fn an_option_that_is_given_twice_is_refused() {
    let check = ["check", "--limit", "demo", "--key", "a"];
    for more in [
        &["--config", "a", "--config", "b"][..],
        &["--store", "memory:", "--store", "memory:"],
        &["--server", "http://a", "--server", "http://b"],
        &["--deadline", "1s", "--deadline", "2s"],
        &["--hold", "1s", "--hold", "2s"],
        &["--request-id", "a", "--request-id", "b"],
        &["--json", "--json"],
        &["--key", "b"],
    ] {
        let done = sluicegate(&[&check[..], more].concat());
        assert_eq!((done.status, &*done.stdout), (2, ""), "{more:?}: {done:?}");
    }
}

#[test]
fn a_password_is_never_printed() {
    for url in
        ["redis://user:hunter2@", "redis://user:hunter2@127.0.0.1:1", "rediss://user:hunter2@h"]
    {
        let done = sluicegate(&["check", "--limit", "demo", "--key", "a", "--store", url]);
        assert!(done.status >= 2, "{url}");
        assert!(!done.stderr.contains("hunter2"), "{}", done.stderr);
    }
}

#[test]
fn a_key_on_the_block_list_is_denied() {
    let limits = "limits: {api: {policies: [gcra 5/s], block: [mallory], allow: [alice]}}";
    let file = File::new("limits.yaml", limits);
    let ask = |verb: &str, key: &str| {
        sluicegate(&[verb, "--config", file.path(), "--limit", "api", "--key", key])
    };
    for verb in ["check", "peek"] {
        let done = ask(verb, "mallory");
        assert_eq!((done.status, done.stderr.as_str()), (1, FRESH), "{verb}");
        assert_eq!(
            done.stdout,
            "denied   api  no policy was checked: the key is on the limit's block list\n"
        );
        assert_eq!(ask(verb, "alice").status, 0);
    }
}

#[test]
fn config_check_reports_every_error_with_line_and_column() {
    let good = File::new("good.yaml", &LIMITS.replace("0/d", "1/d"));
    let done = sluicegate(&["config", "check", good.path()]);
    assert_eq!((done.status, done.stderr.as_str()), (0, ""));
    assert_eq!(done.stdout, format!("{}: 2 limits, no errors\n", good.path()));
    let bad = File::new(
        "bad.yaml",
        "limits:\n  a: {policies: [gcra 5/m]}\n  b: {polices: [gcra 5/s]}\nlisten: 5\n",
    );
    let done = sluicegate(&["config", "check", bad.path()]);
    assert_eq!((done.status, done.stdout.as_str()), (2, ""));
    for place in [":2:", ":3:", ":4:"] {
        let expected = format!("error: {}{place}", bad.path());
        assert!(
            done.stderr.lines().any(|line| line.starts_with(&expected)),
            "{expected} in {}",
            done.stderr
        );
    }
    assert_eq!(sluicegate(&["config", "check", "/no/such.yaml"]).status, 2);
}

#[cfg(feature = "envoy")]
#[test]
fn config_check_says_which_limits_envoys_can_share() {
    let file = File::new(
        "envoy.yaml",
        "limits:
  alone: {policies: [gcra 9/s]}
  paced: {policies: [token_bucket 900/s]}
  twofold: {policies: [gcra 9/s, fixed_window 90/min]}
envoy: {domains: {edge: [
  {match: {plan: free}, limit: twofold, key: x},
  {match: {plan: paid}, limit: paced, key: x}]}}
",
    );
    let done = sluicegate(&["config", "check", file.path()]);
    assert_eq!((done.status, done.stderr.as_str()), (0, ""));
    let expected = format!(
        "{}: 3 limits, no errors\n\
         limit paced: Envoy's quota filter (RLQS) can share it\n\
         limit twofold: Envoy's quota filter (RLQS) can't share it, only its rate limit filter can use it\n",
        file.path()
    );
    assert_eq!(done.stdout, expected);
}

#[test]
fn config_check_warns_of_what_can_hardly_be_meant_and_passes() {
    let odd = File::new(
        "odd.yaml",
        "limits:
  api:
    key: header:x-tenant+user
    policies: [gcra 5/s cost 6, gcra 0/s]
    block: [acme]
",
    );
    let done = sluicegate(&["config", "check", odd.path()]);
    assert_eq!(done.status, 0, "{done:?}");
    let path = odd.path();
    assert_eq!(done.stdout, format!("{path}: 1 limit, no errors, 3 warnings\n"));
    let expected = [
        "4:16: limits.api.policies[0]: refuses every request that doesn't set its cost: `cost 6` is above the limit of 5",
        "4:33: limits.api.policies[1]: refuses every request: its limit is 0",
        "5:13: limits.api.block[0]: `acme` matches no key made by `header:x-tenant+user`, which has 2 components: write `acme|*`",
    ];
    let expected = expected.map(|line| format!("warning: {path}:{line}\n")).concat();
    assert_eq!(done.stderr, expected);
}

#[test]
fn help_has_examples_and_the_exit_status() {
    for verb in
        ["acquire", "charge", "check", "peek", "refund", "reset", "take", "serve", "conformance"]
    {
        let done = sluicegate(&[verb, "--help"]);
        assert_eq!(done.status, 0);
        assert!(done.stdout.contains("Examples:"), "{verb}");
    }
    let done = sluicegate(&["--help"]);
    assert!(done.stdout.contains("Exit status: 0"));
    assert_eq!(
        sluicegate(&["--version"]).stdout,
        concat!("sluicegate ", env!("CARGO_PKG_VERSION"), "\n")
    );
    assert_eq!(sluicegate(&[]).status, 2);
}

#[test]
fn shells_complete_every_command_and_the_manual_has_a_page_for_it() {
    for shell in ["bash", "zsh", "fish"] {
        let script = sluicegate(&["completions", shell]);
        assert_eq!((script.status, script.stderr.as_str()), (0, ""), "{shell}");
        for word in ["override", "serve", "recent"] {
            assert!(script.stdout.contains(word), "{shell} lacks {word}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    assert_eq!(sluicegate(&["man", pages.to_str().unwrap()]).status, 0);
    let page = |name: &str| std::fs::read_to_string(pages.join(name)).unwrap();
    assert!(page("sluicegate.1").starts_with(".ie"), "{}", page("sluicegate.1"));
    assert!(page("sluicegate-serve.1").contains("shutdown"));
    assert!(page("sluicegate-override-set.1").contains("colleagues"));
}

#[test]
fn the_limits_of_a_service_are_listed() {
    let limits = "limits:\n  login: {policies: [\"gcra 5/min\"], key: ip, block: [mallory], overrides: [{key: vip, times: 2}]}\n  \
                  off: {policies: [\"gcra 1/s\"], enabled: false}\n";
    let file = File::new("limits.yaml", limits);
    let service = Service::start(&["--config", file.path()]);
    service.send("PUT", "/v1/limits/login/overrides/192.0.2.9", &[], br#"{"times":2}"#);
    service.send("PUT", "/v1/limits/off/override", &[], br#"{"policies":["gcra 3/s"]}"#);
    let url = format!("http://{}", service.address());
    let listed = sluicegate(&["limits", "--server", &url]);
    assert_eq!(
        listed.stdout,
        format!(
            "login  gcra 5/min  key ip  {0}:2  1 block entry  1 override  1 override at run time\n\
             off  gcra 3/s  key ip  off  {0}:3  overridden at run time\n",
            file.path()
        )
    );
    let json = sluicegate(&["limits", "--server", &url, "--json"]);
    let first: serde_json::Value =
        serde_json::from_str(json.stdout.lines().next().unwrap()).unwrap();
    assert_eq!((&first["block"], &first["missing_key"]), (&1.into(), &"shared".into()));
}
