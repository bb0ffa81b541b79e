//! A fleet never admits more than its limit, for any loss of streams, replicas and messages.

use sluicegate_conformance::schedules::{Dice, each};

use crate::simulation::{Fleet, Terms};

/// Returns random terms.
fn terms(dice: &mut Dice) -> Terms {
    let rate = dice.pick(&[2, 17, 100, 500, 3_000]);
    Terms {
        rate,
        burst: (rate * dice.pick(&[1, 2, 10, 30]) / dice.pick(&[1, 1, 2])).max(1),
        proxies: dice.pick(&[1, 2, 3, 5, 8]),
        replicas: dice.pick(&[1, 2, 3]),
        demand: dice.pick(&[50, 120, 200, 500]),
        moves: dice.pick(&[0, 3, 11, 30]),
        cuts: dice.pick(&[0, 0, 50, 300]),
        crashes: dice.pick(&[0, 0, 10, 100]),
        delay: dice.pick(&[1, 100_000, 999_000]),
        others: dice.pick(&[0, 0, rate / 10, rate]),
        fault: None,
    }
}

#[test]
fn a_fleet_exceeds_its_limit_in_no_interval() {
    let run = |name| {
        let (mut assigned, mut admitted) = (0, 0);
        each(name, 5_000, |seed| {
            let mut dice = Dice::new(seed);
            let terms = terms(&mut dice);
            let mut fleet = Fleet::new(terms, seed);
            fleet.run(20 + dice.below(25));
            assert_eq!(fleet.auditor.over, 0, "{terms:?}");
            assigned += u64::from(fleet.answers > 0);
            admitted += fleet.auditor.take_admitted();
        });
        assert!(assigned > 0 && admitted > 0);
    };
    // The other tests here are short, so one thread would leave a core idle.
    std::thread::scope(|scope| {
        scope.spawn(|| run("fleet"));
        run("another fleet");
    });
}
