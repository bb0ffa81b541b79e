//! Functions, methods and `impl` blocks.

use sluicegate::{Denied, Registry, limit};

use crate::attribute::support::{Setup, admitted, now};

struct Shop {
    limits: Registry,
    orders: u32,
}

#[limit("gcra 1/h burst 2", registry = self.limits)]
impl Shop {
    const FIRST: u32 = 1;

    /// Returns the answer of a call.
    fn order(&mut self) -> Result<u32, Denied> {
        self.orders += Self::FIRST;
        Ok(self.orders)
    }

    async fn cancel(&self) -> Result<u32, Denied> {
        Ok(self.orders)
    }

    /// Uses its own attribute, which takes precedence.
    #[limit("gcra 1/h", fallback = Self::closed, registry = self.limits)]
    fn open(&self) -> bool {
        true
    }

    /// Makes a shop. No limit is asked whether this may be called.
    #[limit(skip)]
    fn new(limits: &Registry) -> Self {
        Self { limits: limits.clone(), orders: 0 }
    }

    /// Isn't limited either, because it may run in the compiler.
    const fn count(&self) -> u32 {
        self.orders
    }

    #[limit(skip)]
    fn closed() -> bool {
        false
    }
}

#[test]
fn an_impl_block_limits_each_of_its_methods_by_itself() {
    let setup = Setup::empty();
    let mut shop = Shop::new(&setup.limits);
    assert_eq!(admitted(4, || shop.order()), 2);
    assert_eq!(shop.count(), 2);
    assert_eq!(admitted(4, || now(shop.cancel())), 2);
    let left = |name: &str| {
        let path = format!("integration::attribute::placement::Shop::{name}");
        setup.left(&path, &path)
    };
    assert_eq!([left("order"), left("cancel")], [0, 0]);
}

#[test]
fn a_method_s_own_attribute_wins() {
    let setup = Setup::empty();
    let shop = Shop::new(&setup.limits);
    assert_eq!([shop.open(), shop.open(), shop.open()], [true, false, false]);
}

#[test]
fn methods_that_are_skipped_and_const_functions_are_not_limited() {
    let setup = Setup::empty();
    for _ in 0..5 {
        assert_eq!(Shop::new(&setup.limits).count(), 0);
        assert!(!Shop::closed());
    }
}

struct Desk;

#[limit("gcra 1/h", key = method, fallback = Self::busy, on_error = [Desk::failed], registry = limits)]
impl Desk {
    fn open(limits: &Registry) -> u8 {
        1
    }

    async fn close(limits: &Registry) -> u8 {
        2
    }

    fn busy() -> u8 {
        0
    }

    fn failed(_: &sluicegate::error::StoreError) -> Option<u8> {
        None
    }
}

struct Window {
    limits: Registry,
    number: u8,
}

#[limit("gcra 1/h", key = method, fallback(args) = self.busy, registry = self.limits)]
impl Window {
    fn open(&self) -> u8 {
        self.number + 1
    }

    fn busy(&self) -> u8 {
        self.number
    }
}

#[test]
fn methods_that_a_block_s_attribute_calls_are_not_limited_by_it() {
    let setup = Setup::empty();
    let limits = &setup.limits;
    assert_eq!([(); 3].map(|()| Desk::open(limits)), [1, 0, 0]);
    assert_eq!([(); 3].map(|()| now(Desk::close(limits))), [2, 0, 0]);
    assert_eq!([Desk::busy(), Desk::busy()], [0, 0]);
    let window = Window { limits: limits.clone(), number: 0 };
    assert_eq!([(); 3].map(|()| window.open()), [1, 0, 0]);
    assert_eq!([window.busy(), window.busy()], [0, 0]);
}

struct Api;

#[limit("gcra 1/h", name = "api", key = "{tenant}", registry = limits)]
impl Api {
    fn read(limits: &Registry, tenant: &str) -> Result<(), Denied> {
        Ok(())
    }

    fn write(tenant: &str, limits: &Registry) -> Result<(), Denied> {
        Ok(())
    }
}

#[test]
fn methods_of_a_block_with_one_name_and_key_share_what_is_consumed() {
    let setup = Setup::empty();
    assert!(Api::read(&setup.limits, "acme").is_ok());
    assert!(Api::write("acme", &setup.limits).is_err());
    assert!(Api::write("oscorp", &setup.limits).is_ok());
}

#[test]
fn functions_of_another_convention_and_such_that_return_closures_are_limited() {
    #[limit("gcra 1/h", denied = 0, registry = limits)]
    extern "C" fn convention(limits: &Registry) -> u8 {
        7
    }
    #[limit("gcra 1/h", name = "closure", registry = limits)]
    fn adder(limits: &Registry, by: u8) -> Result<impl Fn(u8) -> u8 + use<>, Denied> {
        Ok(move |number| number + by)
    }
    let setup = Setup::empty();
    assert_eq!([convention(&setup.limits), convention(&setup.limits)], [7, 0]);
    assert_eq!(adder(&setup.limits, 2).unwrap()(5), 7);
    assert!(adder(&setup.limits, 2).is_err());
}

/// A function that returns a future is limited when the future runs, like an async one.
#[test]
fn functions_that_return_a_block_as_a_future_are_limited_when_it_runs() {
    #[limit("gcra 1/h", name = "future", registry = limits)]
    fn future(limits: &Registry) -> impl Future<Output = Result<u8, Denied>> {
        let number = 7;
        async move { Ok(number) }
    }
    #[limit("gcra 1/h", name = "boxed", registry = limits)]
    fn boxed<'l>(
        limits: &'l Registry,
        numbers: &'l [u8],
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<&'l u8, Denied>> + Send + 'l>> {
        Box::pin(async move { Ok(&numbers[0]) })
    }
    let setup = Setup::empty();
    drop(future(&setup.limits));
    assert_eq!(now(future(&setup.limits)).unwrap(), 7);
    assert!(now(future(&setup.limits)).is_err());
    assert_eq!(now(boxed(&setup.limits, &[3])).unwrap(), &3);
    assert!(now(boxed(&setup.limits, &[3])).is_err());
}

#[test]
fn visibility_survives() {
    mod inner {
        use super::{Denied, Registry, limit};

        #[limit("gcra 1/h", registry = limits)]
        pub(in crate::attribute::placement) fn reachable(limits: &Registry) -> Result<u8, Denied> {
            hidden(limits)
        }

        #[limit("gcra 1/h", registry = limits)]
        fn hidden(limits: &Registry) -> Result<u8, Denied> {
            Ok(7)
        }
    }
    assert_eq!(inner::reachable(&Setup::empty().limits).unwrap(), 7);
}

#[test]
fn futures_can_go_to_other_threads() {
    #[limit("gcra 1/h", key = "{name}", wait = "1s", on_error = [handle, handle_later], registry = limits)]
    async fn everything(limits: &Registry, name: String) -> Result<String, Denied> {
        tokio::task::yield_now().await;
        Ok(name)
    }
    #[limit("gcra 1/h", key = "{name}", charge_if = Result::is_ok, registry = limits)]
    #[limit("gcra 1/h", key = method, shadow)]
    async fn charged(limits: &Registry, name: String) -> Result<String, Denied> {
        tokio::task::yield_now().await;
        Ok(name)
    }
    fn handle(_: &sluicegate::error::StoreError) -> Option<Result<String, Denied>> {
        None
    }
    async fn handle_later(_: &sluicegate::error::StoreError) -> Option<Result<String, Denied>> {
        None
    }
    fn check<T: Send>(_: T) {}
    let setup = Setup::empty();
    check(everything(&setup.limits, String::new()));
    check(charged(&setup.limits, String::new()));
}
