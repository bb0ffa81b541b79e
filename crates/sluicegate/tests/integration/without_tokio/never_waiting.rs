//! `now()` on stores that have to be awaited.

use std::net::TcpListener;
use std::time::Duration;

use sluicegate::error::RequestErrorKind;
use sluicegate::store::SharedStore;
use sluicegate::{Error, Limiter, RedisStore};

use super::limit;

#[test]
fn a_store_of_a_network_is_not_asked_by_a_caller_that_does_not_wait() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    for url in [
        format!("redis://{address}"),
        format!("redis+cluster://{address}"),
        format!("redis+sentinel://{address}/primary"),
    ] {
        let store = RedisStore::builder(&url).unwrap().build();
        let limiter = Limiter::new(SharedStore::new(store), limit(&["concurrency 9 hold 1s"]));
        let errors = [
            limiter.check("alice").now().unwrap_err(),
            limiter.peek("alice").now().unwrap_err(),
            limiter.check("alice").hold(Duration::from_secs(1)).now().unwrap_err(),
            limiter.reserve("alice", Duration::from_secs(1)).now().unwrap_err(),
            limiter.permit("alice").now().unwrap_err(),
        ];
        for error in errors {
            assert_eq!(
                error.as_request().map(sluicegate_core::RequestError::kind),
                Some(RequestErrorKind::WouldBlock)
            );
        }
    }
    assert!(listener.accept().is_err(), "no connection was made");
}

#[test]
fn a_wait_is_not_begun_by_a_caller_that_does_not_wait() {
    let limiter = super::embedded(&["gcra 1/s"]);
    let permit = limiter.permit("alice").within(Duration::from_secs(1)).now();
    let error: Error = permit.unwrap_err();
    assert_eq!(
        error.as_request().map(sluicegate_core::RequestError::kind),
        Some(RequestErrorKind::WouldBlock)
    );
    assert_eq!(limiter.peek("alice").now().unwrap().remaining(), Some(1));
}
