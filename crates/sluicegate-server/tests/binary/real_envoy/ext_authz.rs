//! The external authorization filter.

use serde_json::json;
use sluicegate_testkit::servers::{EnvoyServer, Server};

use super::{FREE, ask};
use crate::support::{File, Service};

fn filter(settings: &str) -> String {
    format!(
        r#"
- name: envoy.filters.http.ext_authz
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz
    transport_api_version: V3
    grpc_service: {{envoy_grpc: {{cluster_name: sluicegate}}, timeout: 20s}}
    {settings}
"#
    )
}

/// Returns a route with these `context_extensions`.
fn route(path: &str, extensions: &str) -> String {
    format!(
        r#"
- match: {{prefix: {path}}}
  route: {{cluster: upstream}}
  typed_per_filter_config:
    envoy.filters.http.ext_authz:
      "@type": type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute
      check_settings:
        context_extensions: {{{extensions}}}
"#
    )
}

fn proxy(service: &Service, settings: &str, routes: &[(&str, &str)]) -> EnvoyServer {
    let routes: String = routes.iter().map(|(path, extensions)| route(path, extensions)).collect();
    EnvoyServer::calling(service.address_of("grpc"))
        .filters(&filter(settings))
        .routes(&routes)
        .start()
        .unwrap()
}

fn service(text: &str) -> Service {
    let file = File::new("limits.yaml", text);
    Service::start(&["--config", file.path(), "--grpc", FREE])
}

#[test]
fn each_route_is_authorized_by_its_limits() {
    let service = service(
        "limits:\n  \
           user: {policies: [fixed_window 3/h], key: header:x-user, block: [mallory]}\n  \
           path: {policies: [fixed_window 9/h as nine], key: path}\n",
    );
    let routes = [
        ("/two", r#"limits: "user, path", cost: "2""#),
        ("/teapot", r#"limits: user, denied: "418""#),
        ("/unknown", "limits: other"),
        ("/", "limits: user"),
    ];
    let envoy = proxy(&service, "", &routes);
    let field = |reply: &crate::support::Reply, name: &str| {
        reply.field(name).unwrap_or_else(|| panic!("no {name} in {reply:?}")).to_owned()
    };
    for left in [2, 1, 0] {
        let reply = ask(&envoy, "/", &[("x-user", "alice")]);
        assert_eq!((reply.status, &*reply.body), (200, "upstream"), "{reply:?}");
        assert!(
            field(&reply, "ratelimit").starts_with(&format!(r#""fixed_window";r={left}"#)),
            "{reply:?}"
        );
        assert!(field(&reply, "ratelimit-policy").contains("q=3"), "{reply:?}");
    }
    let denied = ask(&envoy, "/", &[("x-user", "alice")]);
    assert_eq!(denied.status, 429, "{denied:?}");
    assert_eq!(denied.field("content-type"), Some("application/problem+json"));
    assert_eq!(denied.json()["title"], json!("Quota exceeded"));
    assert!((1..=3600).contains(&field(&denied, "retry-after").parse::<u32>().unwrap()));
    assert!(field(&denied, "ratelimit").contains("r=0"), "{denied:?}");
    let teapot = ask(&envoy, "/teapot", &[("x-user", "alice")]);
    assert_eq!(teapot.status, 418);

    // Each limit makes its key from the request, and both are charged or none.
    let two = ask(&envoy, "/two?q=1", &[("x-user", "bob")]);
    assert_eq!(two.status, 200);
    assert!(field(&two, "ratelimit-policy").contains("nine"), "{two:?}");
    assert_eq!(ask(&envoy, "/two", &[("x-user", "bob")]).status, 429);
    let left = ask(&envoy, "/", &[("x-user", "bob")]);
    assert!(field(&left, "ratelimit").contains("r=0"), "{left:?}");

    let blocked = ask(&envoy, "/", &[("x-user", "mallory")]);
    assert_eq!(blocked.status, 403);
    assert_eq!(blocked.json()["title"], json!("Forbidden"));
    // An error of the call, which Envoy answers.
    let unknown = ask(&envoy, "/unknown", &[("x-user", "carol")]);
    assert_eq!((unknown.status, &*unknown.body), (403, ""));
}

#[test]
fn if_the_store_fails_the_filter_or_the_route_decides() {
    let mut store = Server::start().unwrap();
    let text = format!(
        "store: \"{}\"\nlimits: {{user: {{policies: [fixed_window 3/h], key: header:x-user}}}}",
        store.url()
    );
    let service = service(&text);
    let routes = [("/failed", r#"limits: user, failed: "502""#), ("/", "limits: user")];
    let open = proxy(&service, "failure_mode_allow: true", &routes);
    let closed = proxy(&service, "status_on_error: {code: 503}", &routes);
    let statuses = || {
        let status = |envoy, path| ask(envoy, path, &[("x-user", "alice")]).status;
        [status(&open, "/"), status(&closed, "/"), status(&open, "/failed")]
    };
    assert_eq!(statuses(), [200, 200, 200]);
    store.kill().unwrap();
    assert_eq!(statuses(), [200, 503, 502]);
}
