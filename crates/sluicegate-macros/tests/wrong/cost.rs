use sluicegate::{Denied, limit};

#[limit("gcra 5/s burst 10", cost = 11)]
fn never() -> Result<(), Denied> {
    Ok(())
}

#[limit("upload", cost = 0)]
fn nothing() -> Result<(), Denied> {
    Ok(())
}

#[limit(policies = ["gcra 5/s as fast", "fixed_window 100/d as daily"], cost("dayly") = 2)]
fn misspelt() -> Result<(), Denied> {
    Ok(())
}

#[limit("upload", cost(daily) = 2)]
fn no_quotes() -> Result<(), Denied> {
    Ok(())
}

#[limit("upload", cost = -1)]
fn negative() -> Result<(), Denied> {
    Ok(())
}

#[limit("upload", cost = "5")]
fn text() -> Result<(), Denied> {
    Ok(())
}

#[limit("upload", cost = 1.5)]
fn half() -> Result<(), Denied> {
    Ok(())
}

fn main() {}
