//! The keys of calls.

use std::borrow::Cow;
use std::sync::Arc;

use sluicegate::http::User;
use sluicegate::{Caller, Denied, Registry, limit};

use crate::attribute::support::{Setup, admitted, now};

struct Account {
    id: u64,
}

struct Params {
    phone: String,
}

#[limit("gcra 1/h", name = "sms", key = "{user.id}:{params.phone}", registry = limits)]
fn send_code(limits: &Registry, user: &Account, params: &Params) -> Result<(), Denied> {
    Ok(())
}

#[test]
fn a_template_reads_fields_of_the_arguments() {
    let setup = Setup::empty();
    let (alice, bob) = (Account { id: 7 }, Account { id: 8 });
    let phone = |phone: &str| Params { phone: phone.to_owned() };
    assert!(send_code(&setup.limits, &alice, &phone("555")).is_ok());
    assert!(send_code(&setup.limits, &alice, &phone("555")).is_err());
    assert!(send_code(&setup.limits, &alice, &phone("556")).is_ok());
    assert!(send_code(&setup.limits, &bob, &phone("555")).is_ok());
    assert_eq!(setup.left("sms", "7:555"), 0);
    assert_eq!(setup.left("sms", "7:557"), 1);
}

#[limit("gcra 1/h", name = "pair", key = "{a}:{b}", registry = limits)]
fn pair(limits: &Registry, a: &str, b: &str) -> Result<(), Denied> {
    Ok(())
}

#[limit("gcra 1/h", name = "tuple", key = (a, b), registry = limits)]
fn tuple(limits: &Registry, a: &str, b: &str) -> Result<(), Denied> {
    Ok(())
}

#[test]
fn different_parts_never_make_one_key() {
    let setup = Setup::empty();
    let parts = ["", ":", "a", "b", r"\", r"\:", r":\", r"a\", "a:", ":b", r"a\:b", "a:b"];
    for a in parts {
        for b in parts {
            assert!(pair(&setup.limits, a, b).is_ok(), "{a} and {b}");
            assert!(pair(&setup.limits, a, b).is_err(), "{a} and {b}");
            assert!(tuple(&setup.limits, a, b).is_ok(), "{a} and {b}");
            assert!(tuple(&setup.limits, a, b).is_err(), "{a} and {b}");
        }
    }
}

#[limit("gcra 1/h", name = "literal", key = "{{{word}}}/é{word}é", registry = limits)]
fn literal(limits: &Registry, word: &str) -> Result<(), Denied> {
    Ok(())
}

#[test]
fn text_of_a_template_is_part_of_the_key_and_braces_are_doubled() {
    let setup = Setup::empty();
    literal(&setup.limits, "x").unwrap();
    assert_eq!(setup.left("literal", "{x}/éxé"), 0);
}

struct Tenant {
    name: &'static str,
    limits: Registry,
}

impl Tenant {
    fn shard(&self) -> usize {
        self.name.len()
    }

    #[limit("gcra 1/h", name = "of_self", key = "{self.name}/{self.shard()}", registry = self.limits)]
    fn ask(&self) -> Result<(), Denied> {
        Ok(())
    }

    #[limit("gcra 1/h", name = "by_call", key = self.shard() % 2, registry = self.limits)]
    fn call(&self) -> Result<(), Denied> {
        Ok(())
    }

    #[limit("gcra 1/h", name = "consumed", key = self.name, registry = self.limits)]
    fn consume(self, word: String) -> Result<String, Denied> {
        Ok(word)
    }
}

#[test]
fn a_key_is_any_expression_over_the_arguments_and_self() {
    let setup = Setup::empty();
    let tenant = |name| Tenant { name, limits: setup.limits.clone() };
    assert_eq!(admitted(2, || tenant("acme").ask()), 1);
    assert_eq!(admitted(2, || tenant("oscorp").ask()), 1);
    assert_eq!(setup.left("of_self", "acme/4"), 0);
    assert!(tenant("acme").call().is_ok());
    assert!(tenant("oscorp").call().is_err(), "even like the other");
    assert!(tenant("odd").call().is_ok());
    assert_eq!(tenant("acme").consume("word".to_owned()).unwrap(), "word");
    assert!(tenant("acme").consume("word".to_owned()).is_err());
}

#[test]
fn text_bytes_options_and_whatever_is_printable_are_keys() {
    type Bytes = [u8; 2];
    struct Values<'v> {
        text: (&'v str, &'v mut String, Arc<str>, Cow<'v, str>),
        bytes: (&'v [u8], Bytes, Vec<u8>),
        printable: (u8, char, std::net::IpAddr),
        options: (Option<u8>, Option<&'v str>, Option<Vec<u8>>),
    }
    #[limit("gcra 1/h", name = "text", key = "{v.text.0}{{{v.text.1},{v.text.2},{v.text.3}", registry = limits)]
    #[limit("gcra 1/h", name = "bytes", key = "{v.bytes.0},{v.bytes.1},{v.bytes.2}")]
    #[limit("gcra 1/h", name = "printable", key = (v.printable.0, v.printable.1, v.printable.2))]
    #[limit(
        "gcra 1/h",
        name = "options",
        key = "{v.options.0},{v.options.1},{v.options.2},{lent},{lent_text}"
    )]
    fn ask(
        limits: &Registry,
        v: &Values<'_>,
        lent: &Option<u8>,
        lent_text: &Option<String>,
    ) -> Result<(), Denied> {
        Ok(())
    }
    let setup = Setup::empty();
    let values = Values {
        text: ("a", &mut "b".to_owned(), "c".into(), "d".into()),
        bytes: (b"a", *b"bb", b"c".to_vec()),
        printable: (1, 'b', [192, 0, 2, 7].into()),
        options: (Some(1), Some("b"), Some(b"c".to_vec())),
    };
    ask(&setup.limits, &values, &Some(4), &Some("e".to_owned())).unwrap();
    for (limit, key) in [
        ("text", "a{b,c,d"),
        ("bytes", "a,bb,c"),
        ("printable", "1|b|192.0.2.7"),
        ("options", "1,b,c,4,e"),
    ] {
        assert_eq!(setup.left(limit, key), 0, "{limit}");
    }
}

#[test]
fn arguments_that_are_taken_apart_have_their_names() {
    #[limit("gcra 1/h", name = "patterns", key = "{x}-{id}-{first}", registry = limits)]
    fn patterns(
        limits: &Registry,
        (x, _): (u8, u8),
        Account { id }: Account,
        [first, ..]: [char; 2],
    ) -> Result<(), Denied> {
        Ok(())
    }
    let setup = Setup::empty();
    patterns(&setup.limits, (1, 2), Account { id: 3 }, ['a', 'b']).unwrap();
    assert_eq!(setup.left("patterns", "1-3-a"), 0);
}

#[limit("gcra 1/h", name = "by_ip", key = ip, registry = limits)]
fn by_ip(limits: &Registry) -> Result<(), Denied> {
    Ok(())
}

#[limit("gcra 1/h", name = "by_user", key = user, registry = limits)]
async fn by_user(limits: &Registry) -> Result<(), Denied> {
    Ok(())
}

#[test]
fn the_key_ip_is_the_network_of_whom_the_code_runs_for() {
    let setup = Setup::empty();
    let from = |address: &str| {
        let caller = Caller::new().with_ip(address.parse().unwrap());
        caller.scope_sync(|| by_ip(&setup.limits))
    };
    assert!(from("192.0.2.7").is_ok());
    assert!(from("192.0.2.7").is_err());
    assert!(from("192.0.2.8").is_ok());
    assert!(from("2001:db8::1").is_ok());
    assert!(from("2001:db8::2").is_err(), "an IPv6 network of 64 bits is one client");
    assert_eq!(setup.left("by_ip", "192.0.2.7"), 0);
}

#[test]
fn the_key_user_is_the_user_for_whom_the_code_runs() {
    let setup = Setup::empty();
    let ask = |name: &str| {
        let caller = Caller::new().with_user(User::new(name));
        now(caller.scope(by_user(&setup.limits)))
    };
    assert!(ask("alice").is_ok());
    assert!(ask("alice").is_err());
    assert!(ask("bob").is_ok());
    assert_eq!(setup.left("by_user", "alice"), 0);
}

/// Seed defect 3.13.
#[test]
fn functions_of_one_key_share_neither_a_budget_nor_its_numbers() {
    #[limit("gcra 1/h", key = ip, registry = limits)]
    fn login(limits: &Registry) -> Result<(), Denied> {
        Ok(())
    }
    #[limit("gcra 2/h burst 2", key = ip, registry = limits)]
    fn export(limits: &Registry) -> Result<(), Denied> {
        Ok(())
    }
    let setup = Setup::empty();
    Caller::new().with_ip([192, 0, 2, 7].into()).scope_sync(|| {
        assert!(login(&setup.limits).is_ok());
        assert!(login(&setup.limits).is_err());
        assert!(export(&setup.limits).is_ok() && export(&setup.limits).is_ok());
        assert!(export(&setup.limits).is_err());
    });
}

#[test]
fn words_are_parts_of_keys_too() {
    #[limit("gcra 1/h", name = "parts", key = "{user}@{ip}/{path}", registry = limits)]
    fn parts(limits: &Registry, path: &str) -> Result<(), Denied> {
        Ok(())
    }
    #[limit("gcra 1/h", name = "mixed", key = (caller::user, method, page), registry = limits)]
    fn mixed(limits: &Registry, _user: u8, page: u8) -> Result<(), Denied> {
        Ok(())
    }
    let setup = Setup::empty();
    let caller = Caller::new().with_user(User::new("a@b")).with_ip([192, 0, 2, 7].into());
    caller.clone().scope_sync(|| parts(&setup.limits, "x/y")).unwrap();
    assert_eq!(setup.left("parts", r"a\@b@192.0.2.7/x\/y"), 0);
    caller.scope_sync(|| {
        assert!(mixed(&setup.limits, 1, 7).is_ok() && mixed(&setup.limits, 1, 8).is_ok());
        assert!(mixed(&setup.limits, 2, 7).is_err());
    });
}

/// An argument goes before the word of the same name where a template names it.
#[test]
fn a_template_names_the_argument_where_there_is_one() {
    #[limit("gcra 1/h", name = "argument", key = "{ip}", registry = limits)]
    fn argument(limits: &Registry, ip: &str) -> Result<(), Denied> {
        Ok(())
    }
    #[limit("gcra 1/h", name = "caller", key = caller::ip, registry = limits)]
    fn caller(limits: &Registry, _ip: &str) -> Result<(), Denied> {
        Ok(())
    }
    let setup = Setup::empty();
    Caller::new().with_ip([192, 0, 2, 7].into()).scope_sync(|| {
        argument(&setup.limits, "given").unwrap();
        caller(&setup.limits, "given").unwrap();
    });
    assert_eq!(setup.left("argument", "given"), 0);
    assert_eq!(setup.left("caller", "192.0.2.7"), 0);
}

#[test]
fn a_key_of_a_network_is_found_by_the_lists_of_the_limit() {
    #[limit("office", key = ip, registry = limits)]
    fn office(limits: &Registry) -> Result<(), Denied> {
        Ok(())
    }
    let setup =
        Setup::new("{office: {policies: [gcra 1/h], allow: [10.0.0.0/8], block: [192.0.2.0/24]}}");
    let from = |address: [u8; 4]| {
        Caller::new().with_ip(address.into()).scope_sync(|| office(&setup.limits))
    };
    assert!((0..3).all(|_| from([10, 1, 2, 3]).is_ok()));
    assert_eq!(from([192, 0, 2, 7]).unwrap_err().to_string(), "the key is blocked");
    assert!(from([198, 51, 100, 7]).is_ok() && from([198, 51, 100, 7]).is_err());
}

mod a {
    use super::{Denied, Registry, limit};

    pub(super) struct Cart;

    impl Cart {
        #[limit("methods", key = method, registry = limits)]
        pub(super) fn add(limits: &Registry) -> Result<(), Denied> {
            Ok(())
        }
    }
}

mod b {
    use super::{Denied, Registry, limit};

    pub(super) struct Cart;

    impl Cart {
        #[limit("methods", registry = limits)]
        pub(super) fn add(limits: &Registry) -> Result<(), Denied> {
            Ok(())
        }
    }
}

trait Add {
    fn add(limits: &Registry) -> Result<(), Denied>;
}

trait AddMore {
    fn add(limits: &Registry) -> Result<(), Denied>;
}

struct Of<T>(T);

macro_rules! add {
    ($($of:path: $type:ty),*) => {$(
        impl $of for $type {
            #[limit("methods", registry = limits)]
            fn add(limits: &Registry) -> Result<(), Denied> {
                Ok(())
            }
        }
    )*};
}

add!(Add: a::Cart, Add: b::Cart, AddMore: a::Cart, Add: Of<u8>, Add: Of<u16>, Add: [u8], Add: [u16]);

impl Of<u8> {
    #[limit("methods", registry = limits)]
    fn put(limits: &Registry) -> Result<(), Denied> {
        Ok(())
    }
}

impl Of<u16> {
    #[limit("methods", registry = limits)]
    fn put(limits: &Registry) -> Result<(), Denied> {
        Ok(())
    }
}

type Method = fn(&Registry) -> Result<(), Denied>;

#[test]
fn the_key_method_is_different_for_methods_of_one_name() {
    let setup = Setup::new("{methods: {policies: [gcra 1/h]}}");
    let methods: [Method; 11] = [
        a::Cart::add,
        b::Cart::add,
        <a::Cart as Add>::add,
        <b::Cart as Add>::add,
        <a::Cart as AddMore>::add,
        <Of<u8> as Add>::add,
        <Of<u16> as Add>::add,
        <[u8] as Add>::add,
        <[u16] as Add>::add,
        Of::<u8>::put,
        Of::<u16>::put,
    ];
    for (index, method) in methods.iter().enumerate() {
        assert!(method(&setup.limits).is_ok(), "{index}");
        assert!(method(&setup.limits).is_err(), "{index}");
    }
    assert_eq!(setup.left("methods", "integration::attribute::keys::a::Cart::add"), 0);
}

/// A key that begins with a NUL is never one of the keys with another meaning.
#[test]
fn a_key_of_any_bytes_is_not_the_one_of_calls_without_a_key() {
    #[limit("gcra 1/h", name = "nul", key = "{tenant}", registry = limits)]
    fn ask(limits: &Registry, tenant: Option<&str>) -> Result<(), Denied> {
        Ok(())
    }
    let setup = Setup::empty();
    assert!(ask(&setup.limits, None).is_ok());
    assert!(ask(&setup.limits, Some("\0shared")).is_ok());
    assert!(ask(&setup.limits, None).is_err() && ask(&setup.limits, Some("\0shared")).is_err());
}

/// Text that only looks like an address isn't a client's network.
#[test]
fn only_the_key_ip_is_a_client_s_network() {
    #[limit("office", key = "{text}", registry = limits)]
    fn by_text(limits: &Registry, text: &str) -> Result<(), Denied> {
        Ok(())
    }
    #[limit("office", key = "{text}@{ip}", registry = limits)]
    fn by_both(limits: &Registry, text: &str) -> Result<(), Denied> {
        Ok(())
    }
    let setup = Setup::new("{office: {policies: [gcra 1/h], key: ip, allow: [10.0.0.0/8]}}");
    assert_eq!(admitted(3, || by_text(&setup.limits, "10.1.2.3")), 1);
    Caller::new().with_ip([10, 1, 2, 3].into()).scope_sync(|| {
        assert_eq!(admitted(3, || by_both(&setup.limits, "alice")), 3);
    });
}
