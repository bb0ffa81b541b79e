use tollgate::{Denied, limit};

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

fn main() {}
