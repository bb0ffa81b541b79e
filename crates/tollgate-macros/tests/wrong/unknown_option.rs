use tollgate::{Denied, limit};

#[limit("login", fallbck = other)]
fn misspelt() -> Result<(), Denied> {
    Ok(())
}

#[limit("login", burst = 5)]
fn unknown() -> Result<(), Denied> {
    Ok(())
}

fn main() {}
