//! Checks of receipts, which give reservations back.

use std::time::Duration;

use sluicegate_core::for_stores::DecisionForStores as _;
use sluicegate_core::{
    Costs, Hold, HoldFound, HoldId, OpenedLimit, Operation, Receipt, Request, RequestErrorKind,
    Source, Span, Store,
};

use super::{START, fresh_run, limit, open, timestamp};

const RESERVE: Operation<'static> = Operation::Reserve { within: Span::HOUR };

/// Checks that a requested receipt exists if something was reserved, and can be parsed from its
/// text. It gives its units back once, wherever the limit is opened.
pub async fn receipts_are_plain_values<S: Store>(store: &S) {
    let time = fresh_run();
    let seats = limit("seats", &["token_bucket 1/h burst 2"]);
    let (here, elsewhere) = (open(store, &seats, &time), open(store, &seats, &time));
    let at = |request: Request<'static>| request.at(timestamp(START));
    let ask = |operation| at(Request::new(operation, b"\0alice:%"));
    let balance = async || here.ask(ask(Operation::Peek)).wait().await.unwrap();
    let fresh = balance().await;

    for (request, has_receipt) in [
        (ask(Operation::Check).with_receipt(), false),
        (ask(RESERVE), false),
        (ask(RESERVE).with_receipt(), true),
        (ask(Operation::Check).with_receipt(), false),
        (ask(Operation::Charge).with_receipt(), false),
        (ask(RESERVE).with_receipt(), false),
    ] {
        let decision = here.ask(request).wait().await.unwrap();
        assert_eq!(decision.receipt().is_some(), has_receipt, "{request:?}: {decision:?}");
    }
    assert!(here.ask(ask(Operation::Reset)).wait().await.unwrap().is_allowed());

    let mut decision = here.ask(ask(RESERVE).with_receipt()).wait().await.unwrap();
    let receipt = decision.take_receipt().unwrap();
    assert_eq!(receipt.subject(0), b"\0alice:%");
    let text = receipt.to_string();
    let receipt: Receipt = text.parse().unwrap();
    let cancel = async |opened: &S::Opened, receipt: &Receipt| {
        let cancel = Request::cancel(receipt).at(timestamp(START));
        opened.ask(cancel).wait().await
    };
    // It isn't a receipt of another limit.
    let other = open(store, &limit("other", &["token_bucket 1/h burst 2"]), &time);
    let error = cancel(&other, &receipt).await.unwrap_err();
    assert_eq!(error.as_request().unwrap().kind(), RequestErrorKind::Invalid, "{error}");
    for given_back in [true, false] {
        let cancelled = cancel(&elsewhere, &receipt).await.unwrap();
        assert_eq!((cancelled.is_allowed(), cancelled.source()), (given_back, Source::Store));
        assert_eq!(cancelled.limit(), Some(&seats));
        assert_eq!(balance().await, fresh);
    }
}

/// Checks that a receipt contains nothing about other requests' holds. It gives back its units even
/// if another hold was settled since, as long as no request was charged.
pub async fn receipts_know_nothing_of_what_is_held<S: Store>(store: &S) {
    let opened = open(store, &limit("beside", &["token_bucket 50/s burst 60"]), &fresh_run());
    let at = |micros: u64, request: Request<'static>| request.at(timestamp(START + micros));
    let id = HoldId::from_bytes(*b"nobody knows me!");
    let hold = Hold { id, lasts: Duration::from_secs(3_600) };
    let held = Request::check(b"k").hold(&hold).at(timestamp(START));
    assert!(opened.ask(held).wait().await.unwrap().is_allowed());
    // By then the bound of the held units has drained.
    let reserve = Request::new(RESERVE, b"k").costs(Costs::Each(&[50])).with_receipt();
    let mut reserved = opened.ask(at(100_000, reserve)).wait().await.unwrap();
    let receipt = reserved.take_receipt().unwrap();
    let hex: String = id.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let text = receipt.to_string();
    assert!(!text.contains(&hex) && !text.contains("nobody"), "{text}");
    let settle = Request::settle(b"k", id, &[Some(1)]);
    let settled = opened.ask(at(100_000, settle)).wait().await.unwrap();
    assert_eq!(settled.hold_found(), Some(HoldFound::Live));
    let cancel = Request::cancel(&receipt).at(timestamp(START + 100_000));
    assert!(opened.ask(cancel).wait().await.unwrap().is_allowed());
    let peek = at(100_000, Request::new(Operation::Peek, b"k"));
    let left = opened.ask(peek).wait().await.unwrap();
    assert_eq!(left.policies().next().unwrap().remaining(), Some(60));
    // The settled hold is still known.
    let settled = opened.ask(at(100_000, settle)).wait().await.unwrap();
    assert_eq!(settled.hold_found(), Some(HoldFound::Settled));
}
