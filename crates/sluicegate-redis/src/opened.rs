//! A limit opened on a server.

use std::fmt;
use std::future::Future;

use sluicegate_core::for_stores::{Bell, Driver, Post, Posted, Settings};
use sluicegate_core::{
    Answer, BannedKey, BoxFuture, Decision, Error, HoldId, Holder, Limit, ListedKey, Listing,
    Measure, NodeId, OpenOptions, OpenedLimit, Operation, Page, Request, RequestError,
    RequestErrorKind, Store, StoreError, StoreId, Timestamp,
};

use crate::joint::{Groups, Joint};
use crate::link::Deadline;
use crate::program::Program;
use crate::script_limit::ScriptLimit;
use crate::store::{NAME, RedisStore};

/// A limit that a [`RedisStore`] has opened.
pub struct RedisLimit {
    whole: ScriptLimit,
    /// Parts of the limit that were asked together.
    groups: Groups,
}

impl Store for RedisStore {
    type Opened = RedisLimit;

    fn inner(&self) -> Option<&dyn Store> {
        None
    }

    /// Returns the address, database and prefix as an identifier. Two names of one server are two stores.
    fn id(&self) -> StoreId {
        self.store_id()
    }

    fn open(&self, limit: Limit, options: OpenOptions) -> RedisLimit {
        let whole = ScriptLimit::new(self.clone(), limit, options);
        RedisLimit { whole, groups: Groups::default() }
    }

    /// Checks that the server can decide. A ping isn't enough: a replica, or a server out of memory, answers
    /// but refuses to write.
    ///
    /// A script writes a key that expires after a second. In a cluster this checks every node that has slots,
    /// and whether all slots have a node.
    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.check_servers())
    }

    /// Checks also that each server permits every command that the limits need, and evicts no keys.
    fn rehearse(
        &self,
        limits: Vec<(Limit, OpenOptions)>,
    ) -> BoxFuture<'_, Result<Vec<String>, StoreError>> {
        Box::pin(async move { self.check_rights(&limits).await })
    }

    fn settings(&self) -> Option<&dyn Settings> {
        Some(self)
    }

    fn measures(&self) -> Vec<Measure> {
        self.traffic().measures()
    }
}

impl RedisLimit {
    async fn decide(&self, request: Request<'_>) -> Result<Decision, Error> {
        Driver::check_request(NAME)?;
        let (whole, limit) = (&self.whole, self.whole.limit());
        request.validate_time(limit, whole.is_injected())?;
        request.validate(limit)?;
        let deadline = Deadline::after(whole.patience());
        // Rare cases are boxed, because each layer around the store moves this future. The records that give
        // units of one slot back expire after twice the deadline, so no call may take longer.
        if let Some(joint) = self.joint(&request, deadline) {
            return Box::pin(joint.decide()).await;
        }
        let deadline = whole.store().connecting(deadline, request.time_to_connect());
        match request.operation() {
            Operation::Cancel(receipt) => {
                let at = request.time().map(Timestamp::as_micros);
                Box::pin(whole.cancel(receipt, at, deadline)).await
            }
            operation if Program::knows(operation) => {
                whole.ask_call(&request, &request, None, deadline).await
            }
            _ => Err(unknown(limit)),
        }
    }

    /// Returns the request as a joint one, if several slots must decide it.
    fn joint<'a>(&'a self, request: &Request<'a>, deadline: Deadline) -> Option<Joint<'a>> {
        let whole = &self.whole;
        let is_of_one = whole.limit().parts().len() < 2;
        if is_of_one || matches!(request.operation(), Operation::Cancel(_) | Operation::Slices) {
            return None;
        }
        let contention = whole.store().contention()?;
        // Leases of several slots would need a report to each.
        let request = request.without_leasing();
        let slots = whole.slots(&request);
        Joint::of((whole, &self.groups), request, contention, &slots, deadline)
    }
}

impl OpenedLimit for RedisLimit {
    fn inner(&self) -> Option<&dyn OpenedLimit> {
        None
    }

    fn limit(&self) -> &Limit {
        self.whole.limit()
    }

    fn ask<'a>(
        &'a self,
        request: Request<'a>,
    ) -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a> {
        Answer::Later(self.decide(request))
    }

    fn bell(&self, id: HoldId) -> Option<Bell> {
        self.whole.store().bell(id)
    }

    fn holders<'a>(
        &'a self,
        key: &'a [u8],
        page: Page<'a>,
    ) -> BoxFuture<'a, Result<Listing<Holder>, Error>> {
        Box::pin(self.whole.list_holders(key, page))
    }

    fn exchange<'a>(
        &'a self,
        key: &'a [u8],
        post: Option<Post<'a>>,
    ) -> BoxFuture<'a, Result<Vec<Posted>, Error>> {
        Box::pin(self.whole.exchange(key, post))
    }

    fn bans<'a>(&'a self, page: Page<'a>) -> BoxFuture<'a, Result<Listing<BannedKey>, Error>> {
        Box::pin(self.whole.list_bans(page))
    }

    fn keys<'a>(
        &'a self,
        prefix: &'a [u8],
        page: Page<'a>,
    ) -> BoxFuture<'a, Result<Listing<ListedKey>, Error>> {
        Box::pin(self.whole.list_keys(prefix, page))
    }

    /// Returns the cluster nodes that have the subjects' keys, as far as they are known.
    fn nodes(&self, request: &Request<'_>) -> Vec<NodeId> {
        let store = self.whole.store();
        if store.contention().is_none() {
            return Vec::new();
        }
        let slots = self.whole.slots(request);
        let nodes: Option<Vec<NodeId>> = slots.iter().map(|slot| store.node(*slot)).collect();
        let mut nodes = nodes.unwrap_or_default();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }
}

impl fmt::Debug for RedisLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisLimit")
            .field("limit", self.whole.limit().name())
            .field("store", self.whole.store())
            .field("injected", &self.whole.is_injected())
            .finish_non_exhaustive()
    }
}

/// Returns the error for an operation newer than this store, which must not be mistaken for another one.
#[cold]
fn unknown(limit: &Limit) -> Error {
    let message = format!(
        "limit `{}` is in a Redis store, whose scripts don't know the operation",
        limit.name()
    );
    RequestError::new(RequestErrorKind::Unsupported, message).into()
}
