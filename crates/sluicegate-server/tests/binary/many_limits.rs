//! Tests many limits in the embedded store, and answers when it is full.

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{File, Service, sluicegate};

fn limits(memory: &str, count: usize) -> String {
    let limit = |number| format!("  l{number}: {{policies: [\"token_bucket 10/s burst 20\"]}}\n");
    format!("memory: {memory}\nlimits:\n{}", (0..count).map(limit).collect::<String>())
}

/// Regression test: every key of each limit was denied, and `config check` said that the store
/// decides.
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

/// Regression test: the answer had `Retry-After: 1`, without a reason for the denial.
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

/// Regression test: all limits were one answer, which the page requested every second.
#[test]
fn very_many_limits_are_listed_page_by_page_in_the_order_of_the_file() {
    const LIMITS: usize = 2_050;
    let file = File::new("limits.yaml", &limits("{}", LIMITS));
    let service = Service::start(&["--config", file.path()]);
    let names = |page: &Value| -> Vec<String> {
        let limits = page["limits"].as_array().unwrap();
        limits.iter().map(|limit| limit["name"].as_str().unwrap().to_owned()).collect()
    };
    let all: Vec<_> = (0..LIMITS).map(|number| format!("l{number}")).collect();
    for (query, count) in [("", 100), ("count=1000", 1_000), ("count=41", 41)] {
        let (mut listed, mut after) = (Vec::new(), String::new());
        loop {
            let reply = service.get(&format!("/v1/limits?{query}{after}"));
            assert_eq!(reply.status, 200, "{}", reply.body);
            let page = reply.json();
            let names = names(&page);
            let is_last = page["next"].is_null();
            assert!(names.len() == count || is_last && names.len() <= count, "{query}{after}");
            assert_eq!(page["config"]["generation"], 1);
            listed.extend(names);
            match page["next"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => break,
            }
        }
        assert_eq!(listed, all, "{query}");
    }
    // The last page may be full, and the number of limits may have decreased.
    let last = service.get("/v1/limits?count=1000&after=1050").json();
    assert_eq!((names(&last).len(), &last["next"]), (1_000, &Value::Null));
    let beyond = service.get("/v1/limits?after=9999").json();
    assert_eq!((names(&beyond).len(), &beyond["next"]), (0, &Value::Null));
    let too_many = service.get("/v1/limits?count=1001");
    assert_eq!((too_many.status, &*too_many.error_code()), (400, "malformed"));
    for after in ["", "-1", "01", "1.5", "l7", "%2b1", "99999999999999999999999"] {
        let reply = service.get(&format!("/v1/limits?after={after}"));
        assert_eq!((reply.status, &*reply.error_code()), (400, "malformed"), "{after}");
        assert!(
            reply.body.contains("`after`") || reply.body.contains("give back"),
            "{}",
            reply.body
        );
    }
}
