//! Tests pauses, over HTTP and on the command line.

use serde_json::{Value, json};
use sluicegate_testkit::servers::shared;

use crate::support::{File, Service, own_store, sluicegate};

const LIMITS: &str = r#"
limits:
  llm:
    policies: ["fixed_window 9/d as requests", "fixed_window 900/d as tokens"]
    deadline: 5s
  site: {policies: ["fixed_window 9/d"], deadline: 5s}
"#;

#[test]
fn a_paused_key_is_denied_until_it_is_resumed() {
    let file = File::new("limits.yaml", LIMITS);
    let service = Service::start(&["--config", file.path()]);
    let ask = |call: &str, more: Value| service.call(call, "llm", "acme", &more);
    let paused = ask("pause", json!({"for": "1h"}));
    let expected =
        json!({"limit": "llm", "ends_in_ms": 3_600_000, "ends_in_us": 3_600_000_000_u64});
    assert_eq!((paused.status, &paused.json()["pause"]), (200, &expected), "{}", paused.body);
    for (call, more) in [
        ("check", json!({})),
        ("check", json!({"hold": "30s"})),
        ("take", json!({})),
        ("acquire", json!({"within": "0s"})),
    ] {
        let refused = ask(call, more);
        let answer = refused.json();
        assert_eq!((refused.status, &answer["binding"]), (429, &json!(null)), "{call}: {answer}");
        assert_eq!(answer["pause"]["limit"], "llm", "{call}: {answer}");
        assert_eq!(answer["policies"], json!([]), "{call}");
    }
    assert_eq!(ask("check", json!({})).json()["code"], "paused");
    assert_eq!(ask("charge", json!({})).status, 200);
    assert_eq!(ask("resume", json!({"policy": "tokens"})).json()["forgotten"], false);
    assert_eq!(ask("resume", json!({})).json()["forgotten"], true);
    assert_eq!(ask("check", json!({})).status, 200);

    let paused = ask("pause", json!({"for": "1h", "policy": "tokens"})).json();
    assert_eq!(paused["pause"]["policy"], "tokens", "{paused}");
    assert_eq!(ask("check", json!({"cost": {"requests": 1}})).status, 200);
    assert_eq!(ask("check", json!({"cost": {"tokens": 1}})).json()["pause"]["policy"], "tokens");
}

#[test]
fn a_pause_is_of_one_limit_and_one_of_its_policies_or_all() {
    let file = File::new("limits.yaml", LIMITS);
    let service = Service::start(&["--config", file.path()]);
    let both = json!([{"limit": "llm", "key": "c"}, {"limit": "site", "key": "d"}]);
    for (call, body, why) in [
        ("pause", json!({"limits": both, "for": "1h"}), "one limit"),
        ("pause", json!({"limit": "llm", "key": "c", "cost": 1, "for": "1h"}), "no cost"),
        ("pause", json!({"limit": "llm", "key": "c"}), "lacks `for`"),
        ("pause", json!({"limit": "llm", "key": "c", "for": "0s"}), "1ms or longer"),
        ("pause", json!({"limit": "llm", "key": "c", "for": "1h", "policy": "bytes"}), "requests"),
        ("resume", json!({"limit": "llm", "key": "c", "for": "1h"}), "/v1/pause"),
        ("check", json!({"limit": "llm", "key": "c", "policy": "tokens"}), "/v1/pause"),
    ] {
        let reply = service.post(&format!("/v1/{call}"), body.to_string());
        assert!(reply.status == 400 && reply.body.contains(why), "{body}: {}", reply.body);
    }
}

#[test]
fn the_command_line_pauses_by_a_store_and_by_a_service() {
    let text = own_store(shared().unwrap().url()) + LIMITS;
    let file = File::new("limits.yaml", &text);
    let service = Service::start(&["--config", file.path()]);
    let address = format!("http://{}", service.address());
    for (to, key) in [(["--config", file.path()], "a"), (["--server", &address], "b")] {
        let run = |verb: &str, more: &[&str]| {
            let args = [verb, "--limit", "llm", "--key", key, to[0], to[1]];
            sluicegate(&[&args[..], more].concat())
        };
        let paused = run("pause", &["--for", "1h"]);
        assert_eq!(paused.status, 0, "{}", paused.stderr);
        assert!(paused.stdout.contains("paused"), "{}", paused.stdout);
        let refused = run("check", &[]);
        assert_eq!(refused.status, 1, "{}", refused.stderr);
        assert!(refused.stdout.contains("the key is paused"), "{}", refused.stdout);
        let unchanged = run("resume", &["--policy", "tokens"]).stdout;
        assert!(unchanged.contains("the key was not paused"), "{unchanged}");
        let resumed = run("resume", &[]).stdout;
        assert!(resumed.contains("resumed"), "{resumed}");
        let paused = run("pause", &["--for", "1h", "--policy", "tokens"]).stdout;
        assert!(paused.contains("another policy is paused"), "{paused}");
        assert_eq!(run("check", &["--cost", "requests=1"]).status, 0);
        assert_eq!(run("pause", &["--for", "1h", "--policy", "bytes"]).status, 2);
    }
}
