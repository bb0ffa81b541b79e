//! Allowed places of the attribute.

#![deny(warnings)]
#![allow(dead_code)]
#![allow(unreachable_pub, reason = "a test has no public API")]

use std::future::Future;
use std::pin::Pin;

use sluicegate::{Denied, limit};

type Reply<T> = Result<T, Denied>;

struct Cart<'c, T: ?Sized, const N: usize> {
    items: [&'c T; N],
}

impl<'c, T: ?Sized, const N: usize> Cart<'c, T, N> {
    #[limit("gcra 100/s")]
    pub(crate) fn first<'a>(&'a self) -> Reply<&'a &'c T>
    where
        'c: 'a,
    {
        Ok(&self.items[0])
    }

    #[limit("gcra 100/s", denied = None)]
    fn each(&self, mut look: impl FnMut(&T) -> bool) -> Option<&'c T> {
        self.items.into_iter().find(|item| look(item))
    }

    #[limit("gcra 100/s", charge_if = Result::is_ok)]
    fn both(&mut self) -> Reply<(&mut [&'c T; N], impl Iterator<Item = usize> + use<T, N>)> {
        Ok((&mut self.items, 0..N))
    }

    #[limit("gcra 100/s", refund_if = Result::is_ok)]
    fn same(&mut self) -> Reply<(&mut [&'c T; N], impl Iterator<Item = usize> + use<T, N>)> {
        Ok((&mut self.items, 0..N))
    }

    #[limit("gcra 100/s")]
    fn boxed<'a>(&'a self) -> Pin<Box<dyn Future<Output = Reply<&'a T>> + 'a>>
    where
        'c: 'a,
    {
        Box::pin(async move { Ok(self.items[0]) })
    }
}

trait Shop {
    type Item;

    #[limit("gcra 100/s")]
    fn default(&self) -> Reply<u8> {
        Ok(1)
    }

    fn sell(&mut self, item: Self::Item) -> impl Future<Output = Reply<Self::Item>> + Send;
}

#[limit("gcra 100/s", key = "{item}")]
impl Shop for () {
    type Item = String;

    async fn sell(&mut self, item: Self::Item) -> Reply<Self::Item> {
        Ok(item)
    }
}

#[limit("gcra 100/s", denied = 0)]
extern "C" fn convention(number: u8) -> u8 {
    number
}

#[cfg_attr(all(), limit("gcra 100/s"))]
#[doc(hidden)]
pub fn conditional() -> Reply<()> {
    Ok(())
}

#[cfg(any())]
#[limit("nothing is asked of what isn't there")]
fn absent() {}

#[test]
fn the_attribute_stands_on_every_kind_of_function() {
    assert_eq!(Cart { items: ["a"] }.first().unwrap(), &"a");
    assert_eq!(convention(7), 7);
    conditional().unwrap();
}
