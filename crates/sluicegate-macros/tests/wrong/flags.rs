use sluicegate::{Denied, limit};

#[limit("find", shadow = true)]
fn shadow() -> Result<(), Denied> {
    Ok(())
}

#[limit("find", missing = deny)]
fn missing() -> Result<(), Denied> {
    Ok(())
}

#[limit("find", key = ip, key = user)]
fn twice() -> Result<(), Denied> {
    Ok(())
}

#[limit("find" key = ip)]
fn comma() -> Result<(), Denied> {
    Ok(())
}

#[limit("find", skip_if = "internal")]
fn skip_if() -> Result<(), Denied> {
    Ok(())
}

#[limit("find", skip)]
fn skip() -> Result<(), Denied> {
    Ok(())
}

#[limit("find", registry = 7)]
fn registry() -> Result<(), Denied> {
    Ok(())
}

#[limit("find", missing = "skip")]
fn quoted() -> Result<(), Denied> {
    Ok(())
}

#[limit("find", key = , missing = skip)]
fn no_value() -> Result<(), Denied> {
    Ok(())
}

#[limit("find", cost = )]
fn no_value_at_the_end() -> Result<(), Denied> {
    Ok(())
}

#[limit("find", fallback("x") = shadow)]
fn quoted_arguments() -> Result<(), Denied> {
    Ok(())
}

#[limit("find", on_error(7) = [shadow])]
fn number_for_arguments() -> Result<(), Denied> {
    Ok(())
}

fn main() {}
