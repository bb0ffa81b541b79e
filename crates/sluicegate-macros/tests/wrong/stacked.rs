use sluicegate::{Denied, limit};

#[limit("address", key = ip)]
#[limit("address", key = user)]
fn one_limit_twice() -> Result<(), Denied> {
    Ok(())
}

#[limit("address", wait = "1s")]
#[limit("account", wait = "2s")]
fn two_waits() -> Result<(), Denied> {
    Ok(())
}

#[limit("address", "account")]
fn two_in_one() -> Result<(), Denied> {
    Ok(())
}

#[limit("gcra 1/s", policies = ["gcra 5/min"])]
fn said_twice() -> Result<(), Denied> {
    Ok(())
}

#[limit("address", name = "account")]
fn two_names() -> Result<(), Denied> {
    Ok(())
}

mod renamed {
    pub use sluicegate::limit as at_most;
}

#[renamed::at_most("address")]
#[renamed::at_most("account")]
fn under_another_name() -> Result<(), Denied> {
    Ok(())
}

struct Shop;

#[limit("shop")]
impl Shop {
    #[renamed::at_most("own")]
    fn own(&self) -> Result<(), Denied> {
        Ok(())
    }
}

fn main() {}
