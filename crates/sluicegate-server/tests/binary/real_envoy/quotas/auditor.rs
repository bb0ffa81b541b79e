//! The auditor of admitted requests checks every interval for more requests than a limit admits.

/// The limit: requests per second, and its burst.
pub(super) const RATE: i64 = 200;
pub(super) const BURST: i64 = 400;
pub(super) const SECOND: i64 = 1_000_000;
/// Clients, each of which sends its next request after the answer to the last one.
const CLIENTS: i64 = 2;

/// A request that was admitted between these instants, in µs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Admitted {
    pub(super) sent: i64,
    pub(super) received: i64,
}

/// Returns the excess of the worst interval: of its requests that were surely admitted in it, over the limit.
pub(super) fn worst_excess(admitted: &[Admitted]) -> i64 {
    let mut by_end = admitted.to_vec();
    by_end.sort_by_key(|it| it.received);
    let mut worst = NO_REQUESTS;
    for first in admitted {
        let begin = by_end.partition_point(|it| it.received < first.sent);
        let mut count = 0;
        for last in by_end[begin..].iter().filter(|it| it.sent >= first.sent) {
            count += 1;
            let flowed = flowed(first, last);
            worst = worst.max(count - BURST - flowed - 1);
            // A longer interval has at most these requests, those in flight at this end, and those sent later. The
            // interval of the later ones has the same excess or more, if the rate gives as many as the others are.
            if count + CLIENTS <= flowed {
                break;
            }
        }
    }
    worst
}

/// The excess of an interval that has no length and no requests.
const NO_REQUESTS: i64 = -BURST - 1;

/// Returns the whole requests that the rate gives in an interval.
const fn flowed(first: &Admitted, last: &Admitted) -> i64 {
    RATE * (last.received - first.sent) / SECOND
}

#[cfg(test)]
mod tests {
    use sluicegate_conformance::schedules::{Dice, each};

    use super::*;

    /// Looks at all intervals.
    fn worst_of_all(admitted: &[Admitted]) -> i64 {
        let mut by_end = admitted.to_vec();
        by_end.sort_by_key(|it| it.received);
        let mut worst = NO_REQUESTS;
        for first in admitted {
            let mut count = 0;
            for last in by_end.iter().filter(|it| it.sent >= first.sent) {
                count += 1;
                worst = worst.max(count - BURST - flowed(first, last) - 1);
            }
        }
        worst
    }

    /// Returns the requests of a client that is sometimes fast, sometimes slow, and sometimes pauses.
    fn of_a_client(dice: &mut Dice) -> Vec<Admitted> {
        let mut at = 0;
        let mut admitted = Vec::new();
        for _ in 0..4 {
            at += dice.pick(&[0, 5_000, SECOND]);
            let (longest, pause) = (dice.pick(&[1, 5_000, 12_000]), dice.pick(&[1, 30_000]));
            for _ in 0..dice.below(16) {
                let [pause, lasts] =
                    [pause, longest].map(|most| i64::try_from(dice.below(most)).unwrap());
                let sent = at + pause;
                at = sent + lasts;
                admitted.push(Admitted { sent, received: at });
            }
        }
        admitted
    }

    #[test]
    fn the_auditor_misses_no_interval() {
        each("auditor of quotas", 2_000, |seed| {
            let mut dice = Dice::new(seed);
            let all: Vec<_> = (0..CLIENTS).flat_map(|_| of_a_client(&mut dice)).collect();
            assert_eq!(worst_excess(&all), worst_of_all(&all));
        });
    }

    /// No sum over the whole run shows this interval.
    #[test]
    fn the_auditor_finds_a_burst_that_is_given_twice() {
        let at = |sent: i64| Admitted { sent, received: sent + 10 };
        let steady = (0..2_000).map(|index| at(10 * SECOND + index * 5_000));
        let sudden = |count| (0..count).map(|index| at(25 * SECOND + index * 10));
        let within: Vec<_> = steady.clone().chain(sudden(399)).collect();
        assert!(worst_excess(&within) <= 0);
        assert!(worst_excess(&steady.chain(sudden(500)).collect::<Vec<_>>()) > 90);
    }
}
