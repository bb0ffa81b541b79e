use sluicegate::{Denied, limit};

#[limit("upload", cost = bytes)]
fn signed(bytes: i64) -> Result<(), Denied> {
    Ok(())
}

#[limit("upload", cost = name)]
fn text(name: &str) -> Result<(), Denied> {
    Ok(())
}

fn main() {}
