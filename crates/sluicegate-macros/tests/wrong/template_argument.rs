use sluicegate::{Denied, limit};

struct User {
    id: u64,
}

#[limit("sms", key = "{usr.id}")]
fn misspelt(user: &User, phone: &str) -> Result<(), Denied> {
    Ok(())
}

#[limit("sms", key = "{user.phone}")]
fn no_such_field(user: &User) -> Result<(), Denied> {
    Ok(())
}

#[limit("sms", key = "{self.id}")]
fn no_self(user: &User) -> Result<(), Denied> {
    Ok(())
}

#[limit("sms", key = "{user}")]
fn no_text(user: &User) -> Result<(), Denied> {
    Ok(())
}

fn main() {}
