use sluicegate::{Denied, limit};

#[limit("sms", key = "{a}{b}")]
fn nothing_between(a: &str, b: &str) -> Result<(), Denied> {
    Ok(())
}

#[limit("sms", key = "{a:04}")]
fn format(a: u8) -> Result<(), Denied> {
    Ok(())
}

#[limit("sms", key = "{a")]
fn brace(a: u8) -> Result<(), Denied> {
    Ok(())
}

#[limit("sms", key = "{}")]
fn names_nothing(a: u8) -> Result<(), Denied> {
    Ok(())
}

#[limit("sms", key = "")]
fn empty(a: u8) -> Result<(), Denied> {
    Ok(())
}

#[limit("sms", key = "{if a > 3 { 1 } else { 2 }}")]
fn braces(a: u8) -> Result<(), Denied> {
    Ok(())
}

fn main() {}
