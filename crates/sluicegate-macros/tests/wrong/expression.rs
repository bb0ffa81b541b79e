use sluicegate::{Denied, limit};

#[limit("login", key = tenant)]
fn no_such_argument(user: &str) -> Result<(), Denied> {
    let _ = user;
    Ok(())
}

#[limit("login", key = "{TENANT}", cost = items.len())]
fn no_such_constant(item: &str) -> Result<(), Denied> {
    let _ = item;
    Ok(())
}

#[limit("login", fallback = elsewhere, on_error = [shop::elsewhere])]
fn no_such_function() -> Result<(), Denied> {
    Ok(())
}

fn main() {}
