//! The routes.

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn, map_request};
use axum::routing::{MethodRouter, any, get, post};
use sluicegate::store::Operation;

use super::error::ApiError;
use super::service::Service;
use super::{
    acquire, config, decide, explain, fleet, forward_auth, lists, message, openapi, overrides,
    page, query, recent, reserve, settle, simulate, status, stream, top,
};

/// Returns all routes of the service.
pub(crate) fn all(service: Arc<Service>) -> Router {
    complete(routes(), service)
}

/// Returns the routes of a service whose operators have a listener of their own. The paths that are only there
/// answer with that.
pub(crate) fn for_clients(service: Arc<Service>) -> Router {
    let of_clients = |(path, methods)| {
        let elsewhere = || {
            let methods = get(on_admin_listener).post(on_admin_listener);
            methods.put(on_admin_listener).delete(on_admin_listener)
        };
        (path, if OF_OPERATORS.contains(&path) { elsewhere() } else { methods })
    };
    complete(routes().into_iter().map(of_clients).collect(), service)
}

/// Returns the route of a listener for scrapers.
pub(crate) fn metrics(service: Arc<Service>) -> Router {
    complete(vec![metrics_route()], service)
}

/// Returns the routes of a listener for health checks.
pub(crate) fn health(service: Arc<Service>) -> Router {
    complete(health_routes(), service)
}

/// A path and its methods.
type Route = (&'static str, MethodRouter<Arc<Service>>);

fn routes() -> Vec<Route> {
    let mut routes = vec![
        ("/", get(page::page)),
        (page::FILES_PATH, get(page::file)),
        metrics_route(),
        ("/v1/acquire", post(acquire::acquire)),
        (forward_auth::BY_FIELDS, any(forward_auth::by_fields)),
        (forward_auth::BY_PREFIX, any(forward_auth::by_prefix)),
        ("/v1/audit", get(overrides::audit)),
        ("/v1/ban", post(decide::ban)),
        ("/v1/bans", get(lists::bans)),
        ("/v1/cancel", post(settle::cancel)),
        ("/v1/charge", decide::change(Operation::Charge)),
        ("/v1/check", decide::admit(Operation::Check)),
        ("/v1/config", get(config::config)),
        ("/v1/explain", post(explain::explain)),
        ("/v1/fleet", get(fleet::fleet)),
        ("/v1/revoke", post(lists::revoke)),
        ("/v1/holders", get(lists::holders)),
        ("/v1/keys", get(lists::keys)),
        ("/v1/limits", get(status::limits)),
        ("/v1/limits/{limit}/override", one_override()),
        ("/v1/limits/{limit}/overrides", get(overrides::list)),
        ("/v1/limits/{limit}/overrides/{key}", one_override()),
        (top::PATH, get(top::top)),
        ("/v1/openapi.json", get(openapi::document)),
        ("/v1/pause", post(decide::pause)),
        ("/v1/peek", decide::peek()),
        ("/v1/recent", get(recent::recent)),
        ("/v1/refund", decide::change(Operation::Refund)),
        ("/v1/release", post(settle::release)),
        ("/v1/renew", post(settle::renew)),
        ("/v1/reserve", post(reserve::reserve)),
        ("/v1/reset", decide::change(Operation::Reset)),
        ("/v1/resume", post(decide::resume)),
        ("/v1/settle", post(settle::settle)),
        ("/v1/simulate", post(simulate::simulate)),
        ("/v1/stream", get(stream::stream)),
        ("/v1/take", decide::admit(Operation::Take)),
        ("/v1/unban", decide::change(Operation::Unban)),
    ];
    routes.extend(health_routes());
    routes
}

/// The page, the metrics and the admin calls.
const OF_OPERATORS: [&str; 25] = [
    "/",
    "/metrics",
    page::FILES_PATH,
    "/v1/audit",
    "/v1/ban",
    "/v1/bans",
    "/v1/charge",
    "/v1/config",
    "/v1/explain",
    "/v1/fleet",
    "/v1/holders",
    "/v1/keys",
    "/v1/limits/{limit}/override",
    "/v1/limits/{limit}/overrides",
    "/v1/limits/{limit}/overrides/{key}",
    top::PATH,
    "/v1/pause",
    "/v1/recent",
    "/v1/refund",
    "/v1/reset",
    "/v1/resume",
    "/v1/revoke",
    "/v1/simulate",
    "/v1/stream",
    "/v1/unban",
];

fn one_override() -> MethodRouter<Arc<Service>> {
    get(overrides::get).put(overrides::put).delete(overrides::delete)
}

fn metrics_route() -> Route {
    ("/metrics", get(status::metrics))
}

fn health_routes() -> Vec<Route> {
    vec![("/healthz", get(status::healthz)), ("/readyz", get(status::readyz))]
}

/// Adds the layers that all routes of a router share.
fn complete(routes: Vec<Route>, service: Arc<Service>) -> Router {
    /// The calls that read a query. Probes and scrapers may add a query to other paths.
    const WITH_QUERY: [&str; 9] = [
        "/v1/audit",
        "/v1/bans",
        "/v1/holders",
        "/v1/keys",
        "/v1/limits",
        "/v1/limits/{limit}/overrides",
        top::PATH,
        "/v1/recent",
        "/v1/stream",
    ];
    /// The calls whose query and body are those of a proxy's client.
    const OF_PROXIES: [&str; 2] = [forward_auth::BY_FIELDS, forward_auth::BY_PREFIX];
    let router = routes.into_iter().fold(Router::new(), |router, (path, methods)| {
        if OF_PROXIES.contains(&path) {
            return router.route(path, methods);
        }
        let takes_none = path.starts_with("/v1/") && !WITH_QUERY.contains(&path);
        let methods =
            if takes_none { methods.route_layer(map_request(query::none)) } else { methods };
        router.route(path, methods.route_layer(map_request(message::not_encoded)))
    });
    router
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn(async |request, next: Next| {
            message::checked(request, |request| next.run(request)).await
        }))
        .with_state(service)
}

async fn not_found() -> ApiError {
    ApiError::new(
        StatusCode::NOT_FOUND,
        "not_found",
        "this path doesn't exist: GET /v1/openapi.json describes all calls, such as POST /v1/check. Proxies call \
         /v1/auth/LIMIT and /v1/authz/LIMIT/PATH",
    )
}

async fn on_admin_listener() -> ApiError {
    ApiError::new(
        StatusCode::NOT_FOUND,
        "not_found",
        "this path is only on the service's admin listener (--admin): use that address",
    )
}

async fn method_not_allowed() -> ApiError {
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "the path exists for another method: see the field Allow",
    )
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::http::Request;
    use axum::http::request::Builder;
    use sluicegate::config::RegistryBuilder;
    use sluicegate::{Config, MemoryStore, Registry};
    use sluicegate_testkit::layers::{Failing, stack};
    use tower::ServiceExt as _;

    use super::*;
    use crate::access::Tokens;
    use crate::http::readiness::Readiness;
    use crate::http::seal::Seal;
    use crate::http::service::{Bounds, Secrets};
    use crate::http::turns::Turns;
    use crate::http::waiting::Waiting;
    use crate::serving::Stages;

    const TOKEN: &str = "t";

    /// Returns a service with these limits and clients.
    fn service_of(registry: RegistryBuilder, config: &Config) -> Arc<Service> {
        let registry = registry.config(config);
        let turns = Turns::new(config.service.max_requests);
        let (_, stages) = Stages::new();
        let bounds = Bounds { turns, waiting: Waiting::new(1, 2) };
        let seal = Seal::random().unwrap();
        let secrets = Secrets { tokens: Tokens::new(Some(TOKEN)).unwrap(), seal };
        let readiness = Readiness::new(true);
        let none = |_: &Registry| Vec::new();
        let service =
            Service::new(None, registry, secrets, bounds, readiness, stages, none, |_| None);
        Arc::new(service)
    }

    fn router_of(registry: RegistryBuilder, config: &Config) -> Router {
        all(service_of(registry, config))
    }

    async fn call(router: &Router, method: &str, path: &str, body: &str) -> (StatusCode, String) {
        send(router, Request::builder().method(method).uri(path), body).await
    }

    async fn send(router: &Router, request: Builder, body: &str) -> (StatusCode, String) {
        let request = request.header("host", "127.0.0.1");
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    /// A router can't list its routes, so no client could detect a missing one.
    #[test]
    fn every_route_is_described_and_nothing_else() {
        let document: serde_json::Value =
            serde_json::from_str(include_str!("openapi.json")).unwrap();
        let described: Vec<_> = document["paths"].as_object().unwrap().keys().cloned().collect();
        let mut routes: Vec<_> =
            routes().into_iter().map(|(path, _)| path.replace("{*", "{")).collect();
        routes.sort_unstable();
        assert_eq!(described, routes);
    }

    /// A misspelled path would be left to all clients.
    #[test]
    fn paths_of_operators_are_routes() {
        let routes: Vec<_> = routes().into_iter().map(|(path, _)| path).collect();
        assert!(OF_OPERATORS.iter().all(|path| routes.contains(path)));
    }

    /// A handler that forgot to look for its caller would be open to all clients.
    #[tokio::test]
    async fn with_clients_every_call_needs_a_credential_and_little_else_is_open() {
        let config = "{limits: {login: {policies: [gcra 1/h]}}, \
                      clients: [{name: a, certificate: a, may: [admin]}]}";
        let config = Config::parse(config, "limits.yaml").unwrap();
        let router = router_of(Registry::builder(MemoryStore::new()), &config);
        let mut open = Vec::new();
        for (path, _) in routes() {
            let mut statuses = Vec::new();
            for method in ["GET", "POST"] {
                let path = path.replace(['{', '*', '}'], "");
                statuses.push(call(&router, method, &path, "{}").await.0);
            }
            statuses.retain(|status| *status != StatusCode::METHOD_NOT_ALLOWED);
            // Calls of proxies have any method.
            statuses.dedup();
            assert_eq!(statuses.len(), 1, "{path}");
            if statuses != [StatusCode::UNAUTHORIZED] {
                open.push(path);
            }
        }
        open.sort_unstable();
        assert_eq!(
            open,
            ["/", "/healthz", "/metrics", "/page/{file}", "/readyz", "/v1/openapi.json"]
        );
    }

    #[tokio::test]
    async fn there_is_one_simulation_at_a_time() {
        let config = Config::parse("limits: {a: {policies: [gcra 1/h]}}", "limits.yaml").unwrap();
        let service = service_of(Registry::builder(MemoryStore::new()), &config);
        let router = all(Arc::clone(&service));
        let body = r#"{"limit": "a", "policies": ["gcra 2/h"]}"#;
        let code = async || {
            let request = Request::post("/v1/simulate");
            let request = request.header("authorization", format!("Bearer {TOKEN}"));
            let (status, answer) = send(&router, request, body).await;
            let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
            (status, answer["error"]["code"].clone())
        };
        let turn = service.simulator.turn().unwrap();
        assert_eq!(code().await, (StatusCode::SERVICE_UNAVAILABLE, "busy".into()));
        drop(turn);
        // There is no recorder.
        assert_eq!(code().await, (StatusCode::BAD_REQUEST, "unsupported".into()));
    }

    #[tokio::test]
    async fn layers_reach_the_service() {
        let config = "limits: {login: {policies: [gcra 1/h burst 5]}}";
        let config = Config::parse(config, "limits.yaml").unwrap();
        let down = Failing::down();
        let router = router_of(Registry::builder(stack(&down, MemoryStore::new())), &config);
        let mut passed = 0;
        for _ in 0..9 {
            let body = r#"{"limit": "login", "key": "alice"}"#;
            let (status, answer) = call(&router, "POST", "/v1/check", body).await;
            assert!(answer.contains(r#""source":"store""#), "{status} {answer}");
            passed += usize::from(status == StatusCode::OK);
        }
        assert_eq!(passed, 5, "the store behind decides");
        assert_eq!(down.asked(), 3, "the one that is down is let alone");
        let (status, limits) = call(&router, "GET", "/v1/limits", "").await;
        assert!(status == StatusCode::OK && limits.contains("login"), "{status} {limits}");
    }
}
