//! Limits that a function of the request chooses.

use std::error::Error;

use actix_web::web;
use sluicegate::http::KeyExtractor as _;
use sluicegate_actix::LimitMiddleware;

use super::serve;
use super::web::{Client, Limits, key};

fn site(limit: LimitMiddleware) -> Client {
    serve(limit, |config| {
        config.route("/", web::get().to(async || "hello"));
        config.route("/", web::post().to(async || "hello"));
    })
}

#[tokio::test]
async fn reads_and_writes_have_limits_of_their_own() {
    let limits = Limits::of(
        "limits: {reads: {policies: [fixed_window 3/h]}, writes: {policies: [fixed_window 1/h]}}",
    );
    let (reads, writes) = (limits.gate("reads"), limits.gate("writes"));
    let client = site(LimitMiddleware::by(move |request| match request.method() {
        "GET" => reads.clone(),
        _ => writes.clone(),
    }));
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
            _ => Err("there is no such tenant"),
        }
    });
    let tenant = key("header:x-tenant");
    let client = site(LimitMiddleware::by(move |request| {
        let (plans, tenant) = (plans.clone(), tenant.key(request));
        async move { Ok::<_, Box<dyn Error + Send + Sync>>(plans.get(tenant?.as_bytes()).await?) }
    }));
    for (tenant, expected) in [("small", [200, 429]), ("nobody", [503, 503])] {
        let fields = [("x-tenant", tenant)];
        let visit = || client.get_with("/", &fields);
        assert_eq!([visit().await.status, visit().await.status], expected, "{tenant}");
    }
}
