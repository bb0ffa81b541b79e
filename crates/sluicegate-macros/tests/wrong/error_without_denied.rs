use sluicegate::limit;

enum Error {
    NotFound,
}

struct Reply;

#[limit("find")]
fn find(id: u8) -> Result<u8, Error> {
    if id == 0 { Err(Error::NotFound) } else { Ok(id) }
}

#[limit("find")]
async fn find_later(id: u8) -> Result<u8, Error> {
    if id == 0 { Err(Error::NotFound) } else { Ok(id) }
}

#[limit("reply")]
fn reply() -> Reply {
    Reply
}

fn main() {}
