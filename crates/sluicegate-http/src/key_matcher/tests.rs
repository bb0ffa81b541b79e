mod properties;

use super::*;
use crate::client_address::ClientAddress;
use crate::key::Key;
use crate::key_expression::KeyExpression;

fn matcher(text: &str) -> KeyMatcher {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn expression(text: &str) -> KeyExpression {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn of_address(text: &str) -> Key {
    Key::of_network(ClientAddress::peer().network_of(text.parse().unwrap()))
}

fn joined(parts: &[&str]) -> Key {
    Key::join(&parts.iter().map(Key::new).collect::<Vec<_>>())
}

/// Returns whether an entry alone matches a key that code made.
fn matches(entry: &str, key: &Key) -> bool {
    let map = KeyMap::new(&KeyExpression::default(), [(matcher(entry), ())]);
    map.find(key.view()).is_some()
}

/// Returns whether an entry alone matches a text that was written for a key of an expression.
fn reads(made_by: &str, entry: &str, text: &str) -> bool {
    let made_by = expression(made_by);
    let map = KeyMap::new(&made_by, [(matcher(entry), ())]);
    map.find(made_by.read(text.as_bytes())).is_some()
}

#[test]
fn an_entry_names_a_key_a_beginning_or_a_range() {
    for (text, key, named) in [
        ("alice", "alice", true),
        ("alice", "alice2", false),
        ("alice", "Alice", false),
        ("internal-*", "internal-", true),
        ("internal-*", "internal", false),
        ("*", "", true),
        ("*", "anything", true),
        (r"a\*", "a*", true),
        (r"a\*", "ab", false),
        (r"a\**", "a*b", true),
        (r"\\x41", r"\x41", true),
        (r"\x41\x2a", "A*", true),
        (r"\x00*", "\0a", true),
        (r"\x00*", "a", false),
        ("1/2", "1/2", true),
        ("10.0.0.0/", "10.0.0.0/", true),
        // A key that only looks like an address has no network.
        ("10.0.0.0/8", "10.0.0.1", false),
        ("10.0.0.1", "10.0.0.1", false),
        // In a key of one component `|` is a character like others.
        ("auth0|12", "auth0|12", true),
        (r"auth0\|12", "auth0|12", true),
        (r"auth0\|12", r"auth0\|12", false),
        ("auth0|*", "auth0|12", true),
        ("auth0|10.0.0.1", "auth0|10.0.0.1", true),
        ("*|12", "auth0|12", false),
    ] {
        assert_eq!(matches(text, &Key::new(key)), named, "{text} {key}");
    }
    assert!(matches("*", &Key::shared()));
    assert!(!matches(r"\x00shared", &Key::shared()) && !matches(r"\x00*", &Key::shared()));
}

#[test]
fn an_entry_names_the_components_of_a_key() {
    for (text, key, named) in [
        ("acme|*", &["acme", "alice"][..], true),
        ("acme|*", &["acme", "alice", "GET"], true),
        ("acme|*", &["acme2", "alice"], false),
        ("acme|*", &["x", "acme"], false),
        ("*|alice", &["acme", "alice"], true),
        ("*|alice", &["acme", "alice", "GET"], false),
        ("*|alice|*", &["acme", "alice", "GET"], true),
        ("acme|a*", &["acme", "alice"], true),
        ("acme|a*", &["acme", "bob"], false),
        ("a*|alice", &["acme", "alice"], true),
        ("a*", &["acme", "alice"], true),
        ("acme", &["acme", "alice"], false),
        ("acme|alice", &["acme", "alice"], true),
        ("acme|alice|GET", &["acme", "alice"], false),
        ("*", &["acme", "alice"], true),
        // A value can't fake another component.
        ("acme|*", &["acme|x", "alice"], false),
        ("*|alice", &["x", "acme|alice"], false),
        (r"acme\|x|alice", &["acme|x", "alice"], true),
        (r"acme\\|alice", &[r"acme\", "alice"], true),
        (r"acme\\|alice", &["acme", "alice"], false),
        (r"\x00a|\x00b", &["\0a", "\0b"], true),
        ("a|*", &["\0a", "b"], false),
        // A name that looks like an address is not an address.
        ("acme|10.0.0.0/8", &["acme", "10.0.0.1"], false),
    ] {
        assert_eq!(matches(text, &joined(key)), named, "{text} {key:?}");
    }
    let of_client = Key::join(&[Key::new("acme"), of_address("10.1.2.3")]);
    for (text, named) in [
        ("acme|10.0.0.0/8", true),
        ("acme|10.1.2.3", true),
        ("acme|11.0.0.0/8", false),
        ("oscorp|10.0.0.0/8", false),
        ("10.0.0.0/8|*", false),
        ("*|10.0.0.0/8", true),
        ("10.0.0.0/8", true),
        ("acme|10.*", true),
    ] {
        assert_eq!(matches(text, &of_client), named, "{text}");
    }
    // In a nested join, the second component is no longer the address alone.
    let outer = Key::join(&[Key::new("GET"), of_client]);
    assert!(!matches("GET|10.0.0.0/8", &outer) && matches("10.0.0.0/8", &outer));
    assert!(matches(r"GET|acme\|10.1.2.3", &outer));
}

#[test]
fn a_range_names_the_networks_inside_it() {
    for (text, address, named) in [
        ("10.0.0.0/8", "10.1.2.3", true),
        ("10.0.0.0/8", "::ffff:10.1.2.3", true),
        ("10.0.0.0/8", "11.1.2.3", false),
        ("10.1.2.3", "10.1.2.3", true),
        ("2001:DB8::/32", "2001:db8:7::9", true),
        ("2001:db8:7::/64", "2001:db8:7::9", true),
        ("2001:db8:7::9", "2001:db8:7::9", false),
        ("::/0", "10.1.2.3", false),
        ("0.0.0.0/0", "2002:a00:1::", false),
    ] {
        assert_eq!(matches(text, &of_address(address)), named, "{text} {address}");
    }
    assert!(matches("10.0.0.0/8", &Key::join(&[of_address("10.1.2.3"), Key::new("GET")])));
}

#[test]
fn a_text_names_an_address_where_its_writer_is_trusted() {
    for (text, named) in
        [("10.1.2.3", true), ("10.1.0.0/16", true), ("11.0.0.1", false), ("10.1.2.3 ", false)]
    {
        let key = Key::of_text(text);
        assert_eq!(key, Key::new(text));
        assert_eq!(matches("10.0.0.0/8", &key), named, "{text}");
        assert_eq!(reads("ip", "10.0.0.0/8", text), named, "{text}");
        assert!(!reads("user", "10.0.0.0/8", text), "{text}");
        let (ip, tenant) = (expression("ip"), expression("header:x-tenant+ip"));
        let map = KeyMap::new(&ip, [(matcher("10.0.0.0/8"), ())]);
        assert!(map.find(ip.read(text.as_bytes()).without_network()).is_none());
        let text = format!("acme|{text}");
        assert_eq!(reads(&tenant.to_string(), "acme|10.0.0.0/8", &text), named, "{text}");
        assert_eq!(reads(&tenant.to_string(), "10.0.0.0/8", &text), named, "{text}");
    }
    assert!(matches("2001:db8::/32", &Key::of_text("2001:db8:7::/64")));
    assert_eq!(Key::of_text([0xff; 100]).network(), None);
}

#[test]
fn a_text_is_read_with_the_components_of_the_expression() {
    assert!(reads("header:x-tenant+user", "*|alice", "acme|alice"));
    assert!(reads("header:x-tenant+user", "acme|*", r"acme|a\|b"));
    assert!(!reads("header:x-tenant+user", "acme|a", r"acme\|a|b"));
    assert!(!reads("user", "*|alice", "acme|alice"));
    assert!(reads("user", "acme|*", "acme|alice"));
    // The entry is written like the key, with the bytes in front of it.
    assert!(reads("user", r"\x00a", "\0\0a"));
    assert!(!reads("user", r"\x00a", "\0a") && !reads("user", r"\x00shared", "\0shared"));
    assert!(reads("user", "*", "\0shared"));
    let by_key = "header:x-api-key or ip";
    assert!(reads(by_key, "10.0.0.0/8", "\0|10.1.2.3"));
    assert!(!reads(by_key, "10.0.0.0/8", "10.1.2.3"), "this is an API key");
    assert!(reads(by_key, r"\x00a", "\0\0\0a"));
}

#[test]
fn nobody_gets_on_a_list_through_another_alternative() {
    let made_by = expression("user or header:x-name or ip");
    let key = |user: Option<&str>, name: Option<&str>| {
        use crate::extractor::KeyExtractor as _;
        use crate::request::{Peer, User};

        let peer = Peer(([10, 0, 0, 1], 80).into());
        let mut request = http::Request::get("/").extension(peer);
        if let Some(name) = name {
            request = request.header("x-name", name);
        }
        if let Some(user) = user {
            request = request.extension(User::new(user));
        }
        made_by.key(&request.body(()).unwrap()).unwrap()
    };
    let entries = ["alice", "a*", "10.0.0.0/8", "*"];
    let found = |entries: &[&'static str], key: &Key| {
        let map = KeyMap::new(&made_by, entries.iter().map(|text| (matcher(text), *text)));
        map.find(key.view()).copied()
    };
    assert_eq!(found(&entries, &key(Some("alice"), None)), Some("alice"));
    assert_eq!(found(&entries, &key(Some("anna"), None)), Some("a*"));
    assert_eq!(found(&entries, &key(None, Some("alice"))), Some("*"));
    assert_eq!(found(&entries, &key(None, None)), Some("10.0.0.0/8"));
    assert_eq!(found(&entries[..2], &key(None, Some("alice"))), None);
    // An address has no name, even if it looks like one.
    assert_eq!(found(&["10.*"], &key(None, None)), None);
}

#[test]
fn an_entry_means_the_same_components_in_each_alternative() {
    let by_tenant = "header:x-tenant+user or header:x-tenant+ip";
    for (entry, text, named) in [
        ("acme|*", "acme|alice", true),
        ("acme|*", "\0|acme|10.1.2.3", true),
        ("acme|alice", "\0|acme|alice", false),
        ("*|alice", "\0|acme|alice", false),
        ("acme|10.0.0.0/8", "\0|acme|10.1.2.3", true),
        ("acme|10.0.0.0/8", "acme|10.1.2.3", false),
        ("acme*", "\0|acme2|10.1.2.3", true),
    ] {
        assert_eq!(reads(by_tenant, entry, text), named, "{entry} {text}");
    }
    // A text in the key tells entries for one alternative from those for another.
    let told_apart = "user or 'key'+header:x-api-key or 'nobody'";
    for (entry, text, named) in [
        ("key|k1", "\0|key|k1", true),
        ("key|k1", "key|k1", false),
        ("key|*", "\0|key|k2", true),
        ("k1", "\0|key|k1", false),
        ("nobody", "\0|\0|nobody", true),
    ] {
        assert_eq!(reads(told_apart, entry, text), named, "{entry} {text:?}");
    }
}

#[test]
fn the_most_specific_entry_is_found_in_whatever_order() {
    let entries = [
        "*",
        "acme|alice",
        "acme|a*",
        "acme|*",
        "a*",
        "*|alice",
        "*|10.1.0.0/16",
        "acme|10.0.0.0/8",
        "10.0.0.0/8",
        "tenant-4*",
    ];
    let found = |key: &Key| {
        let find = |entries: &[&'static str]| {
            let entries = entries.iter().map(|text| (matcher(text), *text));
            KeyMap::new(&KeyExpression::default(), entries).find(key.view()).copied()
        };
        let forward = find(&entries);
        let mut backward = entries;
        backward.reverse();
        assert_eq!(find(&backward), forward);
        forward.unwrap()
    };
    assert_eq!(found(&joined(&["acme", "alice"])), "acme|alice");
    assert_eq!(found(&joined(&["acme", "anna"])), "acme|a*");
    assert_eq!(found(&joined(&["acme", "bob"])), "acme|*");
    assert_eq!(found(&joined(&["abc", "alice"])), "a*", "the first component decides");
    assert_eq!(found(&joined(&["oscorp", "alice"])), "*|alice");
    assert_eq!(found(&joined(&["oscorp", "bob"])), "*");
    let at = |name: &str, address: &str| Key::join(&[Key::new(name), of_address(address)]);
    assert_eq!(found(&at("acme", "10.1.2.3")), "*|10.1.0.0/16", "the longest range decides");
    assert_eq!(found(&at("acme", "10.2.2.3")), "acme|10.0.0.0/8");
    assert_eq!(found(&at("oscorp", "10.2.2.3")), "10.0.0.0/8");
    assert_eq!(found(&at("tenant-42", "10.1.2.3")), "*|10.1.0.0/16");
    assert_eq!(found(&at("tenant-42", "11.1.2.3")), "tenant-4*");
}

#[test]
fn what_cannot_be_meant_is_refused_with_what_to_write() {
    for (text, column, hint) in [
        ("", 1, "such as alice"),
        ("é*b", 2, r"write `\*`"),
        ("**", 1, r"write `\*`"),
        ("é|a*b", 4, r"write `\*`"),
        (r"é\n", 2, r"write `\\`"),
        (r"a\x4", 2, r"write `\\`"),
        (r"a\", 2, r"write `\\`"),
        ("10.0.0.1/8", 1, "write 10.0.0.0/8"),
        ("acme|10.0.0.1/8", 6, "write 10.0.0.0/8"),
        ("10.0.0.0/99", 1, "at most 32"),
    ] {
        let error = text.parse::<KeyMatcher>().unwrap_err();
        assert!(error.to_string().contains(hint), "{text}: {error}");
        assert_eq!(error.column(), column, "{text}: {error}");
    }
    let error = "a".repeat(1_025).parse::<KeyMatcher>().unwrap_err().to_string();
    assert!(error.contains("at most 1024") && error.len() < 150, "{error}");
}

#[test]
fn why_an_entry_matches_nothing() {
    let masked = || ClientAddress::peer().ipv4_prefix(24).unwrap();
    for (made_by, entry, hint) in [
        ("header:x-tenant+user", "acme", "which has 2 components: write `acme|*`"),
        ("header:x-tenant+user", "a|b|c", r"write as many, and `\|` for a `|` inside of one"),
        ("header:x-tenant+user", "acme|", "component 2 is never empty; write `*` for any"),
        ("header:x-tenant+user", "acme|10.0.0.0/8", "component 2 is `user`, and the range"),
        ("header:x-tenant+user", "10.0.0.0/8", "which has no `ip`"),
        ("user", "*|alice", "which has 1 component: write as many"),
        ("'key'+user", "k|alice", "component 1 is always 'key'"),
        ("ip", "10.1.2.3", "only the first 24 bits of an address count: write 10.1.2.0/24"),
        ("user+ip", "a|10.1.2.3", "count: write a|10.1.2.0/24"),
        ("user+ip or ip", "a|10.1.2.3", ""),
        ("user+ip or user+host", "acme", "whose first alternative has 2 components"),
        ("user or ip", "10.1.2.3", "write 10.1.2.0/24"),
        ("user or ip", "10.1.2.0/24", ""),
        ("header:x-tenant+user", "acme|*", ""),
        ("header:x-tenant+user", "acme*", ""),
        ("header:x-tenant+user", "*|alice", ""),
        ("header:x-tenant+user or user", "alice", ""),
        ("user", "auth0|*", ""),
        ("ip", "alice", ""),
        ("ip", "::ffff:10.1.2.0/120", ""),
        ("ip+user", "*", ""),
    ] {
        let why = matcher(entry).why_never(&expression(made_by), &masked());
        let is_told = why.as_deref().is_some_and(|why| why.contains(hint) && !hint.is_empty());
        assert!(is_told || why.is_none() && hint.is_empty(), "{made_by} {entry}: {why:?}");
    }
}
