//! `refund_if`: responses that give back the units of their requests.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use http::{Response, StatusCode};
use sluicegate::http::fixed;
use sluicegate::middleware::{Admission, Charge, Middleware, ResponseView, Verdict};
use sluicegate::testing::{ManualClock, Timestamp};
use sluicegate::{Config, MemoryStore, Registry};

use super::{admitted, gateway, limited, now, request};

fn is_right(response: &dyn ResponseView) -> bool {
    response.status().is_success()
}

fn answer(is_right: bool) -> Response<()> {
    let status = if is_right { StatusCode::OK } else { StatusCode::UNAUTHORIZED };
    Response::builder().status(status).body(()).unwrap()
}

/// Returns the first of the response fields.
fn settle(admission: Admission, mut response: Response<()>) -> Option<String> {
    now(admission.settle(&response)).write(response.headers_mut());
    let field = response.headers().get("ratelimit")?.to_str().unwrap();
    Some(field.to_owned())
}

fn refused(middleware: &Middleware) -> bool {
    matches!(middleware.decide(&request()), Verdict::Refuse(_))
}

const POLICIES: [&str; 6] = [
    "token_bucket 3/min",
    "gcra 3/min burst 3",
    "fixed_window 3/min",
    "sliding_window 3/min slices 60",
    "sliding_counter 3/min",
    "sliding_log 3/min",
];

#[test]
fn of_forty_guesses_at_once_three_are_served() {
    for policy in POLICIES {
        for right in [true, false] {
            let (middleware, left) = limited(policy);
            let middleware = middleware.refund_if(is_right);
            let guesses = (0..40).map(|_| middleware.decide(&request()));
            let served: Vec<_> =
                guesses.filter_map(|guess| now(guess.admission(&request())).ok()).collect();
            assert_eq!((served.len(), left()), (3, 0), "{policy}: right ones are refused too");
            for admission in served {
                let _ = settle(admission, answer(right));
            }
            assert_eq!(left(), if right { 3 } else { 0 }, "{policy}");
        }
    }
}

#[test]
fn guesses_that_end_out_of_order_leave_what_the_wrong_ones_left() {
    const ORDERS: [[usize; 3]; 6] =
        [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for policy in POLICIES {
        for (kinds, order) in (0..8).flat_map(|kinds| ORDERS.map(|order| (kinds, order))) {
            let (middleware, left) = limited(policy);
            let middleware = middleware.refund_if(is_right);
            let mut served = [(); 3].map(|()| Some(admitted(&middleware)));
            for index in order {
                let admission = served[index].take().unwrap();
                let _ = settle(admission, answer(kinds >> index & 1 == 1));
            }
            let right = u64::from(u8::count_ones(kinds));
            assert_eq!(left(), right, "{policy}: {kinds:03b} {order:?}");
            assert_eq!(refused(&middleware), right == 0, "{policy}");
        }
    }
}

/// The response fields show the remaining units after the refund.
#[test]
fn a_response_tells_what_is_left_after_the_giving_back() {
    let (middleware, left) = limited("fixed_window 9/h cost 4");
    let middleware = middleware.refund_if(is_right);
    let told = |admission, right| settle(admission, answer(right)).unwrap();
    assert!(told(admitted(&middleware), true).starts_with("\"fixed_window\";r=9"));
    assert_eq!(told(admitted(&middleware), false), "\"fixed_window\";r=5;t=3600");
    assert_eq!(told(admitted(&middleware), true), "\"fixed_window\";r=5;t=3600");
    assert_eq!(left(), 5);
    // A redirection has no fields, but may give back.
    let middleware = middleware.refund_if(|response| response.status().is_redirection());
    let to_the_start = Response::builder().status(StatusCode::SEE_OTHER).body(()).unwrap();
    assert_eq!((settle(admitted(&middleware), to_the_start), left()), (None, 5));
}

/// A client that hangs up, a handler that panics, a predicate that panics.
#[test]
fn a_request_without_a_response_keeps_what_it_took() {
    let (middleware, left) = limited("fixed_window 9/h");
    drop(admitted(&middleware.clone().refund_if(|_| true)));
    assert_eq!(left(), 8);
    let panics = middleware.refund_if(|_| panic!("the predicate's own"));
    let admission = admitted(&panics);
    assert!(catch_unwind(AssertUnwindSafe(|| settle(admission, answer(true)))).is_err());
    assert_eq!(left(), 7);
    // It isn't charged as unanswered either, as with a charge after the response.
    drop(admitted(&panics.charge_unanswered(5)));
    assert_eq!(left(), 6);
}

#[test]
fn what_policies_took_by_name_goes_back_to_them_alone() {
    let (middleware, left) = gateway();
    let middleware = middleware.cost(|_| [("tokens", 30)]).refund_if(is_right);
    let (first, second) = (admitted(&middleware), admitted(&middleware));
    assert_eq!(left(), [9, 40]);
    let _ = settle(first, answer(true));
    assert_eq!(left(), [9, 70]);
    let _ = settle(second, answer(false));
    assert_eq!(left(), [9, 70]);
    let free = middleware.cost(|_| 0);
    let _ = settle(admitted(&free), answer(true));
    assert_eq!(left(), [9, 70], "nothing was asked");
}

/// A gateway that counts requests before and tokens after the response, and failed requests not at
/// all.
#[test]
fn with_a_charge_after_the_response_what_the_cost_names_is_given_back() {
    let (middleware, left) = gateway();
    let failed = |response: &dyn ResponseView| response.status().is_server_error();
    let middleware = middleware.charge_after(|response| response.charge()).refund_if(failed);
    let named = middleware.clone().cost(|_| [("requests", 2)]);
    let respond = |middleware, status: u16, tokens| {
        let admission = admitted(middleware);
        let mut response = Response::builder().status(status).body(()).unwrap();
        response.extensions_mut().insert(Charge::from([("tokens", tokens)]));
        settle(admission, response).unwrap()
    };
    let told = respond(&named, 200, 10);
    assert_eq!(left(), [7, 90]);
    assert!(told.contains("\"requests\";r=7;") && told.contains("\"tokens\";r=90;"), "{told}");
    let told = respond(&named, 502, 30);
    assert_eq!(left(), [7, 60], "its tokens are charged, and its request is given back");
    assert!(told.contains("\"requests\";r=7;") && told.contains("\"tokens\";r=60;"), "{told}");
    let _ = respond(&middleware, 502, 10);
    assert_eq!(left(), [7, 50], "without a name nothing was taken before");
    drop(admitted(&named));
    assert_eq!(left(), [5, 49], "an unanswered one is charged the rest");
}

/// An estimate is taken before the response. The usage of the response replaces it, regardless of its size.
#[test]
fn what_was_used_takes_the_place_of_what_was_taken_by_name() {
    let (middleware, left) = gateway();
    let middleware = middleware
        .cost(|_| [("requests", 1), ("tokens", 20)])
        .refund_if(|response| response.charge().is_some())
        .charge_after(|response| response.charge());
    let settled = |charge: Option<Charge>| {
        let before = left();
        let mut response = Response::new(());
        if let Some(charge) = charge {
            response.extensions_mut().insert(charge);
        }
        let told = settle(admitted(&middleware), response);
        let after = left();
        assert!(told.unwrap().contains(&format!("\"tokens\";r={}", after[1])));
        [before[0] - after[0], before[1] - after[1]]
    };
    let named = |requests, tokens| Some(Charge::from([("requests", requests), ("tokens", tokens)]));
    assert_eq!(settled(named(1, 7)), [1, 7], "less than was taken");
    assert_eq!(settled(named(1, 20)), [1, 20], "just that");
    assert_eq!(settled(named(1, 26)), [1, 26], "more than was taken");
    assert_eq!(settled(named(2, 3)), [2, 3], "more of one and less of the other");
    assert_eq!(
        settled(Some(Charge::from([("tokens", 5)]))),
        [0, 5],
        "what isn't named wasn't used"
    );
    assert_eq!(settled(Some(Charge::nothing().cost(2))), [2, 2], "all of them");
    assert_eq!(settled(Some(Charge::nothing().cost(1).cost_of("tokens", 4))), [1, 4]);
    assert_eq!(settled(None), [1, 20], "nobody knows what was used");
}

/// If a bucket is not full, the part of an estimate that has flowed back can't be given back again. So a slow answer
/// costs at most its estimate, and never both the estimate and the usage.
#[test]
fn a_slow_answer_never_pays_both_its_estimate_and_what_it_used() {
    let clock = Arc::new(ManualClock::new(Timestamp::from_micros(1 << 50).unwrap()));
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let limit = sluicegate::Limit::new("llm", ["gcra 1000/s burst 100000 as tokens"]).unwrap();
    let limiter = sluicegate::Limiter::new(store, limit);
    let left = || limiter.peek("all").now().unwrap().remaining().unwrap();
    let middleware = Middleware::new(limiter.clone())
        .key(fixed("all"))
        .cost(|_| [("tokens", 4_000)])
        .refund_if(|_| true)
        .charge_after(|response| response.charge());
    let _ = limiter.charge(sluicegate::Ask::new("all").cost(60_000)).now().unwrap();
    for (used, seconds, paid) in
        [(1_000, 0, 1_000), (1_000, 2, 3_000), (1_000, 6, 4_000), (9_000, 6, 9_000)]
    {
        let before = left();
        let admission = admitted(&middleware);
        clock.advance(Duration::from_secs(seconds));
        let mut response = Response::new(());
        response.extensions_mut().insert(Charge::from([("tokens", used)]));
        let _ = settle(admission, response);
        assert_eq!(before + 1_000 * seconds - left(), paid, "{used} used in {seconds} s");
    }
}

/// One limit took an estimate, and the other took nothing by name.
#[test]
fn each_of_several_limits_settles_what_it_took() {
    let limit =
        |name, policies: &[&str]| sluicegate::Limit::new(name, policies.iter().copied()).unwrap();
    let registry = Registry::builder(MemoryStore::new())
        .limit(limit("user", &["fixed_window 99/h as requests", "fixed_window 99/h as tokens"]))
        .limit(limit("team", &["fixed_window 99/h as tokens"]))
        .limit(limit("all", &["fixed_window 99/h as calls"]))
        .build();
    let middleware = Middleware::new(registry.gate("user"))
        .key(fixed("k"))
        .cost(|_| [("requests", 1), ("tokens", 10)])
        .and(registry.gate("team"), fixed("k"))
        .and_then(|both| both.cost(|_| [("tokens", 30)]).and(registry.gate("all"), fixed("k")))
        .unwrap()
        .refund_if(|_| true)
        .charge_after(|response| response.charge());
    let admission = admitted(&middleware);
    let mut response = Response::new(());
    response.extensions_mut().insert(Charge::nothing().cost_of("tokens", 20).cost(1));
    let _ = settle(admission, response);
    let left = |limit: &str, policy| {
        let peeked = now(registry.gate(limit).peek("k")).unwrap();
        peeked.outcome(policy).unwrap().remaining().unwrap()
    };
    let user = [left("user", "requests"), left("user", "tokens")];
    assert_eq!((user, left("team", "tokens"), left("all", "calls")), ([98, 79], 79, 98));
}

#[test]
fn a_denied_guess_is_charged_by_policies_that_charge_denials_and_not_given_back() {
    let clock = Arc::new(ManualClock::new(Timestamp::from_micros(1 << 50).unwrap()));
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let policies = ["token_bucket 1/h burst 2 charge_denied"];
    let limiter =
        sluicegate::Limiter::new(store, sluicegate::Limit::new("login", policies).unwrap());
    let middleware = Middleware::new(limiter).key(fixed("all")).refund_if(is_right);
    for right in [true, true, true, false, false] {
        let _ = settle(admitted(&middleware), answer(right));
    }
    // Each time half a unit has flowed back, and the denial takes it.
    for _ in 0..3 {
        clock.advance(Duration::from_secs(1_800));
        assert!(refused(&middleware));
    }
    clock.advance(Duration::from_secs(3_600));
    let _ = settle(admitted(&middleware), answer(true));
}

/// Each of several limits gets back its own, and a key that is always allowed took nothing.
#[test]
fn several_limits_get_back_what_each_gave() {
    let config = "limits:
  address: {policies: [token_bucket 30/h burst 9]}
  account: {policies: [sliding_log 9/h], allow: [root]}
";
    let config = Config::parse(config, "limits.yaml").unwrap();
    let clock = Arc::new(ManualClock::new(Timestamp::from_micros(1 << 50).unwrap()));
    let store = MemoryStore::builder().clock(clock).build();
    let registry = Registry::builder(store).config(&config).build();
    let login = |account: &'static str| {
        let address = Middleware::new(registry.gate("address")).key(fixed("home")).cost(|_| 2);
        let both = address.and(registry.gate("account"), fixed(account)).unwrap();
        both.refund_if(is_right)
    };
    let left = || {
        let left = |limit, key| now(registry.gate(limit).peek(key)).unwrap().remaining().unwrap();
        [left("address", "home"), left("account", "alice")]
    };
    let (alice, root) = (login("alice"), login("root"));
    let guesses = [admitted(&alice), admitted(&root), admitted(&alice)];
    assert_eq!(left(), [3, 7]);
    for (guess, (right, after)) in
        guesses.into_iter().zip([(true, [5, 8]), (true, [7, 8]), (false, [7, 8])])
    {
        let _ = settle(guess, answer(right));
        assert_eq!(left(), after);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waited_for_its_turn_gives_it_back() {
    let (middleware, left) = limited("fixed_window 1/h");
    let middleware = middleware.wait_up_to(Duration::from_millis(150)).refund_if(is_right);
    for right in [true, true, false] {
        let admission = middleware.decide(&request()).admission(&request()).await.unwrap();
        assert_eq!(left(), 0);
        let _ = settle(admission, answer(right));
        assert_eq!(left(), u64::from(right));
    }
    assert!(middleware.decide(&request()).admission(&request()).await.is_err());
}
