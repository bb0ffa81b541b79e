//! Checks that a gate on an embedded store doesn't allocate.

use std::convert::Infallible;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use allocation_counter::measure;
use sluicegate::config::Switch;
use sluicegate::http::{Key, Peer};
use sluicegate::{Ask, Config, Registry};

const CONFIG: &str = r#"
unknown_limits: pass
limits:
  plain: {policies: [token_bucket 9/s burst 500000]}
  off: {policies: [gcra 1/s], enabled: false}
  lists:
    policies: [gcra 9/s burst 500000, fixed_window 500000/d]
    allow: [alice, "team-*", 10.0.0.0/8]
    block: [mallory]
    overrides: [{key: "tenant-*", times: 2}]
"#;

#[test]
fn a_request_that_was_seen_before_allocates_nothing() {
    let registry = Registry::open(&Config::parse(CONFIG, "limits.yaml").unwrap()).unwrap();
    let gate = |name: &str| registry.gate(name);
    let (plain, lists, off) = (gate("plain"), gate("lists"), gate("off"));
    let (unknown, joint) = (gate("unknown"), gate("plain").and(gate("lists")).unwrap());
    let plans =
        registry.keyed("plan", async |_: String| Ok::<_, Infallible>(["gcra 9/s burst 500000"]));
    assert!(plans.check("acme").blocking().unwrap().is_allowed());
    let request =
        http::Request::get("/").extension(Peer(([192, 0, 2, 7], 80).into())).body(()).unwrap();
    let made = Key::of_network("10.1.2.3".parse().unwrap());
    let ask = || {
        let allowed = |gate: &sluicegate::Gate, ask: Ask<'_>| {
            let decision = gate.check(ask).now().unwrap();
            decision.is_allowed()
        };
        assert!(allowed(&plain, "alice".into()));
        assert!(allowed(&plain, Ask::new("alice").cost(2)));
        assert!(at_once(plain.check("alice")).unwrap().is_allowed());
        for key in ["alice", "team-1", "tenant-1", "10.1.2.3", "192.0.2.1", "bob"] {
            assert!(allowed(&lists, key.into()), "{key}");
            assert!(
                allowed(&joint, Ask::new("bob").and(Ask::new(key).cost_of("gcra", 2))),
                "{key}"
            );
        }
        assert!(
            !allowed(&lists, "mallory".into()) && !allowed(&joint, Ask::new("k").and("mallory"))
        );
        assert!(allowed(&lists, Ask::from_key(&made)));
        assert!(allowed(&off, "k".into()) && allowed(&unknown, "k".into()));
        assert!(allowed(&joint, plain_and_nothing()));
        assert!(plans.check("acme").now().unwrap().is_allowed());
        assert!(allowed(&plans.get("acme").now().unwrap(), "k".into()));
        let keys = plain.keys(&request).unwrap();
        assert!(allowed(&plain, keys.ask()));
    };
    let allocated = || measure(|| (0..1_000).for_each(|_| ask())).count_total;
    ask();
    assert_eq!(allocated(), 0);
    // After a change everything is looked up again, once.
    assert!(registry.switch_limit("plain", Switch::On).is_some());
    ask();
    assert_eq!(allocated(), 0);
}

fn plain_and_nothing() -> Ask<'static> {
    Ask::new("k").and(Ask::nothing())
}

fn at_once<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("the embedded store never waits"),
    }
}
