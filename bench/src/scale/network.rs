//! The connection to a store that is far away in virtual time.

use std::collections::HashMap;
use std::future::{Future, poll_fn, ready};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;

use sluicegate_core::for_stores::{LeaseReport, Leasing};
use sluicegate_core::{
    Answer, BoxFuture, Decision, Error, Limit, OpenOptions, OpenedLimit, Operation, Request, Span,
    Store, StoreError, StoreId,
};

/// The connection to the store, which all clones share.
#[derive(Clone, Default)]
pub struct Far(Arc<Mutex<Post>>);

#[derive(Default)]
struct Post {
    number: u64,
    /// At most one: only one task is polled at a time.
    sent: Option<Letter>,
    answers: HashMap<u64, Decision>,
}

/// A check that was sent.
pub struct Letter {
    pub number: u64,
    pub key: u32,
    want: u64,
    width: Span,
    tag: u64,
    reports: Vec<LeaseReport>,
    leases: bool,
}

/// A limit whose store is far away.
pub struct FarLimit {
    far: Far,
    limit: Limit,
}

impl Far {
    /// Takes the sent request, if there is one.
    pub fn collect(&self) -> Option<Letter> {
        self.post().sent.take()
    }

    pub fn answer(&self, number: u64, decision: Decision) {
        self.post().answers.insert(number, decision);
    }

    fn post(&self) -> MutexGuard<'_, Post> {
        self.0.lock().expect("nobody panics with it")
    }
}

impl Letter {
    /// Calls `ask` with the request.
    pub fn open<T>(&self, ask: impl FnOnce(&Request<'_>) -> T) -> T {
        let key = self.key.to_be_bytes();
        let leasing = Leasing {
            want: self.want,
            width: self.width,
            tag: self.tag,
            reports: &self.reports,
            pace: None,
        };
        let request = Request::check(&key);
        ask(&if self.leases { request.leasing(&leasing) } else { request })
    }
}

impl Store for Far {
    type Opened = FarLimit;

    fn inner(&self) -> Option<&dyn Store> {
        None
    }

    fn id(&self) -> StoreId {
        StoreId::new("far")
    }

    fn open(&self, limit: Limit, _: OpenOptions) -> FarLimit {
        FarLimit { far: self.clone(), limit }
    }

    /// Succeeds, because the store is in this process.
    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(ready(Ok(())))
    }
}

impl OpenedLimit for FarLimit {
    fn inner(&self) -> Option<&dyn OpenedLimit> {
        None
    }

    fn limit(&self) -> &Limit {
        &self.limit
    }

    fn ask<'a>(
        &'a self,
        request: Request<'a>,
    ) -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a> {
        Answer::Later(async move {
            debug_assert_eq!(request.operation(), Operation::Check);
            let leasing = request.leases();
            let number = {
                let mut post = self.far.post();
                post.number += 1;
                post.sent = Some(Letter {
                    number: post.number,
                    key: request.key().try_into().map_or(0, u32::from_be_bytes),
                    want: leasing.map_or(0, |leasing| leasing.want),
                    width: leasing.map_or(Span::SECOND, |leasing| leasing.width),
                    tag: leasing.map_or(0, |leasing| leasing.tag),
                    reports: leasing.map_or_else(Vec::new, |leasing| leasing.reports.to_vec()),
                    leases: leasing.is_some(),
                });
                post.number
            };
            poll_fn(|_| match self.far.post().answers.remove(&number) {
                Some(answer) => Poll::Ready(Ok(answer)),
                None => Poll::Pending,
            })
            .await
        })
    }
}
