//! A server of hyper alone: no router, no framework.

use std::convert::Infallible;

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use sluicegate::http::Peer;
use sluicegate_tower::LimitLayer;
use tokio::net::TcpListener;
use tower::{ServiceBuilder, ServiceExt as _, service_fn};

use super::web::{Client, Limits};

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("hello")))
}

#[tokio::test]
async fn a_service_of_hyper_stands_behind_limits() {
    let limits = Limits::with("fixed_window 2/h");
    let service =
        ServiceBuilder::new().layer(LimitLayer::new(limits.api())).service(service_fn(hello));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::of(listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, peer)) = listener.accept().await {
            let service = service.clone().map_request(move |mut request: Request<Incoming>| {
                request.extensions_mut().insert(Peer(peer));
                request
            });
            let service = TowerToHyperService::new(service);
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    assert_eq!(client.statuses("/", 2).await, [200, 200]);
    let denied = client.get("/").await;
    assert_eq!((denied.status, denied.field("retry-after").as_deref()), (429, Some("3600")));
    assert!(denied.body.contains("quota-exceeded"));
    assert_eq!(client.at([127, 0, 0, 2]).get("/").await.status, 200);
}
