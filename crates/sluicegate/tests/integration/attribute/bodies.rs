//! Checks that the attribute doesn't change the function's body, generics, lifetimes and other attributes.

use std::collections::HashMap;
use std::fmt::Display;

use sluicegate::{Denied, Registry, limit};

use crate::attribute::support::{Error, Setup, now};

struct Store<'s, T> {
    limits: &'s Registry,
    rows: HashMap<u8, T>,
}

impl<'s, T: Display> Store<'s, T> {
    #[limit("gcra 1/h burst 2", name = "get", key = "k", registry = self.limits)]
    fn get<'a>(&'a self, id: &u8) -> Result<&'a T, Denied> {
        Ok(&self.rows[id])
    }

    #[limit("gcra 1/h burst 2", name = "get_mut", key = "{id}", charge_if = Result::is_ok, registry = self.limits)]
    fn get_mut(&mut self, id: u8) -> Result<&mut T, Error> {
        self.rows.get_mut(&id).ok_or(Error::Own)
    }

    #[limit("gcra 1/h burst 2", name = "longest", key = "{id}", charge_if = Result::is_ok, registry = self.limits)]
    async fn get_later(&self, id: u8) -> Result<&T, Error> {
        tokio::task::yield_now().await;
        self.rows.get(&id).ok_or(Error::Own)
    }

    #[limit("gcra 1/h burst 2", name = "into", key = "k", registry = self.limits)]
    fn into_one<K, const N: usize>(self, ids: [K; N]) -> Result<[Option<T>; N], Denied>
    where
        K: Into<u8> + Copy,
        T: 's,
    {
        let mut rows = self.rows;
        Ok(ids.map(|id| rows.remove(&id.into())))
    }
}

#[tokio::test]
async fn generics_and_lifetimes_survive() {
    let setup = Setup::empty();
    let store = || Store { limits: &setup.limits, rows: HashMap::from([(1, "a".to_owned())]) };
    let mut one = store();
    let row = one.get(&1).unwrap();
    assert_eq!(row, "a");
    one.get_mut(1).unwrap().push('b');
    assert!(matches!(one.get_mut(2), Err(Error::Own)));
    assert_eq!(setup.left("get_mut", "1"), 1);
    assert_eq!(setup.left("get_mut", "2"), 2);
    assert_eq!(one.get_later(1).await.unwrap(), "ab");
    assert_eq!(setup.left("longest", "1"), 1);
    assert_eq!(store().into_one([1_u8, 2]).unwrap(), [Some("a".to_owned()), None]);
}

/// Neither the names of the attribute's own variables nor its `return` reach the body.
#[test]
fn the_body_sees_no_names_but_its_own() {
    #[limit("gcra 9/h", name = "names", key = "{key}", cost = cost, registry = registry)]
    #[limit("gcra 9/h", name = "more", key = "{ask}", shadow, skip_if = denied)]
    fn names(
        registry: &Registry,
        key: u8,
        cost: u8,
        denied: bool,
        ask: u8,
        call: u8,
        result: u8,
    ) -> Result<u8, Denied> {
        let shadowed = denied;
        let denied = u8::from(shadowed);
        Ok(key + cost + denied + ask + call + result)
    }
    let setup = Setup::empty();
    assert_eq!(names(&setup.limits, 1, 2, false, 4, 8, 16).unwrap(), 31);
}

#[test]
fn a_return_in_a_body_whose_result_is_looked_at_ends_only_the_body() {
    #[limit("gcra 1/h burst 9", name = "early", key = "k", charge_if = |n| *n == 1, denied = 0, registry = limits)]
    fn early(limits: &Registry, number: u8) -> u8 {
        if number == 1 {
            return number;
        }
        number * 2
    }
    #[limit("gcra 1/h burst 9", name = "question", key = "k", charge_if = Result::is_err, registry = limits)]
    async fn question(limits: &Registry, number: &str) -> Result<u8, Box<dyn std::error::Error>> {
        Ok(number.parse::<u8>()?)
    }
    let setup = Setup::empty();
    assert_eq!([early(&setup.limits, 1), early(&setup.limits, 2)], [1, 4]);
    assert_eq!(setup.left("early", "k"), 8);
    assert_eq!(now(question(&setup.limits, "7")).unwrap(), 7);
    assert!(now(question(&setup.limits, "seven")).is_err());
    assert_eq!(setup.left("question", "k"), 8);
}

#[test]
fn arguments_are_moved_into_bodies_and_may_be_mutable() {
    #[limit("gcra 1/h burst 9", name = "mutable", key = "{text}", registry = limits)]
    fn mutable(limits: &Registry, mut text: String) -> Result<String, Denied> {
        text.push('!');
        Ok(text)
    }
    #[limit("gcra 1/h burst 9", name = "charged", key = "{text}", charge_if = |_| true, registry = limits)]
    async fn charged(limits: &Registry, mut text: String, _: u8) -> Result<String, Denied> {
        text.push('!');
        Ok(text)
    }
    let setup = Setup::empty();
    assert_eq!(mutable(&setup.limits, "a".to_owned()).unwrap(), "a!");
    assert_eq!(now(charged(&setup.limits, "a".to_owned(), 1)).unwrap(), "a!");
    assert_eq!([setup.left("mutable", "a"), setup.left("charged", "a")], [8, 8]);
}

#[test]
fn functions_call_themselves_and_each_call_is_asked() {
    #[limit("gcra 1/h burst 5", name = "deep", key = "k", registry = limits)]
    fn deep(limits: &Registry, levels: u8) -> Result<u8, Denied> {
        if levels == 0 { Ok(0) } else { Ok(deep(limits, levels - 1)? + 1) }
    }
    let setup = Setup::empty();
    assert_eq!(deep(&setup.limits, 3).unwrap(), 3);
    assert!(deep(&setup.limits, 1).is_err());
}

#[test]
fn other_attributes_and_items_in_the_body_survive() {
    #[inline]
    #[must_use = "it is the answer"]
    #[limit("gcra 1/h", registry = limits, denied = 0)]
    #[cfg(not(doc))]
    fn answer(limits: &Registry) -> u8 {
        const ANSWER: u8 = 42;
        use std::convert::identity;
        fn same(number: u8) -> u8 {
            identity(number)
        }
        same(ANSWER)
    }
    assert_eq!(answer(&Setup::empty().limits), 42);
}

macro_rules! limited {
    ($name:ident, $spec:literal, $key:literal, $cost:expr, $fallback:expr, |$limits:ident, $argument:ident| $body:expr) => {
        #[limit(policies = [$spec], name = "made", key = $key, cost = $cost, fallback(args) = $fallback, registry = $limits)]
        fn $name($limits: &Registry, $argument: u8) -> u8 {
            $body
        }
    };
}

/// The arguments of a macro are read as if they were written in the attribute.
#[test]
fn functions_that_macros_make_can_be_limited() {
    fn fallback(_: &Registry, number: u8) -> u8 {
        number + 100
    }
    limited!(made, "gcra 1/h burst 3", "{number}", 2, fallback, |limits, number| number + 1);
    let setup = Setup::empty();
    assert_eq!([made(&setup.limits, 6), made(&setup.limits, 6)], [7, 106]);
    assert_eq!([setup.left("made", "6"), setup.left("made", "7")], [1, 3]);
}
