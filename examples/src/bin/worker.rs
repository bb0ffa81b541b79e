//! A worker that calls somebody else's API, which takes 20 calls a second: it waits for its turn
//! instead of being turned away. Any number of workers can share the limit through Redis.
//!
//! ```sh
//! cargo run -p sluicegate-examples --bin worker -- 5
//! ```

#![allow(clippy::print_stdout, reason = "it says what it does")]

use std::error::Error;
use std::time::Duration;

use sluicegate::{Limiter, MemoryStore};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let jobs: u32 = std::env::args().nth(1).map_or(Ok(5), |jobs| jobs.parse())?;
    let limit = sluicegate::limit("mail-api", ["token_bucket 20/s burst 1"])?;
    let limiter = Limiter::new(MemoryStore::new(), limit);

    for job in 1..=jobs {
        // Waits in the queue of the limit, at most this long; what can't be done by then is
        // refused at once and can be put off.
        let turn = limiter.acquire("our-account", Duration::from_secs(1)).await?;
        if turn.is_denied() {
            println!("job {job}: put off");
            continue;
        }
        let waited = turn.wait().as_micros() / 1_000;
        println!("job {job}: sent, {waited} ms after its turn was asked for");
    }
    Ok(())
}
