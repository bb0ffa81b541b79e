//! A store that logs calls about queues of permits, and an auditor of the logs of all processes.
//!
//! The processes and the server run on one machine and share its clock. A call was decided between
//! its sending and its answer. The server itself reports the time at which units were taken.

use std::collections::HashMap;
use std::fmt::{self, Display};
use std::future::Future;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use sluicegate_core::{
    Answer, BoxFuture, Decision, Error, Limit, OpenOptions, OpenedLimit, Operation, Queued,
    Request, Store, StoreError, StoreId,
};

/// A store that logs the calls about permits.
#[derive(Clone, Debug)]
pub struct Logged<S>(S, Arc<Mutex<Vec<Call>>>);

/// A limit opened in a [`Logged`].
#[derive(Debug)]
pub struct LoggedLimit<L>(L, Arc<Mutex<Vec<Call>>>);

/// One call about the permits of one id. Processes exchange calls as lines of text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Call {
    /// The id of the hold.
    pub id: u128,
    /// The priority of the waiter.
    pub priority: u8,
    /// The time at which it was sent, in µs.
    pub sent: u64,
    /// The time at which its answer arrived.
    pub answered: u64,
    /// The outcome.
    pub came: Came,
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Came {
    /// The call took units, at this time of the server.
    Took(u64),
    /// The caller waits.
    Waits,
    /// The caller released its units, or left the queue.
    Left,
    /// Anything else.
    Failed,
}

/// The results of an audit.
#[derive(Clone, Debug)]
pub struct Audit {
    /// Waiters that were served.
    pub served: usize,
    /// Maximum number of permits in use at the same time.
    pub most_in_flight: usize,
    /// Pairs of waiters with a defined order: equal priority, and one's first call was answered
    /// before the other's was sent.
    pub ordered: usize,
    /// Waiters that took permits which earlier ones needed. An earlier waiter called first with the
    /// same priority, or waits with a higher one. If there is enough for several waiters, any of
    /// them may take its permits first.
    pub out_of_order: usize,
    /// Calls of each waiter in ascending order, without those that only keep its position.
    pub calls: Vec<usize>,
    /// Calls that only kept a position.
    pub renewals: usize,
    /// Calls that came too early, without being due.
    pub in_vain: usize,
    /// Share of the permits' time in which a holder worked while requests waited, in thousandths.
    pub used: u64,
    /// Median time from the release of a permit to the next taking, in µs.
    pub gap: u64,
}

/// A call this long after the previous one only keeps the position, in µs.
const RENEWS: u64 = 2_300_000;

impl<S: Store> Logged<S> {
    /// Wraps a store, with an empty log.
    pub fn new(store: S) -> Self {
        Self(store, Arc::default())
    }

    /// Returns all calls since the last `take`.
    #[must_use]
    pub fn take(&self) -> Vec<Call> {
        std::mem::take(&mut *self.1.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<S: Store> Store for Logged<S> {
    type Opened = LoggedLimit<S::Opened>;

    fn inner(&self) -> Option<&dyn Store> {
        Some(&self.0)
    }

    fn id(&self) -> StoreId {
        self.0.id()
    }

    fn open(&self, limit: Limit, options: OpenOptions) -> Self::Opened {
        LoggedLimit(self.0.open(limit, options), Arc::clone(&self.1))
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.0.ping()
    }
}

impl<L: OpenedLimit> OpenedLimit for LoggedLimit<L> {
    fn inner(&self) -> Option<&dyn OpenedLimit> {
        Some(&self.0)
    }

    fn limit(&self) -> &Limit {
        self.0.limit()
    }

    fn ask<'a>(
        &'a self,
        request: Request<'a>,
    ) -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a> {
        let of = match (request.operation(), request.holds(), request.ticket()) {
            (Operation::Check, Some(hold), Some(ticket)) => Some((hold.id, ticket.priority)),
            (Operation::Settle { id, .. }, ..) => Some((id, 0)),
            _ => None,
        };
        let sent = micros();
        self.0.ask(request).inspect(move |answer| {
            let Some((id, priority)) = of else { return };
            let id = u128::from_be_bytes(id.to_bytes());
            let call = Call { id, priority, sent, answered: micros(), came: Came::of(answer) };
            self.1.lock().unwrap_or_else(PoisonError::into_inner).push(call);
        })
    }
}

impl Came {
    fn of(answer: Result<&Decision, &Error>) -> Self {
        let Ok(decision) = answer else { return Self::Failed };
        match (decision.hold_found(), decision.queued(), decision.taken_at()) {
            (Some(_), ..) => Self::Left,
            (_, Some(Queued::Waits { .. }), _) => Self::Waits,
            (.., Some(at)) if decision.is_allowed() => Self::Took(at.as_micros()),
            _ => Self::Failed,
        }
    }
}

impl Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, at) = match self.came {
            Came::Took(at) => ("took", at),
            Came::Waits => ("waits", 0),
            Came::Left => ("left", 0),
            Came::Failed => ("failed", 0),
        };
        let Self { id, priority, sent, answered, .. } = self;
        write!(f, "{id:032x} {priority} {sent} {answered} {word} {at}")
    }
}

impl FromStr for Call {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let wrong = || format!("no call: {line:?}");
        let words: Vec<&str> = line.split(' ').collect();
        let [id, priority, sent, answered, word, at] = words[..] else { return Err(wrong()) };
        let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
        let came = match word {
            "took" => Came::Took(number(at)?),
            "waits" => Came::Waits,
            "left" => Came::Left,
            "failed" => Came::Failed,
            _ => return Err(wrong()),
        };
        Ok(Self {
            id: u128::from_str_radix(id, 16).map_err(|_| wrong())?,
            priority: priority.parse().map_err(|_| wrong())?,
            sent: number(sent)?,
            answered: number(answered)?,
            came,
        })
    }
}

/// A waiter that was served.
#[derive(Clone, Copy, Debug)]
struct Waiter {
    priority: u8,
    /// The time of its first call.
    sent: u64,
    came: u64,
    took: u64,
    /// The time at which it received the permit.
    began: u64,
    /// The time of its release.
    ended: u64,
}

impl Audit {
    /// Audits the logs of a queue with `permits` permits. Waiters that weren't served, or whose
    /// release is missing, are left out.
    #[must_use]
    pub fn of(permits: usize, calls: &[Call]) -> Self {
        let mut by_id: HashMap<u128, Vec<Call>> = HashMap::new();
        for call in calls {
            by_id.entry(call.id).or_default().push(*call);
        }
        let (mut waiters, mut each) = (Vec::new(), Vec::new());
        let (mut renewals, mut in_vain) = (0, 0);
        for calls in by_id.values_mut() {
            calls.sort_unstable_by_key(|call| call.sent);
            let took = calls.iter().find_map(|call| match call.came {
                Came::Took(at) => Some((at, call.answered)),
                _ => None,
            });
            let left = calls.iter().find(|call| call.came == Came::Left);
            let (Some((took, began)), Some(left)) = (took, left) else { continue };
            let (mut kept, mut asked) = (0, 0);
            for pair in calls.windows(2) {
                if pair[1].came == Came::Waits {
                    let renews = pair[1].sent.saturating_sub(pair[0].answered) >= RENEWS;
                    if renews { kept += 1 } else { asked += 1 }
                }
            }
            (renewals, in_vain) = (renewals + kept, in_vain + asked);
            each.push(calls.len() - kept);
            let (priority, sent, came) = (calls[0].priority, calls[0].sent, calls[0].answered);
            waiters.push(Waiter { priority, sent, came, took, began, ended: left.sent });
        }
        each.sort_unstable();
        let (ordered, out_of_order) = order(permits, &waiters);
        let (used, gap) = used(permits, &mut waiters);
        Self {
            served: waiters.len(),
            most_in_flight: most_at_once(&waiters),
            ordered,
            out_of_order,
            calls: each,
            renewals,
            in_vain,
            used,
            gap,
        }
    }

    /// Returns the median number of calls of a waiter.
    #[must_use]
    pub fn median_calls(&self) -> usize {
        self.calls.get(self.calls.len() / 2).copied().unwrap_or(0)
    }
}

/// Returns the number of ordered pairs, and the number of waiters that took permits which earlier
/// ones needed.
fn order(permits: usize, waiters: &[Waiter]) -> (usize, usize) {
    let (mut ordered, mut wrong) = (0, 0);
    for second in waiters {
        let (mut in_flight, mut passed) = (0, 0);
        for first in waiters {
            in_flight += usize::from(first.took < second.took && second.took < first.ended);
            let is_ordered = first.priority == second.priority && first.came < second.sent;
            // It had its position when the other was served.
            let is_higher = first.priority < second.priority && first.came < second.took;
            ordered += usize::from(is_ordered);
            passed += usize::from((is_ordered || is_higher) && first.took > second.took);
        }
        wrong += usize::from(passed > 0 && in_flight + passed + 1 > permits);
    }
    (ordered, wrong)
}

/// Returns the maximum number of permits that were certainly in use at the same time.
fn most_at_once(waiters: &[Waiter]) -> usize {
    let mut changes: Vec<(u64, i8)> =
        waiters.iter().flat_map(|waiter| [(waiter.took, 1), (waiter.ended, -1)]).collect();
    // At equal times, releases come before takings.
    changes.sort_unstable();
    let (mut now, mut most) = (0_usize, 0);
    for (_, change) in changes {
        now = now.saturating_add_signed(change.into());
        most = most.max(now);
    }
    most
}

/// Returns the used thousandths of the permits' time from the first taking to the last. Also
/// returns the median gap between a release and the next taking.
fn used(permits: usize, waiters: &mut [Waiter]) -> (u64, u64) {
    waiters.sort_unstable_by_key(|waiter| waiter.took);
    let (Some(first), Some(last)) = (waiters.first(), waiters.last()) else { return (0, 0) };
    let (from, to) = (first.took, last.took);
    let worked: u64 = waiters
        .iter()
        .map(|waiter| waiter.ended.min(to).saturating_sub(waiter.began.max(from)))
        .sum();
    // The first waiters take the free permits. After them, the n-th released permit goes to the
    // n-th waiter.
    let mut ends: Vec<u64> = waiters.iter().map(|waiter| waiter.ended).collect();
    ends.sort_unstable();
    let next = waiters.iter().skip(permits);
    let mut gaps: Vec<u64> =
        ends.iter().zip(next).map(|(end, waiter)| waiter.took.saturating_sub(*end)).collect();
    gaps.sort_unstable();
    let whole = (to - from).saturating_mul(permits as u64);
    let used = (1_000 * worked).checked_div(whole).unwrap_or(0);
    (used, gaps.get(gaps.len() / 2).copied().unwrap_or(0))
}

#[expect(clippy::disallowed_methods, reason = "the machine's clock gives the time of a call")]
fn micros() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(id: u128, priority: u8, at: u64, took: u64) -> [Call; 3] {
        let call = |sent, came| Call { id, priority, sent, answered: sent + 2, came };
        let enters = call(at, Came::Waits);
        [enters, call(took - 1, Came::Took(took)), call(took + 10, Came::Left)]
    }

    fn audit(permits: usize, calls: &[[Call; 3]]) -> Audit {
        Audit::of(permits, calls.as_flattened())
    }

    #[test]
    fn a_call_reads_as_it_was_written() {
        for came in [Came::Took(7), Came::Waits, Came::Left, Came::Failed] {
            let call = Call { id: 1 << 100, priority: 3, sent: 5, answered: 9, came };
            assert_eq!(call.to_string().parse(), Ok(call));
        }
        assert!("".parse::<Call>().is_err());
    }

    #[test]
    fn whoever_passes_by_is_found() {
        let good = audit(1, &[calls(1, 0, 0, 100), calls(2, 0, 10, 120)]);
        assert_eq!((good.served, good.ordered, good.out_of_order), (2, 1, 0));
        assert_eq!((good.median_calls(), good.in_vain, good.most_in_flight), (3, 0, 1));
        let passed = audit(1, &[calls(1, 0, 0, 120), calls(2, 0, 10, 100)]);
        assert_eq!((passed.ordered, passed.out_of_order), (1, 1));
        // Enough permits are free for both.
        let both = audit(2, &[calls(1, 0, 0, 101), calls(2, 0, 10, 100)]);
        assert_eq!((both.ordered, both.out_of_order), (1, 0));
        // The order of the two is unknown.
        assert_eq!(audit(1, &[calls(1, 0, 0, 120), calls(2, 0, 1, 100)]).ordered, 0);
        let low_first = audit(1, &[calls(1, 0, 10, 120), calls(2, 1, 0, 100)]);
        assert_eq!(low_first.out_of_order, 1);
    }

    #[test]
    fn more_in_flight_than_may_be_is_found_and_idle_permits_too() {
        let overlap = audit(1, &[calls(1, 0, 0, 100), calls(2, 0, 10, 109)]);
        assert_eq!(overlap.most_in_flight, 2);
        // 9 of the 80 µs between the takings were used.
        let idle = audit(1, &[calls(1, 0, 0, 100), calls(2, 0, 10, 180)]);
        assert_eq!((idle.used, idle.gap), (112, 70));
    }
}
