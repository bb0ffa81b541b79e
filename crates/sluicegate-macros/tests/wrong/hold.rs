use sluicegate::{Denied, limit};

#[limit("llm", hold = 60)]
fn no_unit() -> Result<(), Denied> {
    Ok(())
}

#[limit("llm", hold)]
fn no_time() -> Result<(), Denied> {
    Ok(())
}

#[limit("llm", settle = 412)]
fn no_function() -> Result<(), Denied> {
    Ok(())
}

#[limit("llm", settle = |_| [("tokens", 412)], refund_if = |result| result.is_ok())]
fn in_two_ways() -> Result<(), Denied> {
    Ok(())
}

#[limit("llm", hold = "60s", charge_if = |result| result.is_ok())]
fn held_and_charged_later() -> Result<(), Denied> {
    Ok(())
}

#[limit("llm", hold = "60s")]
#[limit("team", hold = "30s")]
fn twice() -> Result<(), Denied> {
    Ok(())
}

#[limit("llm", settle = |result: &Result<u64, Denied>| result.is_ok())]
fn of_another_type() -> Result<u64, Denied> {
    Ok(412)
}

#[limit("llm", on_expiry = "return")]
fn configured_elsewhere() -> Result<(), Denied> {
    Ok(())
}

#[limit("gcra 1/s", hold = "60s", on_expiry = "returned")]
fn another_word() -> Result<(), Denied> {
    Ok(())
}

#[limit("mail", pause_on = "30s")]
fn no_function_of_the_result() -> Result<(), Denied> {
    Ok(())
}

fn main() {}
