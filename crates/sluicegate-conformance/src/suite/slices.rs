//! Checks of the slices of rings.

use sluicegate_core::{OpenedLimit as _, Request, Store};

use super::step::Step;
use super::{START, assert_same, count_for, fresh_run, limit, open};
use crate::kernels::MapStore;
use crate::schedules::{Dice, each_awaited};

/// Checks that a ring's slices equal those of the kernels at any time, and that reading them
/// changes nothing.
pub async fn slices_are_read_and_nothing_is_charged<S: Store>(store: &S) {
    // A ring small enough to be stored with other states, and one large enough to get its own key.
    let rings = ["sliding_window 20/10s slices 10", "sliding_window 20/100s slices 100 shadow"];
    each_awaited("slices", count_for(store) / 6, async |seed| {
        let mut dice = Dice::new(seed);
        let limit = limit("ring", &[dice.pick(&rings)]);
        let (time, kernels) = (fresh_run(), MapStore::default());
        let (opened, kernels) = (open(store, &limit, &time), open(&kernels, &limit, &time));
        let mut now = START;
        for _ in 0..40 {
            let step = Step::random(&mut dice, &limit, &mut now);
            let slices = Request::slices(step.subjects[0]).at(step.request().time());
            for request in [step.request(), slices, slices] {
                let got = opened.ask(request).wait().await;
                let expected = kernels.ask(request).wait().await;
                assert_same(&got, &expected, &(request, &limit));
            }
        }
    })
    .await;
}
