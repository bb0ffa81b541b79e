//! Tests holds and waits in Redis' protocol.

use rustix::process::Signal;
use sluicegate_testkit::wait::until;

use crate::resp_client::{RespClient, command};
use crate::support::{File, Service};

const LIMITS: &str = "
limits:
  jobs: {policies: [concurrency 1 hold 60s queue 10]}
  tokens: {policies: [fixed_window 9000/d as tokens]}
";

fn start() -> (Service, File) {
    let file = File::new("limits.yaml", LIMITS);
    let args = ["--resp", "127.0.0.1:0", "--config", file.path(), "--drain", "0s"];
    (Service::start(&args), file)
}

fn connect(service: &Service) -> RespClient {
    RespClient::connect(service.address_of("resp"))
}

/// Returns the token of an answer with a hold.
fn token(answer: &str) -> String {
    answer.split(' ').nth(5).unwrap_or_else(|| panic!("no token: {answer}")).to_owned()
}

/// Waits until this many requests wait for units.
fn wait_for_waiters(service: &Service, count: u64) {
    until("the requests wait", || {
        let waiting = service.metric("sluicegate_waiting_requests");
        (waiting == count).then_some(()).ok_or(waiting)
    });
}

#[test]
fn units_are_held_and_settled_for_the_usage() {
    let (service, _file) = start();
    let mut client = connect(&service);
    let held = client.ask("SG.HOLD tokens a 1000 FOR 60s");
    assert!(held.starts_with("*6 :1 :8000 :0 ") && held.ends_with(":60000"), "{held}");
    let token_of_units = token(&held);
    let settled = client.ask(&format!("SG.SETTLE {token_of_units} tokens=412"));
    assert!(settled.starts_with("*4 :1 :8588 :588 :"), "{settled}");
    client.ask("HELLO 3");
    let denied = client.ask("SG.HOLD tokens a 9000 FOR 60s");
    assert!(denied.contains("allowed #f") && denied.ends_with("hold _ hold_for_ms _"), "{denied}");
    let again = client.ask(&format!("SG.SETTLE {token_of_units} 412"));
    assert!(again.starts_with("%4 found #t remaining :8588 given_back :588"), "{again}");
    client.ask("SG.RESET tokens a");
    let unknown = client.ask(&format!("SG.RELEASE {token_of_units}"));
    assert_eq!(unknown, "%4 found #f remaining _ given_back _ reset_after_ms _");
    for (words, problem) in [
        ("SG.SETTLE nonsense", "-ERR "),
        ("SG.HOLD tokens a FOR soon", "-ERR FOR is `soon`, but must be a length of time"),
        ("SG.HOLD tokens a 60s", "-ERR wrong number of arguments"),
        ("SG.HOLD tokens a 5 60s", "-ERR SG.HOLD needs a time"),
        ("SG.HOLD tokens a 5 UNTIL 60s", "-ERR SG.HOLD needs a time"),
        ("SG.HOLD tokens a FOR 2d", "-ERR "),
        ("SG.ACQUIRE jobs a WITHIN 11min", "-ERR WITHIN is 11min, but must be from 0s to 10min"),
        ("SG.ACQUIRE jobs a FOR 5s", "-ERR the units are `FOR`"),
    ] {
        let answer = client.ask(words);
        assert!(answer.starts_with(problem), "{words}: {answer}");
    }
}

#[test]
fn permits_are_held_by_a_check_too() {
    let (service, _file) = start();
    let mut client = connect(&service);
    let held = client.ask("SG.CHECK jobs a");
    assert!(held.starts_with("*6 :1 :0 :0 ") && held.ends_with(":60000"), "{held}");
    let denied = client.ask("SG.CHECK jobs a");
    assert!(denied.starts_with("*4 :0 :0 "), "{denied}");
    let released = client.ask(&format!("SG.RELEASE {}", token(&held)));
    assert!(released.starts_with("*4 :1 :1 :"), "{released}");
    assert!(client.ask("SG.CHECK jobs a").starts_with("*6 :1"));
}

#[test]
fn a_wait_delays_only_its_own_connection_and_ends_when_units_are_released() {
    let (service, _file) = start();
    let mut owner = connect(&service);
    let token = token(&owner.ask("SG.HOLD jobs a FOR 60s"));
    let mut waiter = connect(&service);
    waiter
        .send(["PING", "SG.ACQUIRE jobs a WITHIN 60s FOR 20s", "ECHO after"].map(command).concat());
    assert_eq!(waiter.answer(), "+PONG", "sent before the wait begins");
    wait_for_waiters(&service, 1);
    assert_eq!(owner.ask("PING"), "+PONG");
    assert!(owner.ask(&format!("SG.RELEASE {token}")).starts_with("*4 :1"));
    let acquired = waiter.answer();
    assert!(acquired.starts_with("*6 :1 :0 :0 ") && acquired.ends_with(":20000"), "{acquired}");
    assert_eq!(waiter.answer(), "after");
    let late = owner.ask("SG.ACQUIRE jobs a WITHIN 1ms");
    assert!(late.starts_with("*4 :0 :0 "), "{late}");
}

#[test]
fn a_connection_that_is_closed_gives_up_its_turn() {
    let (service, _file) = start();
    let mut owner = connect(&service);
    let token = token(&owner.ask("SG.HOLD jobs a FOR 60s"));
    let (mut first, mut second) = (connect(&service), connect(&service));
    first.send(command("SG.ACQUIRE jobs a WITHIN 60s"));
    wait_for_waiters(&service, 1);
    second.send(command("SG.ACQUIRE jobs a WITHIN 60s"));
    wait_for_waiters(&service, 2);
    drop(first);
    wait_for_waiters(&service, 1);
    owner.ask(&format!("SG.RELEASE {token}"));
    assert!(second.answer().starts_with("*6 :1 :0 "));
}

#[test]
fn what_was_read_is_answered_before_the_service_stops() {
    let (mut service, _file) = start();
    let mut owner = connect(&service);
    let mut idle = connect(&service);
    assert!(owner.ask("SG.HOLD jobs a FOR 60s").starts_with("*6 :1"));
    assert_eq!(idle.ask("PING"), "+PONG");
    let mut waiter = connect(&service);
    waiter.send(command("SG.ACQUIRE jobs a WITHIN 60s") + &command("SG.CHECK tokens a"));
    wait_for_waiters(&service, 1);
    let half = command("SG.CHECK tokens a");
    idle.send(&half[..half.len() - 4]);
    service.signal(Signal::TERM);
    let refused = waiter.answer();
    assert!(refused.starts_with("-STORE the service is about to stop"), "{refused}");
    assert!(waiter.answer().starts_with("*4 :1 :8999"), "it was read");
    assert_eq!(waiter.rest(), "");
    assert_eq!(idle.rest(), "", "half a command has no answer");
    let (status, _) = service.wait();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_pipeline_that_arrives_while_the_service_drains_is_answered() {
    let file = File::new("limits.yaml", LIMITS);
    let args = ["--resp", "127.0.0.1:0", "--config", file.path(), "--drain", "5s"];
    let mut service = Service::start(&args);
    let mut client = connect(&service);
    assert_eq!(client.ask("PING"), "+PONG");
    service.signal(Signal::TERM);
    until("the service drains", || {
        let status = service.get("/readyz").status;
        (status == 503).then_some(()).ok_or(status)
    });
    let mut late = connect(&service);
    assert!(late.ask("SG.CHECK tokens a").starts_with("*4 :1 :8999"));
    client.send((0..100).map(|_| command("SG.CHECK tokens a")).collect::<String>());
    for _ in 0..100 {
        assert!(client.answer().starts_with("*4 :1"));
    }
    // The second signal ends the service.
    service.signal(Signal::INT);
    let (status, _) = service.wait();
    assert_eq!(status.code(), Some(130));
}
