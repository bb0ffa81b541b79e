use sluicegate::{Denied, limit};

fn other() -> Result<u8, Denied> {
    Ok(0)
}

fn text(_: u8) -> String {
    String::new()
}

async fn later() -> Result<u8, Denied> {
    Ok(0)
}

#[limit("find", fallback = other())]
fn called() -> Result<u8, Denied> {
    Ok(1)
}

#[limit("find", fallback = || Ok(0))]
fn closure() -> Result<u8, Denied> {
    Ok(1)
}

#[limit("find", fallback = "other")]
fn quoted() -> Result<u8, Denied> {
    Ok(1)
}

#[limit("find", fallback(arguments) = other)]
fn handed() -> Result<u8, Denied> {
    Ok(1)
}

#[limit("find", fallback = self.other)]
fn no_self() -> Result<u8, Denied> {
    Ok(1)
}

#[limit("find", fallback = other, denied = Ok(0))]
fn two_answers() -> Result<u8, Denied> {
    Ok(1)
}

#[limit("find", fallback(args) = text)]
fn apart((id, _): (u8, u8)) -> String {
    id.to_string()
}

fn main() {
    let _ = later();
}
