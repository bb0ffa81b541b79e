//! `pause_on`: results that pause the key of their call.

use std::time::Duration;

use sluicegate::{Denied, Registry, limit};

use crate::attribute::support::{Setup, now};

/// The answer of an upstream.
#[derive(Debug)]
enum Failed {
    Denied(Denied),
    /// Status 429, with `Retry-After`.
    Refused(Duration),
}

impl From<Denied> for Failed {
    fn from(denied: Denied) -> Self {
        Self::Denied(denied)
    }
}

type Sent = Result<u32, Failed>;

fn pause(sent: &Sent) -> Option<Duration> {
    match sent {
        Err(Failed::Refused(retry_after)) => Some(*retry_after),
        _ => None,
    }
}

fn upstream(retry_after: Option<u64>) -> Sent {
    retry_after.map_or(Ok(202), |seconds| Err(Failed::Refused(Duration::from_secs(seconds))))
}

#[limit("mail", key = "{account}", pause_on = pause, registry = limits)]
async fn send(limits: &Registry, account: String, retry_after: Option<u64>) -> Sent {
    drop(account);
    upstream(retry_after)
}

#[limit("mail", key = "{account}", pause_on = |sent| pause(sent).filter(|lasts| !lasts.is_zero()), registry = limits)]
fn send_blocking(limits: &Registry, account: &str, retry_after: Option<u64>) -> Sent {
    upstream(retry_after)
}

fn setup() -> Setup {
    Setup::new("{mail: {policies: [fixed_window 9/min]}, day: {policies: [fixed_window 99/d]}}")
}

fn is_paused(sent: &Sent, seconds: u64) -> bool {
    let Err(Failed::Denied(denied)) = sent else { return false };
    let decision = denied.decision().unwrap();
    decision.pause().is_some() && denied.to_string().contains(&format!("{seconds} s"))
}

#[test]
fn a_429_of_the_upstream_pauses_its_account_for_its_retry_after() {
    let Setup { limits, clock } = setup();
    let send = |account: &str, retry_after| now(send(&limits, account.to_owned(), retry_after));
    assert!(matches!(send("ours", None), Ok(202)));
    assert!(matches!(send("ours", Some(30)), Err(Failed::Refused(_))));
    assert!(is_paused(&send("ours", None), 30));
    assert!(is_paused(&send_blocking(&limits, "ours", None), 30));
    assert!(send("theirs", None).is_ok(), "another account");
    clock.advance(Duration::from_secs(29));
    assert!(is_paused(&send("ours", None), 1));
    clock.advance(Duration::from_secs(1));
    assert!(matches!(send_blocking(&limits, "ours", Some(5)), Err(Failed::Refused(_))));
    assert!(is_paused(&send("ours", None), 5));
}

#[test]
fn a_pause_of_no_time_is_none() {
    let Setup { limits, .. } = setup();
    assert!(matches!(send_blocking(&limits, "ours", Some(0)), Err(Failed::Refused(_))));
    assert!(send_blocking(&limits, "ours", None).is_ok());
}

#[limit("mail", key = "{account}", registry = limits)]
#[limit("day", key = "{account}", skip_if = is_night, pause_on = pause)]
fn send_by_day(limits: &Registry, account: &str, is_night: bool, retry_after: Option<u64>) -> Sent {
    upstream(retry_after)
}

#[test]
fn only_the_limit_of_the_attribute_is_paused_and_only_if_it_was_asked() {
    let setup = setup();
    let paused = || {
        ["mail", "day"].map(|name| {
            let gate = setup.limits.find(name).unwrap();
            gate.peek("ours").now().unwrap().pause().is_some()
        })
    };
    assert!(send_by_day(&setup.limits, "ours", true, Some(30)).is_err());
    assert_eq!(paused(), [false, false]);
    assert!(send_by_day(&setup.limits, "ours", false, Some(30)).is_err());
    assert_eq!(paused(), [false, true]);
    assert!(is_paused(&send_by_day(&setup.limits, "ours", false, None), 30));
    assert!(send_by_day(&setup.limits, "ours", true, None).is_ok());
}

#[limit("mail", key = "{account}", refund_if = Result::is_err, pause_on = pause, registry = limits)]
fn send_for_money(limits: &Registry, account: &str, retry_after: Option<u64>) -> Sent {
    upstream(retry_after)
}

#[limit("mail", key = "{account}", charge_if = Result::is_ok, pause_on = pause, registry = limits)]
fn send_and_charge(limits: &Registry, account: &str, retry_after: Option<u64>) -> Sent {
    upstream(retry_after)
}

#[limit("mail", key = "{account}", settle = |sent| u64::from(sent.is_ok()), pause_on = pause, registry = limits)]
fn send_and_settle(limits: &Registry, account: &str, retry_after: Option<u64>) -> Sent {
    upstream(retry_after)
}

#[test]
fn a_result_can_pause_the_key_and_decide_the_charge() {
    for send in [send_for_money, send_and_charge, send_and_settle] {
        let setup = setup();
        assert!(send(&setup.limits, "ours", None).is_ok());
        assert!(matches!(send(&setup.limits, "ours", Some(7)), Err(Failed::Refused(_))));
        assert!(is_paused(&send(&setup.limits, "ours", None), 7));
        setup.pass(7);
        assert_eq!(setup.left("mail", "ours"), 8, "only the first call was charged");
    }
}

#[limit("mail", key = "{account}", shadow, pause_on = pause, registry = limits)]
fn send_watched(limits: &Registry, account: &str, retry_after: Option<u64>) -> Sent {
    upstream(retry_after)
}

#[test]
fn a_pause_of_a_shadow_limit_denies_nothing() {
    let setup = setup();
    assert!(matches!(send_watched(&setup.limits, "ours", Some(30)), Err(Failed::Refused(_))));
    assert!(send_watched(&setup.limits, "ours", None).is_ok());
    let peeked = setup.limits.find("mail").unwrap().peek("ours").now().unwrap();
    assert!(peeked.pause().is_some());
}
