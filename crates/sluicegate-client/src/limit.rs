//! A limit that a service decides.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use hyper::Method;
use sluicegate_core::for_stores::{DecisionForStores as _, Driver};
use sluicegate_core::{
    Answer, BannedKey, BoxFuture, Decision, Error, HoldFound, Holder, Limit, ListedKey, Listing,
    OpenedLimit, Page, Request, RequestError, Span, StoreId,
};

use crate::answer::Reply;
use crate::connections::{Deadline, NAME};
use crate::encode::{Call, unsupported};
use crate::listing;
use crate::reply;
use crate::service::Service;

/// Maximum wait that a service accepts.
const LONGEST_WAIT: Span = match Span::from_millis(10 * 60 * 1_000) {
    Ok(span) => span,
    Err(_) => Span::SECOND,
};

/// A limit that a [`RemoteStore`](crate::RemoteStore) has opened.
pub struct RemoteLimit {
    service: Arc<Service>,
    limit: Limit,
    deadline: Span,
    is_injected: bool,
}

impl RemoteLimit {
    pub(crate) const fn new(
        service: Arc<Service>,
        limit: Limit,
        deadline: Span,
        is_injected: bool,
    ) -> Self {
        Self { service, limit, deadline, is_injected }
    }

    fn call(&self, request: &Request<'_>) -> Result<Call, RequestError> {
        self.check(request)?;
        Ok(self.complete(Call::of(&self.limit, request)?))
    }

    fn complete(&self, call: Call) -> Call {
        if self.service.sends_policies { call.with_policies(&self.limit) } else { call }
    }

    async fn list_holders(&self, key: &[u8], page: Page<'_>) -> Result<Listing<Holder>, Error> {
        self.check_time()?;
        Listing::<Holder>::validate(&self.limit, &page, false)?;
        let path = listing::holders_path(&self.limit, key, &page, self.service.sends_policies)?;
        let reply = self.get(&path).await?;
        self.said(&reply, listing::holders(&self.limit, &reply))
    }

    async fn list_bans(&self, page: Page<'_>) -> Result<Listing<BannedKey>, Error> {
        self.check_time()?;
        Listing::<BannedKey>::validate(&self.limit, &page, false)?;
        let reply = self.get(&listing::bans_path(&self.limit, &page)).await?;
        self.said(&reply, listing::bans(&reply))
    }

    async fn list_keys(&self, prefix: &[u8], page: Page<'_>) -> Result<Listing<ListedKey>, Error> {
        self.check_time()?;
        Listing::<ListedKey>::validate(&self.limit, &page, false)?;
        let reply = self.get(&listing::keys_path(&self.limit, prefix, &page)?).await?;
        self.said(&reply, listing::keys(&reply))
    }

    /// Fetches a list.
    async fn get(&self, path: &str) -> Result<Reply, Error> {
        Driver::check_request(NAME)?;
        let Service { connections, token, .. } = &*self.service;
        let deadline = Deadline::after(self.deadline);
        let reply = connections.exchange((Method::GET, path), token.as_ref(), None, deadline).await;
        reply.map_err(Error::from)
    }

    fn said<T>(&self, reply: &Reply, said: Option<Result<T, String>>) -> Result<T, Error> {
        match said {
            Some(Ok(said)) => Ok(said),
            Some(Err(why)) => Err(reply::unexpected(&self.id(), &why)),
            None => Err(reply::error(&self.id(), reply)),
        }
    }

    fn check_time(&self) -> Result<(), RequestError> {
        if self.is_injected {
            return Err(unsupported(
                &self.limit,
                "uses its store's clock, so time can't be injected",
            ));
        }
        Ok(())
    }

    fn check(&self, request: &Request<'_>) -> Result<(), RequestError> {
        self.check_time()?;
        request.validate(&self.limit)?;
        request.validate_time(&self.limit, false)
    }

    async fn send(&self, call: &Call, deadline: Deadline) -> Result<Reply, Error> {
        Driver::check_request(NAME)?;
        let Service { connections, token, .. } = &*self.service;
        let body = call.body.to_string().into_bytes();
        let to = (Method::POST, &*call.path);
        let sent = connections.exchange(to, token.as_ref(), Some(body), deadline).await;
        sent.map_err(Error::from)
    }

    async fn exchange(&self, call: Call, request: Request<'_>) -> Result<Decision, Error> {
        let deadline = Deadline::connecting_within(self.deadline, request.time_to_connect());
        let reply = self.send(&call, deadline).await?;
        if reply::is_expired(&reply) {
            return self.expired(&request).await;
        }
        self.read(&request, &reply)
    }

    /// Sends a check that waits at the service, at most for the service's maximum wait.
    async fn wait(
        &self,
        request: Request<'_>,
        priority: u8,
        within: Span,
    ) -> Result<Decision, Error> {
        self.check(&request)?;
        let within = within.min(LONGEST_WAIT);
        let call = self.complete(Call::waiting(&self.limit, &request, priority, within)?);
        let deadline = Deadline::waiting(self.deadline, within);
        let reply = self.send(&call, deadline).await?;
        self.read(&request, &reply)
    }

    /// Returns the decision for an expired token: the current state, and no hold found.
    async fn expired(&self, request: &Request<'_>) -> Result<Decision, Error> {
        if let sluicegate_core::Operation::Cancel(_) = request.operation() {
            return Ok(Decision::cancelled(&self.limit, false));
        }
        let deadline = Deadline::after(self.deadline);
        let peek = self.complete(Call::peek(&self.limit, request)?);
        let reply = self.send(&peek, deadline).await?;
        let decision = self.read(request, &reply)?;
        let nothing = std::iter::repeat_n(None, self.limit.members().len());
        Ok(decision.of_hold(HoldFound::Unknown, nothing))
    }

    fn read(&self, request: &Request<'_>, reply: &Reply) -> Result<Decision, Error> {
        self.said(reply, reply::decision(&self.limit, request, reply))
    }

    fn id(&self) -> StoreId {
        self.service.id()
    }
}

impl OpenedLimit for RemoteLimit {
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
        match self.call(&request) {
            Ok(call) => Answer::Later(self.exchange(call, request)),
            Err(error) => Answer::Now(Err(error.into())),
        }
    }

    fn holders<'a>(
        &'a self,
        key: &'a [u8],
        page: Page<'a>,
    ) -> BoxFuture<'a, Result<Listing<Holder>, Error>> {
        Box::pin(self.list_holders(key, page))
    }

    fn bans<'a>(&'a self, page: Page<'a>) -> BoxFuture<'a, Result<Listing<BannedKey>, Error>> {
        Box::pin(self.list_bans(page))
    }

    fn keys<'a>(
        &'a self,
        prefix: &'a [u8],
        page: Page<'a>,
    ) -> BoxFuture<'a, Result<Listing<ListedKey>, Error>> {
        Box::pin(self.list_keys(prefix, page))
    }

    fn wait_in_queue<'a>(
        &'a self,
        request: Request<'a>,
        within: Span,
    ) -> Option<BoxFuture<'a, Result<Decision, Error>>> {
        let priority = request.ticket()?.priority;
        Some(Box::pin(self.wait(request, priority, within)))
    }
}

impl fmt::Debug for RemoteLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RemoteLimit").field(self.limit.name()).finish()
    }
}
