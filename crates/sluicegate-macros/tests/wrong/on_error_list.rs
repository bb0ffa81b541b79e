use sluicegate::{Denied, limit};

#[limit("find", on_error = [])]
fn empty(id: u8) -> Result<u8, Denied> {
    Ok(id)
}

#[limit("find", on_error(denied) = [handler])]
fn handed(id: u8) -> Result<u8, Denied> {
    Ok(id)
}

fn main() {}
