use sluicegate::{Denied, limit};

#[limit("login", fallbck = other)]
fn misspelt() -> Result<(), Denied> {
    Ok(())
}

#[limit("login", burst = 5)]
fn unknown() -> Result<(), Denied> {
    Ok(())
}

#[limit(rate = "10/s")]
fn rate() -> Result<(), Denied> {
    Ok(())
}

#[limit(per = "10/s")]
fn per() -> Result<(), Denied> {
    Ok(())
}

#[limit("login", max = 5)]
fn most() -> Result<(), Denied> {
    Ok(())
}

#[limit("login", keys = ip)]
fn near() -> Result<(), Denied> {
    Ok(())
}

#[limit("gcra 1/s", ip)]
fn key() -> Result<(), Denied> {
    Ok(())
}

#[limit("gcra 1/s", crate = "sg")]
fn quoted_path() -> Result<(), Denied> {
    Ok(())
}

fn main() {}
