use http::HeaderName;
use proptest::prelude::*;

use super::*;
use crate::client_address::AddressHeader;
use crate::missing::MissingReason;
use crate::request::{MatchedRoute, Peer, User};

fn expression(text: &str) -> KeyExpression {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn key(text: &str, request: &http::Request<()>) -> Result<String, MissingReason> {
    match expression(text).key(request) {
        Ok(key) => Ok(key.as_bytes().escape_ascii().to_string()),
        Err(missing) => Err(missing.reason),
    }
}

fn request(target: &str, fields: &[(&str, &str)]) -> http::Request<()> {
    let mut request = http::Request::get(target).extension(Peer(([192, 0, 2, 1], 80).into()));
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

fn get(target: &str) -> http::Request<()> {
    request(target, &[])
}

const ABSENT: Result<String, MissingReason> = Err(MissingReason::Absent);
const AMBIGUOUS: Result<String, MissingReason> = Err(MissingReason::Ambiguous);

#[test]
fn every_component_takes_its_part_of_a_request() {
    let fields =
        [("host", "Shop.Example:8080"), ("x-api-key", " k1 "), ("cookie", "a=1; session=s1; b=2")];
    let mut request = request("/cart/7?api_key=q1&b", &fields);
    request.extensions_mut().insert(User::new("alice"));
    request.extensions_mut().insert(MatchedRoute::new("/cart/{id}"));
    for (text, expected) in [
        ("ip", "192.0.2.1"),
        ("user", "alice"),
        ("method", "GET"),
        ("path", "/cart/7"),
        ("route", "/cart/{id}"),
        ("host", "shop.example"),
        ("header:X-API-Key", "k1"),
        ("cookie:session", "s1"),
        ("query:api_key", "q1"),
        ("'all'", "all"),
        ("ip + user+method", "192.0.2.1|alice|GET"),
        ("'a|b'+method", r"a\\|b|GET"),
    ] {
        assert_eq!(key(text, &request).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn what_is_absent_or_empty_is_missing() {
    let mut request =
        request("/?empty=&flag", &[("x-empty", " "), ("cookie", "e=; q=\"\"; f"), ("host", "")]);
    request.extensions_mut().insert(User::new(""));
    for text in [
        "user",
        "route",
        "host",
        "header:x-empty",
        "header:x-none",
        "cookie:e",
        "cookie:q",
        "cookie:f",
        "cookie:none",
        "query:empty",
        "query:flag",
        "query:none",
    ] {
        assert_eq!(key(text, &request), ABSENT, "{text}");
        let joined = format!("ip+{text}");
        assert_eq!(key(&joined, &request), ABSENT, "{joined}");
    }
    assert_eq!(key("ip", &http::Request::new(())), ABSENT);
}

#[test]
fn a_second_value_never_chooses_the_key() {
    let twice = |name: &'static str, a: &str, b: &str| request("/", &[(name, a), (name, b)]);
    assert_eq!(key("header:x-api-key", &twice("x-api-key", "a", "b")), AMBIGUOUS);
    assert_eq!(key("header:x-api-key", &twice("x-api-key", "a", "a")).as_deref(), Ok("a"));
    assert_eq!(key("cookie:s", &twice("cookie", "s=a", "s=b")), AMBIGUOUS);
    assert_eq!(key("cookie:s", &request("/", &[("cookie", "s=a; s=b")])), AMBIGUOUS);
    assert_eq!(key("cookie:s", &request("/", &[("cookie", "s=a; s=%61")])).as_deref(), Ok("a"));
    assert_eq!(key("query:q", &get("/?q=a&q=b")), AMBIGUOUS);
    assert_eq!(key("query:q", &get("/?q=a&%71=b")), AMBIGUOUS);
    assert_eq!(key("query:q", &get("/?q=a&q=%61")).as_deref(), Ok("a"));
    assert_eq!(key("query:q", &get("/?q=a&q=")), AMBIGUOUS);
    assert_eq!(key("host", &twice("host", "a", "b")), AMBIGUOUS);
}

#[test]
fn another_spelling_is_no_other_key() {
    for (text, one, other) in [
        ("path", get("/%61b%2f%7E"), get("/a%62%2F~")),
        ("query:q", get("/?q=a+b%2B"), get("/?%71=%61%20b%2b")),
        (
            "host",
            request("/", &[("host", "A.example.")]),
            request("/", &[("host", "a.EXAMPLE:80")]),
        ),
        (
            "cookie:s",
            request("/", &[("cookie", "s=ab")]),
            request("/", &[("cookie", "x=1;%73=\"%61b\" ")]),
        ),
    ] {
        assert_eq!(key(text, &one), key(text, &other), "{text}");
    }
    // Reserved characters stay escaped.
    assert_eq!(key("path", &get("/a%2Fb%zz%2")).as_deref(), Ok("/a%2Fb%zz%2"));
    assert_ne!(key("path", &get("/a%2Fb")), key("path", &get("/a/b")));
}

#[test]
fn a_proxy_s_field_is_believed_only_where_it_is_configured() {
    let request = request("/", &[("x-forwarded-for", "2001:db8::7")]);
    assert_eq!(key("ip", &request).as_deref(), Ok("192.0.2.1"));
    let trusted = ["192.0.2.0/24".parse().unwrap()];
    let address = ClientAddress::behind(trusted, AddressHeader::XForwardedFor);
    let expression = expression("ip+method").with_client_address(address);
    let key = expression.key(&request).unwrap();
    assert_eq!(key.as_bytes(), b"2001:db8::/64|GET");
    assert_eq!(key.network(), Some("2001:db8::/64".parse().unwrap()));
}

#[test]
fn an_expression_prints_as_it_reads() {
    for (text, printed) in [
        (" ip + user ", "ip+user"),
        ("header:X-Api-Key", "header:x-api-key"),
        ("header:'x-a'", "header:x-a"),
        ("header:'x+a'", "header:'x+a'"),
        ("cookie:'a b'+query:a:b", "cookie:'a b'+query:a:b"),
        ("query:'it\\'s'", "query:'it\\'s'"),
        ("'it\\'s \\\\ +'+'it\\'s \\\\ +'", "'it\\'s \\\\ +'+'it\\'s \\\\ +'"),
        ("''", "''"),
        ("query:é", "query:é"),
        ("  header:x-api-key  or  ip+ method ", "header:x-api-key or ip+method"),
        ("header:or or cookie:'or'or'or'", "header:or or cookie:or or 'or'"),
    ] {
        assert_eq!(expression(text).to_string(), printed, "{text}");
        assert_eq!(expression(printed), expression(text), "{text}");
    }
    assert_eq!(KeyExpression::default().to_string(), "ip");
}

#[test]
fn a_problem_is_shown_where_it_is_with_what_to_write() {
    for (text, column, message) in [
        ("", 1, "the expression is empty: write one such as `ip` or `user+method`"),
        ("  ", 3, "the expression is empty: write one such as `ip` or `user+method`"),
        ("ip+", 4, "a component is missing here: write one of ip, user"),
        ("ip++user", 4, "a component is missing here: write one of ip, user"),
        ("+ip", 1, "a component is missing here: write one of ip, user"),
        ("IP", 1, "unknown component `IP`: did you mean `ip`?"),
        ("ip+usr", 4, "unknown component `usr`: did you mean `user`?"),
        ("hedaer:x", 1, "unknown component `hedaer`: did you mean `header:NAME`?"),
        ("tenant", 1, "unknown component `tenant`: write one of ip, user"),
        ("é+:", 1, "unknown component `é`: write one of"),
        ("ip+:x", 4, "`:` can't begin a component: write one of"),
        ("header", 1, "`header` needs a name: write one as in `header:x-api-key`"),
        ("header:", 8, "the name is missing: write one as in `header:x-api-key`"),
        ("cookie:''", 8, "the name is missing: write one as in `cookie:session`"),
        ("query:+ip", 7, "the name is missing: write one as in `query:api_key`"),
        ("ip:x", 3, "`ip` takes no name: write `ip`"),
        ("header:a:b", 8, "`a:b` is not the name of a header field"),
        ("ip user", 4, "another component begins here: write `+` before it, or `or` if it is"),
        ("'a'b", 4, "another component begins here: write `+` before it"),
        ("ip orange", 4, "another component begins here: write `+` before it"),
        ("ip 'or' user", 4, "another component begins here: write `+` before it"),
        ("ip | user", 4, "write `or` instead of `|`"),
        ("ip || user", 4, "write `or` instead of `||`"),
        ("ip OR user", 4, "write `or` instead of `OR`"),
        ("or ip", 1, "a component is missing before `or`: write one of ip, user"),
        ("ip+or user", 4, "a component is missing before `or`: write one of ip, user"),
        ("ip or", 6, "a component is missing here: write one of ip, user"),
        ("ip or +user", 7, "a component is missing here: write one of ip, user"),
        ("ip or or user", 7, "a component is missing before `or`: write one of ip, user"),
        ("ip or usr", 7, "unknown component `usr`: did you mean `user`?"),
        ("user or ip or user", 15, "this alternative is never used, because a request that has it"),
        ("user or ip+user or ip", 9, "this alternative is never used, because a request that has"),
        ("'all' or ip", 10, "this alternative is never used, because a request that has it also"),
        ("ip or path+method or user", 22, "this alternative is never used, because a request that"),
        ("ip or user or host or route or header:x", 32, "a key has at most 4 alternatives"),
        ("'a", 1, "unclosed quote: write `'` after the text"),
        ("ip+'a\\n'", 6, r"`\` may only precede `'` or `\`: write `\\` for a backslash"),
        ("ip+'a\nb'", 6, "a control character can't be part of a key expression"),
        ("ip + ip", 6, "`ip` occurs twice: name each component once"),
        ("header:x+header:X", 10, "`header:x` occurs twice: name each component once"),
    ] {
        let error = text.parse::<KeyExpression>().unwrap_err();
        assert!(error.message().starts_with(message), "{text}: {error}");
        assert_eq!(error.column(), column, "{text}: {error}");
    }
}

#[test]
fn too_long_an_expression_is_refused_whole() {
    let long = format!("query:{}", "é".repeat(KeyExpression::MAX_BYTES / 2));
    let error = long.parse::<KeyExpression>().unwrap_err();
    assert!(error.message().contains("at most 1024"), "{error}");
    assert!(error.snippet().chars().count() < 150, "{error}");
    let many = vec!["'a'"; KeyExpression::MAX_COMPONENTS + 1].join("+");
    let error = many.parse::<KeyExpression>().unwrap_err();
    assert_eq!(error.message(), "a key has at most 16 components");
    let most = vec!["'a'"; KeyExpression::MAX_COMPONENTS].join("+");
    let most = expression(&most);
    assert_eq!(most.alternatives().next().unwrap().len(), KeyExpression::MAX_COMPONENTS);
    let word = "x".repeat(300).parse::<KeyExpression>().unwrap_err();
    assert!(word.message().len() < 250, "{word}");
}

#[test]
fn the_first_alternative_that_a_request_has_makes_the_key() {
    let text = "header:x-api-key or user + method or ip";
    let mut request = request("/", &[("x-api-key", "203.0.113.9")]);
    assert_eq!(key(text, &request).as_deref(), Ok("203.0.113.9"));
    request.headers_mut().clear();
    assert_eq!(key(text, &request).as_deref(), Ok(r"\x00|\x00|192.0.2.1"));
    let of_address = expression(text).key(&request).unwrap();
    assert_eq!(of_address.network(), Some("192.0.2.1".parse().unwrap()));
    request.extensions_mut().insert(User::new("alice"));
    assert_eq!(key(text, &request).as_deref(), Ok(r"\x00|alice|GET"));
    // Several values are as good as none.
    for value in ["a", "b"] {
        request.headers_mut().append("x-api-key", value.parse().unwrap());
    }
    assert_eq!(key(text, &request).as_deref(), Ok(r"\x00|alice|GET"));
    let missing = expression("user or header:x or cookie:c").key(&get("/")).unwrap_err();
    assert_eq!(missing.component, KeyComponent::Cookie("c".into()));
}

pub(super) fn component() -> impl Strategy<Value = KeyComponent> {
    let name = "[a-c:+ '\\\\é=&%]{1,4}";
    prop_oneof![
        Just(KeyComponent::Ip),
        Just(KeyComponent::User),
        Just(KeyComponent::Method),
        Just(KeyComponent::Path),
        Just(KeyComponent::Route),
        Just(KeyComponent::Host),
        "[a-c0-9!#$%&'*+.^_`|~-]{1,4}".prop_map(|name| KeyComponent::Header(
            HeaderName::from_bytes(name.as_bytes()).unwrap()
        )),
        name.prop_map(|name| KeyComponent::Cookie(name.into())),
        name.prop_map(|name| KeyComponent::Query(name.into())),
        "[a-c:+ '\\\\é]{0,4}".prop_map(|text| KeyComponent::Literal(text.into())),
    ]
}

pub(super) fn of(alternatives: Vec<Vec<KeyComponent>>) -> KeyExpression {
    let alternatives = alternatives.into_iter().map(Into::into).collect();
    KeyExpression { alternatives, address: None, is_default: false }
}

/// Returns a request with a target and fields made of meaningful text.
pub(super) fn any_request() -> impl Strategy<Value = http::Request<()>> {
    let field =
        prop::collection::vec(prop_oneof![0x20..0x7f_u8, 0x80..=0xff_u8, Just(b'\t')], 0..9);
    let user = prop::option::of(prop::collection::vec(any::<u8>(), 0..4));
    (
        "/[ab/%0-9]{0,6}",
        prop::option::of("[ab=&%0-9+;]{0,12}"),
        prop::collection::vec(("a|b|cookie|host|x-forwarded-for", field), 0..4),
        prop::option::of("[abAB=;%0-9\" ]{0,12}"),
        prop::option::of(any::<std::net::IpAddr>()),
        user,
    )
        .prop_map(|(path, query, fields, cookie, peer, user)| {
            let target = query.map_or(path.clone(), |query| format!("{path}?{query}"));
            let mut request = http::Request::get(target);
            for (name, value) in fields {
                request = request.header(name, value);
            }
            if let Some(cookie) = cookie {
                request = request.header("cookie", cookie);
            }
            if let Some(peer) = peer {
                request = request.extension(Peer((peer, 1).into()));
            }
            if let Some(user) = user {
                request = request.extension(User::new(user));
            }
            request.body(()).unwrap()
        })
}

/// Returns a request that often has the values of another one, here or there.
fn similar_request() -> impl Strategy<Value = http::Request<()>> {
    let value = || prop::option::of("x|y");
    (value(), value(), value(), value(), value()).prop_map(|(user, a, b, cookie, host)| {
        let mut request = http::Request::get("/");
        let cookie = cookie.map(|cookie| format!("c={cookie}"));
        for (name, value) in [("a", a), ("b", b), ("cookie", cookie), ("host", host)] {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        if let Some(user) = user {
            request = request.extension(User::new(user));
        }
        request.body(()).unwrap()
    })
}

proptest! {
    #[test]
    fn any_components_print_as_they_read(
        alternatives in prop::collection::vec(prop::collection::vec(component(), 1..5), 1..4),
    ) {
        let made = of(alternatives);
        let printed = made.to_string();
        match printed.parse::<KeyExpression>() {
            Ok(read) => prop_assert_eq!(read, made),
            Err(error) => {
                let message = error.message();
                prop_assert!(message.contains("twice") || message.contains("never"), "{}", error);
            }
        }
    }

    #[test]
    fn any_text_is_an_expression_or_refused_inside_the_text(
        text in prop_oneof![".{0,20}", "[a-z:+' \\\\]{0,30}", "(ip|user|header:x|'a'|\\+| |or){0,9}"],
    ) {
        match text.parse::<KeyExpression>() {
            Ok(read) => prop_assert_eq!(read.to_string().parse(), Ok(read)),
            Err(error) => {
                prop_assert!(error.column() <= text.chars().count() + 1, "{}", error);
                prop_assert!(!error.message().is_empty());
            }
        }
    }

    #[test]
    fn two_requests_have_one_key_only_if_every_component_is_the_same(
        components in prop::collection::vec(component(), 2..5), a in any_request(), b in any_request(),
    ) {
        let each = |request: &http::Request<()>| -> Result<Vec<Key>, MissingComponent> {
            components.iter().map(|component| of(vec![vec![component.clone()]]).key(request)).collect()
        };
        let whole = of(vec![components.clone()]);
        let (of_a, of_b) = (whole.key(&a), whole.key(&b));
        prop_assert_eq!(of_a.is_ok(), each(&a).is_ok());
        if let (Ok(of_a), Ok(of_b)) = (of_a, of_b) {
            prop_assert_eq!(of_a == of_b, each(&a) == each(&b));
            prop_assert_ne!(of_a, Key::shared());
        }
    }

    #[test]
    fn two_requests_have_one_key_only_if_one_alternative_makes_it_for_both(
        text in "(user|header:a|header:b)(\\+(cookie:c|host))?( or (user|header:a|header:b)){1,2}",
        [a, b] in [similar_request(), similar_request()],
    ) {
        let Ok(whole) = text.parse::<KeyExpression>() else { return Ok(()) };
        let made = |request: &http::Request<()>| {
            let key = |components: &[_]| of(vec![components.to_vec()]).key(request).ok();
            whole.alternatives().enumerate().find_map(|(index, each)| Some((index, key(each)?)))
        };
        let (of_a, of_b) = (whole.key(&a).ok(), whole.key(&b).ok());
        prop_assert_eq!(of_a.is_some(), made(&a).is_some());
        prop_assert_eq!(of_a == of_b, made(&a) == made(&b));
    }
}
