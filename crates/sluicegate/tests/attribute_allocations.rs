//! Checks that a limited function on an embedded store allocates no more than an equivalent explicit call. In a program
//! of its own, because it installs a registry, and a process has only one.

#![cfg(feature = "macros")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "the helpers of tests may do what tests may")]

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use allocation_counter::measure;
use sluicegate::http::{Key, User};
use sluicegate::{Ask, Caller, Config, Denied, Gate, Registry, limit};

const CONFIG: &str = r"
limits:
  named: {policies: [token_bucket 9/s burst 5000000]}
  second: {policies: [token_bucket 9/s burst 5000000]}
";

struct Account {
    id: u64,
}

#[limit("named", key = method)]
fn by_method() -> Result<u8, Denied> {
    Ok(7)
}

#[limit("named", key = ip)]
fn by_ip() -> Result<u8, Denied> {
    Ok(7)
}

#[limit("named", key = "{account.id}:{phone}", cost = 2)]
fn by_template(account: &Account, phone: &str) -> Result<u8, Denied> {
    Ok(u8::try_from(account.id + phone.len() as u64).unwrap_or(0))
}

#[limit("token_bucket 9/s burst 5000000", key = "{phone}", fallback(args) = fallback)]
async fn later(phone: &str) -> Result<u8, Denied> {
    Ok(u8::try_from(phone.len()).unwrap_or(0))
}

async fn fallback(_: &str) -> Result<u8, Denied> {
    Ok(0)
}

#[limit("named", key = user)]
#[limit("second", key = "{phone}", skip_if = phone.is_empty())]
#[limit("token_bucket 9/s burst 5000000", shadow)]
async fn stacked(phone: &str) -> Result<u8, Denied> {
    Ok(u8::try_from(phone.len()).unwrap_or(0))
}

#[limit("named", key = "{phone}", charge_if = Result::is_ok)]
fn charged(phone: &str) -> Result<u8, Denied> {
    Ok(u8::try_from(phone.len()).unwrap_or(0))
}

#[limit("named", key = "{phone}", refund_if = Result::is_ok)]
fn refunded(phone: &str) -> Result<u8, Denied> {
    Ok(u8::try_from(phone.len()).unwrap_or(0))
}

struct ByHand {
    named: Gate,
    ip: Key,
}

impl ByHand {
    fn ask(&self) {
        let allowed = |ask: Ask<'_>| self.named.check(ask).now().unwrap().is_allowed();
        assert!(allowed(Ask::new("method")));
        assert!(allowed(Ask::from_key(&self.ip)));
        assert!(allowed(Ask::new("7:555").cost(2)));
    }
}

fn ask() {
    assert!(by_method().is_ok());
    assert!(by_ip().is_ok());
    assert!(by_template(&Account { id: 7 }, "555").is_ok());
    assert!(now(later("555")).is_ok());
    assert!(now(stacked("555")).is_ok() && now(stacked("")).is_ok());
    assert!(charged("555").is_ok() && refunded("555").is_ok());
}

#[test]
fn a_limited_function_allocates_no_more_than_a_call_written_by_hand() {
    let registry = Registry::open(&Config::parse(CONFIG, "limits.yaml").unwrap()).unwrap();
    sluicegate::install(registry.clone());
    let by_hand =
        ByHand { named: registry.gate("named"), ip: Key::of_network("192.0.2.7".parse().unwrap()) };
    let caller = Caller::new().with_ip([192, 0, 2, 7].into()).with_user(User::new("alice"));
    caller.scope_sync(|| {
        by_hand.ask();
        // Twice: the first call of `stacked` gives the registry a limit. After that change the functions before it look
        // up their limits again.
        ask();
        ask();
        let by_hand = measure(|| (0..1_000).for_each(|_| by_hand.ask()));
        let by_attribute = measure(|| (0..1_000).for_each(|_| ask()));
        assert_eq!([by_hand.count_total, by_attribute.count_total], [0, 0]);
    });
}

fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}
