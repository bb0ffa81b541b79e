//! `refund_if`: calls that give back their units.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use sluicegate::{Denied, Registry, limit};
use tokio::sync::oneshot::{self, Receiver, Sender};

use crate::attribute::support::{Error, Setup, config, now, on_runtime_time};

#[limit("login", key = "{user}", refund_if = Result::is_ok, registry = limits)]
fn log_in(limits: &Registry, user: &str, password: &str) -> Result<(), Error> {
    if password == "right" { Ok(()) } else { Err(Error::Own) }
}

/// Answers once `verified` is sent.
#[limit("login", key = "alice", refund_if = |result| matches!(result, Ok(())), registry = limits)]
async fn guess(limits: &Registry, verified: Receiver<()>, is_right: bool) -> Result<(), Error> {
    verified.await.unwrap();
    if is_right { Ok(()) } else { Err(Error::Own) }
}

/// A guess that was admitted, and waits to be verified.
struct Guess<'l> {
    is_right: bool,
    verified: Sender<()>,
    answer: Pin<Box<dyn Future<Output = Result<(), Error>> + 'l>>,
}

impl<'l> Guess<'l> {
    /// `None` if it is denied.
    fn start(limits: &'l Registry, is_right: bool) -> Option<Self> {
        let (verified, receiver) = oneshot::channel();
        let mut answer = Box::pin(guess(limits, receiver, is_right));
        let runs = answer.as_mut().poll(&mut noop()).is_pending();
        runs.then_some(Self { is_right, verified, answer })
    }

    fn verify(self) {
        self.verified.send(()).unwrap();
        assert_eq!(now(self.answer).is_ok(), self.is_right);
    }
}

fn noop() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// Policies of every kind that gives back, each for three guesses.
const POLICIES: [&str; 6] = [
    "token_bucket 3/min",
    "gcra 3/min burst 3",
    "fixed_window 3/min",
    "sliding_window 3/min slices 60",
    "sliding_counter 3/min",
    "sliding_log 3/min",
];

fn limited(policy: &str) -> Setup {
    Setup::new(&format!("{{login: {{policies: [{policy}]}}}}"))
}

#[test]
fn right_guesses_get_their_units_back_and_wrong_ones_don_t() {
    for policy in POLICIES {
        let setup = limited(policy);
        let left = || setup.left("login", "alice");
        let right = || assert!(log_in(&setup.limits, "alice", "right").is_ok());
        let wrong = || matches!(log_in(&setup.limits, "alice", "wrong"), Err(Error::Own));
        (0..9).for_each(|_| right());
        assert_eq!(left(), 3, "{policy}");
        assert!(wrong());
        (0..9).for_each(|_| right());
        assert_eq!(left(), 2, "{policy}: right guesses give back their own");
        assert!(wrong() && wrong());
        assert!(matches!(log_in(&setup.limits, "alice", "right"), Err(Error::Denied(_))));
        assert_eq!(left(), 0, "{policy}: a denied call has nothing to give back");
        assert!(log_in(&setup.limits, "bob", "right").is_ok());
    }
}

#[test]
fn of_forty_guesses_at_once_three_run() {
    for policy in POLICIES {
        for (is_right, back) in [(false, 0), (true, 3)] {
            let setup = limited(policy);
            let start = |_| Guess::start(&setup.limits, is_right);
            let running: Vec<_> = (0..40).filter_map(start).collect();
            assert_eq!(running.len(), 3, "{policy}: right ones are refused too");
            running.into_iter().for_each(Guess::verify);
            assert_eq!(setup.left("login", "alice"), back, "{policy}");
        }
    }
}

/// Three concurrent guesses, in every order of their ends.
#[test]
fn guesses_that_end_out_of_order_leave_what_the_wrong_ones_left() {
    const ORDERS: [[usize; 3]; 6] =
        [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for policy in POLICIES {
        for (kinds, order) in (0..8).flat_map(|kinds| ORDERS.map(|order| (kinds, order))) {
            let setup = limited(policy);
            let is_right = |index: usize| kinds >> index & 1 == 1;
            let mut running = [0, 1, 2].map(|index| Guess::start(&setup.limits, is_right(index)));
            for index in order {
                running[index].take().unwrap().verify();
            }
            let right = u64::from(u8::count_ones(kinds));
            assert_eq!(setup.left("login", "alice"), right, "{policy}: {kinds:03b} {order:?}");
            assert_eq!(
                Guess::start(&setup.limits, true).is_none(),
                right == 0,
                "{policy}: after three wrong guesses nobody gets to try"
            );
        }
    }
}

/// Compares it with a limit that counts only the wrong guesses: it never has more units left, whenever guesses begin
/// and end. (A right guess can also be the first request that opens a window, so the two are compared in aligned
/// windows.)
#[test]
fn wrong_guesses_are_never_made_up_for_by_right_ones() {
    for policy in POLICIES {
        let policy = policy.replace("fixed_window 3/min", "fixed_window 3/min aligned");
        let limits =
            format!("{{login: {{policies: [{policy}]}}, wrong: {{policies: [{policy}]}}}}");
        let setup = Setup::new(&limits);
        let mut seed = 7_u32;
        let mut draw = |of: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) % of
        };
        let mut running = Vec::new();
        let (mut right, mut wrong) = (0, 0);
        for _ in 0..4_000 {
            setup.pass(u64::from(draw(9)));
            let is_right = draw(4) > 0;
            if draw(2) == 0 {
                let Some(guess) = Guess::start(&setup.limits, is_right) else {
                    continue;
                };
                running.push(guess);
                if is_right {
                    right += 1;
                } else {
                    wrong += 1;
                    let counted = now(setup.limits.gate("wrong").check("alice")).unwrap();
                    assert!(counted.is_allowed(), "{policy}: more wrong guesses than it lets in");
                }
            } else if !running.is_empty() {
                let index = draw(u32::try_from(running.len()).unwrap());
                running.swap_remove(usize::try_from(index).unwrap()).verify();
            }
            let (own, alone) = (setup.left("login", "alice"), setup.left("wrong", "alice"));
            assert!(own <= alone, "{policy}: {own} of {alone}");
        }
        assert!(right > 100 && wrong > 100, "{policy}: {right} and {wrong}");
    }
}

/// Units that others took after the reset stay taken, as far as the semantics can distinguish them.
#[test]
fn a_guess_that_outlives_a_reset_gives_back_what_the_semantics_say() {
    for (policy, left) in [
        // 19/20 of a unit, which is withheld for 20 s.
        ("token_bucket 3/min", [0, 1]),
        ("gcra 3/min burst 3", [0, 1]),
        ("fixed_window 3/min", [0, 0]),
        ("fixed_window 3/min aligned", [1, 1]),
        ("sliding_window 3/min slices 60", [0, 0]),
        ("sliding_counter 3/min", [1, 1]),
        ("sliding_log 3/min", [0, 0]),
    ] {
        let setup = limited(policy);
        let outlives = Guess::start(&setup.limits, true).unwrap();
        let login = setup.limits.gate("login");
        assert!(now(login.reset("alice")).is_ok());
        setup.pass(1);
        for _ in 0..3 {
            assert!(matches!(log_in(&setup.limits, "alice", "wrong"), Err(Error::Own)));
        }
        outlives.verify();
        assert_eq!(setup.left("login", "alice"), left[0], "{policy}");
        setup.pass(1);
        assert_eq!(setup.left("login", "alice"), left[1], "{policy}");
    }
}

#[test]
fn a_body_that_panics_or_is_given_up_keeps_what_it_took() {
    #[limit("login", key = "alice", refund_if = |_| true, registry = limits)]
    fn panics(limits: &Registry) -> Result<(), Denied> {
        panic!("the body's own")
    }
    #[limit("login", key = "alice", refund_if = |_| true, registry = limits)]
    async fn never(limits: &Registry) -> Result<(), Denied> {
        std::future::pending().await
    }
    #[limit("login", key = "alice", refund_if = |_| panic!("the predicate's own"), registry = limits)]
    fn predicate(limits: &Registry) -> Result<(), Denied> {
        Ok(())
    }
    let setup = limited("fixed_window 3/min");
    assert!(catch_unwind(AssertUnwindSafe(|| panics(&setup.limits))).is_err());
    assert_eq!(setup.left("login", "alice"), 2);
    let mut given_up = Box::pin(never(&setup.limits));
    assert!(given_up.as_mut().poll(&mut noop()).is_pending());
    drop(given_up);
    assert_eq!(setup.left("login", "alice"), 1);
    assert!(catch_unwind(AssertUnwindSafe(|| predicate(&setup.limits))).is_err());
    assert_eq!(setup.left("login", "alice"), 0);
}

/// Each limit gets back its own cost for its own key, and limits that were not asked get nothing.
#[test]
fn several_limits_with_keys_and_costs_get_back_what_each_gave() {
    #[limit("user", key = "{user}", cost("requests") = 1, cost("tokens") = tokens, refund_if = Result::is_ok, registry = limits)]
    #[limit("everybody", cost = 2)]
    #[limit("group", key = group, missing = skip)]
    async fn run(
        limits: &Registry,
        user: &str,
        group: Option<&str>,
        tokens: u64,
        fails: bool,
    ) -> Result<(), Error> {
        if fails { Err(Error::Own) } else { Ok(()) }
    }
    let setup = Setup::new(
        "{user: {policies: [fixed_window 9/h as requests, fixed_window 99/h as tokens]}, \
          everybody: {policies: [gcra 1/h burst 9]}, group: {policies: [sliding_log 9/h]}}",
    );
    let method = "integration::attribute::refunds::several_limits_with_keys_and_costs_get_back_what_each_gave::run";
    let left = || {
        let user = now(setup.limits.gate("user").peek("alice")).unwrap();
        let of_user = [0, 1].map(|index| user.policy(index).unwrap().remaining().unwrap());
        (of_user, setup.left("everybody", method), setup.left("group", "staff"))
    };
    let run = |group, tokens, fails| now(run(&setup.limits, "alice", group, tokens, fails));
    assert!(run(Some("staff"), 40, false).is_ok());
    assert!(run(None, 99, false).is_ok());
    assert_eq!(left(), ([9, 99], 9, 9));
    assert!(matches!(run(Some("staff"), 40, true), Err(Error::Own)));
    assert_eq!(left(), ([8, 59], 7, 8));
    assert!(run(None, 0, false).is_ok());
    assert!(matches!(run(Some("staff"), 60, false), Err(Error::Denied(_))), "too many tokens");
    assert_eq!(left(), ([8, 59], 7, 8));
}

#[test]
fn a_shadow_gives_back_what_it_would_have_taken_alone() {
    #[limit("gcra 1/h burst 9", name = "real", key = "k", refund_if = Result::is_ok, registry = limits)]
    #[limit("fixed_window 1/h", name = "trial", key = "k", shadow)]
    fn both(limits: &Registry, fails: bool) -> Result<(), Error> {
        if fails { Err(Error::Own) } else { Ok(()) }
    }
    #[limit("fixed_window 2/h", name = "alone", key = "k", shadow, refund_if = |_| true, registry = limits)]
    async fn alone(limits: &Registry) -> u8 {
        7
    }
    let setup = Setup::empty();
    let left = || ["real", "trial"].map(|limit| setup.left(limit, "k"));
    assert!(both(&setup.limits, false).is_ok());
    assert_eq!(left(), [9, 1]);
    assert!(both(&setup.limits, true).is_err());
    assert_eq!(left(), [8, 0]);
    // The trial would have denied it, so it took nothing.
    assert!(both(&setup.limits, false).is_ok());
    assert_eq!(left(), [8, 0]);
    assert!((0..5).all(|_| now(alone(&setup.limits)) == 7));
    assert_eq!(setup.left("alone", "k"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waited_gives_back_no_more_than_is_left_of_its_unit() {
    #[limit("window", key = "k", wait = "2s", refund_if = Result::is_ok, registry = limits)]
    async fn window(limits: &Registry, fails: bool) -> Result<(), Error> {
        if fails { Err(Error::Own) } else { Ok(()) }
    }
    #[limit("bucket", key = "k", wait = "2s", refund_if = Result::is_ok, registry = limits)]
    async fn bucket(limits: &Registry, fails: bool) -> Result<(), Error> {
        if fails { Err(Error::Own) } else { Ok(()) }
    }
    let limits = on_runtime_time();
    let text = "{window: {policies: [fixed_window 1/s]}, bucket: {policies: [gcra 1/s]}}";
    limits.replace(&config(text)).unwrap();
    let start = tokio::time::Instant::now();
    assert!(window(&limits, true).await.is_err());
    assert!(window(&limits, false).await.is_ok());
    assert_eq!(start.elapsed(), Duration::from_secs(1));
    assert!(window(&limits, false).await.is_ok(), "it was given back");
    assert_eq!(start.elapsed(), Duration::from_secs(1));
    let start = tokio::time::Instant::now();
    assert!(bucket(&limits, true).await.is_err());
    assert!(bucket(&limits, false).await.is_ok());
    // Its unit was on its way back by itself while it waited.
    assert!(bucket(&limits, false).await.is_ok());
    assert_eq!(start.elapsed(), Duration::from_secs(2));
}

/// The gate determines which units can be given back: of other numbers none.
#[test]
fn a_new_configuration_in_between_keeps_what_was_taken() {
    #[limit("login", key = "alice", refund_if = Result::is_ok, registry = limits)]
    fn reloads(limits: &Registry, to: &str) -> Result<(), Denied> {
        let to = format!("{{login: {{policies: [{to}]}}}}");
        limits.replace(&config(&to)).unwrap();
        Ok(())
    }
    let setup = limited("fixed_window 3/min");
    assert!(reloads(&setup.limits, "fixed_window 3/min").is_ok());
    assert_eq!(setup.left("login", "alice"), 3, "nothing has changed");
    assert!(reloads(&setup.limits, "fixed_window 9/min").is_ok());
    assert_eq!(setup.left("login", "alice"), 8);
    assert!(reloads(&setup.limits, "gcra 1/min burst 4").is_ok());
    assert_eq!(setup.left("login", "alice"), 4);
}

#[test]
fn a_limit_that_is_off_takes_and_gives_nothing() {
    let setup = Setup::new("{login: {enabled: false, policies: [gcra 1/h]}}");
    for password in ["right", "wrong", "right"] {
        assert_eq!(log_in(&setup.limits, "alice", password).is_ok(), password == "right");
    }
}

/// A client that keeps guessing stays denied, even with the right password. The setting is in the attribute or in the
/// configuration.
#[test]
fn a_denied_guess_is_charged_by_policies_that_charge_denials_and_not_given_back() {
    #[limit("token_bucket 1/h burst 2 charge_denied", name = "inline", key = "alice", refund_if = Result::is_ok, registry = limits)]
    fn inline(limits: &Registry, is_right: bool) -> Result<(), Error> {
        if is_right { Ok(()) } else { Err(Error::Own) }
    }
    let setup = limited("token_bucket 1/h burst 2 charge_denied");
    let named = |is_right| {
        let password = if is_right { "right" } else { "wrong" };
        log_in(&setup.limits, "alice", password)
    };
    let inline = |is_right| inline(&setup.limits, is_right);
    let guesses: [&dyn Fn(bool) -> Result<(), Error>; 2] = [&named, &inline];
    for guess in guesses {
        assert!((0..9).all(|_| guess(true).is_ok()));
        assert!((0..2).all(|_| matches!(guess(false), Err(Error::Own))));
    }
    // Each time half a unit has flowed back, and the denial takes it.
    for _ in 0..3 {
        setup.pass(1_800);
        assert!(guesses.iter().all(|guess| matches!(guess(true), Err(Error::Denied(_)))));
    }
    setup.pass(3_600);
    assert!(guesses.iter().all(|guess| guess(true).is_ok()));
    assert_eq!(["login", "inline"].map(|limit| setup.left(limit, "alice")), [1, 1]);
}

#[test]
fn a_key_that_is_always_allowed_takes_and_gives_nothing() {
    #[limit("login", key = "{user}", refund_if = Result::is_ok, registry = limits)]
    #[limit("everybody", key = "all")]
    fn both(limits: &Registry, user: &str, is_right: bool) -> Result<(), Error> {
        if is_right { Ok(()) } else { Err(Error::Own) }
    }
    let setup = Setup::new(
        "{login: {policies: [sliding_log 2/h], allow: [root]}, everybody: {policies: [gcra 1/h burst 9]}}",
    );
    for is_right in [true, false, true, false, true, false] {
        assert_eq!(both(&setup.limits, "root", is_right).is_ok(), is_right);
    }
    let left = |user| (setup.left("login", user), setup.left("everybody", "all"));
    assert_eq!(left("alice"), (2, 6), "the other limit counts it all the same");
    assert!(both(&setup.limits, "alice", true).is_ok());
    assert!(both(&setup.limits, "alice", false).is_err());
    assert_eq!(left("alice"), (1, 5));
}
