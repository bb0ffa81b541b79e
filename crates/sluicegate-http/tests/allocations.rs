//! Tests that making a key doesn't allocate. In a file of its own, because the counter replaces the
//! global allocator.

use allocation_counter::measure;
use sluicegate_http::{
    AddressHeader, ClientAddress, KeyExpression, KeyExtractor, KeyMap, MatchedRoute, Peer, User,
};

#[test]
fn a_key_of_usual_length_is_made_and_looked_up_without_allocating() {
    let request = http::Request::get("/users/7?api_key=abc123")
        .header("host", "shop.example")
        .header("x-api-key", "abc123")
        .header("cookie", "theme=dark; session=abc123")
        .header("x-forwarded-for", "6.6.6.6, 2001:db8:1:2:3:4:5:6, 10.0.0.3")
        .header("forwarded", "for=6.6.6.6, for=\"[2001:db8:1:2:3:4:5:6]:4711\";proto=https")
        .extension(Peer(([10, 0, 0, 2], 443).into()))
        .extension(User::new("alice"))
        .extension(MatchedRoute::new("/users/{id}"))
        .body(())
        .unwrap();
    let trusted = || ["10.0.0.0/8".parse().unwrap()];
    let by_chain = ClientAddress::behind(trusted(), AddressHeader::XForwardedFor);
    let by_forwarded = ClientAddress::behind(trusted(), AddressHeader::Forwarded);
    let extractors = ["ip", "user+method+route", "ip+path", "host+header:x-api-key", "'all'"]
        .into_iter()
        .chain(["cookie:session", "query:api_key", "ip+method"])
        .zip([&by_chain, &by_forwarded].into_iter().cycle())
        .map(|(text, address)| {
            text.parse::<KeyExpression>().unwrap().with_client_address(address.clone())
        })
        .collect::<Vec<_>>();
    let entries = ["alice", "internal-*", "10.0.0.0/8", "acme|*", "*|zoe|*", "x*|10.0.0.0/8"];
    let entries = entries.map(|text| (text.parse().unwrap(), ()));
    let list = KeyMap::new(&KeyExpression::default(), entries);
    let allocated = measure(|| {
        for _ in 0..1_000 {
            for extractor in &extractors {
                let key = extractor.key(&request).unwrap();
                assert!(list.find(key.view()).is_none());
                assert!(list.find(extractor.read(key.as_bytes())).is_none());
            }
        }
    });
    assert_eq!(allocated.count_total, 0);
}
