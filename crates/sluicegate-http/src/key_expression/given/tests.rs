use std::borrow::Cow;

use proptest::prelude::*;

use super::*;
use crate::extractor::KeyExtractor as _;
use crate::key_expression::tests::{any_request, component, of};

fn expression(text: &str) -> KeyExpression {
    text.parse().unwrap()
}

fn given(expression: &KeyExpression, text: &str) -> Result<String, String> {
    let key = expression.given(text.as_bytes()).map_err(|error| error.to_string())?;
    Ok(String::from_utf8(key.into_owned()).unwrap())
}

#[test]
fn every_component_has_the_form_that_a_request_gives_it() {
    for (key, text, expected) in [
        ("ip", "2001:DB8:1:2::1", "2001:db8:1:2::/64"),
        ("ip", "::ffff:198.51.100.1", "198.51.100.1"),
        ("user", "Alice ", "Alice "),
        ("user", "a|b\\c", "a|b\\c"),
        ("header:x", " k1\t", "k1"),
        ("host", "Shop.Example.:443", "shop.example"),
        ("path", "/%61%2f", "/a%2F"),
        ("method", "GET", "GET"),
        ("'all'", "all", "all"),
        ("header:x + ip", "acme|::1", "acme|::/64"),
        ("header:x + ip", r"a\|b\\|192.0.2.1:80", r"a\|b\\|192.0.2.1"),
        ("ip + 'a|b'", r"192.0.2.1|a\|b", r"192.0.2.1|a\|b"),
        // The first alternative that the text fits counts, unless the text names another one.
        ("header:x or ip", "192.0.2.1", "192.0.2.1"),
        ("header:x or ip", "\0|192.0.2.1", "\0|192.0.2.1"),
        ("header:x or ip", "\0|::1", "\0|::/64"),
        ("header:x + user or ip", "acme|alice", "acme|alice"),
        ("header:x + user or ip", "::1", "\0|::/64"),
        ("header:x + user or user", "a", "\0|a"),
        // Keys as lists show them.
        ("user", "\0shared", "\0shared"),
        ("user", "\0\0a", "\0\0a"),
    ] {
        let key = expression(key);
        let result = given(&key, text);
        assert_eq!(result.as_deref(), Ok(expected), "{key}: {text:?}");
    }
}

#[test]
fn a_key_that_fits_no_alternative_says_what_is_expected() {
    for (key, text, words) in [
        (
            "header:x-plan + header:x-tenant",
            "acme",
            "has 1 component, but `header:x-plan+header:x-tenant` has 2",
        ),
        ("header:x-plan + header:x-tenant", "a|b|c", "has 3 components"),
        ("header:x-plan + header:x-tenant", r"a\|b", "has 1 component"),
        ("header:x-plan + header:x-tenant", "acme|", "no value for `header:x-tenant`"),
        ("header:x-plan + header:x-tenant", "| ", "no value for `header:x-plan`"),
        ("header:x + user", r"a|b\c", r"write `\\` for a `\`"),
        ("ip", "alice", "write one such as 192.0.2.1 or 2001:db8::1"),
        ("ip", "10.0.0.0/8", "at least 32 bits of IPv4 or 64 bits of IPv6"),
        ("ip", "", "the key is empty, but the limit's key is `ip`"),
        ("user", "", "the key is empty"),
        ("user", "\0a", "begins with NUL"),
        ("user", "\0|a", "begins with NUL"),
        ("host", ":80", "no value for `host`"),
        ("'all'", "none", "another text than 'all'"),
        ("header:x + user or ip", "alice", "give 2 components joined with `|`, or an address"),
        ("header:x or ip", "\0|alice", "no address"),
    ] {
        let key = expression(key);
        let message = given(&key, text).unwrap_err();
        assert!(message.contains(words), "{key}: {text:?}: {message}");
    }
    let long = given(&expression("ip"), &"é".repeat(100_000)).unwrap_err();
    assert!(long.len() < 500 && long.contains("é…"), "{long}");
}

#[test]
fn without_an_expression_any_text_is_a_key_and_addresses_are_networks() {
    let default = KeyExpression::default();
    for (text, expected) in [
        ("alice", "alice"),
        ("-100123", "-100123"),
        ("a:b", "a:b"),
        ("a|b\\", "a|b\\"),
        ("\0a", "\0a"),
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("[2001:DB8::1]:443", "2001:db8::/64"),
        ("198.51.100.1:80", "198.51.100.1"),
    ] {
        assert_eq!(given(&default, text).as_deref(), Ok(expected), "{text:?}");
    }
    assert!(given(&default, "").unwrap_err().contains("the key is empty"));
    let wide = default.with_client_address(ClientAddress::peer().ipv6_prefix(48).unwrap());
    assert_eq!(given(&wide, "2001:db8:1:2::1").as_deref(), Ok("2001:db8:1::/48"));
}

#[test]
fn a_key_in_its_form_is_not_copied() {
    for key in ["ip", "header:x + user"].map(expression) {
        for text in ["192.0.2.1", "2001:db8::/64", "acme|alice"] {
            if let Ok(key) = key.given(text.as_bytes()) {
                assert!(matches!(key, Cow::Borrowed(_)), "{text}");
            }
        }
    }
}

fn any_expression() -> impl Strategy<Value = KeyExpression> {
    let alternatives = prop::collection::vec(prop::collection::vec(component(), 1..4), 1..4);
    (alternatives, any::<bool>()).prop_map(|(alternatives, is_default)| {
        if is_default && alternatives.len() == 1 {
            KeyExpression::default()
        } else {
            of(alternatives)
        }
    })
}

proptest! {
    /// A key that a list shows can be given back, and the API and middleware count the same key.
    #[test]
    fn the_key_of_a_request_is_given_as_it_is(expression in any_expression(), request in any_request()) {
        if let Ok(key) = expression.key(&request) {
            prop_assert_eq!(expression.given(key.as_bytes()).unwrap(), key.as_bytes(), "{}", expression);
        }
        let shared = Key::shared();
        prop_assert_eq!(expression.given(shared.as_bytes()).unwrap(), shared.as_bytes());
    }

    #[test]
    fn a_given_key_is_given_as_it_is(
        expression in any_expression(),
        text in prop_oneof!["[\0a:|\\\\%4./@ ]{0,12}", "(\0|\\||a|::1|192.0.2.1|\\\\|%4|:80|GET){0,6}"],
        bytes in any::<Vec<u8>>(),
    ) {
        for text in [text.as_bytes(), &bytes] {
            if let Ok(key) = expression.given(text) {
                prop_assert_eq!(expression.given(&key).unwrap(), &*key, "{}", expression);
            }
        }
    }
}

#[test]
fn every_text_that_names_a_network_may_be_an_address() {
    let peer = ClientAddress::peer();
    for text in [
        "192.0.2.1",
        "192.0.2.1:80",
        "192.0.2.0/32",
        " 192.0.2.1 ",
        "::1",
        "::ffff:192.0.2.1",
        "[2001:db8::1]",
        "[2001:db8::1]:80",
        "ABCD::1",
        "2001:db8::/64",
    ] {
        assert!(peer.network_of_text(text.as_bytes()).is_some(), "{text}");
        assert!(may_be_address(text.as_bytes()), "{text}");
    }
    for text in ["alice", "user:17", "tenant.example", "42", "", " ", "_hidden:80"] {
        assert!(!may_be_address(text.as_bytes()), "{text}");
    }
}
