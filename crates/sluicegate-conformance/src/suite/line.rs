//! Checks of cancelled reservations.

use sluicegate_core::for_stores::DecisionForStores as _;
use sluicegate_core::{Limit, OpenedLimit as _, Operation, Receipt, Request, Store};

use super::step::{Step, random_parts};
use super::{START, assert_same, count_for, fresh_run, open, timestamp};
use crate::kernels::Kernels;
use crate::reference::Clock;
use crate::schedules::{Dice, Kind, each_awaited};

/// Checks that only the last reservation is given back, which restores the previous state. So no
/// two callers ever get the same instant.
pub async fn only_the_last_in_line_is_given_back<S: Store>(store: &S) {
    each_awaited("line", count_for(store), async |seed| {
        let mut dice = Dice::new(seed);
        let count = 1 + dice.below_len(3);
        let limit = Limit::together(random_parts(&mut dice, &Kind::RESERVABLE, count)).unwrap();
        assert_line_is_kept(store, &mut dice, &limit).await;
    })
    .await;
}

/// A subject of one part of a limit.
type Subject = (usize, Vec<u8>);

/// The reservations so far, each with the state before it.
#[derive(Default)]
struct Line {
    made: Vec<Made>,
    /// The changes of each subject, newest last.
    newest: Vec<(Subject, Vec<usize>)>,
    changes: usize,
}

struct Made {
    change: usize,
    subjects: Vec<Subject>,
    before: Kernels,
    receipt: Receipt,
}

impl Line {
    fn of(&mut self, subject: &Subject) -> &mut Vec<usize> {
        let index =
            self.newest.iter().position(|(known, _)| known == subject).unwrap_or_else(|| {
                self.newest.push((subject.clone(), Vec::new()));
                self.newest.len() - 1
            });
        &mut self.newest[index].1
    }

    fn is_last(&mut self, made: &Made) -> bool {
        !made.subjects.is_empty()
            && made.subjects.iter().all(|subject| self.of(subject).last() == Some(&made.change))
    }
}

async fn assert_line_is_kept<S: Store>(store: &S, dice: &mut Dice, limit: &Limit) {
    let opened = open(store, limit, &fresh_run());
    let mut kernels = Kernels::of_limit(limit.clone(), Clock::Injected);
    let mut line = Line::default();
    let mut now = START;
    for _ in 0..60 {
        if !line.made.is_empty() && dice.one_in(3) {
            // Usually one of the newest.
            let back = if dice.one_in(2) { 0 } else { dice.below_len(line.made.len().min(4)) };
            let made = line.made.remove(line.made.len() - 1 - back);
            let is_last = line.is_last(&made);
            let cancel = Request::cancel(&made.receipt).at(timestamp(now));
            let cancelled = opened.ask(cancel).wait().await.unwrap();
            assert_eq!(cancelled.is_allowed(), is_last, "change {} of {limit:?}", made.change);
            assert_eq!(cancelled.policies().len(), 0);
            if is_last {
                kernels.put_back(&made.before, &made.subjects);
                for subject in &made.subjects {
                    line.of(subject).pop();
                }
            }
            continue;
        }
        let mut step = Step::random(dice, limit, &mut now);
        let gives_back = matches!(
            step.operation,
            Operation::Refund | Operation::Reset | Operation::GiveBack { .. }
        );
        if gives_back {
            // These may leave a stored state unchanged, or as it was before an earlier charge. The check
            // can't detect that.
            step.operation = Operation::Check;
        }
        let before = kernels.clone();
        let is_reservation = matches!(step.operation, Operation::Reserve { .. });
        let request = step.request();
        let request = if is_reservation { request.with_receipt() } else { request };
        let (mut expected, mut got) =
            (kernels.ask(now, &request), opened.ask(request).wait().await);
        // Receipts aren't compared: their entries have no fixed order.
        let [_, receipt] =
            [&mut expected, &mut got].map(|answer| answer.as_mut().ok()?.take_receipt());
        assert_same(&got, &expected, &(&step, limit));
        let is_admitted = expected.is_ok_and(|decision| decision.is_allowed());
        assert_eq!(receipt.is_some(), is_reservation && is_admitted, "{step:?} of {limit:?}");
        let subjects: Vec<Subject> = step
            .subjects
            .iter()
            .enumerate()
            .map(|(part, subject)| (part, subject.to_vec()))
            .filter(|(part, subject)| before.of(*part, subject) != kernels.of(*part, subject))
            .collect();
        line.changes += 1;
        for subject in &subjects {
            let change = line.changes;
            line.of(subject).push(change);
        }
        if let Some(receipt) = receipt {
            line.made.push(Made { change: line.changes, subjects, before, receipt });
        }
    }
}
