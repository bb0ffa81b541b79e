//! `skip_if`, `charge_if` and `shadow`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sluicegate::admin::{Answered, Observer};
use sluicegate::store::Operation;
use sluicegate::testing::ManualClock;
use sluicegate::{Denied, Registry, limit};

use crate::attribute::support::{Error, Setup, admitted, config, now, store};

struct User {
    is_internal: bool,
}

#[test]
fn calls_that_are_skipped_ask_and_take_nothing() {
    #[limit("gcra 1/h", name = "skip", key = "k", skip_if = user.is_internal, registry = limits)]
    fn search(limits: &Registry, user: &User) -> Result<(), Denied> {
        Ok(())
    }
    let setup = Setup::empty();
    let (staff, guest) = (User { is_internal: true }, User { is_internal: false });
    assert_eq!(admitted(3, || search(&setup.limits, &staff)), 3);
    assert_eq!(admitted(3, || search(&setup.limits, &guest)), 1);
    assert_eq!(admitted(3, || search(&setup.limits, &staff)), 3);
}

#[limit(
    "gcra 1/h burst 2",
    name = "failed",
    key = "{user}",
    charge_if = |result| matches!(result, Err(Error::Own)),
    registry = limits
)]
fn log_in(limits: &Registry, user: &str, password: &str) -> Result<u8, Error> {
    if password != "right" {
        return Err(Error::Own);
    }
    Ok(7)
}

#[test]
fn a_call_is_charged_only_if_its_result_says_so() {
    let setup = Setup::empty();
    let log_in = |password| log_in(&setup.limits, "alice", password);
    assert!((0..5).all(|_| log_in("right").is_ok()));
    assert_eq!(setup.left("failed", "alice"), 2);
    assert!(matches!(log_in("wrong"), Err(Error::Own)));
    assert_eq!(setup.left("failed", "alice"), 1);
    assert!(log_in("right").is_ok());
    assert!(matches!(log_in("wrong"), Err(Error::Own)));
    // From now on every try is denied, right or wrong.
    assert!(matches!(log_in("wrong"), Err(Error::Denied(_))));
    assert!(matches!(log_in("right"), Err(Error::Denied(_))));
    setup.pass(3600);
    assert!(log_in("right").is_ok());
}

/// Both were admitted before either was charged: the second one is charged into debt.
#[tokio::test]
async fn calls_that_run_at_the_same_time_are_all_charged() {
    #[limit("gcra 1/h", name = "joint", key = "k", charge_if = Result::is_err, registry = limits)]
    async fn fail(limits: &Registry) -> Result<(), Error> {
        tokio::task::yield_now().await;
        Err(Error::Own)
    }
    let setup = Setup::empty();
    let (a, b) = tokio::join!(fail(&setup.limits), fail(&setup.limits));
    assert!(matches!((a, b), (Err(Error::Own), Err(Error::Own))));
    setup.pass(3600);
    assert!(matches!(fail(&setup.limits).await, Err(Error::Denied(_))), "one unit of debt");
    setup.pass(3600);
    assert!(matches!(fail(&setup.limits).await, Err(Error::Own)));
}

#[test]
fn the_cost_of_a_result_is_what_it_was_when_the_call_began() {
    #[limit("gcra 1/h burst 9", name = "items", key = "{items.len()}", cost = items.len(), charge_if = |_| true, registry = limits)]
    fn consume(limits: &Registry, items: Vec<u8>) -> Result<usize, Denied> {
        Ok(items.into_iter().map(usize::from).sum())
    }
    let setup = Setup::empty();
    assert_eq!(consume(&setup.limits, vec![1, 2, 3]).unwrap(), 6);
    assert_eq!(setup.left("items", "3"), 6);
}

/// A client that keeps guessing stays denied. The setting is in the attribute or in the configuration, for functions of
/// both kinds, with and without other limits.
#[test]
fn a_denied_call_is_charged_by_policies_that_charge_denials_although_results_charge_the_others() {
    #[limit("token_bucket 1/h burst 2 charge_denied", name = "inline", key = "k", charge_if = Result::is_err, registry = limits)]
    fn inline(limits: &Registry) -> Result<(), Error> {
        Err(Error::Own)
    }
    #[limit("named", key = "k", charge_if = Result::is_err, registry = limits)]
    #[limit("gcra 1/s burst 99", name = "beside", key = "k")]
    async fn named(limits: &Registry) -> Result<(), Error> {
        Err(Error::Own)
    }
    #[limit("gcra 1/h burst 2 charge_denied", name = "shadow", key = "k", charge_if = |_| true, shadow, registry = limits)]
    fn shadow(limits: &Registry) {}

    let setup = Setup::new("{named: {policies: [token_bucket 1/h burst 2 charge_denied]}}");
    let limits = &setup.limits;
    let calls: [&dyn Fn() -> Result<(), Error>; 2] = [&|| inline(limits), &|| now(named(limits))];
    for call in calls {
        assert!((0..2).all(|_| matches!(call(), Err(Error::Own))));
    }
    (0..3).for_each(|_| shadow(limits));
    assert_eq!(setup.left("beside", "k"), 97);
    // Half an hour later half a unit has flowed back. The denial takes it, so the call passes an hour after this one,
    // and not after the last one that was charged.
    setup.pass(1_800);
    for call in calls {
        assert!(matches!(call(), Err(Error::Denied(_))));
    }
    shadow(limits);
    assert_eq!(setup.left("beside", "k"), 99, "what doesn't charge denials is left alone");
    setup.pass(3_599);
    for name in ["inline", "named", "shadow"] {
        assert_eq!(setup.left(name, "k"), 0, "{name}");
    }
    setup.pass(1);
    for name in ["inline", "named", "shadow"] {
        assert_eq!(setup.left(name, "k"), 1, "{name}");
    }
    for call in calls {
        assert!(matches!(call(), Err(Error::Own)));
    }
}

/// Lets an hour pass after every peek.
struct Late(Arc<ManualClock>);

impl Observer for Late {
    fn answered(&self, answered: &Answered<'_>) {
        if answered.operation == Operation::Peek {
            self.0.advance(Duration::from_secs(3_600));
        }
    }
}

/// The denial was due to be charged, but by then the call would have passed. It runs, and costs only the units that
/// this took.
#[test]
fn a_call_that_passes_while_its_denial_is_charged_is_charged_once() {
    #[limit("gcra 1/h charge_denied", name = "late", key = "k", charge_if = |_| true, registry = limits)]
    fn late(limits: &Registry) -> Result<(), Error> {
        Ok(())
    }
    let clock = Arc::new(ManualClock::default());
    let observer = Arc::new(Late(clock.clone()));
    let limits = Registry::builder(store(clock.clone())).observer(observer).build();
    assert!(late(&limits).is_ok());
    // As it was charged: an hour after the peek.
    clock.advance(Duration::from_millis(1));
    assert!(late(&limits).is_ok());
    assert_eq!(crate::attribute::support::left(&limits, "late", "k"), 0);
    assert_eq!(crate::attribute::support::left(&limits, "late", "k"), 1, "an hour later, not two");
}

#[test]
fn a_body_that_panics_has_no_result_and_is_not_charged() {
    #[limit("gcra 1/h burst 2", name = "panics", key = "k", charge_if = |_| true, registry = limits)]
    fn panics(limits: &Registry, fails: bool) -> Result<(), Denied> {
        assert!(!fails, "the body's own");
        Ok(())
    }
    let setup = Setup::empty();
    assert!(catch_unwind(AssertUnwindSafe(|| panics(&setup.limits, true))).is_err());
    assert_eq!(setup.left("panics", "k"), 2);
    assert!(panics(&setup.limits, false).is_ok());
    assert_eq!(setup.left("panics", "k"), 1);
}

/// The observed answers: limit, operation, whether it was allowed.
#[derive(Default)]
struct Told(Mutex<Vec<(String, &'static str, bool)>>);

impl Observer for Told {
    fn answered(&self, answered: &Answered<'_>) {
        let allowed = answered.outcome.is_ok_and(sluicegate::Decision::is_allowed);
        let limit = answered.limit.name().to_string();
        self.0.lock().unwrap().push((limit, answered.operation.name(), allowed));
    }
}

impl Told {
    fn take(&self) -> Vec<(String, &'static str, bool)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn observed() -> (Registry, Arc<Told>) {
    let told = Arc::new(Told::default());
    let store = store(Arc::new(ManualClock::default()));
    (Registry::builder(store).observer(told.clone()).build(), told)
}

#[test]
fn a_shadow_is_asked_and_reported_and_refuses_nothing() {
    #[limit("gcra 1/h", name = "shadow", key = "k", shadow, registry = limits)]
    fn search(limits: &Registry) -> u8 {
        7
    }
    let (limits, told) = observed();
    assert!((0..3).all(|_| search(&limits) == 7));
    let of = |allowed| ("shadow".to_owned(), "check", allowed);
    assert_eq!(told.take(), [of(true), of(false), of(false)]);
}

#[test]
fn a_shadow_beside_a_limit_is_asked_by_itself() {
    #[limit("gcra 1/h burst 2", name = "real", key = "k", registry = limits)]
    #[limit("gcra 1/h", name = "trial", key = "k", shadow)]
    fn search(limits: &Registry) -> Result<(), Denied> {
        Ok(())
    }
    let (limits, told) = observed();
    assert_eq!(admitted(3, || search(&limits)), 2);
    let of = |name: &str, allowed| (name.to_owned(), "check", allowed);
    assert_eq!(
        told.take(),
        [
            of("trial", true),
            of("real", true),
            of("trial", false),
            of("real", true),
            of("trial", false),
            of("real", false),
        ]
    );
}

/// The attribute may be complete from the start, so that only `shadow` is removed later.
#[tokio::test(start_paused = true)]
async fn a_shadow_with_a_fallback_and_a_wait_neither_falls_back_nor_waits() {
    fn fallback() -> u8 {
        0
    }
    #[limit("gcra 1/h", name = "wait", key = "k", shadow, wait = "2h", fallback = fallback, registry = limits)]
    async fn search(limits: &Registry) -> u8 {
        7
    }
    let start = tokio::time::Instant::now();
    let (limits, told) = observed();
    for _ in 0..3 {
        assert_eq!(search(&limits).await, 7);
    }
    assert_eq!(told.take().len(), 3);
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[test]
fn a_shadow_of_a_shaper_delays_nothing() {
    #[limit("shaper 1/h queue 5", name = "shaper", key = "k", shadow, registry = limits)]
    async fn search(limits: &Registry) -> u8 {
        7
    }
    let setup = Setup::empty();
    assert_eq!([now(search(&setup.limits)), now(search(&setup.limits))], [7, 7]);
}

#[test]
fn a_shadow_is_charged_by_results_too_as_if_it_were_alone() {
    #[limit("gcra 1/h burst 2", name = "s", key = "k", shadow, charge_if = |n| *n > 5, registry = limits)]
    fn by_result(limits: &Registry, number: u8) -> u8 {
        number
    }
    #[limit("gcra 1/h burst 9", name = "real", key = "k", charge_if = Result::is_err, registry = limits)]
    #[limit("gcra 1/h", name = "trial", key = "k", shadow)]
    #[limit("gcra 1/h burst 5", name = "other", key = "k", cost = 2, shadow)]
    fn all(limits: &Registry, fails: bool) -> Result<(), Error> {
        if fails { Err(Error::Own) } else { Ok(()) }
    }
    let setup = Setup::empty();
    for (number, left) in [(1, 2), (6, 1), (2, 1), (7, 0), (8, 0), (1, 0)] {
        assert_eq!(by_result(&setup.limits, number), number);
        assert_eq!(setup.left("s", "k"), left);
    }
    assert!(all(&setup.limits, false).is_ok());
    let left = || ["real", "trial", "other"].map(|limit| setup.left(limit, "k"));
    assert_eq!(left(), [9, 1, 5]);
    for expected in [[8, 0, 3], [7, 0, 1], [6, 0, 1]] {
        assert!(matches!(all(&setup.limits, true), Err(Error::Own)));
        assert_eq!(left(), expected);
    }
}

#[test]
fn a_limit_that_is_off_neither_looks_nor_charges() {
    let setup = Setup::empty();
    setup.limits.replace(&config("{failed: {policies: [gcra 1/h], enabled: false}}")).unwrap();
    for _ in 0..3 {
        let result = log_in(&setup.limits, "alice", "wrong");
        assert!(matches!(result, Err(Error::Own)));
    }
}
