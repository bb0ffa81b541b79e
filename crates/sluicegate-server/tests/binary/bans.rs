//! Tests bans, over HTTP and on the command line.

use serde_json::{Value, json};
use sluicegate_testkit::servers::shared;

use crate::support::{File, Service, own_store, sluicegate};

const LIMITS: &str = r#"
limits:
  login: {policies: ["fixed_window 2/d"], ban: 1/h for 15min, deadline: 5s}
  site: {policies: ["fixed_window 9/d"], ban: 1000/h for 1h, deadline: 5s}
  free: {policies: ["fixed_window 9/d"], deadline: 5s}
"#;

#[test]
fn who_is_denied_too_often_is_banned_until_somebody_lifts_it() {
    let file = File::new("limits.yaml", LIMITS);
    let service = Service::start(&["--config", file.path()]);
    let ask = |call: &str, more: Value| service.call(call, "login", "alice", &more);
    let begins = ask("check", json!({"cost": 3}));
    let ban = begins.json()["ban"].clone();
    assert_eq!((begins.status, &ban["begins"]), (429, &json!(true)), "{}", begins.body);
    assert_eq!(ban["ends_in_ms"], 900_000);
    for (call, more) in [
        ("check", json!({})),
        ("check", json!({"hold": "30s", "request_id": "order-1"})),
        ("take", json!({})),
        ("acquire", json!({"within": "0s"})),
        ("reserve", json!({"within": "0s"})),
    ] {
        let refused = ask(call, more);
        if call == "reserve" {
            assert_eq!(refused.status, 400, "windows have no queue: {}", refused.body);
            continue;
        }
        let answer = refused.json();
        assert_eq!((refused.status, &answer["binding"]), (429, &json!(null)), "{call}: {answer}");
        assert_eq!(answer["ban"]["limit"], "login", "{call}: {answer}");
        assert_eq!((&answer["ban"]["begins"], answer.get("hold")), (&json!(false), None), "{call}");
        assert_eq!(answer["policies"], json!([]));
    }
    let lifted = ask("unban", json!({}));
    assert_eq!((lifted.status, &lifted.json()["forgotten"]), (200, &json!(true)));
    assert_eq!(ask("unban", json!({})).json()["forgotten"], false);
    let held = ask("check", json!({"hold": "30s", "request_id": "order-1"})).json();
    let banned = ask("ban", json!({"for": "1h"})).json();
    assert_eq!(banned["ban"]["ends_in_us"], 3_600_000_000_u64);
    let repeat = ask("check", json!({"hold": "30s", "request_id": "order-1"})).json();
    assert_eq!(repeat["repeat"], true, "it was allowed before the ban: {repeat}");
    assert_eq!(repeat["hold"]["token"], held["hold"]["token"]);
}

#[test]
fn a_ban_is_of_one_limit_that_bans() {
    let file = File::new("limits.yaml", LIMITS);
    let service = Service::start(&["--config", file.path()]);
    let both = json!([{"limit": "login", "key": "c"}, {"limit": "site", "key": "d"}]);
    for (body, why) in [
        (json!({"limits": both, "for": "1h"}), "one limit"),
        (json!({"limit": "login", "key": "c", "cost": 1, "for": "1h"}), "no cost"),
        (json!({"limit": "login", "key": "c"}), "lacks `for`"),
        (json!({"limit": "login", "key": "c", "for": "soon"}), "`for`"),
        (json!({"limit": "login", "key": "c", "for": "31d"}), "30d"),
        (json!({"limit": "login", "key": "c", "for": "1h", "request_id": "x"}), "request_id"),
        (json!({"limit": "login", "key": "c", "for": "1h", "hold": "1s"}), "hold"),
        (json!({"limit": "free", "key": "c", "for": "1h"}), "ban"),
    ] {
        let reply = service.post("/v1/ban", body.to_string());
        assert!(reply.status == 400 && reply.body.contains(why), "{body}: {}", reply.body);
    }
    let check =
        service.post("/v1/check", json!({"limit": "login", "key": "c", "for": "1h"}).to_string());
    assert!(check.status == 400 && check.body.contains("/v1/ban"), "{}", check.body);
}

#[test]
fn the_command_line_bans_by_a_store_and_by_a_service() {
    let text = own_store(shared().unwrap().url()) + LIMITS;
    let file = File::new("limits.yaml", &text);
    let service = Service::start(&["--config", file.path()]);
    let address = format!("http://{}", service.address());
    for (to, key) in [(["--config", file.path()], "a"), (["--server", &address], "b")] {
        let run = |verb: &str, more: &[&str]| {
            let args = [verb, "--limit", "login", "--key", key, to[0], to[1]];
            sluicegate(&[&args[..], more].concat())
        };
        let site = ["--limit", "site", "--key", key];
        let both = run("ban", &[&site[..], &["--for", "1h"]].concat());
        assert_eq!(both.status, 2, "{}", both.stdout);
        let banned = run("ban", &["--for", "1h"]);
        assert_eq!(banned.status, 0, "{}", banned.stderr);
        assert!(banned.stdout.contains("banned"), "{}", banned.stdout);
        let refused = run("check", &[]);
        assert_eq!(refused.status, 1, "{}", refused.stderr);
        assert!(refused.stdout.contains("the key is banned"), "{}", refused.stdout);
        let lifted = run("unban", &[]).stdout;
        assert!(lifted.contains("unbanned"), "{lifted}");
        // An id for several limits: a repeat returns the first request's hold.
        let once = [&site[..], &["--request-id", "order-1", "--hold", "30s", "--json"]].concat();
        let (first, repeat) = (run("check", &once).json(), run("check", &once).json());
        assert_eq!((first.get("repeat"), &repeat["repeat"]), (None, &json!(true)), "{repeat}");
        assert_eq!(first["hold"]["token"], repeat["hold"]["token"]);
        let refused = run("peek", &["--request-id", "order-1"]);
        assert_eq!(refused.status, 2, "{}", refused.stdout);
    }
}
