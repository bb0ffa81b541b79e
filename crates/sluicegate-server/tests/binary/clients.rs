//! Tests the rights of configured clients.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;

use serde_json::{Value, json};
use sluicegate_testkit::wait::until;
use tempfile::TempDir;

use crate::support::{Reply, Service, sluicegate};

const LIMITS: &str = "
limits:
  shop-api: {policies: [gcra 1/h burst 1000]}
  shop-jobs: {policies: [concurrency 99 hold 30s]}
  secret: {policies: [gcra 1/h burst 1000], ban: 1000/h for 1h}
";

/// A config file with clients, and the files of their tokens, which are their names with `-token`.
struct Clients {
    folder: TempDir,
}

impl Clients {
    fn new() -> Self {
        let clients = Self { folder: tempfile::tempdir().unwrap() };
        for name in ["checks", "holds", "reads", "boss", "narrow"] {
            clients.write(name, &format!("{name}-token\n"));
        }
        let client = |name: &str, may: &str, limits: &str| {
            let file = clients.path(name);
            format!("  - {{name: {name}, token_file: {}, may: {may}{limits}}}\n", file.display())
        };
        let listed = [
            client("checks", "[check]", ", limits: [shop-*]"),
            client("holds", "[hold]", ""),
            client("reads", "[read]", ", limits: [shop-*]"),
            client("boss", "[admin]", ""),
            client("narrow", "[admin]", ", limits: [shop-api]"),
        ];
        clients.write("limits.yaml", &format!("{LIMITS}clients:\n{}", listed.concat()));
        clients
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces a file as a whole.
    fn write(&self, name: &str, text: &str) {
        let next = self.path("next");
        std::fs::write(&next, text).unwrap();
        std::fs::rename(next, self.path(name)).unwrap();
    }

    fn config(&self) -> String {
        self.path("limits.yaml").display().to_string()
    }

    fn start(&self, args: &[&str]) -> Service {
        Service::start(&[&["--config", &*self.config()], args].concat())
    }
}

fn bearer(name: &str) -> String {
    format!("Bearer {name}-token")
}

/// Sends a request with a client's token.
fn send(service: &Service, name: &str, method: &str, path: &str, body: &Value) -> Reply {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    service.send(method, path, &[("Authorization", &bearer(name))], body.as_bytes())
}

fn check(service: &Service, name: &str, limit: &str) -> u16 {
    send(service, name, "POST", "/v1/check", &json!({"limit": limit, "key": "k"})).status
}

#[test]
fn each_right_permits_its_calls_and_no_others() {
    let clients = Clients::new();
    let service = clients.start(&[]);
    let held = |limit: &str| {
        let body = json!({"limit": limit, "key": "k", "hold": "30s"});
        let answer = send(&service, "boss", "POST", "/v1/check", &body).json();
        answer["hold"]["token"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    };
    let ask = json!({"limit": "shop-api", "key": "k"});
    let with = |more: Value| crate::support::with_fields(ask.clone(), &more);
    let token = |limit: &str| json!({"hold": held(limit)});
    type Body<'a> = &'a dyn Fn() -> Value;
    let calls: [(&str, &str, Body<'_>, [u16; 4]); 25] = [
        // The statuses of `checks`, `holds`, `reads` and `boss`.
        ("POST", "/v1/check", &|| ask.clone(), [200, 200, 403, 200]),
        ("POST", "/v1/check", &|| with(json!({"hold": "30s"})), [403, 200, 403, 200]),
        ("POST", "/v1/check", &|| json!({"limit": "shop-jobs", "key": "k"}), [403, 200, 403, 200]),
        ("POST", "/v1/take", &|| ask.clone(), [200, 200, 403, 200]),
        ("POST", "/v1/reserve", &|| with(json!({"within": "0s"})), [200, 200, 403, 200]),
        ("POST", "/v1/acquire", &|| with(json!({"within": "0s"})), [200, 200, 403, 200]),
        (
            "POST",
            "/v1/acquire",
            &|| with(json!({"within": "0s", "hold": "30s"})),
            [403, 200, 403, 200],
        ),
        ("POST", "/v1/peek", &|| ask.clone(), [200; 4]),
        ("POST", "/v1/release", &|| token("shop-jobs"), [403, 200, 403, 200]),
        ("POST", "/v1/cancel", &|| token("shop-jobs"), [403, 200, 403, 200]),
        (
            "POST",
            "/v1/renew",
            &|| crate::support::with_fields(token("shop-jobs"), &json!({"for": "20s"})),
            [403, 200, 403, 200],
        ),
        (
            "POST",
            "/v1/settle",
            &|| crate::support::with_fields(token("shop-api"), &json!({"used": 1})),
            [403, 200, 403, 200],
        ),
        ("GET", "/v1/limits", &|| Value::Null, [403, 403, 200, 200]),
        ("GET", "/v1/recent", &|| Value::Null, [403, 403, 200, 200]),
        ("GET", "/v1/stream?follow=off", &|| Value::Null, [403, 403, 200, 200]),
        ("GET", "/v1/config", &|| Value::Null, [403, 403, 403, 200]),
        ("GET", "/v1/limits/shop-api/top", &|| Value::Null, [403, 403, 200, 200]),
        ("GET", "/v1/holders?limit=shop-jobs&key=k", &|| Value::Null, [403, 403, 200, 200]),
        ("POST", "/v1/charge", &|| ask.clone(), [403, 403, 403, 200]),
        ("POST", "/v1/refund", &|| ask.clone(), [403, 403, 403, 200]),
        ("POST", "/v1/reset", &|| ask.clone(), [403, 403, 403, 200]),
        ("POST", "/v1/pause", &|| with(json!({"for": "1ms"})), [403, 403, 403, 200]),
        ("POST", "/v1/resume", &|| ask.clone(), [403, 403, 403, 200]),
        (
            "POST",
            "/v1/revoke",
            &|| json!({"limit": "shop-jobs", "key": "k", "hold": "0".repeat(32)}),
            [403, 403, 403, 404],
        ),
        (
            "POST",
            "/v1/ban",
            &|| json!({"limit": "secret", "key": "k", "for": "1h"}),
            [403, 403, 403, 200],
        ),
    ];
    for (method, path, body, statuses) in calls {
        for (name, status) in ["checks", "holds", "reads", "boss"].into_iter().zip(statuses) {
            let body = body();
            let reply = send(&service, name, method, path, &body);
            assert_eq!(reply.status, status, "{name} {path} {body}: {}", reply.body);
            if status == 403 {
                assert_eq!(reply.error_code(), "forbidden");
            }
        }
        let body = body().to_string();
        let without = service.send(method, path, &[], body.as_bytes());
        assert_eq!(without.status, 401, "{path}");
        assert_eq!(without.field("www-authenticate"), Some("Bearer"));
    }
    for path in ["/", "/healthz", "/readyz", "/metrics", "/v1/openapi.json"] {
        assert_eq!(service.get(path).status, 200, "{path}");
    }
}

#[test]
fn a_client_uses_its_own_limits_alone_and_together() {
    let clients = Clients::new();
    let service = clients.start(&[]);
    assert_eq!(
        [check(&service, "checks", "shop-api"), check(&service, "checks", "secret")],
        [200, 403]
    );
    // It can't find out which other limits there are.
    assert_eq!(check(&service, "checks", "nobody"), 403);
    assert_eq!(check(&service, "checks", "shop-none"), 404);
    let long = "shop-".to_owned() + &"x".repeat(10_000);
    assert_eq!(check(&service, "checks", &long), 403);
    let both = json!({"limits": [
        {"limit": "shop-api", "key": "together"},
        {"limit": "secret", "key": "together"},
    ]});
    let remaining = || {
        let ask = json!({"limit": "shop-api", "key": "together"});
        send(&service, "boss", "POST", "/v1/peek", &ask).json()["policies"][0]["remaining"].clone()
    };
    assert_eq!(send(&service, "boss", "POST", "/v1/check", &both).status, 200);
    assert_eq!(remaining(), 999);
    for path in ["/v1/check", "/v1/take", "/v1/peek"] {
        assert_eq!(send(&service, "checks", "POST", path, &both).status, 403, "{path}");
    }
    assert_eq!(remaining(), 999, "nothing was taken");
    let held = json!({"limits": both["limits"], "hold": "30s"});
    let token = send(&service, "holds", "POST", "/v1/check", &held).json()["hold"]["token"].clone();
    let release = json!({"hold": token});
    assert_eq!(send(&service, "narrow", "POST", "/v1/cancel", &release).status, 403);
    assert_eq!(send(&service, "holds", "POST", "/v1/cancel", &release).status, 200);
    // An administrator of one limit.
    let reset = |limit: &str| {
        send(&service, "narrow", "POST", "/v1/reset", &json!({"limit": limit, "key": "k"})).status
    };
    assert_eq!([reset("shop-api"), reset("secret")], [200, 403]);
    for query in ["limit=secret", "limit=%73ecret", "limit=secre%74"] {
        let reply = send(&service, "narrow", "GET", &format!("/v1/bans?{query}"), &Value::Null);
        assert_eq!(reply.status, 403, "{query}");
    }
    let names = |name: &str, query: &str| {
        let list = send(&service, name, "GET", &format!("/v1/limits{query}"), &Value::Null).json();
        let names = list["limits"].as_array().unwrap().iter().map(|limit| limit["name"].clone());
        (names.collect::<Vec<_>>(), list["next"].clone())
    };
    assert_eq!(names("reads", ""), (vec![json!("shop-api"), json!("shop-jobs")], Value::Null));
    assert_eq!(names("reads", "?count=1"), (vec![json!("shop-api")], json!("1")));
    assert_eq!(names("reads", "?count=1&after=1"), (vec![json!("shop-jobs")], Value::Null));
    assert_eq!(names("boss", "").0.len(), 3);
}

#[test]
fn credentials_that_are_wrong_twice_or_huge_are_refused() {
    let clients = Clients::new();
    let service = clients.start(&["--admin-token", "s3cret"]);
    let body = json!({"limit": "shop-api", "key": "k"}).to_string();
    let status =
        |fields: &[(&str, &str)]| service.send("POST", "/v1/check", fields, body.as_bytes()).status;
    let right = ("Authorization", "Bearer checks-token");
    assert_eq!(status(&[right]), 200);
    assert_eq!(status(&[("authorization", "bEaReR checks-token")]), 200);
    assert_eq!(status(&[("Authorization", "Bearer s3cret")]), 200, "the admin token");
    for fields in [
        &[("Authorization", "Bearer checks-toke")][..],
        &[("Authorization", "Bearer checks-tokens")],
        &[("Authorization", "Bearer  checks-token")],
        &[("Authorization", "Bearer checks-token, Bearer boss-token")],
        &[("Authorization", "Bearer")],
        &[("Authorization", "Bearer ")],
        &[("Authorization", "")],
        &[("Authorization", "Basic Y2hlY2tzLXRva2Vu")],
        &[("Authorization", "checks-token")],
        &[("Authorization", "Bearer checks%2dtoken")],
        &[right, right],
        &[right, ("Authorization", "Bearer boss-token")],
        &[("Proxy-Authorization", "Bearer checks-token")],
        &[("Cookie", "Authorization=Bearer checks-token")],
    ] {
        assert_eq!(status(fields), 401, "{fields:?}");
    }
    for token in [&b"checks-token\0"[..], b"\0", b"checks-token\xff", &vec![b'x'; 300_000]] {
        let mut stream = service.connect();
        let head = "POST /v1/check HTTP/1.1\r\nHost: x\r\nConnection: close\r\n";
        let mut request = format!("{head}Content-Length: {}\r\n", body.len()).into_bytes();
        request.extend([b"Authorization: Bearer ", token, b"\r\n\r\n", body.as_bytes()].concat());
        // A service that refuses the head need not read it all.
        let _ = stream.write_all(&request);
        let mut reply = Vec::new();
        let _ = stream.read_to_end(&mut reply);
        let reply = String::from_utf8_lossy(&reply).into_owned();
        let refused = ["HTTP/1.1 400", "HTTP/1.1 401", "HTTP/1.1 431"];
        assert!(
            refused.iter().any(|line| reply.starts_with(line)),
            "{} bytes: {reply}",
            token.len()
        );
    }
    assert_eq!(status(&[right]), 200);
    for (path, name) in [("/v1/limits", "boss"), ("/v1/recent", "boss")] {
        assert_eq!(send(&service, name, "GET", path, &Value::Null).status, 200, "{path}");
    }
    // The page makes these calls with the token that it asks for.
    for path in ["/v1/limits?count=1000", "/v1/recent"] {
        let admin = [("Authorization", "Bearer s3cret")];
        assert_eq!(service.send("GET", path, &admin, b"").status, 200, "{path}");
        assert_eq!(service.get(path).status, 401, "{path}");
    }
}

#[test]
fn a_token_is_replaced_while_both_are_valid_and_a_lost_file_changes_nothing() {
    let clients = Clients::new();
    let mut service = clients.start(&[]);
    let status = |token: &str| {
        let field = ("Authorization", &*format!("Bearer {token}"));
        let body = json!({"limit": "shop-api", "key": "k"}).to_string();
        service.send("POST", "/v1/check", &[field], body.as_bytes()).status
    };
    let until_statuses = |old: u16, new: u16| {
        until(&format!("{old} and {new}"), || {
            let seen = (status("checks-token"), status("new-token"));
            if seen == (old, new) { Ok(()) } else { Err(seen) }
        });
    };
    assert_eq!((status("checks-token"), status("new-token")), (200, 401));
    clients.write("checks", "new-token\nchecks-token\n");
    until_statuses(200, 200);
    clients.write("checks", "new-token\n");
    until_statuses(401, 200);
    let until_failed = |count: u64| {
        until("the failure is counted", || {
            let failed = service.metric("sluicegate_config_reloads_total{outcome=\"failed\"}");
            if failed >= count { Ok(()) } else { Err(failed) }
        });
        assert_eq!(service.metric("sluicegate_config_stale"), 1);
        assert_eq!((status("checks-token"), status("new-token")), (401, 200));
        assert_eq!(check(&service, "boss", "secret"), 200, "so are the other clients");
    };
    std::fs::remove_file(clients.path("checks")).unwrap();
    until_failed(1);
    clients.write("checks", " \n");
    until_failed(2);
    clients.write("checks", "one two three");
    until_failed(3);
    clients.write("checks", "checks-token");
    until_statuses(200, 401);
    assert_eq!(service.metric("sluicegate_config_stale"), 0);
    service.signal(rustix::process::Signal::TERM);
    let (_, log) = service.wait();
    assert!(log.contains("clients[0].token_file"), "{log}");
    assert!(log.contains("No such file") && log.contains("is empty"), "{log}");
    for token in ["checks-token", "new-token", "three"] {
        assert!(!log.contains(token), "{log}");
    }
}

#[test]
fn clients_change_with_the_file() {
    let clients = Clients::new();
    let service = clients.start(&[]);
    assert_eq!(check(&service, "checks", "secret"), 403);
    let text = std::fs::read_to_string(clients.config()).unwrap();
    clients.write("limits.yaml", &text.replacen("[shop-*]", "[shop-*, sec?et]", 1));
    let status = |name: &str, wanted: u16| {
        until(&format!("{wanted} for {name}"), || {
            let status = check(&service, name, "secret");
            if status == wanted { Ok(()) } else { Err(status) }
        });
    };
    status("checks", 200);
    let without = text.lines().filter(|line| !line.contains("name: checks"));
    clients.write("limits.yaml", &without.collect::<Vec<_>>().join("\n"));
    status("checks", 401);
    assert_eq!(check(&service, "boss", "secret"), 200);
    clients.write("limits.yaml", LIMITS);
    status("nobody", 200);
}

#[test]
fn a_reader_sees_holds_without_their_ids() {
    let clients = Clients::new();
    let service = clients.start(&[]);
    for _ in 0..5 {
        assert_eq!(check(&service, "holds", "shop-jobs"), 200);
    }
    let page = |name: &str, more: &str| {
        let path = format!("/v1/holders?limit=shop-jobs&key=k{more}");
        send(&service, name, "GET", &path, &Value::Null)
    };
    let whole = page("boss", "").json();
    let ids: Vec<String> = whole["holders"]
        .as_array()
        .unwrap()
        .iter()
        .map(|holder| holder["hold"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids.len(), 5);
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let list = page("reads", &format!("&count=2{after}"));
        assert!(ids.iter().all(|id| !list.body.contains(id)), "{}", list.body);
        let list = list.json();
        seen.extend(list["holders"].as_array().unwrap().iter().map(|it| it["ends_in_us"].clone()));
        match list["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(seen.len(), 5, "each once");
    let next = page("boss", "&count=2").json()["next"].as_str().unwrap().to_owned();
    assert!(next.ends_with(&ids[1]), "the cursor of an administrator");
    assert_eq!(page("reads", &format!("&after={next}")).status, 400);
    assert_eq!(page("reads", "&after=00").status, 400);
}

#[test]
fn requests_and_refusals_are_counted_by_client_and_decisions_name_theirs() {
    let clients = Clients::new();
    let args = ["--config", &*clients.config(), "--admin-token", "s3cret"];
    let variables = [("RUST_LOG", "info,sluicegate::decisions=debug")];
    let mut service = Service::start_with(&variables, &args);
    for (name, limit) in [
        ("checks", "shop-api"),
        ("checks", "secret"),
        ("holds", "secret"),
        ("wrong", "shop-api"),
        ("s3cret", "shop-api"),
    ] {
        check(&service, name, limit);
    }
    let ask = json!({"limit": "shop-api", "key": "k"}).to_string();
    service.send("POST", "/v1/check", &[("Authorization", "Bearer s3cret")], ask.as_bytes());
    service.post("/v1/check", &ask);
    let page = service.get("/metrics").body;
    for line in [
        r#"sluicegate_client_requests_total{client="checks"} 2"#,
        r#"sluicegate_client_requests_total{client="holds"} 1"#,
        r#"sluicegate_client_requests_total{client="reads"} 0"#,
        r#"sluicegate_client_requests_total{client="admin"} 1"#,
        r#"sluicegate_refused_requests_total{client="checks",reason="forbidden"} 1"#,
        r#"sluicegate_refused_requests_total{client="holds",reason="forbidden"} 0"#,
        r#"sluicegate_refused_requests_total{client="",reason="wrong_credential"} 2"#,
        r#"sluicegate_refused_requests_total{client="",reason="no_credential"} 1"#,
    ] {
        assert!(page.contains(line), "no {line} in {page}");
    }
    assert!(!page.contains("wrong-token"), "{page}");
    let rows = |name: &str| {
        let recent = send(&service, name, "GET", "/v1/recent", &Value::Null).json();
        let rows = recent["recent"].as_array().unwrap().iter();
        rows.map(|row| json!([row["client"], row["limit"]])).collect::<Vec<_>>()
    };
    let all =
        [json!(["admin", "shop-api"]), json!(["holds", "secret"]), json!(["checks", "shop-api"])];
    assert_eq!(rows("boss"), all);
    assert_eq!(rows("reads"), [all[0].clone(), all[2].clone()]);
    service.signal(rustix::process::Signal::TERM);
    let (_, log) = service.wait();
    assert!(
        log.contains(r#"allowed limit="shop-api" key="k" source="store" client="checks""#),
        "{log}"
    );
    assert!(!log.contains("-token") && !log.contains("s3cret"), "{log}");
}

/// Without clients the rows have no client.
#[test]
fn a_decision_of_anybody_names_no_client() {
    let service = Service::start(&[]);
    assert_eq!(service.call("check", "demo", "k", &json!({})).status, 200);
    let row = service.get("/v1/recent").json()["recent"][0].clone();
    assert_eq!((&row["limit"], &row["client"]), (&json!("demo"), &Value::Null));
}

#[test]
fn a_start_without_a_usable_token_fails_and_says_where() {
    let clients = Clients::new();
    let config = clients.config();
    let check = || sluicegate(&["config", "check", &config]);
    assert_eq!(check().status, 0);
    for (text, words) in [
        (None, "No such file"),
        (Some(""), "is empty"),
        (Some("\n"), "is empty"),
        (Some("s3cret s3cret2 s3cret3"), "has 3 words"),
        (Some("s3cret\0"), "printable ASCII"),
        (Some("s3crät"), "printable ASCII"),
        (Some("holds-token"), "client `checks` has the same token"),
        (Some(&*"s3cret".repeat(1_000)), "more than 4096 bytes"),
    ] {
        match text {
            Some(text) => clients.write("checks", text),
            None => std::fs::remove_file(clients.path("checks")).unwrap(),
        }
        for done in
            [check(), sluicegate(&["serve", "--listen", "127.0.0.1:0", "--config", &config])]
        {
            assert_eq!(done.status, 2, "{words}: {done:?}");
            assert!(done.stderr.contains(words), "no `{words}` in {done:?}");
            assert!(done.stderr.contains("limits.yaml:"), "{done:?}");
            assert!(done.stderr.contains(".token_file: "), "{done:?}");
            assert!(
                !done.stderr.contains("s3cr") && !done.stderr.contains("holds-token"),
                "{done:?}"
            );
        }
    }
}

#[test]
fn the_command_line_presents_a_token() {
    let clients = Clients::new();
    let service = clients.start(&[]);
    let url = format!("http://{}", service.address());
    let run = |command: &str, name: &str, more: &[&str]| {
        let file = clients.path(name).display().to_string();
        let args = [command, "--server", &url, "--admin-token-file", &file];
        sluicegate(&[&args[..], more].concat())
    };
    let api = ["--limit", "shop-api", "--key", "k"];
    assert_eq!(run("check", "checks", &api).status, 0);
    let refused = run("reset", "checks", &api);
    assert!(refused.status == 2 && refused.stderr.contains("right `admin`"), "{refused:?}");
    assert_eq!(run("reset", "boss", &api).status, 0);
    let held = run("check", "holds", &[&api[..], &["--hold", "30s", "--json"]].concat());
    let token = held.json()["hold"]["token"].as_str().unwrap().to_owned();
    let settle = ["--hold", &token, "--used", "0"];
    assert_eq!(run("settle", "checks", &settle).status, 2);
    assert_eq!(run("settle", "holds", &settle).status, 0);
    let jobs = ["--limit", "shop-jobs", "--key", "k"];
    assert_eq!(run("check", "holds", &jobs).status, 0);
    let listed = run("holders", "reads", &jobs);
    assert!(listed.status == 0 && listed.stdout.contains("without its id"), "{listed:?}");
}
