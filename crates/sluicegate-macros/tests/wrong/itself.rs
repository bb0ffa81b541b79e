use sluicegate::{Denied, limit};
use sluicegate::error::StoreError;

#[limit("gcra 1/s", fallback(args) = guess)]
fn guess(question: u8) -> u8 {
    question
}

struct Desk;

impl Desk {
    #[limit("gcra 1/s", fallback = Self::open)]
    fn open() -> u8 {
        1
    }

    #[limit("gcra 1/s", fallback(args) = self.close)]
    fn close(&self) -> u8 {
        1
    }

    #[limit("gcra 1/s", on_error = [log, Self::count])]
    fn count() -> Result<(), Denied> {
        Ok(())
    }
}

fn log(_: &StoreError) -> Option<Result<(), Denied>> {
    None
}

fn main() {}
