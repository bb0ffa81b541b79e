//! Tests listing holds, ending them manually, and listing banned keys: over HTTP, on the command
//! line, and with the client.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use sluicegate::Limiter;
use sluicegate::admin::Page;
use sluicegate::decision::HoldId;
use sluicegate_client::{RemoteStore, RemoteStoreBuilder};
use sluicegate_core::{HoldFound, RequestErrorKind, Span, StoreErrorKind};
use sluicegate_testkit::servers::shared;

use crate::support::{File, Service, own_store, sluicegate};

const LIMITS: &str = r#"
limits:
  jobs: {policies: ["concurrency 9 hold 30s queue 9", "fixed_window 99/d as day"], deadline: 5s, block: [mallory]}
  free: {policies: ["fixed_window 9/d"], deadline: 5s}
  login: {policies: ["fixed_window 9/d"], ban: 5/min for 15min, deadline: 5s}
"#;

/// Starts a service with the embedded store, and one with a server.
fn services() -> [(Service, File); 2] {
    let on_server = own_store(shared().unwrap().url()) + LIMITS;
    [LIMITS.to_owned(), on_server].map(|text| {
        let file = File::new("limits.yaml", &text);
        (Service::start(&["--config", file.path()]), file)
    })
}

/// Takes a permit, and returns the id of its hold.
fn take(service: &Service, key: &str, cost: u64, lasts: &str) -> String {
    let body = json!({"limit": "jobs", "key": key, "hold": lasts, "cost": {"concurrency": cost, "day": 1}});
    let answer = service.post("/v1/check", body.to_string()).json();
    let token = answer["hold"]["token"].as_str().unwrap_or_else(|| panic!("{answer}"));
    token.split(':').nth(1).unwrap().to_owned()
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

#[test]
fn what_is_in_flight_is_listed_page_by_page_and_ended_by_its_id() {
    for (service, _file) in services() {
        // A service accepts any text as a key.
        let key = "a&key=b?*[x]\\{}%\0 é";
        let ids: Vec<String> =
            (1..=5).map(|number| take(&service, key, 1, &format!("{}s", 30 - number))).collect();
        let mut listed: Vec<Value> = Vec::new();
        let mut after = String::new();
        for page in 0.. {
            let path = format!("/v1/holders?limit=jobs&key={}&count=2{after}", encoded(key));
            let reply = service.get(&path);
            assert_eq!(reply.status, 200, "{}", reply.body);
            let list = reply.json();
            assert_eq!((&list["limit"], &list["key"]), (&json!("jobs"), &json!(key)));
            assert_eq!(list["waiting"], 0);
            listed.extend(list["holders"].as_array().unwrap().clone());
            let Some(next) = list["next"].as_str() else {
                assert_eq!(page, 2, "three pages");
                break;
            };
            after = format!("&after={next}");
        }
        let expected: Vec<&String> = ids.iter().rev().collect();
        let got: Vec<&str> = listed.iter().map(|entry| entry["hold"].as_str().unwrap()).collect();
        assert_eq!(got, expected, "in the order of their ends");
        assert_eq!(listed[0]["units"], json!({"concurrency": 1, "day": 1}));
        let ends = listed[0]["ends_in_ms"].as_u64().unwrap();
        assert!(ends <= 25_000 && ends > 10_000, "{ends}");
        assert_eq!(listed[0]["ends_in_us"].as_u64().unwrap().div_ceil(1_000), ends);

        let end = |id: &str| {
            service.post("/v1/revoke", json!({"limit": "jobs", "key": key, "hold": id}).to_string())
        };
        let ended = end(&ids[0]);
        let answer = ended.json();
        assert_eq!((ended.status, &answer["found"]), (200, &json!("live")), "{answer}");
        let [permits, day] = [0, 1].map(|index| &answer["policies"][index]);
        assert_eq!((&permits["given_back"], &permits["remaining"]), (&json!(1), &json!(5)));
        assert_eq!((day.get("given_back"), &day["remaining"]), (None, &json!(94)), "it stays");
        let again = end(&ids[0]);
        assert_eq!((again.status, &*again.error_code()), (404, "hold_expired"));
        // The holder receives an error.
        let token = json!({"hold": format!("1:{}:jobs:{}", ids[0], hex(key)), "for": "30s"});
        assert_eq!(service.post("/v1/renew", token.to_string()).error_code(), "hold_expired");
        let token = json!({"hold": format!("1:{}:jobs:{}", ids[1], hex(key)), "for": "30s"});
        assert_eq!(service.post("/v1/renew", token.to_string()).status, 200);
        // The id doesn't match another key or limit.
        let body = json!({"limit": "jobs", "key": "other", "hold": ids[2]}).to_string();
        assert_eq!(service.post("/v1/revoke", body).status, 404);
    }
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn what_makes_no_sense_is_refused_and_says_what_to_send() {
    for (service, _file) in services() {
        let id = take(&service, "a", 1, "30s");
        for (query, status, words) in [
            ("", 400, "lacks `limit`"),
            ("limit=jobs", 400, "lacks `key`"),
            ("limit=jobs&key=a&keys=b", 400, "unknown field `keys`"),
            ("limit=jobs&key=a&key=b", 400, "`key` twice"),
            ("limit=jobs&key=%ff", 400, "UTF-8"),
            ("limit=jobs&key=%", 400, "two digits"),
            ("limit=jobs&key=a&count=0", 400, "from 1 to 1000"),
            ("limit=jobs&key=a&count=1001", 400, "from 1 to 1000"),
            ("limit=jobs&key=a&count=", 400, "from 1 to 1000"),
            ("limit=jobs&key=a&after=", 400, "`after`"),
            ("limit=jobs&key=a&after=%00", 400, "`after`"),
            ("limit=jobs&key=a&after=0", 400, "is not a cursor of limit `jobs`"),
            ("limit=free&key=a", 400, "has no list of holders"),
            ("limit=nobody&key=a", 404, "no limit called `nobody`"),
        ] {
            let reply = service.get(&format!("/v1/holders?{query}"));
            assert!(
                reply.status == status && reply.body.contains(words),
                "{query}: {}",
                reply.body
            );
        }
        // A cursor that no entry has is still valid. One beyond every possible time is invalid.
        for (after, status) in [("0".repeat(46), 200), ("f".repeat(46), 400), ("A".repeat(46), 400)]
        {
            let reply = service.get(&format!("/v1/holders?limit=jobs&key=a&after={after}"));
            assert_eq!(reply.status, status, "{after}: {}", reply.body);
        }
        for (body, status) in [
            (json!({"limit": "jobs", "key": "a"}), 400),
            (json!({"limit": "jobs", "key": "a", "hold": "0"}), 400),
            (json!({"limit": "jobs", "key": "a", "hold": id, "cost": 1}), 400),
            (json!({"limit": "nobody", "key": "a", "hold": id}), 404),
            (json!({"limit": "free", "key": "a", "hold": id}), 404),
        ] {
            let reply = service.post("/v1/revoke", body.to_string());
            assert_eq!(reply.status, status, "{body}: {}", reply.body);
        }
        let left = service.get("/v1/holders?limit=jobs&key=a").json();
        assert_eq!(left["holders"][0]["hold"], id.as_str(), "nothing has changed");
    }
}

#[test]
fn lists_are_for_who_has_the_admin_token_where_others_can_ask() {
    let file = File::new("limits.yaml", LIMITS);
    let service =
        Service::start_on("0.0.0.0:0", &["--config", file.path(), "--admin-token", "s3cret"]);
    let id = take(&service, "a", 1, "30s");
    let (path, body) = (
        "/v1/holders?limit=jobs&key=a",
        json!({"limit": "jobs", "key": "a", "hold": id}).to_string(),
    );
    assert_eq!(service.get(path).status, 401);
    assert_eq!(service.post("/v1/revoke", &body).status, 401);
    let token = ("Authorization", "Bearer s3cret");
    let listed = service.send("GET", path, &[token], b"");
    assert_eq!((listed.status, &listed.json()["holders"][0]["hold"]), (200, &json!(id)));
    assert_eq!(service.send("POST", "/v1/revoke", &[token], body.as_bytes()).status, 200);
}

#[test]
fn the_command_line_lists_and_ends_by_a_store_and_by_a_service() {
    let [_, (service, file)] = services();
    let address = format!("http://{}", service.address());
    for (to, key) in [(["--config", file.path()], "a b"), (["--server", &address], "c&d")] {
        let ids = ["20s", "30s"].map(|lasts| take(&service, key, 2, lasts));
        let run = |verb: &str, more: &[&str]| {
            let args = [verb, "--limit", "jobs", "--key", key, to[0], to[1]];
            sluicegate(&[&args[..], more].concat())
        };
        let first = run("holders", &["--count", "1"]);
        assert_eq!(first.status, 0, "{}", first.stderr);
        assert!(
            first.stdout.contains(&ids[0]) && !first.stdout.contains(&ids[1]),
            "{}",
            first.stdout
        );
        assert!(first.stdout.contains("concurrency 2, day 1"), "{}", first.stdout);
        let after = first.stdout.split("--after ").nth(1).unwrap().trim().to_owned();
        let rest = run("holders", &["--after", &after, "--json"]).json();
        assert_eq!((&rest["holders"][0]["hold"], &rest["next"]), (&json!(ids[1]), &json!(null)));
        let ended = run("revoke", &["--hold", &ids[1]]);
        assert_eq!(ended.status, 0, "{}", ended.stderr);
        assert!(
            ended.stdout.contains("ended") && ended.stdout.contains("2 units given back"),
            "{}",
            ended.stdout
        );
        assert_eq!(run("revoke", &["--hold", &ids[1]]).status, 1);
        assert_eq!(run("revoke", &["--hold", "nonsense"]).status, 2);
        assert_eq!(run("holders", &["--count", "0"]).status, 2);
        assert_eq!(run("holders", &["--after", "0"]).status, 2);
        let ended = run("revoke", &["--hold", &ids[0], "--json"]).json();
        assert_eq!(ended["found"], "live");
        let nothing = run("holders", &[]);
        assert!(nothing.stdout.contains("nothing in flight"), "{}", nothing.stdout);
    }
}

fn limiter(service: &Service, token: Option<&str>) -> Limiter<RemoteStore> {
    let url = format!("http://127.0.0.1:{}", service.address().port());
    let builder = RemoteStore::builder(&url).unwrap().deadline(Duration::from_secs(60));
    let builder = token.into_iter().fold(builder, RemoteStoreBuilder::token);
    let policies = ["concurrency 9 hold 30s queue 9", "fixed_window 99/d as day"];
    Limiter::new(builder.build(), sluicegate::Limit::new("jobs", policies).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_lists_and_ends_what_is_in_flight_at_a_service() {
    for (service, _file) in services() {
        let limiter = limiter(&service, None);
        let key = "a&b?* é";
        let permits = [limiter.permit(key).await.unwrap(), limiter.permit(key).await.unwrap()];
        let ids: BTreeSet<HoldId> = permits.iter().map(|it| it.token().unwrap().id()).collect();
        let first = limiter.holders(key, Page::of(1).unwrap()).await.unwrap();
        let next = first.next().unwrap();
        let rest = limiter.holders(key, Page::of(1).unwrap().after(next)).await.unwrap();
        assert_eq!(rest.next(), None);
        let listed: Vec<_> = first.entries().iter().chain(rest.entries()).collect();
        assert_eq!(listed.iter().map(|holder| holder.id()).collect::<BTreeSet<_>>(), ids);
        assert_eq!((listed[0].units_of("concurrency"), listed[0].units_of("day")), (1, 1));
        let id = listed[0].id();
        let ended = limiter.revoke(key, id).await.unwrap();
        assert_eq!(ended.hold_found(), Some(HoldFound::Live));
        let again = limiter.revoke(key, id).await.unwrap();
        assert_eq!(again.hold_found(), Some(HoldFound::Unknown));
        let foreign = limiter.holders(key, Page::first().after(&"0".parse().unwrap())).await;
        let foreign = foreign.unwrap_err();
        assert_eq!(foreign.as_request().unwrap().kind(), RequestErrorKind::Invalid);
        let bytes = limiter.holders(&b"\xff"[..], Page::first()).await.unwrap_err();
        assert_eq!(bytes.as_request().unwrap().kind(), RequestErrorKind::Unsupported);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_needs_the_admin_token_to_list() {
    let file = File::new("limits.yaml", LIMITS);
    let service =
        Service::start_on("0.0.0.0:0", &["--config", file.path(), "--admin-token", "s3cret"]);
    let refused = limiter(&service, None).holders("a", Page::first()).await.unwrap_err();
    assert_eq!(refused.as_store().unwrap().kind(), StoreErrorKind::Unexpected, "{refused}");
    assert!(refused.to_string().contains("admin token"), "{refused}");
    let listed = limiter(&service, Some("s3cret")).holders("a", Page::first()).await.unwrap();
    assert_eq!(listed.entries(), []);
}

fn ban(service: &Service, key: &str, lasts: &str) {
    let body = json!({"limit": "login", "key": key, "for": lasts}).to_string();
    assert_eq!(service.post("/v1/ban", body).status, 200);
}

#[test]
fn banned_keys_are_listed_page_by_page() {
    for (service, _file) in services() {
        let long = "x".repeat(100);
        let keys = ["a*b", "c}d:\0é", "-", &long, "e", "f", "g"];
        for key in keys {
            ban(&service, key, "1h");
        }
        let mut listed = BTreeSet::new();
        let mut after = String::new();
        loop {
            let reply = service.get(&format!("/v1/bans?limit=login&count=2{after}"));
            assert_eq!(reply.status, 200, "{}", reply.body);
            let list = reply.json();
            assert_eq!(list["limit"], "login");
            for ban in list["bans"].as_array().unwrap() {
                let ends = ban["ends_in_ms"].as_u64().unwrap();
                assert!(ends <= 3_600_000 && ends > 3_500_000, "{ban}");
                let key = ban["key"].as_str().or(ban["key_hash"].as_str()).unwrap();
                assert!(listed.insert(key.to_owned()), "{key} twice");
            }
            let Some(next) = list["next"].as_str() else { break };
            after = format!("&after={next}");
        }
        let hash = sluicegate::admin::ListedKey::of(long.as_bytes()).to_string();
        let expected = ["a*b", "c}d:\0é", "-", &hash, "e", "f", "g"].map(str::to_owned);
        assert_eq!(listed, BTreeSet::from(expected));
        for (query, status, words) in [
            ("", 400, "lacks `limit`"),
            ("limit=login&key=a", 400, "unknown field `key`"),
            ("limit=login&count=0", 400, "from 1 to 1000"),
            ("limit=login&after=x", 400, "is not a cursor of limit `login`"),
            ("limit=free", 400, "has no list of banned keys"),
            ("limit=nobody", 404, "no limit called `nobody`"),
        ] {
            let reply = service.get(&format!("/v1/bans?{query}"));
            assert!(
                reply.status == status && reply.body.contains(words),
                "{query}: {}",
                reply.body
            );
        }
    }
}

#[test]
fn the_command_line_lists_bans_by_a_store_and_by_a_service() {
    let [_, (service, file)] = services();
    let address = format!("http://{}", service.address());
    for to in [["--config", file.path()], ["--server", &address]] {
        let run = |more: &[&str]| {
            sluicegate(&[&["bans", "--limit", "login", to[0], to[1]][..], more].concat())
        };
        let nobody = run(&[]);
        assert_eq!(
            (nobody.status, nobody.stdout.trim()),
            (0, "nobody is banned"),
            "{}",
            nobody.stderr
        );
        ban(&service, "mallory", "1h");
        let banned = run(&[]).stdout;
        assert!(
            banned.contains("banned   mallory  for ") && banned.contains(", since "),
            "{banned}"
        );
        let entry = run(&["--json"]).json()["bans"][0].clone();
        assert_eq!(entry["key"], "mallory");
        let sum = entry["since_us"].as_u64().unwrap() + entry["ends_in_us"].as_u64().unwrap();
        assert_eq!(sum, 3_600_000_000, "{entry}");
        assert_eq!(run(&["--after", "x"]).status, 2);
        let unban = json!({"limit": "login", "key": "mallory"}).to_string();
        assert_eq!(service.post("/v1/unban", unban).status, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_lists_who_is_banned_at_a_service() {
    for (service, _file) in services() {
        let url = format!("http://{}", service.address());
        let store = RemoteStore::builder(&url).unwrap().deadline(Duration::from_secs(60)).build();
        let limit = sluicegate::Limit::new("login", ["fixed_window 9/d"]).unwrap();
        let limit = limit.banning(Some("5/min for 15min".parse().unwrap()));
        let limiter = Limiter::new(store, limit);
        let long = "x".repeat(100);
        for key in ["mallory", &long] {
            assert!(limiter.ban(key, Duration::from_secs(3_600)).await.unwrap().ban().is_some());
        }
        let (mut keys, mut after) = (Vec::new(), None);
        loop {
            let page = Page::of(1).unwrap();
            let page = after.as_ref().map_or(page, |after| page.after(after));
            let banned = limiter.bans(page).await.unwrap();
            keys.extend(banned.entries().iter().cloned());
            let Some(next) = banned.next() else { break };
            after = Some(next.clone());
        }
        assert_eq!(keys.len(), 2, "{keys:?}");
        assert!(keys.iter().any(|banned| banned.key().is(b"mallory")));
        assert!(keys.iter().any(|banned| banned.key().is(long.as_bytes())));
        assert!(keys.iter().all(|banned| Span::from(banned.ends_in()) <= Span::HOUR));
    }
}

#[test]
fn bans_are_listed_for_who_has_the_admin_token_where_others_can_ask() {
    let file = File::new("limits.yaml", LIMITS);
    let service =
        Service::start_on("0.0.0.0:0", &["--config", file.path(), "--admin-token", "s3cret"]);
    assert_eq!(service.get("/v1/bans?limit=login").status, 401);
    let token = ("Authorization", "Bearer s3cret");
    assert_eq!(service.send("GET", "/v1/bans?limit=login", &[token], b"").status, 200);
}

/// Lists the keys of a limit page by page.
fn keys(service: &Service, prefix: &str, count: usize) -> Vec<String> {
    let (mut keys, mut after) = (Vec::new(), String::new());
    loop {
        let query = format!("limit=free&prefix={}&count={count}{after}", encoded(prefix));
        let reply = service.get(&format!("/v1/keys?{query}"));
        assert_eq!(reply.status, 200, "{}", reply.body);
        let list = reply.json();
        assert_eq!(list["limit"], "free");
        let text = |entry: &Value| {
            let text = entry["key"].as_str().map(str::to_owned);
            text.unwrap_or_else(|| format!("hash {}", entry["key_hash"].as_str().unwrap()))
        };
        keys.extend(list["keys"].as_array().unwrap().iter().map(text));
        let Some(next) = list["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    keys.sort_unstable();
    keys
}

#[test]
fn keys_of_a_server_are_listed_by_their_beginning() {
    let [(embedded, embedded_file), (service, file)] = services();
    let check = |limit: &str, key: &str| {
        assert_eq!(service.call("check", limit, key, &json!({})).status, 200, "{key}");
    };
    let hostile = ["a*", "a[b", "a?b", "a\\b", "a{b}", "a%", "a:b", "a\n\u{202e}é"];
    let long = "a".repeat(100);
    hostile.iter().for_each(|key| check("free", key));
    check("free", &long);
    (0..50).for_each(|number| check("free", &format!("tenant:{number:02}")));
    // Another limit, and keys that a hold adds to a key.
    check("login", "a-login");
    take(&service, "a-job", 1, "30s");
    assert_eq!(keys(&service, "", 7).len(), hostile.len() + 1 + 50);
    assert!(keys(&service, "", 1_000).iter().any(|key| key.starts_with("hash ")));
    assert_eq!(keys(&service, "tenant:1", 1_000).len(), 10);
    for key in hostile {
        assert_eq!(keys(&service, key, 1_000), [key], "no pattern matches more");
    }
    assert_eq!(keys(&service, "A", 1_000), [""; 0]);

    let unsupported = embedded.get("/v1/keys?limit=free");
    assert_eq!((unsupported.status, &*unsupported.error_code()), (400, "unsupported"));
    assert!(unsupported.body.contains("a store without lists of keys"), "{}", unsupported.body);
    assert_eq!(service.get("/v1/keys?limit=nobody").status, 404);

    let url = format!("http://127.0.0.1:{}", service.address().port());
    for to in [["--config", file.path()], ["--server", &url]] {
        let said = sluicegate(&[&["keys", "--limit", "free", "--prefix", "a\n"], &to[..]].concat());
        assert_eq!((said.status, said.stdout.trim()), (0, r"a\n\u{202e}é"), "{}", said.stderr);
        let said = sluicegate(&[&["keys", "--limit", "free", "--prefix", "no"], &to[..]].concat());
        assert_eq!(said.stdout.trim(), "no key has a state");
    }
    let said = sluicegate(&["keys", "--limit", "free", "--config", embedded_file.path()]);
    assert_eq!(said.status, 2, "{}", said.stderr);

    let client = RemoteStore::connect(&url).unwrap();
    let limit = sluicegate::Limit::new("free", ["fixed_window 9/d as day"]).unwrap();
    let limiter = Limiter::new(client, limit);
    let page = limiter.stored_keys("tenant:0", Page::of(1_000).unwrap()).blocking().unwrap();
    assert_eq!(page.entries().len(), 10);
}
