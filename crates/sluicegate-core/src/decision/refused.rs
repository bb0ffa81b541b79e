//! Decisions that no policy makes, because a ban or a pause refuses the request.

use smallvec::SmallVec;

use super::{Banned, Decision, Paused, Warnings};
use crate::limit::Limit;
use crate::time::Span;

/// Returns the decision on a request that a ban, a pause or both refuse.
pub(super) fn refused(
    limit: &Limit,
    ban: Option<Banned>,
    pause: Option<Paused>,
    restamped: bool,
) -> Decision {
    let ends = [ban.map(|ban| ban.ends_in), pause.map(|pause| pause.ends_in)];
    let retry = ends.into_iter().flatten().max().map_or(0, Span::as_micros);
    let mut decision = Decision::new(limit.clone(), SmallVec::new(), false, 0, retry, None);
    decision.warnings = Warnings { restamped, ..Warnings::default() };
    (decision.extras_mut().ban, decision.extras_mut().pause) = (ban, pause);
    decision
}
