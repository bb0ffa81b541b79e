//! Limits that a function of the request chooses.

use std::error::Error;

use axum::Router;
use axum::routing::get;
use sluicegate::http::KeyExtractor as _;
use sluicegate_tower::LimitLayer;

use super::serve;
use super::web::{Limits, hello, key};

#[tokio::test]
async fn reads_and_writes_have_limits_of_their_own() {
    let limits = Limits::of(
        "limits: {reads: {policies: [fixed_window 3/h]}, writes: {policies: [fixed_window 1/h]}}",
    );
    let (reads, writes) = (limits.gate("reads"), limits.gate("writes"));
    let layer = LimitLayer::by(move |request| match request.method() {
        "GET" => reads.clone(),
        _ => writes.clone(),
    });
    let router = Router::new().route("/", get(hello).post(hello)).layer(layer);
    let client = serve(router).await;
    assert_eq!(client.statuses("/", 4).await, [200, 200, 200, 429]);
    let write = || client.send("POST", "/", &[]);
    assert_eq!([write().await.status, write().await.status], [200, 429]);
}

/// The plan of a tenant comes from a database, which is slow, or doesn't know the tenant.
#[tokio::test]
async fn each_tenant_has_the_limit_of_its_plan() {
    let limits = Limits::of("limits: {api: {key: \"header:x-tenant\", policies: [gcra 1/h]}}");
    let plans = limits.registry.keyed("api", async |tenant: String| {
        tokio::task::yield_now().await;
        match tenant.as_str() {
            "small" => Ok(["fixed_window 1/h"]),
            "large" => Ok(["fixed_window 3/h"]),
            _ => Err("there is no such tenant"),
        }
    });
    let tenant = key("header:x-tenant");
    let layer = LimitLayer::by(move |request| {
        let (plans, tenant) = (plans.clone(), tenant.key(request));
        async move { Ok::<_, Box<dyn Error + Send + Sync>>(plans.get(tenant?.as_bytes()).await?) }
    });
    let client = serve(Router::new().route("/", get(hello)).layer(layer)).await;
    for (tenant, expected) in
        [("small", [200, 429, 429, 429]), ("large", [200, 200, 200, 429]), ("nobody", [503; 4])]
    {
        let mut statuses = Vec::new();
        for _ in 0..4 {
            statuses.push(client.get_with("/", &[("x-tenant", tenant)]).await.status);
        }
        assert_eq!(statuses, expected, "{tenant}");
    }
}
