use std::net::IpAddr;

use tollgate::{Denied, limit};

#[limit("login", key = ip)]
fn log_in(ip: IpAddr) -> Result<(), Denied> {
    Ok(())
}

#[limit("login", key = ())]
fn nothing() -> Result<(), Denied> {
    Ok(())
}

fn main() {}
