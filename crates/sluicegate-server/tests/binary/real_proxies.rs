//! Tests the configurations of `docs/proxies.md` with the real proxies.

mod page;
mod site;
mod upstream;

use site::{ADDRESS, Site};

use crate::support::Reply;

/// The answers that a client gets through a proxy.
struct Expected {
    /// Whether requests that pass have the response fields.
    fields: bool,
    /// Whether denials have the problem body.
    problem: bool,
    /// Whether a blocked answer says so.
    outcome: bool,
    /// Status if the service is unreachable.
    unreachable: u16,
}

fn ask(site: &Site, target: &str, user: &str) -> Reply {
    site.ask("GET", target, &[("Cookie", &format!("user={user}"))])
}

/// Checks what clients get.
fn check(site: &Site, expected: &Expected) {
    for left in ["r=2", "r=1", "r=0"] {
        let reply = ask(site, "/cart", "alice");
        assert_eq!((reply.status, &*reply.body), (200, "program"), "{reply:?}");
        let field = reply.field("ratelimit").unwrap_or_default();
        assert_eq!(field.contains(left), expected.fields, "{reply:?}");
        let field = reply.field("ratelimit-policy").unwrap_or_default();
        assert_eq!(field.contains("q=3"), expected.fields, "{reply:?}");
        assert_eq!(reply.field("retry-after"), None, "{reply:?}");
    }
    let denied = ask(site, "/cart", "alice");
    assert_eq!(denied.status, 429, "{denied:?}");
    assert!(denied.field("ratelimit").unwrap().contains("r=0"), "{denied:?}");
    assert!(denied.field("ratelimit-policy").unwrap().contains("q=3"), "{denied:?}");
    assert!((1..=3600).contains(&denied.field("retry-after").unwrap().parse().unwrap()));
    assert_eq!(denied.body.contains("Quota exceeded"), expected.problem, "{denied:?}");

    let blocked = ask(site, "/closed", "mallory");
    assert_eq!((blocked.status, blocked.field("retry-after")), (403, None), "{blocked:?}");
    let outcome = blocked.field("sluicegate-outcome");
    assert_eq!(outcome.is_some_and(|it| it == "blocked"), expected.outcome, "{blocked:?}");

    assert_eq!(site.ask("OPTIONS", "/cart", &[("Cookie", "user=carol")]).status, 200);
    check_forged(site);
    // Sequential calls use one connection.
    assert!(site.relay.accepted() <= 2, "{} connections", site.relay.accepted());

    site.go_away();
    let unreachable = ask(site, "/cart", "dave");
    assert_eq!(unreachable.status, expected.unreachable, "{unreachable:?}");
}

/// Checks that no field of a client changes its key, and no parameter its cost.
fn check_forged(site: &Site) {
    let forged = [
        ("Cookie", "user=bob"),
        ("Forwarded", "for=192.0.2.1"),
        ("Sluicegate-Token", "token"),
        ("X-Forwarded-For", "192.0.2.1"),
        ("X-Forwarded-Host", "other.example"),
        ("X-Forwarded-Method", "GET"),
        ("X-Forwarded-Proto", "gopher"),
        ("X-Forwarded-Uri", "/other"),
        ("X-Original-Method", "GET"),
        ("X-Original-URI", "/other"),
        ("X-Real-IP", "192.0.2.1"),
    ];
    let target = "/cart?denied=200&failed=200&cost=0";
    let hidden = "X-Forwarded-For, X-Forwarded-Uri, X-Forwarded-Method, X-Forwarded-Host";
    // A proxy may refuse to hide its own fields.
    let hiding = site.ask("PUT", target, &[&forged[..], &[("Connection", hidden)]].concat());
    assert!([200, 400].contains(&hiding.status), "{hiding:?}");
    let more = if hiding.status == 200 { &[&forged[..]][..] } else { &[&forged[..], &forged[..]] };
    for fields in [&forged[..1]].iter().chain(more) {
        assert_eq!(site.ask("PUT", target, fields).status, 200, "{fields:?}");
    }
    let denied = site.ask("PUT", target, &forged);
    assert_eq!(denied.status, 429, "{denied:?}");
    let key = format!("{ADDRESS}|PUT|shop.example|/cart|bob");
    let recent = site.service.get("/v1/recent").json();
    let rows = recent["recent"].as_array().unwrap().iter().take(4);
    let keys: Vec<_> = rows.map(|row| row["key"].as_str().unwrap()).collect();
    assert_eq!(keys, [&*key; 4]);
}

#[test]
fn nginx() {
    let site = Site::nginx();
    check(&site, &Expected { fields: true, problem: false, outcome: false, unreachable: 500 });
}

#[test]
fn nginx_lets_requests_pass_if_told_to() {
    let open = page::block("open.conf");
    let site = Site::nginx_with(|text| {
        text.replacen(
            "    }\n\n    location @refused",
            &format!("{open}    }}\n\n    location @refused"),
            1,
        )
    });
    assert_eq!(ask(&site, "/cart", "alice").status, 200);
    site.go_away();
    let open = ask(&site, "/cart", "alice");
    assert_eq!((open.status, &*open.body), (200, "program"), "{open:?}");
}

#[test]
fn caddy() {
    let site = Site::caddy();
    check(&site, &Expected { fields: true, problem: true, outcome: true, unreachable: 502 });
}

#[test]
fn traefik() {
    let site = Site::traefik();
    check(&site, &Expected { fields: false, problem: true, outcome: true, unreachable: 500 });
    let passed_on = site.upstream.requests().join("\n").to_lowercase();
    assert!(passed_on.contains("\nratelimit: "), "{passed_on}");
    assert!(!passed_on.contains("sluicegate-token"), "{passed_on}");
}

#[test]
fn haproxy() {
    let site = Site::haproxy(str::to_owned);
    check(&site, &Expected { fields: true, problem: false, outcome: true, unreachable: 503 });
}

#[test]
fn haproxy_lets_requests_pass_if_told_to() {
    let site = Site::haproxy(|text| text.replace("-m int 200 }", "-m int 200 502:504 }"));
    site.go_away();
    assert_eq!(ask(&site, "/cart", "alice").status, 200);
}

#[test]
fn envoy() {
    let site = Site::envoy(str::to_owned);
    check(&site, &Expected { fields: true, problem: true, outcome: true, unreachable: 503 });
}

#[test]
fn envoy_lets_requests_pass_if_told_to() {
    let site = Site::envoy(|text| {
        text.replace("status_on_error: {code: 503}", "failure_mode_allow: true")
    });
    site.go_away();
    assert_eq!(ask(&site, "/cart", "alice").status, 200);
}
