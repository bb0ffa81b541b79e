use std::sync::{Arc, Mutex};
use std::time::Duration;

use sluicegate::admin::{Answered, Observer};
use sluicegate::config::Switch;
use sluicegate::decision::{Holding, Source};
use sluicegate::{Ask, Config, Gate, Limit, Registry};

use crate::registry::support::{Setup, admitted, check, config, now, store};

const fn is_shared<T: Send + Sync + Clone + 'static>() {}

#[test]
fn registries_and_gates_are_shared_between_threads_and_tasks() {
    is_shared::<Registry>();
    is_shared::<Gate>();
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let registry = Registry::open(&Config::default()).unwrap();
    let gate = registry.gate("demo");
    drop(is_send(gate.check("k")));
    drop(is_send(gate.check("k").within(Duration::ZERO)));
    drop(is_send(gate.peek("k")));
    drop(is_send(gate.charge("k")));
    drop(is_send(registry.changed(0)));
}

/// Seed 4.8: a map of resources to limits, from a configuration or from code.
#[test]
fn limits_come_from_a_configuration_and_from_code() {
    let (store, _) = store();
    let registry = Registry::builder(store)
        .limit(Limit::new("a", ["gcra 1/h burst 7"]).unwrap())
        .limit(Limit::new("b", ["gcra 1/h burst 8"]).unwrap())
        .limit(Limit::new("b", ["gcra 1/h burst 2"]).unwrap())
        .config(&config(
            "limits: {c: {policies: [gcra 1/h burst 3]}, a: {policies: [gcra 1/h burst 1]}}",
        ))
        .build();
    let names: Vec<String> =
        registry.limits().iter().map(|config| config.limit.name().to_string()).collect();
    assert_eq!(names, ["c", "a", "b"]);
    for (name, most) in [("a", 1), ("b", 2), ("c", 3)] {
        assert_eq!(admitted(&registry.gate(name), "k", 9), most, "{name}");
        assert_eq!(registry.limit(name).unwrap().limit.name().as_str(), name);
    }
    assert!(registry.limit("d").is_none());
    // A limit that the configuration drops is the code's again.
    let _ = registry.replace(&config("limits: {c: {policies: [gcra 1/h burst 3]}}")).unwrap();
    assert_eq!(admitted(&registry.gate("a"), "k", 9), 6, "of 7, one is taken");
}

/// Defect 3.13: the first configuration of two with one name wins. Here each call site has its own numbers, the
/// consumed units are shared, and a log line says so.
#[test]
fn limits_given_at_call_sites_of_one_name_share_what_is_consumed() {
    let (store, _) = store();
    let registry = Registry::builder(store).build();
    let few = registry.inline(Limit::new("a", ["gcra 1/h burst 2"]).unwrap());
    let many = registry.inline(Limit::new("a", ["gcra 1/h burst 5"]).unwrap());
    assert_eq!((few.name(), registry.limits().len()), ("a", 1));
    assert_eq!(admitted(&few, "k", 9), 2);
    assert_eq!(admitted(&many, "k", 9), 3);
    assert_eq!(admitted(&registry.gate("a"), "k", 9), 0);
    assert!(registry.switch_limit("a", Switch::Off).is_some());
    assert!(check(&few, "k").is_allowed() && check(&many, "k").is_allowed());
}

#[test]
fn the_configuration_goes_before_a_limit_given_at_a_call_site() {
    let setup = Setup::new("limits: {a: {policies: [gcra 1/h burst 1]}}");
    let gate = setup.registry.inline(Limit::new("a", ["gcra 1/h burst 9"]).unwrap());
    assert_eq!(admitted(&gate, "k", 20), 1);
    setup.replace("limits: {b: {policies: [gcra 1/h burst 1]}}");
    assert_eq!(admitted(&gate, "k", 20), 8);
    setup.replace("limits: {a: {policies: [gcra 1/h burst 10]}}");
    assert_eq!(admitted(&gate, "k", 20), 1);
}

#[test]
fn a_gate_that_waits_for_a_name_finds_it_in_code() {
    let (store, _) = store();
    let registry = Registry::builder(store).build();
    let gate = registry.gate("a");
    assert!(gate.check("k").now().is_err());
    let _ = registry.inline(Limit::new("a", ["gcra 1/h burst 1"]).unwrap());
    assert_eq!(admitted(&gate, "k", 9), 1);
}

#[test]
fn a_limit_that_is_several_together_is_as_many_limits() {
    let (store, _) = store();
    let together = Limit::together([
        Limit::new("address", ["gcra 1/h burst 3", "gcra 1/min burst 9"]).unwrap(),
        Limit::new("account", ["gcra 1/h burst 2"]).unwrap(),
    ]);
    let registry = Registry::builder(store).build();
    let gate = registry.inline(together.unwrap());
    assert_eq!(gate.name(), "address + account");
    assert!(check(&gate, Ask::new("1.1.1.1").and("alice")).is_allowed());
    let left = now(registry.gate("address").peek("1.1.1.1")).unwrap();
    assert_eq!(left.policy(0).unwrap().remaining(), Some(2));
    assert_eq!(left.policy(1).unwrap().remaining(), Some(8));
    assert_eq!(admitted(&registry.gate("account"), "alice", 9), 1);
}

#[test]
fn every_operation_reaches_the_store() {
    let setup = Setup::new("limits: {a: {policies: [gcra 1/h burst 5]}}");
    let gate = setup.registry.gate("a");
    let left = |decision: Result<sluicegate::Decision, _>| decision.unwrap().remaining();
    assert_eq!(left(now(gate.check(Ask::new("k").cost(4)))), Some(1));
    assert_eq!(left(now(gate.peek("k"))), Some(1));
    assert_eq!(left(now(gate.refund(Ask::new("k").cost(2)))), Some(3));
    assert_eq!(left(now(gate.charge(Ask::new("k").cost(9)))), Some(0));
    assert_eq!(left(now(gate.reset("k"))), Some(5));
    assert!(now(gate.check(Ask::new("k").cost(0))).is_err());
}

#[tokio::test(start_paused = true)]
async fn who_waits_at_a_gate_passes_in_time_or_is_denied_at_once() {
    let (store, clock) = store();
    let registry = Registry::builder(store)
        .limit(Limit::new("queue", ["shaper 1/s queue 9"]).unwrap())
        .limit(Limit::new("retry", ["fixed_window 1/min"]).unwrap())
        .build();
    let start = tokio::time::Instant::now();
    let (queue, retry) = (registry.gate("queue"), registry.gate("retry"));
    for expected in 0..3 {
        assert!(queue.check("k").within(Duration::from_secs(5)).await.unwrap().is_allowed());
        clock.advance(Duration::from_secs(1));
        assert_eq!(start.elapsed().as_secs(), 0, "the store's clock went ahead: {expected}");
    }
    assert!(retry.check("k").within(Duration::ZERO).await.unwrap().is_allowed());
    let denied = retry.check("k").within(Duration::from_secs(59)).await.unwrap();
    assert!(denied.is_denied() && start.elapsed().is_zero());
}

/// A caller waits for a window to end. Raising the limit or switching it off ends the wait.
#[tokio::test(start_paused = true)]
async fn who_waits_is_woken_when_the_configuration_changes() {
    let text = |limit| format!("limits: {{a: {{policies: [fixed_window {limit}/d]}}}}");
    let registry = Registry::open(&config(&text(1))).unwrap();
    let gate = registry.gate("a");
    let start = tokio::time::Instant::now();
    assert!(check(&gate, "k").is_allowed());
    let wait = Duration::from_secs(48 * 60 * 60);
    let change = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        let _ = registry.replace(&config(&text(2))).unwrap();
    };
    let (decision, ()) = tokio::join!(gate.check("k").within(wait), change);
    assert_eq!((decision.unwrap().source(), start.elapsed().as_secs()), (Source::Store, 60));
    let change = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        registry.switch(Switch::Off);
    };
    let (decision, ()) = tokio::join!(gate.check("k").within(wait), change);
    assert_eq!((decision.unwrap().source(), start.elapsed().as_secs()), (Source::Bypass, 120));
}

/// There is one pass: a waiter that kept it during its wait would block all other requests.
#[tokio::test(start_paused = true)]
async fn a_pass_is_held_while_the_store_is_asked_and_not_during_a_wait() {
    let text = "limits: {queue: {policies: [gcra 1/s]}, retry: {policies: [fixed_window 1/s]}}";
    let registry = Registry::open(&config(text)).unwrap();
    for name in ["queue", "retry"] {
        let gate = registry.gate(name);
        assert!(check(&gate, "k").is_allowed());
        let passes = tokio::sync::Semaphore::new(1);
        let asked = std::sync::atomic::AtomicUsize::new(0);
        let pass = || {
            asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            async { Ok::<_, sluicegate::Error>(passes.acquire().await.unwrap()) }
        };
        let check = gate.check("k").holding(Holding::as_needed());
        let waits = check.within(Duration::from_secs(60)).passing(pass);
        let waited = tokio::time::timeout(Duration::from_millis(1), waits).await;
        assert!(waited.is_err(), "{name}");
        assert_eq!(asked.into_inner(), 1, "{name}");
        assert_eq!(passes.available_permits(), 1, "{name}: given up with the wait");
    }
    let refused = || async { Err::<(), _>(Error("no pass".to_owned())) };
    let answer = registry
        .gate("queue")
        .check("other")
        .holding(Holding::as_needed())
        .within(Duration::from_secs(60))
        .passing(refused)
        .await;
    assert_eq!(answer.unwrap_err().0, "no pass");
    assert!(check(&registry.gate("queue"), "other").is_allowed(), "nothing was asked");
}

/// An error of a program that hands out passes.
#[derive(Debug)]
struct Error(String);

impl From<sluicegate::Error> for Error {
    fn from(error: sluicegate::Error) -> Self {
        Self(error.to_string())
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_leaves_the_pass_to_others() {
    let (store, clock) = store();
    let registry =
        Registry::builder(store).limit(Limit::new("queue", ["gcra 1/s"]).unwrap()).build();
    let gate = registry.gate("queue");
    assert!(check(&gate, "k").is_allowed());
    let passes = tokio::sync::Semaphore::new(1);
    let pass = || async { Ok::<_, Error>(passes.acquire().await.unwrap()) };
    let others = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let free = passes.available_permits();
        clock.advance(Duration::from_secs(1));
        free
    };
    let (answer, free) = tokio::join!(
        gate.check("k").holding(Holding::as_needed()).within(Duration::from_secs(60)).passing(pass),
        others
    );
    assert!(answer.unwrap().is_allowed());
    assert_eq!(free, 1, "while one waited");
}

/// The observed answers: limit, operation, source of the answer.
#[derive(Default)]
struct Told(Mutex<Vec<(String, &'static str, Source)>>);

impl Observer for Told {
    fn answered(&self, answered: &Answered<'_>) {
        let source = answered.outcome.unwrap().source();
        let told = (answered.limit.name().to_string(), answered.operation.name(), source);
        self.0.lock().unwrap().push(told);
    }
}

#[test]
fn giving_back_to_a_limit_that_is_off_by_then_is_not_observed_again() {
    let told = Arc::new(Told::default());
    let text = "limits: {a: {policies: [gcra 1/min burst 3]}}";
    let registry = Registry::builder_from(&config(text)).unwrap().observer(told.clone()).build();
    let gate = registry.gate("a");
    let taken = check(&gate, "k");
    registry.switch(Switch::Off);
    assert_eq!(gate.refund("k").taken_by(&taken).now().unwrap().source(), Source::Bypass);
    let seen = std::mem::take(&mut *told.0.lock().unwrap());
    assert_eq!(seen, [("a".to_owned(), "check", Source::Store)]);
}

#[test]
fn whoever_observes_is_told_of_what_bypasses_a_limit_too() {
    let told = Arc::new(Told::default());
    let text =
        "limits: {a: {policies: [gcra 1/s], allow: [x], block: [y]}, b: {policies: [gcra 1/s]}}";
    let registry = Registry::builder_from(&config(text)).unwrap().observer(told.clone()).build();
    let (a, b) = (registry.gate("a"), registry.gate("b"));
    let _ = (check(&a, "k"), check(&a, "x"), now(a.peek("y")));
    let _ = check(&b.clone().and(a.clone()).unwrap(), Ask::new("k").and("y"));
    let _ = check(&b.and(a).unwrap(), Ask::new("k").and("k"));
    let seen = std::mem::take(&mut *told.0.lock().unwrap());
    let of = |limit: &str, operation, source| (limit.to_owned(), operation, source);
    assert_eq!(
        seen,
        [
            of("a", "check", Source::Store),
            of("a", "check", Source::Bypass),
            of("a", "peek", Source::Bypass),
            of("a", "check", Source::Bypass),
            of("b + a", "check", Source::Store),
        ]
    );
}
