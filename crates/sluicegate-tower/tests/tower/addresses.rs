//! The address that counts, regardless of a client's claims.

use axum::Router;
use axum::routing::get;
use sluicegate::http::{AddressHeader, ClientAddress, KeyExpression, KeyExtractor as _};
use sluicegate_tower::LimitLayer;

use super::serve;
use super::web::{Client, Limits};

async fn site(layer: LimitLayer) -> Client {
    serve(Router::new().route("/", get(async || "hello")).layer(layer)).await
}

fn behind_proxy(header: AddressHeader) -> ClientAddress {
    ClientAddress::behind(["127.0.0.1".parse().unwrap()], header)
}

#[tokio::test]
async fn nobody_gets_another_key_by_claiming_another_address() {
    let limits = Limits::with("fixed_window 1/h");
    let client = site(LimitLayer::new(limits.api())).await;
    assert_eq!(client.get("/").await.status, 200);
    for (name, value) in [
        ("x-forwarded-for", "198.51.100.7"),
        ("x-forwarded-for", "198.51.100.7, 127.0.0.1"),
        ("forwarded", "for=198.51.100.7"),
        ("x-real-ip", "198.51.100.7"),
        ("cf-connecting-ip", "198.51.100.7"),
        ("true-client-ip", "198.51.100.7"),
    ] {
        assert_eq!(client.get_with("/", &[(name, value)]).await.status, 429, "{name}: {value}");
    }
}

#[tokio::test]
async fn behind_a_trusted_proxy_the_client_is_the_one_that_the_proxy_saw() {
    let limits = Limits::with("fixed_window 1/h");
    let layer =
        LimitLayer::new(limits.api()).client_address(behind_proxy(AddressHeader::XForwardedFor));
    let proxy = site(layer).await;
    let ask = async |chain: &str| proxy.get_with("/", &[("x-forwarded-for", chain)]).await.status;
    assert_eq!(ask("198.51.100.7").await, 200);
    // The client made up the elements before it.
    for chain in ["6.6.6.6, 198.51.100.7", "unknown, 198.51.100.7", "\"6.6.6.6, 198.51.100.7"] {
        assert_eq!(ask(chain).await, 429, "{chain}");
    }
    assert_eq!(ask("198.51.100.8").await, 200);
    // A peer that isn't a proxy can only name itself.
    let stranger = proxy.at([127, 0, 0, 9]);
    let claim = [("x-forwarded-for", "198.51.100.9")];
    assert_eq!(stranger.get_with("/", &claim).await.status, 200);
    assert_eq!(stranger.get_with("/", &claim).await.status, 429);
    assert_eq!(limits.left("api", "127.0.0.9"), 0);
    assert_eq!(limits.left("api", "198.51.100.9"), 1);
}

#[tokio::test]
async fn absurd_chains_end_at_an_address_that_a_proxy_wrote() {
    let nonsense = [
        ",,,,,,,,".to_owned(),
        "unknown".to_owned(),
        "999.999.999.999".to_owned(),
        "1.2.3.4:99999".to_owned(),
        "for=for=for=;;;\"\"\"".to_owned(),
        "a".repeat(8_000),
        "6.6.6.6, ".repeat(800) + "x",
        "\"".repeat(500),
        "[::1".to_owned(),
        "::ffff:127.0.0.1".to_owned(),
    ];
    for header in [AddressHeader::XForwardedFor, AddressHeader::Forwarded] {
        let limits = Limits::with("fixed_window 1/h");
        let layer = LimitLayer::new(limits.api()).client_address(behind_proxy(header.clone()));
        let proxy = site(layer).await;
        let name = header.name().as_str();
        assert_eq!(proxy.get("/").await.status, 200);
        for chain in &nonsense {
            let status = proxy.get_with("/", &[(name, chain)]).await.status;
            // The proxy itself is limited, regardless of the client's field.
            assert_eq!(status, 429, "{name}: {chain:.40}");
        }
    }
}

#[tokio::test]
async fn header_bombs_are_no_more_than_a_request() {
    let limits = Limits::with("fixed_window 100/h");
    let layer = LimitLayer::new(limits.api())
        .client_address(behind_proxy(AddressHeader::XForwardedFor))
        .key("ip+header:x-key+cookie:session+query:k".parse::<KeyExpression>().unwrap());
    let client = site(layer).await;
    let long = "k".repeat(7_000);
    let many: Vec<(&str, &str)> = vec![("x-forwarded-for", "198.51.100.7"); 90];
    let cookies = "a=b; ".repeat(1_500) + "session=s";
    let query = format!("/?k=v&{}", "k=v&".repeat(1_500));
    for (path, fields) in [
        ("/?k=v", &[("x-key", long.as_str()), ("cookie", "session=s")][..]),
        ("/?k=v", &many),
        (&query, &[("x-key", "x"), ("cookie", &cookies)]),
        ("/?k=%", &[("x-key", "%00"), ("cookie", "session=%ff%fe;;;=;")]),
    ] {
        assert_eq!(client.get_with(path, fields).await.status, 200, "{path:.20}");
    }
    // No value was too long to be distinguished from another one.
    let bomb = [("x-key", long.as_str()), ("cookie", "session=s")];
    let reply = client.get_with("/?k=v", &bomb).await;
    assert_eq!(reply.field("ratelimit").as_deref(), Some("\"fixed_window\";r=98;t=3600"));
}

#[tokio::test]
async fn the_proxies_of_the_configuration_are_known_to_keys_given_in_code() {
    let limits = Limits::of(
        "http: {client_address: x-forwarded-for, trusted_proxies: [127.0.0.1]}\nlimits: {api: {policies: [fixed_window 1/h]}}",
    );
    let key = |text: &str| text.parse::<KeyExpression>().unwrap();
    let from = |address| [("x-forwarded-for", address)];
    for layer in [
        LimitLayer::new(limits.api()),
        LimitLayer::new(limits.api()).key(key("ip")),
        LimitLayer::new(limits.api()).key(key("user").or(key("ip"))),
        LimitLayer::new(limits.api()).key((key("method"), key("ip"))),
    ] {
        limits.pass(3_600);
        let proxy = site(layer).await;
        for (address, status) in [("198.51.100.7", 200), ("198.51.100.7", 429), ("::7", 200)] {
            assert_eq!(proxy.get_with("/", &from(address)).await.status, status);
        }
    }
    // An expression with client-address rules of its own keeps them.
    let peer = key("ip").with_client_address(ClientAddress::peer());
    let proxy = site(LimitLayer::new(limits.api()).key(peer)).await;
    for (address, status) in [("198.51.100.8", 200), ("198.51.100.9", 429)] {
        assert_eq!(proxy.get_with("/", &from(address)).await.status, status);
    }
}

#[tokio::test]
async fn an_api_key_that_is_written_like_an_address_is_not_that_address() {
    let limits = Limits::of(
        "limits: {api: {key: header:x-api-key or ip, policies: [fixed_window 2/h], block: [127.0.0.7]}}",
    );
    let client = site(LimitLayer::new(limits.api())).await;
    let (other, blocked) = (client.at([127, 0, 0, 2]), client.at([127, 0, 0, 7]));
    let claim = |value| [("x-api-key", value)];
    let ask = async |from: &Client, value| from.get_with("/", &claim(value)).await.status;
    // Exhausting a key that is written like an address doesn't affect that address.
    for status in [200, 200, 429] {
        assert_eq!(ask(&other, "127.0.0.1").await, status);
    }
    assert_eq!(client.statuses("/", 3).await, [200, 200, 429]);
    // The reverse holds too: the address has another key than its text.
    assert_eq!(ask(&client, "127.0.0.2").await, 200);
    assert_eq!(other.statuses("/", 3).await, [200, 200, 429]);
    // One API key is one client, from any address.
    assert_eq!(ask(&client, "k1").await, 200);
    assert_eq!(ask(&other, "k1").await, 200);
    assert_eq!(ask(&client, "k1").await, 429);
    // A listed address matches addresses only, not API keys.
    assert_eq!(blocked.get("/").await.status, 403);
    assert_eq!(ask(&client, "127.0.0.7").await, 200);
}

#[tokio::test]
async fn without_the_address_of_the_peer_everybody_is_limited_together() {
    let limits = Limits::with("fixed_window 1/h");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::of(listener.local_addr().unwrap());
    let router: Router =
        Router::new().route("/", get(async || "hello")).layer(LimitLayer::new(limits.api()));
    // This is not `into_make_service_with_connect_info`.
    tokio::spawn(async move { axum::serve(listener, router).await });
    assert_eq!(client.get("/").await.status, 200);
    assert_eq!(client.at([127, 0, 0, 2]).get("/").await.status, 429);
}
