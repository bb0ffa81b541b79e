use sluicegate::{Denied, limit};
use sluicegate::error::StoreError;

fn not_an_option(_: &StoreError) -> Result<u8, Denied> {
    Ok(0)
}

fn takes_nothing() -> Option<Result<u8, Denied>> {
    None
}

fn takes_a_denial(_: &Denied) -> Option<Result<u8, Denied>> {
    None
}

#[limit("find", on_error = [not_an_option])]
fn result(id: u8) -> Result<u8, Denied> {
    Ok(id)
}

#[limit("find", on_error = [not_an_option])]
async fn result_later(id: u8) -> Result<u8, Denied> {
    Ok(id)
}

#[limit("find", on_error = takes_nothing)]
fn nothing(id: u8) -> Result<u8, Denied> {
    Ok(id)
}

#[limit("find", on_error = takes_a_denial)]
fn denial(id: u8) -> Result<u8, Denied> {
    Ok(id)
}

fn main() {}
