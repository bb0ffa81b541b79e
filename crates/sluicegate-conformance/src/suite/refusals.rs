//! Checks of requests that a limit can't answer.

use sluicegate_core::for_stores::DecisionForStores as _;
use sluicegate_core::{
    Cost, Costs, Limit, MAX_EXACT, OpenedLimit as _, Operation, Receipt, Request, RequestErrorKind,
    Span, Store, TimeSource,
};

use super::{START, fresh_run, limit, open, timestamp};

const RESERVE: Operation<'static> = Operation::Reserve { within: Span::HOUR };

/// Checks that a request which its limit can't answer returns an error that says what is wrong. It
/// changes nothing: an earlier reservation can still be given back.
pub async fn refused_requests_change_nothing<S: Store>(store: &S) {
    let time = fresh_run();
    let buckets = limit("buckets", &["token_bucket 1/h burst 9", "gcra 1/h burst 9"]);
    let window = limit("window", &["fixed_window 9/h"]);
    let both = Limit::together([buckets.clone(), window.clone()]).unwrap();
    let at = timestamp(START);
    let (one, several): (&[&[u8]], &[&[u8]]) = (&[b"w"], &[b"w", b"x"]);
    let check = Request::check(b"b");
    let most = Costs::Same(Cost::MAX);
    let foreign: Receipt = "1:elsewhere:62:-:0102".parse().unwrap();
    let empty: Receipt = "1:window:62:-:-".parse().unwrap();
    use RequestErrorKind::{Invalid, Overflow, Unsupported};
    let refused = [
        (&buckets, check.costs(Costs::Each(&[1])), Invalid),
        (&buckets, check.costs(Costs::Each(&[1, 1, 1])), Invalid),
        (&buckets, check.costs(Costs::Each(&[1, MAX_EXACT + 1])), Invalid),
        (&buckets, Request::new(Operation::Refund, b"b").costs(Costs::Each(&[])), Invalid),
        (&buckets, check.also(one), Invalid),
        (&both, check, Invalid),
        (&both, check.also(several), Invalid),
        (&both, Request::new(RESERVE, b"b").also(one), Unsupported),
        (&window, Request::new(RESERVE, b"w").with_receipt(), Unsupported),
        (&window, Request::slices(b"w"), Unsupported),
        (&buckets, Request::slices(b"b"), Unsupported),
        (&both, Request::cancel(&foreign), Invalid),
        (&buckets, Request::cancel(&empty), Invalid),
        (&buckets, Request::new(Operation::Charge, b"b").costs(most), Overflow),
        (&window, Request::new(Operation::Charge, b"w").costs(most), Overflow),
        (&both, Request::new(Operation::Charge, b"b").also(one).costs(most), Overflow),
    ];
    for (limit, request, kind) in refused {
        let opened = open(store, limit, &time);
        let (buckets, window) = (open(store, &buckets, &time), open(store, &window, &time));
        let mut reserved =
            buckets.ask(Request::new(RESERVE, b"b").with_receipt().at(at)).wait().await.unwrap();
        let receipt = reserved.take_receipt().unwrap();
        assert!(window.ask(Request::check(b"w").at(at)).wait().await.unwrap().is_allowed());
        let balances = async || {
            let peek = |key| Request::new(Operation::Peek, key).at(at);
            let of_buckets = buckets.ask(peek(b"b")).wait().await.unwrap();
            (of_buckets, window.ask(peek(b"w")).wait().await.unwrap())
        };
        let before = balances().await;
        let error = opened.ask(request.at(at)).wait().await.unwrap_err();
        let said = error.as_request().map(sluicegate_core::RequestError::kind);
        assert_eq!(said, Some(kind), "{error} for {request:?}");
        assert!(!error.to_string().is_empty());
        assert_eq!(balances().await, before, "{request:?}");
        let cancel = Request::cancel(&receipt).at(at);
        assert!(buckets.ask(cancel).wait().await.unwrap().is_allowed(), "{request:?}");
        let reset = Request::new(Operation::Reset, b"w").at(at);
        assert!(window.ask(reset).wait().await.unwrap().is_allowed());
    }
    // A missing time, and a time that isn't accepted.
    for (time, request) in [(time, check), (TimeSource::Store, check.at(at))] {
        let error = open(store, &buckets, &time).ask(request).wait().await.unwrap_err();
        assert_eq!(error.as_request().unwrap().kind(), Invalid, "{error}");
    }
}
