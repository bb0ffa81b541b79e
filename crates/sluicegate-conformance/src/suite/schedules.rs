//! Checks with random schedules against the reference model.

use std::collections::{BTreeMap, HashMap};

use sluicegate_core::Span;
use sluicegate_core::for_stores::DecisionForStores as _;
use sluicegate_core::{
    Algorithm, Decision, Error, Limit, ListedKey, ManualClock, OnExpiry, OpenedLimit, Page, Policy,
    Receipt, Request, RequestErrorKind, Start, Store, TimeSource, Timestamp,
};

use super::{count_for, fresh, fresh_run, open, timestamp};
use crate::reference::{Clock, Leasing, Listed, differences, settlement_differences};
use crate::schedules::{
    HoldStep, Kind, Leases, LineStep, Plan, Schedule, Settling, Step, each_awaited,
};

/// Checks limits of any policies under injected time that also steps back, while their numbers
/// change.
pub async fn schedules_answer_like_the_model<S: Store>(store: &S) {
    let plan = Plan::default();
    each_awaited("schedules", count_for(store), async |seed| {
        assert_answers_like_the_model(store, &plan.schedule(seed), None).await;
    })
    .await;
}

/// Checks each algorithm alone, so that each is covered by enough schedules.
pub async fn every_kind_alone_answers_like_the_model<S: Store>(store: &S) {
    for kind in Kind::ALL {
        let plan = Plan { kinds: vec![kind], max_policies: 1, ..Plan::default() };
        each_awaited(&format!("schedules {kind:?}"), count_for(store) / 6, async |seed| {
            assert_answers_like_the_model(store, &plan.schedule(seed), None).await;
        })
        .await;
    }
}

/// Checks calendar windows across zones whose zones change every few requests.
pub async fn changes_of_zone_answer_like_the_model<S: Store>(store: &S) {
    let plan = Plan { zones: true, max_policies: 3, ..Plan::default() };
    each_awaited("changes of zone", count_for(store) / 3, async |seed| {
        assert_answers_like_the_model(store, &plan.schedule(seed), None).await;
    })
    .await;
}

/// Checks a store by its own clock, which the check drives. A state that is dropped too early gives
/// a wrong answer.
///
/// The store must restamp states that are more than 5 s ahead, as stores do by default. The check
/// isn't part of [`suite!`](crate::suite!), because few stores have a clock that a test can drive.
///
/// Two cases aren't checked. New numbers can delay the return of consumed units beyond the TTL that
/// the old numbers gave the key. A clock that steps back can meet a key that has expired.
pub async fn schedules_by_the_stores_clock_answer_like_the_model<S: Store>(
    store: &S,
    clock: &ManualClock,
) {
    let plan = Plan {
        clock: Clock::Own { max_clock_back_us: 5_000_000 },
        may_step_back: false,
        may_renumber: false,
        ..Plan::default()
    };
    each_awaited("schedules by the store's clock", count_for(store), async |seed| {
        let schedule = Plan { pauses: seed % 4 == 1, ..plan.clone() }.schedule(seed);
        if !schedule.policies.iter().any(starts_empty) {
            assert_answers_like_the_model(store, &schedule, Some(clock)).await;
        }
    })
    .await;
}

/// Checks lease holders on a store that grants leases.
pub async fn leases_answer_like_the_model<S: Store>(store: &S) {
    let plan = Plan { leases: Leases::Granted, max_policies: 4, ..Plan::default() };
    each_awaited("leases", count_for(store).min(200), async |seed| {
        let plan = Plan { pauses: seed % 4 == 1, ..plan.clone() };
        assert_answers_like_the_model(store, &plan.schedule(seed), None).await;
    })
    .await;
}

/// Checks that a store without leases ignores the requests and reports of lease holders.
pub async fn what_is_not_leased_is_answered_like_the_model<S: Store>(store: &S) {
    let plan = Plan { leases: Leases::Ignored, max_policies: 4, ..Plan::default() };
    each_awaited("leases ignored", count_for(store).min(200), async |seed| {
        assert_answers_like_the_model(store, &plan.schedule(seed), None).await;
    })
    .await;
}

/// Checks a store that leases shares of a rate, but no units without one.
pub async fn shares_are_leased_like_the_model<S: Store>(store: &S) {
    let buckets = [Kind::TokenBucket, Kind::Gcra, Kind::LeakyBucket].to_vec();
    let plan = Plan { leases: Leases::Shares, kinds: buckets, max_policies: 1, ..Plan::default() };
    each_awaited("shares", count_for(store), async |seed| {
        assert_answers_like_the_model(store, &plan.schedule(seed), None).await;
    })
    .await;
}

/// Checks limits that ban keys, and manual bans.
pub async fn bans_answer_like_the_model<S: Store>(store: &S) {
    let plan = Plan { bans: true, max_policies: 3, ..Plan::default() };
    each_awaited("bans", count_for(store), async |seed| {
        assert_answers_like_the_model(store, &plan.schedule(seed), None).await;
    })
    .await;
}

/// Checks keys that are paused and resumed. Some of the limits ban keys.
pub async fn pauses_answer_like_the_model<S: Store>(store: &S) {
    each_awaited("pauses", count_for(store), async |seed| {
        let bans = seed % 3 == 0;
        let plan = Plan { pauses: true, bans, max_policies: 3, ..Plan::default() };
        assert_answers_like_the_model(store, &plan.schedule(seed), None).await;
    })
    .await;
}

/// Checks requests that hold units, their settlements, and repeated requests with an id. Some
/// limits ban keys, and some keys are paused.
pub async fn holds_answer_like_the_model<S: Store>(store: &S) {
    let plan = Plan { kinds: Kind::HELD.to_vec(), max_policies: 4, ..Plan::default() };
    assert_holds_answer_like_the_model(store, "holds", &plan).await;
}

/// Checks limits with permits and many waiters.
pub async fn queues_answer_like_the_model<S: Store>(store: &S) {
    let kinds = Kind::QUEUED.to_vec();
    let plan = Plan { kinds, max_policies: 3, queues: true, ..Plan::default() };
    assert_holds_answer_like_the_model(store, "queues", &plan).await;
}

/// Checks limits that cancel unsettled holds, including permits.
pub async fn what_nobody_settles_is_returned_like_the_model<S: Store>(store: &S) {
    for (name, kinds, queues) in [
        ("returns", Kind::HELD.to_vec(), false),
        ("returns of permits", Kind::QUEUED.to_vec(), true),
    ] {
        let on_expiry = OnExpiry::Return;
        let plan = Plan { kinds, max_policies: 4, queues, on_expiry, ..Plan::default() };
        assert_holds_answer_like_the_model(store, name, &plan).await;
    }
}

async fn assert_holds_answer_like_the_model<S: Store>(store: &S, name: &str, plan: &Plan) {
    each_awaited(name, count_for(store), async |seed| {
        let (bans, pauses) = (seed % 3 == 0, seed % 4 == 1);
        let schedule = Plan { bans, pauses, ..plan.clone() }.hold_schedule(seed);
        let (time, name) = (fresh_run(), fresh("holds"));
        let reopen = |policies: &[Policy]| {
            let limit = Limit::new(&name, policies.to_vec()).unwrap();
            let limit = limit.banning(schedule.ban).with_on_expiry(schedule.on_expiry);
            open(store, &limit, &time)
        };
        let mut opened = reopen(&schedule.policies);
        for (index, step) in schedule.steps.iter().enumerate() {
            let differences = match step {
                HoldStep::SetPolicies(policies) => {
                    opened = reopen(policies);
                    continue;
                }
                HoldStep::Ask { now_us, key, operation, hold, ticket, once, expected } => {
                    let (operation, costs) = operation.for_store();
                    let asked = Request::new(operation, key).costs(costs).at(timestamp(*now_us));
                    let asked = hold.as_ref().map_or(asked, |hold| asked.hold(hold));
                    let asked = ticket.as_ref().map_or(asked, |ticket| asked.waiting(ticket));
                    let asked = once.map_or(asked, |once| asked.idempotent(once));
                    differences(expected, &opened.ask(asked).wait().await)
                }
                HoldStep::Settle { now_us, key, id, how, expected } => {
                    let asked = match how {
                        Settling::Used(used) => Request::settle(key, *id, used),
                        Settling::Renewed(lasts) => Request::renew(key, *id, *lasts),
                    };
                    let got = opened.ask(asked.at(timestamp(*now_us))).wait().await;
                    settlement_differences(expected, &got)
                }
                HoldStep::List { now_us, key, size, expected, waiting } => {
                    let got = list(&opened, key, timestamp(*now_us), *size).await;
                    let expected = (expected.clone(), *waiting);
                    if got == expected { Vec::new() } else { vec![format!("{got:?} is listed")] }
                }
            };
            assert!(differences.is_empty(), "step {index}: {differences:#?}\n{schedule}");
        }
    })
    .await;
}

/// Lists all requests that hold permits of a key, page by page, and the number of waiters.
async fn list(
    opened: &impl OpenedLimit,
    key: &[u8],
    at: Timestamp,
    size: u64,
) -> (Vec<Listed>, u64) {
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        let page = Page::of(size).unwrap().at(at);
        let page = after.as_ref().map_or(page, |after| page.after(after));
        let holders = opened.holders(key, page).await.unwrap();
        assert!(holders.entries().len() as u64 <= size, "{holders:?}");
        listed.extend(holders.entries().iter().map(|holder| Listed {
            ends_in_us: Span::from(holder.ends_in()).as_micros(),
            id: holder.id(),
            units: holder.units().map(|(policy, units)| (policy.to_string(), units)).collect(),
        }));
        match holders.next() {
            Some(next) => after = Some(next.clone()),
            None => return (listed, holders.waiting()),
        }
    }
}

/// Checks reservations that are cancelled before their turn, and callers that take the turn.
pub async fn turns_are_handed_on_like_the_model<S: Store>(store: &S) {
    let kinds = Kind::RESERVABLE.to_vec();
    // Time doesn't step back, because a store may have removed positions whose instant has passed.
    // Numbers don't change, because stores compare states by their bytes or by their numbers, which
    // then differ.
    let plan = Plan {
        kinds,
        max_policies: 3,
        may_step_back: false,
        may_renumber: false,
        ..Plan::default()
    };
    each_awaited("turns", count_for(store), async |seed| {
        let schedule = Plan { pauses: seed % 4 == 1, ..plan.clone() }.line_schedule(seed);
        let (time, name) = (fresh_run(), fresh("turns"));
        let reopen = |policies: &[Policy]| {
            let limit = Limit::new(&name, policies.to_vec()).unwrap();
            open(store, &limit, &time)
        };
        let mut opened = reopen(&schedule.policies);
        let mut receipts: HashMap<usize, Receipt> = HashMap::new();
        for (index, step) in schedule.steps.iter().enumerate() {
            match step {
                LineStep::SetPolicies(policies) => opened = reopen(policies),
                LineStep::Ask { now_us, key, operation, id, expected } => {
                    let (operation, costs) = operation.for_store();
                    let asked = Request::new(operation, key).costs(costs).at(timestamp(*now_us));
                    let asked = match id {
                        Some(id) => asked.in_line_as(id),
                        None => asked.with_receipt(),
                    };
                    let mut got = opened.ask(asked).wait().await;
                    let receipt = got.as_mut().ok().and_then(Decision::take_receipt);
                    receipts.extend(receipt.map(|receipt| (index, receipt)));
                    let differences = differences(expected, &got);
                    assert!(differences.is_empty(), "step {index}: {differences:#?}\n{schedule}");
                }
                LineStep::Cancel { now_us, reserved_at, expected } => {
                    let cancel = Request::cancel(&receipts[reserved_at]).at(timestamp(*now_us));
                    let got = opened.ask(cancel).wait().await.unwrap();
                    assert_eq!(got.is_allowed(), *expected, "step {index}\n{schedule}");
                }
            }
        }
    })
    .await;
}

async fn assert_answers_like_the_model<S: Store>(
    store: &S,
    schedule: &Schedule,
    clock: Option<&ManualClock>,
) {
    let time = if clock.is_some() { TimeSource::Store } else { fresh_run() };
    let name = fresh("schedule");
    let reopen = |policies: &[Policy]| {
        let limit = Limit::new(&name, policies.to_vec()).unwrap();
        open(store, &limit.banning(schedule.ban), &time)
    };
    let mut opened = reopen(&schedule.policies);
    for (index, step) in schedule.steps.iter().enumerate() {
        match step {
            Step::SetPolicies(policies) => opened = reopen(policies),
            Step::Request(request) => {
                let (operation, costs) = request.operation.for_store();
                let now = timestamp(request.now_us);
                let leasing = request.leasing.as_deref().map(Leasing::for_store);
                let mut asked = Request::new(operation, &request.key).costs(costs);
                if let Some(leasing) = &leasing {
                    asked = asked.leasing(leasing);
                }
                let asked = match clock {
                    Some(clock) => {
                        clock.set(now);
                        asked
                    }
                    None => asked.at(now),
                };
                let got = opened.ask(asked).wait().await;
                let differences = differences(&request.expected, &got);
                assert!(differences.is_empty(), "step {index}: {differences:#?}\n{schedule}");
            }
        }
    }
    if schedule.ban.is_some() && clock.is_none() {
        assert_lists_bans(&opened, schedule).await;
    }
}

/// Checks the list of banned keys, unless the store has no such list.
async fn assert_lists_bans(opened: &impl OpenedLimit, schedule: &Schedule) {
    let expected: BTreeMap<ListedKey, u64> =
        schedule.banned.iter().map(|(key, ends)| (ListedKey::of(key), *ends)).collect();
    let (mut listed, mut after) = (BTreeMap::new(), None);
    loop {
        let page = Page::of(1_000).unwrap().at(timestamp(schedule.latest_us()));
        let page = after.as_ref().map_or(page, |after| page.after(after));
        let banned = match opened.bans(page).await {
            Ok(banned) => banned,
            Err(Error::Request(error)) if error.kind() == RequestErrorKind::Unsupported => return,
            Err(error) => panic!("{error}\n{schedule}"),
        };
        let keys = banned.entries().iter();
        listed.extend(keys.map(|it| (it.key().clone(), Span::from(it.ends_in()).as_micros())));
        let Some(next) = banned.next() else { break };
        after = Some(next.clone());
    }
    assert_eq!(listed, expected, "who is banned after all\n{schedule}");
}

/// Returns `true` if a used state never equals a fresh one. It may be removed when it is full and a
/// day old.
fn starts_empty(policy: &Policy) -> bool {
    matches!(policy.algorithm(), Algorithm::Smooth { start: Start::Empty, .. })
}
