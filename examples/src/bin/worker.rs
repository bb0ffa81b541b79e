//! A worker that calls an external API, which takes 20 calls a second. The worker waits for its turn
//! instead of being refused. All workers that use one Redis or Valkey server share the limit; without
//! a server, the limit applies to this process only.
//!
//! ```sh
//! cargo run -p sluicegate-examples --bin worker -- 5 redis://127.0.0.1:6379
//! ```

#![allow(clippy::print_stdout, reason = "it says what it does")]

use std::error::Error;
use std::time::Duration;

use sluicegate::Limiter;
use sluicegate::config::StoreUrl;
use sluicegate::store::StoreOptions;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let jobs: u32 = arguments.next().map_or(Ok(5), |jobs| jobs.parse())?;
    let url: StoreUrl = arguments.next().map_or(Ok(StoreUrl::default()), |url| url.parse())?;
    let store = url.open(&StoreOptions::default())?;
    let limit = sluicegate::Limit::new("mail-api", ["token_bucket 20/s burst 1"])?;
    let limiter = Limiter::new(store, limit);

    for job in 1..=jobs {
        // Waits in the queue of the limit, at most this long. A job that would have to wait longer is
        // refused immediately and can be postponed.
        let turn = limiter.check("our-account").within(Duration::from_secs(1)).await?;
        if turn.is_denied() {
            println!("job {job}: put off");
            continue;
        }
        let waited = turn.wait().as_millis();
        println!("job {job}: sent, {waited} ms after its turn was asked for");
    }
    Ok(())
}
