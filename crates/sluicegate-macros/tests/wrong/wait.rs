use sluicegate::{Denied, limit};

#[limit("print", wait = 500)]
fn no_unit() -> Result<(), Denied> {
    Ok(())
}

#[limit("print", wait = "500")]
fn no_unit_either() -> Result<(), Denied> {
    Ok(())
}

#[limit("print", wait = "1m")]
fn ambiguous() -> Result<(), Denied> {
    Ok(())
}

#[limit("print", wait)]
fn no_time() -> Result<(), Denied> {
    Ok(())
}

#[limit("print", wait = "1s", charge_if = Result::is_err)]
fn charged_later() -> Result<(), Denied> {
    Ok(())
}

#[limit("print", wait = patience)]
fn of_another_type(patience: u64) -> Result<(), Denied> {
    Ok(())
}

#[limit(policies = ["shaper 1/s queue 3", "fixed_window 1/s"], wait = "1s")]
async fn shaper_beside_a_window() -> Result<(), Denied> {
    Ok(())
}

#[limit("shaper 1/s queue 3", wait = "1s")]
#[limit("fixed_window 7/s", name = "trial", shadow)]
#[limit("login")]
#[limit("fixed_window 1/s", key = user)]
async fn shaper_beside_another_attribute() -> Result<(), Denied> {
    Ok(())
}

#[limit("print", priority = 1)]
async fn priority_of_what_never_waits() -> Result<(), Denied> {
    Ok(())
}

#[limit("print", wait = "1s", priority = urgent)]
async fn priority_of_another_type(urgent: bool) -> Result<(), Denied> {
    Ok(())
}

fn main() {}
