use sluicegate::{Denied, limit};

#[limit]
fn nothing() -> Result<(), Denied> {
    Ok(())
}

#[limit(key = ip)]
fn only_a_key() -> Result<(), Denied> {
    Ok(())
}

#[limit(login)]
fn no_quotes() -> Result<(), Denied> {
    Ok(())
}

#[limit(100)]
fn a_number() -> Result<(), Denied> {
    Ok(())
}

fn main() {}
