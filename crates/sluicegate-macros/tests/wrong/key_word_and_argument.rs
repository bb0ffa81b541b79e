use std::net::IpAddr;

use sluicegate::{Denied, limit};

#[limit("login", key = ip)]
fn log_in(ip: IpAddr) -> Result<(), Denied> {
    Ok(())
}

#[limit("login", key = ())]
fn nothing() -> Result<(), Denied> {
    Ok(())
}

#[limit("login", key = (id,))]
fn one(id: u8) -> Result<(), Denied> {
    Ok(())
}

#[limit("login", key = "ip")]
fn text_of_a_word() -> Result<(), Denied> {
    Ok(())
}

#[limit("login", key = "user")]
fn text_of_an_argument(user: u8) -> Result<(), Denied> {
    Ok(())
}

#[limit("login", key = "tenant")]
fn text_of_another_argument(tenant: u8) -> Result<(), Denied> {
    Ok(())
}

fn main() {}
