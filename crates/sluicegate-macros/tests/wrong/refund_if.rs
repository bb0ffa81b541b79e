use sluicegate::{Denied, limit};

#[limit("log-in", refund_if = Result::is_ok, charge_if = Result::is_err)]
fn both() -> Result<(), Denied> {
    Ok(())
}

#[limit("address", charge_if = Result::is_err)]
#[limit("account", refund_if = Result::is_ok)]
async fn one_in_each() -> Result<(), Denied> {
    Ok(())
}

#[limit("log-in", refund_if = true)]
fn no_predicate() -> Result<(), Denied> {
    Ok(())
}

#[limit("log-in", refund_if = |result| result.is_right())]
fn no_such_method() -> Result<(), Denied> {
    Ok(())
}

#[limit("log-in", refund_if = Result::is_ok, refund_if = Result::is_err)]
fn twice() -> Result<(), Denied> {
    Ok(())
}

#[limit(policies = ["shaper 1/s queue 3", "smooth 5/s"], refund_if = Result::is_ok)]
async fn nothing_comes_back() -> Result<(), Denied> {
    Ok(())
}

#[limit("shaper 1/s queue 3", refund_if = Result::is_ok)]
#[limit("account")]
async fn something_may_come_back() -> Result<(), Denied> {
    Ok(())
}

#[limit(policies = ["smooth 1/s", "gcra 1/h"], refund_if = Result::is_ok)]
async fn something_comes_back() -> Result<(), Denied> {
    Ok(())
}

fn main() {}
