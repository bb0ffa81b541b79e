//! The places of a limit in an application, and the clients that it distinguishes.

use actix_web::dev::Service as _;
use actix_web::{HttpMessage as _, web};
use sluicegate::config::Switch;
use sluicegate::http::{AddressHeader, ClientAddress, OnMissingKey, User};
use sluicegate_actix::LimitMiddleware;

use super::serve;
use super::web::{Limits, hello, key, who};

#[tokio::test]
async fn a_limit_of_the_application_counts_every_request() {
    let limits = Limits::with("fixed_window 3/h");
    let client = serve(LimitMiddleware::new(limits.api()), |config| {
        config.route("/a", web::get().to(hello)).route("/b", web::get().to(hello));
    });
    assert_eq!(client.get("/a").await.status, 200);
    assert_eq!(client.get("/b").await.status, 200);
    assert_eq!(client.get("/missing").await.status, 404);
    assert_eq!(client.get("/a").await.status, 429);
    assert_eq!(client.at([127, 0, 0, 2]).get("/a").await.status, 200);
}

#[tokio::test]
async fn a_scope_and_a_resource_have_limits_of_their_own() {
    let limits = Limits::of(
        "limits: {site: {policies: [fixed_window 9/h as site]}, scope: {policies: [fixed_window 2/h as scope]}, resource: {policies: [fixed_window 1/h as resource]}}",
    );
    let scope = LimitMiddleware::new(limits.gate("scope"));
    let resource = LimitMiddleware::new(limits.gate("resource"));
    let client = serve(LimitMiddleware::new(limits.gate("site")), move |config| {
        let resource = web::resource("/r").wrap(resource.clone()).route(web::get().to(hello));
        let scope = web::scope("/s").wrap(scope.clone()).service(resource);
        config.service(scope.route("/q", web::get().to(hello))).route("/", web::get().to(hello));
    });
    let first = client.get("/s/r").await;
    assert_eq!(
        first.field("ratelimit").as_deref(),
        Some("\"resource\";r=0;t=3600, \"scope\";r=1;t=3600, \"site\";r=8;t=3600")
    );
    let denied = client.get("/s/r").await;
    assert_eq!(denied.status, 429);
    assert!(denied.body.contains(r#""violated-policies":["resource"]"#), "{}", denied.body);
    let denied = client.get("/s/q").await;
    assert!(denied.body.contains(r#""violated-policies":["scope"]"#), "{}", denied.body);
    assert_eq!(client.get("/").await.field("ratelimit").as_deref(), Some("\"site\";r=5;t=3600"));
}

#[tokio::test]
async fn requests_are_counted_by_the_route_that_matched() {
    let limits = Limits::with("fixed_window 2/h");
    let client = serve(LimitMiddleware::new(limits.api()).key(key("route")), |config| {
        config.route("/users/{id}", web::get().to(hello)).route("/o/{id}", web::get().to(hello));
    });
    for (path, status) in [("/users/1", 200), ("/users/2", 200), ("/users/3", 429), ("/o/3", 200)] {
        assert_eq!(client.get(path).await.status, status, "{path}");
    }
    assert_eq!(limits.left("api", "/users/{id}"), 0);
}

#[tokio::test]
async fn every_part_of_a_request_can_make_a_key() {
    let limits = Limits::with("fixed_window 1/h");
    let parts = "method+path+host+header:x-a+cookie:c+query:q";
    let client = serve(LimitMiddleware::new(limits.api()).key(key(parts)), |config| {
        config.route("/{path}", web::get().to(hello));
    });
    let fields = [("host", "Shop.Example:80"), ("x-a", "1"), ("cookie", "b=2; c=3")];
    assert_eq!(client.get_with("/p?q=4", &fields).await.status, 200);
    assert_eq!(limits.left("api", "GET|/p|shop.example|1|3|4"), 0);
}

#[tokio::test]
async fn a_trusted_proxy_is_believed_and_nobody_else() {
    let limits = Limits::with("fixed_window 1/h");
    let proxies = ["127.0.0.1".parse().unwrap()];
    let behind = ClientAddress::behind(proxies, AddressHeader::XForwardedFor);
    let client = serve(LimitMiddleware::new(limits.api()).client_address(behind), |config| {
        config.route("/", web::get().to(hello));
    });
    let claim = [("x-forwarded-for", "6.6.6.6, 198.51.100.7")];
    assert_eq!(client.get_with("/", &claim).await.status, 200);
    assert_eq!(limits.left("api", "198.51.100.7"), 0);
    let stranger = client.at([127, 0, 0, 9]);
    assert_eq!(stranger.get_with("/", &claim).await.status, 200);
    assert_eq!(stranger.get_with("/", &[("forwarded", "for=8.8.8.8")]).await.status, 429);
}

#[tokio::test]
async fn a_request_without_a_key_is_treated_as_was_said() {
    for (policy, expected) in [
        (None, [200, 429]),
        (Some(OnMissingKey::Refuse), [400, 400]),
        (Some(OnMissingKey::Skip), [200, 200]),
    ] {
        let limits = Limits::with("fixed_window 1/h");
        let mut limit = LimitMiddleware::new(limits.api()).key(key("user"));
        if let Some(policy) = policy {
            limit = limit.on_missing_key(policy);
        }
        let client = serve(limit, |config| {
            config.route("/", web::get().to(hello));
        });
        assert_eq!(client.statuses("/", 2).await, expected, "{policy:?}");
    }
}

#[tokio::test]
async fn several_limits_are_decided_all_or_nothing() {
    let limits = Limits::of(
        "limits: {address: {policies: [fixed_window 3/h]}, account: {policies: [fixed_window 2/h]}}",
    );
    let limit = LimitMiddleware::new(limits.gate("address"))
        .and(limits.gate("account"), key("query:account"))
        .unwrap()
        .cost(|request| if request.method() == "GET" { 1 } else { 2 })
        .skip_if(|request| request.path() == "/health");
    let client = serve(limit, |config| {
        config.route("/", web::get().to(hello)).route("/health", web::get().to(hello));
    });
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(client.get("/?account=alice").await.status);
    }
    assert_eq!(statuses, [200, 200, 429]);
    assert_eq!(limits.left("address", "127.0.0.1"), 1);
    assert_eq!(client.get("/health").await.limit_fields().len(), 0);
    // The cost belongs to the account, which was named last.
    assert_eq!(client.send("POST", "/?account=bob", &[]).await.status, 404);
    assert_eq!((limits.left("address", "127.0.0.1"), limits.left("account", "bob")), (0, 0));
}

#[tokio::test]
async fn handlers_know_whom_they_run_for() {
    for (switch, expected) in
        [(Switch::On, "Some(\"127.0.0.1\") Some(\"alice\")"), (Switch::Off, "None None")]
    {
        let limits = Limits::with("fixed_window 9/h");
        let inner = LimitMiddleware::new(limits.api()).key(key("user")).caller(switch);
        // The outer limit knows no user yet; the inner one runs after the application identified the
        // user.
        let client = serve(LimitMiddleware::new(limits.api()).caller(switch), move |config| {
            let scope = web::scope("").route("/", web::get().to(who)).wrap(inner.clone());
            let scope = scope.wrap_fn(|request, next| {
                request.extensions_mut().insert(User::new("alice"));
                next.call(request)
            });
            config.service(scope);
        });
        assert_eq!(client.get("/").await.body, expected);
        assert_eq!(limits.left("api", "alice"), 8);
    }
}
