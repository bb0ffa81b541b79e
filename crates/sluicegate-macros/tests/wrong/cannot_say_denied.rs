use sluicegate::limit;

#[limit("log")]
fn nothing(text: &str) {
    let _ = text;
}

#[limit("find")]
async fn option(id: u8) -> Option<u8> {
    Some(id)
}

#[limit("count")]
fn number() -> usize {
    0
}

struct Cart;

#[limit("cart")]
impl Cart {
    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}

fn main() {}
