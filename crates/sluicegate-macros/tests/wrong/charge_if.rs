use sluicegate::{Denied, limit};

#[limit("log-in", charge_if = true)]
fn no_predicate() -> Result<(), Denied> {
    Ok(())
}

#[limit("log-in", charge_if = |result| result.is_bad())]
fn no_such_method() -> Result<(), Denied> {
    Ok(())
}

#[limit("log-in", charge_if = |result| result.as_ref().err())]
fn no_condition() -> Result<(), Denied> {
    Ok(())
}

fn main() {}
