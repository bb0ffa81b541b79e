//! The exchange of summaries with the other replicas of the service.

use std::sync::Arc;

use sluicegate::question::batched;
use sluicegate::store::{CountedKey, Post, Posted, Span};
use sluicegate_core::{BoxFuture, Error};

use super::{FundKey, Shared};
use crate::quota::Summary;

/// The shortest time between two exchanges about a limit and key, in µs.
const PACE: u64 = 2_000_000;
/// For how long others believe a summary.
const LASTS: Span = match Span::from_millis(10_000) {
    Ok(lasts) => lasts,
    Err(_) => Span::SECOND,
};

/// Exchanges summaries about the funds that are due, lets them know what the others have, and whether their keys are
/// banned or paused.
///
/// A failure changes nothing: what is known only decides what is worth asking for.
pub(super) async fn exchange(shared: &Shared, funds: &[(Arc<FundKey>, CountedKey)]) {
    let now = shared.now();
    let mut due = Vec::new();
    {
        let mut state = shared.state();
        for (key, counted) in funds {
            let Some(known) = state.funds.get_mut(key) else { continue };
            if known.exchanged.is_some_and(|at| now.saturating_sub(at) < PACE) {
                continue;
            }
            known.exchanged = Some(now);
            due.push((key, counted, known.fund.summary(now).encode()));
        }
    }
    let asks = due.iter().map(|(_, counted, value)| {
        let post = Post { name: &shared.name, value, lasts: LASTS };
        let asking: BoxFuture<'_, Result<Vec<Posted>, Error>> =
            Box::pin(counted.exchange(Some(post)));
        asking
    });
    let asks: Vec<_> = asks.collect();
    let looks = due.iter().map(|(_, counted, _)| {
        let looking: BoxFuture<'_, Result<bool, Error>> = Box::pin(counted.is_refused());
        looking
    });
    let looks: Vec<_> = looks.collect();
    let (answers, refused) = tokio::join!(batched(asks), batched(looks));
    let mut state = shared.state();
    for (((key, ..), answer), is_refused) in due.iter().zip(answers).zip(refused) {
        let Some(known) = state.funds.get_mut(*key) else { continue };
        known.is_refused = is_refused.unwrap_or(known.is_refused);
        let Ok(posted) = answer else { continue };
        let mut others = Summary::default();
        for posted in posted.iter().filter(|posted| posted.name != shared.name) {
            if let Some(summary) = Summary::decode(&posted.value) {
                others.merge(&summary);
            }
        }
        known.fund.hear(others);
    }
}
