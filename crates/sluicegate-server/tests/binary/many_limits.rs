//! Many limits in the embedded store, and answers when it is full.

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{File, Service, sluicegate};

fn limits(memory: &str, count: usize) -> String {
    let limit = |number| format!("  l{number}: {{policies: [\"token_bucket 10/s burst 20\"]}}\n");
    format!("memory: {memory}\nlimits:\n{}", (0..count).map(limit).collect::<String>())
}

/// Every key of each of them was denied, and `config check` said that the store decides.
#[test]
fn sixty_one_limits_in_a_megabyte_do_not_deny_every_key() {
    let file = File::new("limits.yaml", &limits("{max_bytes: 1000000}", 61));
    let checked = sluicegate(&["check", "--config", file.path(), "--limit", "l0", "--key", "a"]);
    assert_eq!(checked.status, 0, "{checked:?}");
    let service = Service::start(&["--config", file.path()]);
    for limit in 0..61 {
        let reply = service.post("/v1/check", format!(r#"{{"limit":"l{limit}","key":"a"}}"#));
        assert_eq!(reply.status, 200, "{}", reply.body);
    }
}

#[test]
fn caps_that_hold_no_key_of_each_limit_are_refused_with_the_smallest_that_work() {
    let file = File::new("limits.yaml", &limits("{max_keys: 60, max_bytes: 3000}", 61));
    for command in [&["config", "check", file.path()][..], &["serve", "--config", file.path()]] {
        let refused = sluicegate(command);
        assert_eq!(refused.status, 2, "{refused:?}");
        for wanted in ["memory.max_keys: is 60", "write at least 61", "write at least 3111"] {
            assert!(refused.stderr.contains(wanted), "no `{wanted}`: {refused:?}");
        }
    }
    file.replace(&limits("{max_keys: 61, max_bytes: 3111}", 61));
    assert_eq!(sluicegate(&["config", "check", file.path()]).status, 0);
}

/// The answer had `Retry-After: 1`, and nothing said why it was denied.
#[test]
fn a_denial_of_a_full_store_has_a_code_an_outcome_and_one_line_in_the_log() {
    let text = "memory: {max_keys: 1, overflow: deny}\nlimits: {l: {policies: [\"token_bucket 0/s burst 5\"]}}\n";
    let file = File::new("limits.yaml", text);
    let mut service = Service::start(&["--config", file.path()]);
    let check = |key: &str| service.post("/v1/check", format!(r#"{{"limit":"l","key":"{key}"}}"#));
    assert_eq!(check("a").status, 200);
    for _ in 0..5 {
        let denied = check("b");
        assert_eq!((denied.status, denied.field("retry-after")), (429, None));
        let answer = denied.json();
        assert_eq!(answer["code"], "store_full");
        assert_eq!((&answer["binding"], &answer["retry_after_ms"]), (&Value::Null, &Value::Null));
        assert_eq!(answer["policies"][0]["allowed"], true);
    }
    let full = r#"sluicegate_decisions_total{limit="l",policy="",outcome="store_full"}"#;
    assert_eq!(service.metric(full), 5);
    service.signal(Signal::TERM);
    let (_, log) = service.wait();
    assert_eq!(log.matches("the embedded store is full").count(), 1, "{log}");
}
