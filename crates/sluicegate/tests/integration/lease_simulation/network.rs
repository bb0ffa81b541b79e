//! A store whose server is as far away as the simulation sets.

use std::collections::HashMap;
use std::future::{Future, poll_fn, ready};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;

use sluicegate_core::for_stores::LeaseReport;
use sluicegate_core::{
    Answer, BoxFuture, Decision, Error, Limit, OpenOptions, OpenedLimit, Operation, Request, Span,
    Store, StoreError, StoreErrorKind, StoreId,
};

/// The connection between all processes and the server. Clones are one network.
#[derive(Clone, Default)]
pub(crate) struct Network(Arc<Mutex<Post>>);

#[derive(Default)]
struct Post {
    numbers: u64,
    sent: Vec<Letter>,
    answers: HashMap<u64, Result<Decision, Error>>,
}

/// A request on its way.
#[derive(Clone, Debug)]
pub(crate) struct Letter {
    pub(crate) number: u64,
    pub(crate) operation: Operation<'static>,
    pub(crate) key: Vec<u8>,
    pub(crate) costs: Vec<u64>,
    pub(crate) leasing: Option<Leasing>,
}

/// The requests and reports of a lease holder.
#[derive(Clone, Debug)]
pub(crate) struct Leasing {
    pub(crate) want: u64,
    pub(crate) width: Span,
    pub(crate) tag: u64,
    pub(crate) reports: Vec<LeaseReport>,
}

pub(crate) struct FarLimit {
    network: Network,
    limit: Limit,
}

impl Network {
    /// Takes the letters that were sent since the last call.
    pub(crate) fn collect(&self) -> Vec<Letter> {
        std::mem::take(&mut self.post().sent)
    }

    /// Stores an answer for its caller.
    pub(crate) fn answer(&self, number: u64, answer: Result<Decision, Error>) {
        self.post().answers.insert(number, answer);
    }

    fn post(&self) -> MutexGuard<'_, Post> {
        self.0.lock().unwrap()
    }
}

pub(crate) fn timed_out() -> Error {
    StoreError::new(StoreErrorKind::Timeout, "no answer in time".to_owned()).into()
}

impl Store for Network {
    type Opened = FarLimit;

    fn inner(&self) -> Option<&dyn Store> {
        None
    }

    fn id(&self) -> StoreId {
        StoreId::new("far")
    }

    fn open(&self, limit: Limit, _: OpenOptions) -> FarLimit {
        FarLimit { network: self.clone(), limit }
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
            let operation = match request.operation() {
                Operation::Check => Operation::Check,
                Operation::Take => Operation::Take,
                Operation::Reserve { within } => Operation::Reserve { within },
                other => unreachable!("no process sends {other:?}"),
            };
            let costs =
                (0..self.limit.members().len()).map(|index| request.cost_of(&self.limit, index));
            let leasing = request.leases().map(|leasing| Leasing {
                want: leasing.want,
                width: leasing.width,
                tag: leasing.tag,
                reports: leasing.reports.to_vec(),
            });
            let number = {
                let mut post = self.network.post();
                post.numbers += 1;
                let number = post.numbers;
                let (key, costs) = (request.key().to_vec(), costs.collect());
                post.sent.push(Letter { number, operation, key, costs, leasing });
                number
            };
            poll_fn(|_| match self.network.post().answers.remove(&number) {
                Some(answer) => Poll::Ready(answer),
                None => Poll::Pending,
            })
            .await
        })
    }
}
