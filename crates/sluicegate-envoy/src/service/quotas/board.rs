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

/// Exchanges summaries about the funds that are due, and lets them know what the others have.
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
    let answers = batched(asks).await;
    let mut state = shared.state();
    for ((key, ..), answer) in due.iter().zip(answers) {
        let (Some(known), Ok(posted)) = (state.funds.get_mut(*key), answer) else { continue };
        let mut others = Summary::default();
        for posted in posted.iter().filter(|posted| posted.name != shared.name) {
            if let Some(summary) = Summary::decode(&posted.value) {
                others.merge(&summary);
            }
        }
        known.fund.hear(others);
    }
}
