use proptest::prelude::*;

use super::*;
use crate::client_address::ClientAddress;

fn matcher(text: &str) -> KeyMatcher {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn of_address(text: &str) -> Key {
    Key::of_network(ClientAddress::peer().network_of(text.parse().unwrap()))
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
        ("a|b", "a|b", true),
        ("1/2", "1/2", true),
        ("10.0.0.0/", "10.0.0.0/", true),
        // A key that only looks like an address has no network.
        ("10.0.0.0/8", "10.0.0.1", false),
        ("10.0.0.1", "10.0.0.1", false),
    ] {
        assert_eq!(matcher(text).matches(&Key::new(key)), named, "{text} {key}");
    }
    assert!(matcher("*").matches(&Key::shared()));
    assert!(!matcher(r"\x00shared").matches(&Key::shared()));
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
        assert_eq!(matcher(text).matches(&of_address(address)), named, "{text} {address}");
    }
    let joined = Key::join(&[of_address("10.1.2.3"), Key::new("GET")]);
    assert!(matcher("10.0.0.0/8").matches(&joined));
}

#[test]
fn a_text_names_an_address_where_its_writer_is_trusted() {
    for (text, named) in
        [("10.1.2.3", true), ("10.1.0.0/16", true), ("11.0.0.1", false), ("10.1.2.3 ", false)]
    {
        let key = Key::of_text(text);
        assert_eq!(key, Key::new(text));
        assert_eq!(matcher("10.0.0.0/8").matches(&key), named, "{text}");
    }
    assert!(matcher("2001:db8::/32").matches(&Key::of_text("2001:db8:7::/64")));
    assert_eq!(Key::of_text([0xff; 100]).network(), None);
}

#[test]
fn what_cannot_be_meant_is_refused_with_what_to_write() {
    for (text, column, hint) in [
        ("", 1, "such as alice"),
        ("é*b", 2, r"write `\*`"),
        ("**", 1, r"write `\*`"),
        (r"é\n", 2, r"write `\\`"),
        (r"a\x4", 2, r"write `\\`"),
        (r"a\", 2, r"write `\\`"),
        ("10.0.0.1/8", 1, "write 10.0.0.0/8"),
        ("10.0.0.0/99", 1, "at most 32"),
    ] {
        let error = text.parse::<KeyMatcher>().unwrap_err();
        assert!(error.to_string().contains(hint), "{text}: {error}");
        assert_eq!(error.column(), column, "{text}: {error}");
    }
    let error = "a".repeat(1_025).parse::<KeyMatcher>().unwrap_err().to_string();
    assert!(error.contains("at most 1024") && error.len() < 150, "{error}");
}

/// Bytes that are often prefixes of one another.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![3 => Just(b'a'), 3 => Just(b'b'), 1 => Just(0), 1 => any::<u8>()];
    prop::collection::vec(byte, 0..6)
}

fn network() -> impl Strategy<Value = Cidr> {
    (any::<bool>(), 0..4_u32, 0..=32_u8).prop_map(|(mapped, high, length)| {
        let address = std::net::Ipv4Addr::from_bits(high << 29);
        if mapped {
            Cidr::masked(std::net::Ipv6Addr::from_bits(u128::from(high) << 125).into(), length)
        } else {
            Cidr::masked(address.into(), length)
        }
    })
}

fn entry() -> impl Strategy<Value = KeyMatcher> {
    prop_oneof![
        bytes().prop_map(KeyMatcher::exact),
        bytes().prop_map(KeyMatcher::prefix),
        network().prop_map(KeyMatcher::range),
        network().prop_map(|network| KeyMatcher::exact(network.to_string())),
    ]
}

fn key() -> impl Strategy<Value = Key> {
    prop_oneof![
        4 => bytes().prop_map(Key::new),
        4 => network().prop_map(Key::of_network),
        1 => Just(Key::shared()),
    ]
}

proptest! {
    #[test]
    fn a_set_names_what_one_of_its_entries_names(
        entries in prop::collection::vec(entry(), 0..16), key in key(),
    ) {
        let set: KeySet = entries.iter().cloned().collect();
        prop_assert_eq!(set.matches(&key), entries.iter().any(|entry| entry.matches(&key)));
        prop_assert_eq!(set.is_empty(), entries.is_empty());
    }

    #[test]
    fn an_entry_prints_as_it_reads(entry in entry()) {
        // The empty key has no text, because empty text is an error.
        prop_assume!(entry != KeyMatcher::exact(""));
        prop_assert_eq!(entry.to_string().parse::<KeyMatcher>(), Ok(entry));
    }

    #[test]
    fn any_text_is_an_entry_or_refused(text in "[a*\\\\x0-9./:é]{0,12}|\\PC{0,8}") {
        match text.parse::<KeyMatcher>() {
            Ok(entry) => prop_assert_eq!(entry.to_string().parse::<KeyMatcher>(), Ok(entry)),
            Err(error) => prop_assert!(error.column() <= text.chars().count().max(1), "{}", error),
        }
    }
}
