//! What it takes to give a reservation back.

use sluicegate_core::{
    OpenedLimit, Operation, Receipt, Request, RequestErrorKind, Source, Span, Store,
};

use super::{START, fresh_run, limit, open, timestamp};

const RESERVE: Operation = Operation::Reserve { within: Span::HOUR };

/// A receipt is there when it was asked for and something was reserved; it reads back from its
/// text, and gives its units back once, wherever the limit is opened.
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
    // Of another limit it is no receipt.
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
