use sluicegate::{Denied, limit};

fn text(_: u8) -> String {
    String::new()
}

async fn later() -> Result<u8, Denied> {
    Ok(0)
}

#[limit("find", fallback(args) = text)]
fn wrong_result(id: u8) -> Result<u8, Denied> {
    Ok(id)
}

#[limit("find", fallback(args) = text)]
async fn wrong_result_later(id: u8) -> Result<u8, Denied> {
    Ok(id)
}

#[limit("find", fallback = text)]
fn arguments_missing(id: u8) -> String {
    id.to_string()
}

#[limit("find", fallback = later)]
fn async_in_sync(id: u8) -> Result<u8, Denied> {
    Ok(id)
}

#[limit("find", denied = None)]
fn wrong_value(id: u8) -> Result<u8, Denied> {
    Ok(id)
}

fn main() {}
