//! Limits that are decided together and share their parts.

use sluicegate_core::{
    Algorithm, Decision, DeniedCharge, Error, Limit, Member, OpenedLimit, Operation, Request,
    RequestErrorKind, Source, Store, TimeSource,
};

use super::step::{Step, random_parts};
use super::{START, assert_same, count_for, fresh, fresh_run, limit, open};
use crate::kernels::MapStore;
use crate::schedules::{Dice, Kind, each_awaited, random_ban};

/// Checks several limits over one store, some of which combine others and share their parts. All
/// must answer like the kernels over a plain map.
pub async fn many_limits_answer_like_the_kernels<S: Store>(store: &S) {
    each_awaited("many limits", count_for(store), async |seed| {
        let mut dice = Dice::new(seed);
        let mut parts = random_parts(&mut dice, &Kind::ALL, 4);
        for part in &mut parts {
            let ban = random_ban(&mut dice);
            *part = part.banning(dice.one_in(2).then_some(ban));
        }
        let limits: Vec<Limit> = (0..3).map(|_| random_together(&mut dice, &parts)).collect();
        let (time, kernels) = (fresh_run(), MapStore::default());
        let opened: Vec<_> = limits
            .iter()
            .map(|limit| (limit, open(store, limit, &time), open(&kernels, limit, &time)))
            .collect();
        let mut now = START;
        for _ in 0..60 {
            let (limit, opened, kernels) = &opened[dice.below_len(opened.len())];
            let step = Step::random(&mut dice, limit, &mut now);
            let got = opened.ask(step.request()).wait().await;
            let expected = kernels.ask(step.request()).wait().await;
            assert_same(&got, &expected, &(&step, limit));
        }
    })
    .await;
}

/// Checks a store that can't decide about all subjects in one call. No request could make its
/// caller wait.
///
/// - When a log or ring gives units back, its newest time stays. So with these, time doesn't step
///   back.
/// - A warm-up gives back either all of its granted units or none. So it gets no take.
///
/// The check isn't part of [`suite!`](crate::suite!), because most stores can decide in one call.
pub async fn many_limits_in_many_places_answer_like_the_kernels<S: Store>(store: &S) {
    let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| *kind != Kind::Shaper).collect();
    each_awaited("many places", count_for(store), async |seed| {
        let mut dice = Dice::new(seed);
        let kinds: Vec<Kind> = if dice.one_in(2) {
            kinds.iter().copied().filter(|kind| !keeps_newest(*kind)).collect()
        } else {
            kinds.clone()
        };
        let may_step_back = !kinds.iter().any(|kind| keeps_newest(*kind));
        let parts = random_parts(&mut dice, &kinds, 4);
        if parts.iter().flat_map(Limit::members).any(keeps_all_of_the_denied) {
            return;
        }
        let limits: Vec<Limit> = (0..3).map(|_| random_together(&mut dice, &parts)).collect();
        let (time, kernels) = (fresh_run(), MapStore::default());
        let opened: Vec<_> = limits
            .iter()
            .map(|limit| (limit, open(store, limit, &time), open(&kernels, limit, &time)))
            .collect();
        let (mut now, mut latest) = (START, START);
        for _ in 0..60 {
            let (limit, opened, kernels) = &opened[dice.below_len(opened.len())];
            let mut step = Step::random(&mut dice, limit, &mut now);
            let warms_up = limit
                .members()
                .iter()
                .any(|member| matches!(member.policy().algorithm(), Algorithm::WarmUp { .. }));
            match step.operation {
                Operation::Reserve { .. } => step.operation = Operation::Check,
                Operation::Take if warms_up => step.operation = Operation::Check,
                // A paused slot denies, but another one charges a `charge_denied` policy.
                Operation::Pause { .. } => step.operation = Operation::Check,
                _ => {}
            }
            if !may_step_back {
                latest = latest.max(step.now);
                step.now = latest;
            }
            let got = opened.ask(step.request()).wait().await;
            let expected = kernels.ask(step.request()).wait().await;
            // A slot reports that its state can't hold the cost, although another slot denies.
            let overflows = |error: &Error| {
                error.as_request().is_some_and(|it| it.kind() == RequestErrorKind::Overflow)
            };
            if got.as_ref().is_err_and(overflows)
                && expected.as_ref().is_ok_and(Decision::is_denied)
            {
                return;
            }
            assert_same(&got, &expected, &(&step, limit));
        }
    })
    .await;
}

/// Returns `true` if a denial by another part charges this policy the whole cost, not only the
/// stored units.
fn keeps_all_of_the_denied(member: &Member) -> bool {
    let policy = member.policy();
    policy.denied_charge() == DeniedCharge::Charged
        && matches!(policy.algorithm(), Algorithm::Smooth { .. } | Algorithm::WarmUp { .. })
}

fn keeps_newest(kind: Kind) -> bool {
    matches!(kind, Kind::SlidingWindow | Kind::SlidingLog)
}

/// Checks that a limit of several parts charges the limits it consists of, by the store's own
/// clock. Each part has its own subject.
pub async fn parts_share_their_states_with_the_limits_they_are<S: Store>(store: &S) {
    let address = limit(&fresh("address"), &["token_bucket 1/h burst 3", "sliding_log 5/h"]);
    let account = limit(&fresh("account"), &["fixed_window 2/h"]);
    let login = Limit::together([address.clone(), account.clone()]).unwrap();
    let [login, address, account] =
        [login, address, account].map(|limit| open(store, &limit, &TimeSource::Store));
    let from = |key: &'static [u8], also: &'static [&'static [u8]]| Request::check(key).also(also);
    let both: &[&[u8]] = &[b"alice"];
    for expected in [true, true, false] {
        let decision = login.ask(from(b"192.0.2.7", both)).wait().await.unwrap();
        assert_eq!((decision.is_allowed(), decision.source()), (expected, Source::Store));
    }
    // The denial by the account's window charged the address nothing.
    let alone = address.ask(Request::check(b"192.0.2.7")).wait().await.unwrap();
    assert!(alone.is_allowed());
    assert_eq!(alone.remaining(), Some(0));
    assert_eq!(alone.policy(1).unwrap().used(), Some(3));
    let other: &[&[u8]] = &[b"bob"];
    let denied = login.ask(from(b"192.0.2.7", other)).wait().await.unwrap();
    assert_eq!((denied.is_denied(), denied.binding_index()), (true, Some(0)));
    assert_eq!(denied.limit(), Some(login.limit()));
    // Each part has charged its own subject, and no other.
    for (subject, expected) in [(b"alice".as_slice(), 0), (b"bob", 2), (b"192.0.2.7", 2)] {
        let peek = Request::new(Operation::Peek, subject);
        let left = account.ask(peek).wait().await.unwrap().remaining();
        assert_eq!(left, Some(expected), "{}", subject.escape_ascii());
    }
    for wrong in [from(b"192.0.2.7", &[]), from(b"192.0.2.7", &[b"a", b"b"])] {
        let error = login.ask(wrong).wait().await.unwrap_err();
        assert_eq!(error.as_request().unwrap().kind(), RequestErrorKind::Invalid);
        assert!(error.to_string().contains("take 2 keys"), "{error}");
    }
    let extra = address.ask(from(b"192.0.2.7", both)).wait().await.unwrap_err();
    assert_eq!(extra.as_request().unwrap().kind(), RequestErrorKind::Invalid);
    let reset = Request::new(Operation::Reset, b"192.0.2.7").also(both);
    assert!(login.ask(reset).wait().await.unwrap().is_allowed());
    assert!(login.ask(from(b"192.0.2.7", both)).wait().await.unwrap().is_allowed());
}

/// Combines some of the parts, in random order.
fn random_together(dice: &mut Dice, parts: &[Limit]) -> Limit {
    let mut left: Vec<&Limit> = parts.iter().collect();
    let count = 1 + dice.below_len(3);
    let chosen = (0..count).map(|_| left.remove(dice.below_len(left.len())).clone());
    Limit::together(chosen.collect::<Vec<_>>()).unwrap()
}
