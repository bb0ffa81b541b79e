//! The registry that limited functions use by default. In a program of its own, because a process has only one.

#![cfg(feature = "macros")]
#![allow(clippy::unwrap_used, reason = "the helpers of tests may do what tests may")]

use sluicegate::{Config, Denied, Registry, limit};

#[limit("login", key = "k")]
fn login() -> Result<(), Denied> {
    Ok(())
}

#[limit("gcra 1/h burst 2", name = "own", key = "k")]
fn own() -> Result<(), Denied> {
    Ok(())
}

#[limit("login", key = "other")]
fn called_late() -> Result<(), Denied> {
    Ok(())
}

fn admitted(call: fn() -> Result<(), Denied>) -> usize {
    (0..9).filter(|_| call().is_ok()).count()
}

fn registry(text: &str) -> Registry {
    Registry::open(&Config::parse(text, "limits.yaml").unwrap()).unwrap()
}

#[test]
fn functions_ask_the_registry_that_is_installed_when_they_are_called() {
    // Nothing is installed: specs are in force in an embedded store, and names are errors.
    assert_eq!([admitted(login), admitted(own)], [0, 2]);
    assert_eq!(
        login().unwrap_err().to_string(),
        "limit `login` can't be asked: there is no limit called `login`, because no registry is \
         installed: call `sluicegate::install` before"
    );
    assert!(sluicegate::installed().find("login").is_none());

    let first = registry("limits: {login: {policies: [gcra 1/h burst 3]}}");
    sluicegate::install(first.clone());
    assert_eq!([admitted(login), admitted(own)], [3, 2], "a store of its own");
    assert!(sluicegate::installed().find("login").is_some());

    // A replaced configuration keeps the consumed units.
    let config =
        "limits: {login: {policies: [gcra 1/h burst 4]}, own: {policies: [gcra 1/h burst 9]}}";
    first.replace(&Config::parse(config, "limits.yaml").unwrap()).unwrap();
    assert_eq!([admitted(login), admitted(own)], [1, 7]);

    // Another registry has another store, and functions follow in both directions.
    sluicegate::install(registry("limits: {login: {policies: [gcra 1/h burst 5]}}"));
    assert_eq!([admitted(login), admitted(own), admitted(called_late)], [5, 2, 5]);
    sluicegate::install(first);
    assert_eq!([admitted(login), admitted(own), admitted(called_late)], [0, 0, 4]);

    install_while_threads_call();
}

/// Threads that call in the meantime use one registry or the other.
fn install_while_threads_call() {
    #[limit("gcra 1/h burst 1000000", name = "threads", key = "k")]
    fn call() -> Result<(), Denied> {
        Ok(())
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..2).map(|_| scope.spawn(|| (0..2_000).all(|_| call().is_ok()))).collect();
        for _ in 0..20 {
            sluicegate::install(registry("limits: {login: {policies: [gcra 1/h]}}"));
        }
        assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
    });
}
