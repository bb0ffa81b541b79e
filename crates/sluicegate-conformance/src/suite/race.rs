//! Checks with concurrent requests.

use std::sync::Arc;
use std::thread;

use sluicegate_core::{OpenedLimit, Request, Store};
use tokio::task::JoinSet;

use super::{START, fresh_run, limit, open, timestamp};

/// Number of callers.
const CALLERS: u64 = 8;
/// Number of requests per caller.
const TIMES: u64 = 50;

/// Checks that concurrent requests are admitted exactly up to the limit: no update is lost, under
/// one policy or several.
pub async fn who_comes_at_once_is_admitted_exactly<S: Store>(store: &S) {
    for specs in [
        &["token_bucket 1/h burst 137"][..],
        &["fixed_window 137/h"],
        &["sliding_log 137/h"],
        &["sliding_window 137/h slices 100"],
        &["token_bucket 1/d burst 137", "sliding_log 150/d", "fixed_window 200/d"],
    ] {
        let opened = Arc::new(open(store, &limit("hot", specs), &fresh_run()));
        // Threads first, because tasks run one after another on a store that answers immediately.
        let mut allowed = thread::scope(|scope| {
            let racing: Vec<_> =
                (0..CALLERS).map(|_| scope.spawn(|| allowed_at_once(&*opened))).collect();
            racing.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>()
        });
        let mut tasks = JoinSet::new();
        for _ in 0..CALLERS {
            let opened = Arc::clone(&opened);
            tasks.spawn(async move { allowed_by_waiting(&*opened).await });
        }
        allowed += tasks.join_all().await.into_iter().sum::<u64>();
        assert_eq!(allowed, 137, "{specs:?}");
    }
}

async fn allowed_by_waiting(opened: &impl OpenedLimit) -> u64 {
    let mut allowed = 0;
    for _ in 0..TIMES {
        let answer = opened.ask(check());
        allowed += u64::from(answer.wait().await.unwrap().is_allowed());
    }
    allowed
}

/// Counts the allowed requests. Stops at the first answer that must be awaited.
fn allowed_at_once(opened: &impl OpenedLimit) -> u64 {
    let answers = (0..TIMES).map_while(|_| opened.ask(check()).now());
    answers.map(|answer| u64::from(answer.unwrap().is_allowed())).sum()
}

fn check() -> Request<'static> {
    Request::check(b"hot").at(timestamp(START))
}
