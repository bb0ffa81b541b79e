//! Limits that a function chooses for each request.

use std::error::Error;
use std::sync::Arc;

use sluicegate::error::DeniedReason;
use sluicegate::http::{KeyExpression, KeyExtractor as _};
use sluicegate::middleware::{Middleware, Verdict};
use sluicegate::{Gate, Limit, Limiter, MemoryStore};

use crate::keyed::Plans;
use crate::log;
use crate::registry::support::Setup;

const CONFIG: &str =
    "limits: {reads: {policies: [fixed_window 3/h]}, writes: {policies: [fixed_window 1/h]}}";

fn request(method: &str, tenant: &str) -> http::Request<()> {
    http::Request::builder().method(method).uri("/").header("x-tenant", tenant).body(()).unwrap()
}

fn tenant() -> KeyExpression {
    "header:x-tenant".parse().unwrap()
}

/// Returns how many of `many` requests pass immediately.
fn passed(middleware: &Middleware, method: &str, many: usize) -> usize {
    let passes = |_: &usize| match middleware.decide(&request(method, "acme")) {
        Verdict::Admit(_) => true,
        Verdict::Refuse(_) => false,
        waits @ Verdict::Wait(_) => panic!("{waits:?}"),
    };
    (0..many).filter(passes).count()
}

fn by_method(setup: &Setup) -> Middleware {
    let (reads, writes) = (setup.registry.gate("reads"), setup.registry.gate("writes"));
    Middleware::by(
        move |request| if request.method() == "GET" { reads.clone() } else { writes.clone() },
    )
}

#[test]
fn a_function_of_the_request_chooses_the_limit() {
    let setup = Setup::new(CONFIG);
    let middleware = by_method(&setup).key(tenant());
    assert_eq!((passed(&middleware, "GET", 9), passed(&middleware, "POST", 9)), (3, 1));
    let left = |limit| setup.registry.gate(limit).peek("acme").now().unwrap().remaining();
    assert_eq!((left("reads"), left("writes")), (Some(0), Some(0)), "settings apply to each gate");
    let one = Limit::new("one", ["fixed_window 1/h"]).unwrap();
    let one = Gate::from(Limiter::new(MemoryStore::new(), one));
    assert!(
        middleware.and(one, tenant()).unwrap_err().to_string().contains("join it to each gate")
    );
}

#[test]
fn settings_that_change_after_the_first_request_apply_to_gates_that_were_chosen_before() {
    let setup = Setup::new(CONFIG);
    let middleware = by_method(&setup).key(tenant());
    assert_eq!(passed(&middleware, "GET", 1), 1);
    let dear = middleware.clone().cost(|_| 2);
    assert_eq!((passed(&dear, "GET", 9), passed(&middleware, "GET", 9)), (1, 0));
    let skipping = middleware.skip_if(|request| request.method() == "GET");
    assert_eq!(passed(&skipping, "GET", 9), 9);
}

#[tokio::test]
async fn the_choice_may_wait_for_a_database_and_the_key_is_made_after_it() {
    let setup = Setup::new(CONFIG);
    let plans = Plans::new("fixed_window 2/h");
    plans.slow_down();
    let keyed = setup.registry.keyed("writes", plans.maker());
    let choose = tenant();
    let middleware = Middleware::by(move |request| {
        let (keyed, tenant) = (keyed.clone(), choose.key(request));
        async move { Ok::<_, Box<dyn Error + Send + Sync>>(keyed.get(tenant?.as_bytes()).await?) }
    });
    let middleware = middleware.key(tenant());
    let request = request("GET", "acme");
    let verdict = middleware.decide(&request);
    assert!(matches!(verdict, Verdict::Wait(_)), "{verdict:?}");
    let go_on = Arc::clone(&plans);
    let (admission, ()) = tokio::join!(verdict.admission(&request), async move { go_on.go_on() });
    assert!(admission.is_ok());
    assert_eq!(passed(&middleware, "GET", 9), 1, "the numbers are known by now");
    assert_eq!(plans.queries(), 1);
}

#[tokio::test]
async fn a_request_whose_limit_can_t_be_chosen_is_refused_and_the_log_says_why_once() {
    let setup = Setup::new(CONFIG);
    let plans = Plans::new("fixed_window 2/h");
    plans.fail("connection refused");
    let keyed = setup.registry.keyed("writes", plans.maker());
    let middleware = Middleware::by(move |_| {
        let keyed = keyed.clone();
        async move { keyed.get("acme").await }
    });
    let other = Middleware::by(|_| async { Err::<Gate, _>("no such tenant") });
    let told = log::warnings_on_this_thread(async {
        for _ in 0..3 {
            for middleware in [&middleware, &other] {
                let Verdict::Refuse(refusal) = middleware.decide(&request("GET", "acme")) else {
                    panic!("it passes");
                };
                assert_eq!(refusal.denied().reason(), DeniedReason::StoreFailed);
                assert_eq!(refusal.response(&request("GET", "acme")).status(), 503);
            }
        }
    });
    let told = told.await;
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told[0].contains("connection refused") && told[1].contains("no such tenant"),
        "{told:?}"
    );
}
