use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use sluicegate::config::{Right, Switch};
use sluicegate::error::ReloadError;
use sluicegate::{Ask, Config, MemoryStore, Registry};
use sluicegate_testkit::wait::until;

use crate::registry::support::{Setup, admitted, check, config, now};

#[test]
fn a_new_configuration_counts_at_once_for_gates_that_are_there() {
    let setup = Setup::new("limits: {a: {policies: [gcra 1/h burst 2]}}");
    let (gate, clone) = (setup.registry.gate("a"), setup.registry.clone().gate("a"));
    assert_eq!(admitted(&gate, "k", 9), 2);
    let before = setup.registry.generation();
    for burst in 3..50 {
        setup.replace(&format!("limits: {{a: {{policies: [gcra 1/h burst {burst}]}}}}"));
        assert_eq!(admitted(&gate, "k", 9), 1);
        assert_eq!(admitted(&clone, "k", 9), 0);
    }
    assert_eq!(setup.registry.generation(), before + 47);
}

#[test]
fn warnings_of_a_configuration_are_logged_when_it_comes_into_force() {
    let valid = "limits: {a: {policies: [gcra 0/s]}}";
    let logged = crate::log::warnings(|| {
        let setup = Setup::new(valid);
        setup.replace("limits: {a: {policies: [gcra 5/s cost 6]}}");
        setup.replace("limits: {a: {policies: [gcra 5/s]}}");
    });
    assert_eq!(logged.len(), 2, "{logged:?}");
    assert!(
        logged[0].contains("a.policies[0]: refuses every request: its limit is 0"),
        "{logged:?}"
    );
    assert!(logged[1].contains("refuses every request that doesn't set its cost"), "{logged:?}");
}

/// The service makes its tables of the clients again only for another list.
#[test]
fn the_clients_of_a_configuration_are_one_list_until_they_change() {
    let limits = "limits: {a: {policies: [gcra 1/s]}}";
    let client = |may: &str| format!("clients: [{{name: shop, certificate: shop, may: [{may}]}}]");
    let setup = Setup::new(&format!("{limits}\n{}", client("check")));
    let clients = setup.registry.clients();
    assert_eq!((clients.len(), setup.registry.limits_in_requests()), (1, Switch::Off));
    let next = format!("{limits}\nlimits_in_requests: true\n{}", client("check"));
    assert_eq!(setup.replace(&next).to_string(), "settings: limits_in_requests");
    assert_eq!(setup.registry.limits_in_requests(), Switch::On);
    assert!(Arc::ptr_eq(&clients, &setup.registry.clients()));
    let changes = setup.replace(&format!("{limits}\n{}", client("read")));
    assert_eq!(changes.to_string(), "settings: clients, limits_in_requests");
    assert_eq!(setup.registry.clients()[0].may, [Right::Read]);
    assert_eq!(setup.replace(limits).to_string(), "settings: clients");
    assert!(setup.registry.clients().is_empty());
}

#[test]
fn what_changed_is_told() {
    let setup = Setup::new("limits: {a: {policies: [gcra 1/s]}, b: {policies: [gcra 1/s]}}");
    let next = "enabled: false
unknown_limits: deny
http: {fields: none}
limits: {c: {policies: [gcra 1/s]}, b: {policies: [gcra 1/s], key: user}}";
    let changes = setup.replace(next);
    assert_eq!(
        changes.to_string(),
        "added: c; removed: a; changed: b; settings: enabled, unknown_limits, http"
    );
    let generation = setup.registry.generation();
    assert!(setup.replace(next).is_empty());
    // A different position, or a comment, isn't a change.
    assert!(setup.replace(&format!("# comment\n{next}")).is_empty());
    assert_eq!(setup.registry.generation(), generation);
    assert_eq!(setup.replace("limits: {c: {policies: [gcra 1/s]}}").changed.len(), 0);
}

/// All or nothing: a change that needs a restart prevents all other changes.
#[test]
fn what_takes_a_restart_is_refused_with_everything_as_it_was() {
    let registry = Registry::open(&config("limits: {a: {policies: [gcra 1/h burst 1]}}")).unwrap();
    let gate = registry.gate("a");
    for (text, fields) in [
        ("store: redis://127.0.0.1:1", &["store"][..]),
        ("listeners: {http: 127.0.0.1:1}", &["listeners"]),
        ("memory: {max_keys: 5}", &["memory"]),
        ("redis: {prefix: x}", &["redis"]),
        ("max_clock_back: 6s", &["max_clock_back"]),
        ("service: {max_requests: 5}", &["service"]),
        ("store: redis://127.0.0.1:1\nlisteners: {grpc: :1}", &["store", "listeners"]),
    ] {
        let next = config(&format!("{text}\nlimits: {{b: {{policies: [gcra 1/h burst 9]}}}}"));
        let generation = registry.generation();
        let error = registry.replace(&next).unwrap_err();
        assert_eq!(error, ReloadError::NeedsRestart { fields: fields.to_vec() });
        assert!(
            error.to_string().contains("needs a restart, so the old one stays in force"),
            "{error}"
        );
        assert!(error.to_string().contains(&format!("`{}`", fields[0])), "{error}");
        assert_eq!(registry.generation(), generation);
        assert!(registry.find("a").is_some() && registry.find("b").is_none());
    }
    assert_eq!(admitted(&gate, "k", 9), 1);
}

/// Before, such a configuration was accepted, and then no key of any limit was.
#[test]
fn limits_that_do_not_fit_into_the_embedded_store_are_refused_with_everything_as_it_was() {
    let store = MemoryStore::builder().max_keys(2.try_into().unwrap()).build();
    let registry = Registry::builder(store).config(&config("limits: {a: {policies: [gcra 1/h]}}"));
    let registry = registry.build();
    let next = "limits: {a: {policies: [gcra 1/h]}, b: {policies: [gcra 1/h, fixed_window 9/h]}}";
    let error = registry.replace(&config(next)).unwrap_err();
    assert!(matches!(error, ReloadError::StoreTooSmall { .. }), "{error:?}");
    assert!(error.to_string().contains("memory.max_keys: is 2, but"), "{error}");
    assert!(error.to_string().contains("write at least 3"), "{error}");
    assert!(registry.find("b").is_none());
    assert!(check(&registry.gate("a"), "k").is_allowed());
    let fitting = "limits: {a: {policies: [gcra 1/s]}, b: {policies: [gcra 1/h]}}";
    assert!(registry.replace(&config(fitting)).is_ok());
}

#[test]
fn a_registry_that_was_given_its_store_keeps_it() {
    let setup = Setup::new("limits: {a: {policies: [gcra 1/h burst 1]}}");
    let changes = setup.replace("store: redis://127.0.0.1:1\nlimits: {b: {policies: [gcra 1/h]}}");
    assert_eq!(changes.to_string(), "added: b; removed: a");
    assert!(check(&setup.registry.gate("b"), "k").is_allowed());
}

#[test]
fn deadlines_and_what_a_failing_store_means_can_change() {
    let text = |more: &str| {
        format!("store: redis://127.0.0.1:1\nlimits: {{a: {{policies: [gcra 1/s]{more}}}}}")
    };
    let registry = Registry::open(&config(&text(""))).unwrap();
    let gate = registry.gate("a");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert!(runtime.block_on(gate.check("k")).is_err());
    for (more, allowed) in
        [(", on_store_failure: allow", true), (", on_store_failure: deny, deadline: 1s", false)]
    {
        assert_eq!(registry.replace(&config(&text(more))).unwrap().to_string(), "changed: a");
        assert_eq!(runtime.block_on(gate.check("k")).unwrap().is_allowed(), allowed);
    }
}

/// A limit that is removed and added again finds its consumed units. A limit whose policies are reordered or extended
/// finds them too.
#[test]
fn what_was_consumed_stays_whatever_happens_to_the_file_around_it() {
    let setup = Setup::new("limits: {a: {policies: [gcra 1/h burst 3, fixed_window 9/d]}}");
    assert_eq!(setup.admitted("a", "k", 2), 2);
    setup.replace("limits: {b: {policies: [gcra 1/h burst 3]}}");
    setup.replace("limits: {b: {policies: [gcra 1/h burst 3]}, a: {policies: [fixed_window 9/d, gcra 1/h burst 3, gcra 1/h burst 8 as new]}}");
    let decision = now(setup.registry.gate("a").peek("k")).unwrap();
    let left: Vec<_> = decision.policies().map(|outcome| outcome.remaining()).collect();
    assert_eq!(left, [Some(7), Some(1), Some(8)]);
    assert_eq!(setup.admitted("b", "k", 9), 3);
}

#[tokio::test]
async fn whoever_computes_from_the_configuration_can_wait_for_the_next() {
    let registry = Registry::open(&Config::default()).unwrap();
    let seen = registry.generation();
    let waiting = tokio::spawn({
        let registry = registry.clone();
        async move { registry.changed(seen).await }
    });
    tokio::task::yield_now().await;
    registry.switch(Switch::Off);
    assert_eq!(waiting.await.unwrap(), seen + 1);
    assert_eq!(registry.changed(seen).await, seen + 1, "at once");
}

/// No consumed unit is lost, and none invented. With any mix of bursts, and any interleaving of calls with
/// replacements, the larger burst is the maximum. At least the units that the smaller burst admits pass.
#[test]
fn under_load_no_unit_is_lost_or_invented_while_the_configuration_is_replaced() {
    const KEYS: usize = 300;
    let text = |burst: usize| {
        config(&format!(
            "limits:
  a: {{policies: [gcra 1/w burst {burst}, fixed_window {burst}/w, sliding_log {burst}/w]}}
  b: {{policies: [gcra 1/w burst {burst}]}}
"
        ))
    };
    let configs = [text(40), text(60)];
    let registry = Registry::open(&configs[0]).unwrap();
    let (a, both) = (registry.gate("a"), registry.gate("b").and(registry.gate("a")).unwrap());
    let (done, replaced) = (AtomicBool::new(false), AtomicUsize::new(0));
    let per_key: Vec<usize> = std::thread::scope(|scope| {
        scope.spawn(|| {
            // Between two polls other threads run, so that decisions interleave on machines with one or two processors
            // too.
            until("the end of all decisions", || {
                let count = replaced.fetch_add(1, Ordering::Relaxed) + 1;
                let changes = registry.replace(&configs[count % 2]).unwrap();
                assert_eq!(changes.changed.len(), 2);
                if done.load(Ordering::Relaxed) { Ok(()) } else { Err(count) }
            });
        });
        let hammer = || {
            let mut passed = vec![0_usize; KEYS];
            let mut turn = 0;
            until("300 configurations", || {
                for (key, passed) in passed.iter_mut().enumerate() {
                    let (own, shared) = (format!("own-{key}-{turn}"), format!("k{key}"));
                    let decision = if turn % 3 == 0 {
                        both.check(Ask::new(&own).and(&shared)).now().unwrap()
                    } else {
                        a.check(&shared).now().unwrap()
                    };
                    // An answer is about one configuration: all its policies have its burst.
                    let limits: Vec<_> =
                        decision.policies().map(|outcome| outcome.limit()).collect();
                    assert!(limits.iter().all(|limit| *limit == limits[0]), "{limits:?}");
                    let named = &decision.limit().unwrap().members()[0];
                    assert!(named.policy().to_string().contains(&limits[0].unwrap().to_string()));
                    *passed += usize::from(decision.is_allowed());
                }
                turn += 1;
                let configurations = replaced.load(Ordering::Relaxed);
                if turn >= 60 && configurations >= 300 { Ok(()) } else { Err(configurations) }
            });
            passed
        };
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(hammer)).collect();
        let counts: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        done.store(true, Ordering::Relaxed);
        (0..KEYS).map(|key| counts.iter().map(|count| count[key]).sum()).collect()
    });
    for (key, passed) in per_key.iter().enumerate() {
        assert!((40..=60).contains(passed), "key {key}: {passed} passed of 40 to 60");
    }
    // The store has counted exactly the admitted units: with the larger burst the rest is left.
    let _ = registry.replace(&configs[0]);
    let _ = registry.replace(&configs[1]).unwrap();
    for (key, passed) in per_key.iter().enumerate() {
        let key_text = format!("k{key}");
        let left = now(a.peek(&key_text)).unwrap();
        for policy in left.policies() {
            assert_eq!(policy.remaining(), Some(60 - *passed as u64), "key {key}");
        }
    }
}

#[test]
fn time_goes_on_across_configurations() {
    let setup = Setup::new("limits: {a: {policies: [gcra 1/min burst 2]}}");
    assert_eq!(setup.admitted("a", "k", 9), 2);
    setup.clock.advance(Duration::from_secs(60));
    setup.replace("limits: {a: {policies: [gcra 2/min burst 2]}}");
    assert_eq!(setup.admitted("a", "k", 9), 2, "what was consumed drains at the new rate");
}
