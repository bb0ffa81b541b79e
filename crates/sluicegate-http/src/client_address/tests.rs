use proptest::prelude::*;

use super::*;
use crate::request::Peer;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn ranges(texts: &[&str]) -> Vec<Cidr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// Behind proxies in 10.0.0.0/8 and fd00::/8.
fn behind(header: AddressHeader) -> ClientAddress {
    ClientAddress::behind(ranges(&["10.0.0.0/8", "fd00::/8"]), header)
}

fn request<V: AsRef<[u8]>>(peer: &str, name: &str, lines: &[V]) -> http::Request<()> {
    request_of(ip(peer), name, lines)
}

fn request_of<V: AsRef<[u8]>>(peer: IpAddr, name: &str, lines: &[V]) -> http::Request<()> {
    let mut request = http::Request::get("/").extension(Peer((peer, 4711).into()));
    for line in lines {
        request = request.header(name, line.as_ref());
    }
    request.body(()).unwrap()
}

fn found(policy: &ClientAddress, peer: &str, name: &str, lines: &[&str]) -> IpAddr {
    policy.find(&request(peer, name, lines)).unwrap()
}

/// Returns the client behind 10.0.0.1 by `X-Forwarded-For`.
fn by_x(lines: &[&str]) -> IpAddr {
    found(&behind(AddressHeader::XForwardedFor), "10.0.0.1", "x-forwarded-for", lines)
}

/// Returns the client behind 10.0.0.1 by `Forwarded`.
fn by_forwarded(lines: &[&str]) -> IpAddr {
    found(&behind(AddressHeader::Forwarded), "10.0.0.1", "forwarded", lines)
}

#[test]
fn by_default_no_field_is_believed() {
    let policy = ClientAddress::default();
    for name in ["forwarded", "x-forwarded-for", "x-real-ip", "cf-connecting-ip"] {
        assert_eq!(found(&policy, "10.0.0.1", name, &["6.6.6.6"]), ip("10.0.0.1"));
        assert_eq!(found(&policy, "10.0.0.1", name, &["for=6.6.6.6"]), ip("10.0.0.1"));
    }
}

#[test]
fn the_leftmost_address_of_a_spoofed_chain_is_never_believed() {
    assert_eq!(by_x(&["6.6.6.6, 198.51.100.7"]), ip("198.51.100.7"));
    assert_eq!(by_x(&["6.6.6.6, 198.51.100.7, 10.0.0.2, 10.0.0.3"]), ip("198.51.100.7"));
    assert_eq!(by_x(&["6.6.6.6", "198.51.100.7"]), ip("198.51.100.7"));
    assert_eq!(by_x(&["10.0.0.9, 198.51.100.7"]), ip("198.51.100.7"));
    assert_eq!(by_forwarded(&["for=6.6.6.6, for=198.51.100.7;by=10.0.0.1"]), ip("198.51.100.7"));
}

#[test]
fn a_chain_from_a_peer_that_is_no_proxy_is_never_read() {
    let policy = behind(AddressHeader::XForwardedFor);
    let client = found(&policy, "198.51.100.7", "x-forwarded-for", &["6.6.6.6", "10.0.0.2"]);
    assert_eq!(client, ip("198.51.100.7"));
    let policy = behind(AddressHeader::CF_CONNECTING_IP);
    let client = found(&policy, "198.51.100.7", "cf-connecting-ip", &["6.6.6.6"]);
    assert_eq!(client, ip("198.51.100.7"));
}

#[test]
fn only_the_configured_field_is_read() {
    let policy = behind(AddressHeader::XForwardedFor);
    for name in ["forwarded", "x-real-ip", "true-client-ip"] {
        assert_eq!(found(&policy, "10.0.0.1", name, &["6.6.6.6"]), ip("10.0.0.1"), "{name}");
    }
}

#[test]
fn what_cannot_be_read_ends_the_walk_on_the_trusted_side() {
    assert_eq!(by_x(&["6.6.6.6, unknown, 10.0.0.2"]), ip("10.0.0.2"));
    assert_eq!(by_x(&["6.6.6.6, 10.0.0.999"]), ip("10.0.0.1"));
    assert_eq!(by_forwarded(&["for=6.6.6.6, for=unknown, for=10.0.0.2"]), ip("10.0.0.2"));
    assert_eq!(by_forwarded(&["for=6.6.6.6, for=_hidden"]), ip("10.0.0.1"));
    assert_eq!(by_forwarded(&["for=6.6.6.6, proto=https"]), ip("10.0.0.1"));
}

#[test]
fn an_empty_element_of_a_chain_is_passed_over() {
    for lines in [
        &["6.6.6.6, 198.51.100.7, , 10.0.0.2"][..],
        &["6.6.6.6,198.51.100.7,"],
        &["6.6.6.6, 198.51.100.7 ,\t, ,"],
        &["6.6.6.6, 198.51.100.7", ""],
        &["6.6.6.6", "198.51.100.7", " ", "10.0.0.2, "],
    ] {
        assert_eq!(by_x(lines), ip("198.51.100.7"), "{lines:?}");
    }
    assert_eq!(
        by_forwarded(&["for=6.6.6.6, for=198.51.100.7, ,for=10.0.0.2,", ""]),
        ip("198.51.100.7")
    );
    assert_eq!(by_x(&["", " , "]), ip("10.0.0.1"));
    // An empty element is not a hop, but counts towards the maximum number of elements.
    let hops = ClientAddress::behind_hops(
        ranges(&["10.0.0.0/8"]),
        AddressHeader::XForwardedFor,
        NonZeroU8::new(2).unwrap(),
    );
    let client =
        found(&hops.unwrap(), "10.0.0.1", "x-forwarded-for", &["198.51.100.7,, 10.0.0.2,"]);
    assert_eq!(client, ip("198.51.100.7"));
    let most = ",".repeat(ClientAddress::MAX_HOPS - 1);
    assert_eq!(by_x(&[&format!("198.51.100.7{most}")]), ip("198.51.100.7"));
    assert_eq!(by_x(&[&format!("198.51.100.7,{most}")]), ip("10.0.0.1"));
}

#[test]
fn an_open_quote_of_the_client_hides_nothing_that_a_proxy_wrote() {
    assert_eq!(by_forwarded(&["for=6.6.6.6;x=\", for=198.51.100.7"]), ip("198.51.100.7"));
    assert_eq!(
        by_forwarded(&["for=6.6.6.6;x=\", for=\"[2001:db8::7]:1\";by=\"[fd00::1]\""]),
        ip("2001:db8::7")
    );
    assert_eq!(
        by_forwarded(&["for=6.6.6.6;x=\", for=10.0.0.2;host=\"a\\\",for=6.6.6.6\""]),
        ip("10.0.0.2")
    );
    // A comma in quotes separates nothing.
    assert_eq!(by_forwarded(&["for=198.51.100.7;host=\"a,for=6.6.6.6\""]), ip("198.51.100.7"));
}

#[test]
fn a_chain_of_proxies_alone_ends_at_the_outermost() {
    assert_eq!(by_x(&["10.0.0.9, 10.0.0.2"]), ip("10.0.0.9"));
    assert_eq!(by_x(&[]), ip("10.0.0.1"));
}

#[test]
fn a_dual_stack_socket_knows_its_proxies_by_their_ipv4_addresses() {
    let policy = behind(AddressHeader::XForwardedFor);
    let client = found(&policy, "::ffff:10.0.0.1", "x-forwarded-for", &["::ffff:198.51.100.7"]);
    assert_eq!(client, ip("198.51.100.7"));
    assert_eq!(by_x(&["198.51.100.7, ::ffff:10.0.0.2"]), ip("198.51.100.7"));
}

#[test]
fn an_embedded_address_is_never_a_proxy_s() {
    // 2002:a00:1:: and 64:ff9b::a00:1 claim to be 10.0.0.1.
    assert_eq!(by_x(&["6.6.6.6, 2002:a00:1::"]), ip("2002:a00:1::"));
    assert_eq!(by_x(&["6.6.6.6, 64:ff9b::10.0.0.1"]), ip("64:ff9b::10.0.0.1"));
    let policy = ClientAddress::behind(ranges(&["192.0.2.0/24"]), AddressHeader::XForwardedFor);
    let client = found(&policy, "2002:c000:201::", "x-forwarded-for", &["6.6.6.6"]);
    assert_eq!(client, ip("2002:c000:201::"));
}

#[test]
fn hops_are_counted_from_the_end() {
    let hops = |hops: u8, lines: &[&str]| {
        let trusted = [Cidr::ALL_IPV4, Cidr::ALL_IPV6];
        let hops = NonZeroU8::new(hops).unwrap();
        let policy = ClientAddress::behind_hops(trusted, AddressHeader::XForwardedFor, hops);
        found(&policy.unwrap(), "10.0.0.1", "x-forwarded-for", lines)
    };
    let lines = ["6.6.6.6, 198.51.100.7", "203.0.113.1"];
    assert_eq!(hops(1, &lines), ip("203.0.113.1"));
    assert_eq!(hops(2, &lines), ip("198.51.100.7"));
    // A chain with fewer elements than hops, or fewer readable ones: the last address found.
    assert_eq!(hops(3, &["198.51.100.7, 203.0.113.1"]), ip("198.51.100.7"));
    assert_eq!(hops(2, &["6.6.6.6, unknown, 203.0.113.1"]), ip("203.0.113.1"));
    assert_eq!(hops(1, &[]), ip("10.0.0.1"));
}

#[test]
fn hops_are_counted_from_trusted_peers_alone() {
    let trusted = ranges(&["10.0.0.0/8"]);
    let policy =
        ClientAddress::behind_hops(trusted, AddressHeader::XForwardedFor, NonZeroU8::MIN).unwrap();
    let client = found(&policy, "198.51.100.7", "x-forwarded-for", &["6.6.6.6"]);
    assert_eq!(client, ip("198.51.100.7"));
}

#[test]
fn a_field_of_one_address_is_not_read_as_a_chain() {
    let policy = behind(AddressHeader::CF_CONNECTING_IP);
    for (lines, client) in [
        (&["198.51.100.7"][..], "198.51.100.7"),
        (&["198.51.100.7:80"], "198.51.100.7"),
        (&["2001:db8::1"], "2001:db8::1"),
        (&["198.51.100.7", "198.51.100.7"], "198.51.100.7"),
        (&["198.51.100.7", "6.6.6.6"], "10.0.0.1"),
        (&["198.51.100.7, 6.6.6.6"], "10.0.0.1"),
        (&["unknown"], "10.0.0.1"),
        (&[""], "10.0.0.1"),
        (&[], "10.0.0.1"),
    ] {
        let found = found(&policy, "10.0.0.1", "cf-connecting-ip", lines);
        assert_eq!(found, ip(client), "{lines:?}");
    }
    let policy = behind(AddressHeader::CLOUDFRONT_VIEWER_ADDRESS);
    let lines = ["2001:db8::1:46532"];
    let found = found(&policy, "10.0.0.1", "cloudfront-viewer-address", &lines);
    assert_eq!(found, ip("2001:db8::1"));
}

#[test]
fn no_more_than_the_stated_part_of_a_chain_is_looked_at() {
    let proxies = "10.0.0.2, ".repeat(ClientAddress::MAX_HOPS - 1);
    assert_eq!(
        by_x(&[&format!("198.51.100.7, {}", proxies.trim_end_matches(", "))]),
        ip("198.51.100.7")
    );
    assert_eq!(by_x(&[&format!("198.51.100.7, {proxies}10.0.0.2")]), ip("10.0.0.2"));
    let mut lines = vec!["10.0.0.2"; ClientAddress::MAX_HOPS];
    lines.insert(0, "198.51.100.7");
    assert_eq!(by_x(&lines), ip("10.0.0.2"));
    lines.remove(1);
    assert_eq!(by_x(&lines), ip("198.51.100.7"));

    let spaces = " ".repeat(ClientAddress::MAX_BYTES);
    assert_eq!(by_x(&[&format!("198.51.100.7,{spaces}10.0.0.2")]), ip("10.0.0.1"));
    let bomb = format!("{},198.51.100.7", "6.6.6.6,".repeat(100_000));
    assert_eq!(by_x(&[&bomb]), ip("198.51.100.7"));
    let bomb = format!("{}\",for=198.51.100.7", "\\".repeat(100_000));
    assert_eq!(by_forwarded(&[&bomb]), ip("198.51.100.7"));
}

#[test]
fn a_client_is_limited_as_its_network() {
    let policy = ClientAddress::peer();
    for (address, network) in [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:0:7:8::9", "2001:db8:0:7::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("64:ff9b::192.0.2.1", "192.0.2.1"),
        ("2002:c000:201::1", "192.0.2.1"),
        ("2002:a00:1:7::1", "2002:a00:1:7::/64"),
    ] {
        assert_eq!(policy.network_of(ip(address)).to_string(), network, "{address}");
    }
    let policy = policy.ipv4_prefix(24).unwrap().ipv6_prefix(48).unwrap();
    assert_eq!(policy.network_of(ip("192.0.2.1")).to_string(), "192.0.2.0/24");
    assert_eq!(policy.network_of(ip("2001:db8:1:2::")).to_string(), "2001:db8:1::/48");
    let whole = ClientAddress::peer().ipv6_prefix(128).unwrap();
    assert_eq!(whole.network_of(ip("2001:db8::")).to_string(), "2001:db8::");
}

#[test]
fn a_policy_that_cannot_be_meant_is_refused_with_what_to_write() {
    let hops = |header, hops| ClientAddress::behind_hops([], header, NonZeroU8::new(hops).unwrap());
    for (error, hint) in [
        (ClientAddress::peer().ipv4_prefix(33), "write 0 to 32"),
        (ClientAddress::peer().ipv6_prefix(129), "write 0 to 128"),
        (hops(AddressHeader::X_REAL_IP, 1), "`x-real-ip` holds one address"),
        (hops(AddressHeader::Forwarded, 65), "write 1 to 64"),
    ] {
        let message = error.unwrap_err().to_string();
        assert!(message.contains(hint), "{message}");
    }
}

/// Bytes that are valid in a header field, many of them meaningful in a chain.
fn field_bytes() -> impl Strategy<Value = Vec<u8>> {
    const WORDS: [&str; 15] = [
        "for=",
        "for=\"",
        ",",
        ", ",
        ";",
        "\"",
        "\\",
        "[",
        "]",
        ":80",
        "10.0.0.2",
        "6.6.6.6",
        "fd00::2",
        "2001:db8::6",
        "unknown",
    ];
    let word = prop::sample::select(&WORDS[..]).prop_map(|word| word.as_bytes().to_vec());
    let byte = prop_oneof![0x20..0x7f_u8, 0x80..=0xff_u8, Just(b'\t')];
    let piece = prop_oneof![4 => word, 1 => prop::collection::vec(byte, 0..4)];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn chain() -> impl Strategy<Value = AddressHeader> {
    prop_oneof![Just(AddressHeader::Forwarded), Just(AddressHeader::XForwardedFor)]
}

fn element(header: &AddressHeader, address: IpAddr) -> String {
    match (header, address) {
        (AddressHeader::XForwardedFor, address) => address.to_string(),
        (_, IpAddr::V4(address)) => format!("for={address};proto=https"),
        (_, IpAddr::V6(address)) => format!("by=\"[fd00::1]\";for=\"[{address}]:443\""),
    }
}

proptest! {
    #[test]
    fn nothing_that_a_client_sends_changes_its_address(
        header in chain(), spoofed in prop::collection::vec(field_bytes(), 0..3),
        client in any::<IpAddr>(), proxies in prop::collection::vec(any::<u8>(), 0..4),
        joined in any::<bool>(),
    ) {
        let policy = behind(header.clone());
        let client = client.to_canonical();
        prop_assume!(!policy.proxies.as_ref().unwrap().trusted.contains(client));
        // Each proxy appends the address of its peer to the last line, or adds a line.
        let mut lines = spoofed;
        let proxies = proxies.iter().map(|&low| IpAddr::from([10, 0, 0, low]));
        for address in std::iter::once(client).chain(proxies) {
            let element = element(&header, address).into_bytes();
            match lines.last_mut().filter(|_| joined) {
                Some(line) => {
                    line.extend_from_slice(b", ");
                    line.extend_from_slice(&element);
                }
                None => lines.push(element),
            }
        }
        let request = request("10.0.0.1", header.name().as_str(), &lines);
        prop_assert_eq!(policy.find(&request), Some(client));
    }

    #[test]
    fn a_peer_that_is_no_proxy_is_the_client_whatever_it_sends(
        header in chain(), lines in prop::collection::vec(field_bytes(), 0..4), peer in any::<IpAddr>(),
    ) {
        let policy = behind(header.clone());
        let peer = peer.to_canonical();
        prop_assume!(!policy.proxies.as_ref().unwrap().trusted.contains(peer));
        let request = request_of(peer, header.name().as_str(), &lines);
        prop_assert_eq!(policy.find(&request), Some(peer));
    }

    #[test]
    fn a_trusted_address_is_the_client_only_where_nothing_else_can_be_read(
        lines in prop::collection::vec(field_bytes(), 0..4),
    ) {
        let policy = behind(AddressHeader::XForwardedFor);
        let request = request("10.0.0.1", "x-forwarded-for", &lines);
        let found = policy.find(&request).unwrap();
        let trusted = &policy.proxies.as_ref().unwrap().trusted;
        // The same search, over a list.
        let joined = lines.join(&b","[..]);
        let elements: Vec<&[u8]> = joined
            .split(|&byte| byte == b',')
            .filter(|element| !element.trim_ascii().is_empty())
            .collect();
        let readable: Vec<IpAddr> =
            elements.iter().rev().map_while(|element| node::with_optional_port(element)).collect();
        let first_untrusted = readable.iter().find(|address| !trusted.contains(**address));
        let expected = first_untrusted.or(readable.last()).copied().unwrap_or(ip("10.0.0.1"));
        prop_assert_eq!(found, expected.to_canonical());
    }

    #[test]
    fn any_bytes_in_a_field_of_one_address_are_read_or_not(value in field_bytes()) {
        for header in [AddressHeader::X_REAL_IP, AddressHeader::CLOUDFRONT_VIEWER_ADDRESS] {
            let request = request("10.0.0.1", header.name().as_str(), &[&value]);
            prop_assert!(behind(header).find(&request).is_some());
        }
    }
}
