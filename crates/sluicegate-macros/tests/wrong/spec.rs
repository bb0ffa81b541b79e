use sluicegate::{Denied, limit};

#[limit("token_buckt 5/min")]
fn algorithm() -> Result<(), Denied> {
    Ok(())
}

#[limit("token_bucket 5/m")]
fn period() -> Result<(), Denied> {
    Ok(())
}

#[limit("5/min")]
fn rate_alone() -> Result<(), Denied> {
    Ok(())
}

#[limit("token_bucket")]
fn algorithm_alone() -> Result<(), Denied> {
    Ok(())
}

#[limit(policies = ["gcra 5/min", "gcra 5/min as gcra"])]
fn repeated() -> Result<(), Denied> {
    Ok(())
}

#[limit("gcra in!", name = "a b")]
fn name() -> Result<(), Denied> {
    Ok(())
}

#[limit(policies = "gcra 1/s; gcra 2/s as twice")]
fn one_string() -> Result<(), Denied> {
    Ok(())
}

#[limit("gcra 1/s, fixed_window 2/s")]
fn one_string_of_a_limit() -> Result<(), Denied> {
    Ok(())
}

fn main() {}
