use std::future::Future;

use sluicegate::{Denied, limit};

#[limit("item")]
struct Item;

#[limit("constant")]
const fn constant() -> u8 {
    7
}

trait Shop {
    #[limit("sell")]
    fn sell(&self) -> Result<(), Denied>;
}

#[limit("nothing")]
impl Item {
    const NUMBER: u8 = 7;
}

#[limit(skip)]
fn exempt_from_what() -> Result<(), Denied> {
    Ok(())
}

#[limit("made")]
fn made_elsewhere() -> impl Future<Output = Result<(), Denied>> {
    std::future::ready(Ok(()))
}

struct Cart;

#[limit("cart")]
impl Cart {
    #[limit(skip)]
    #[limit("own")]
    fn both(&self) -> Result<(), Denied> {
        Ok(())
    }

    #[cfg_attr(all(), limit("own"))]
    fn perhaps(&self) -> Result<(), Denied> {
        Ok(())
    }

    #[limit("own", kee = ip)]
    fn own(&self) -> Result<(), Denied> {
        Ok(())
    }
}

fn main() {}
