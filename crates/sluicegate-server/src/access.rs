//! Decides which calls a caller may make, for all protocols.
//!
//! A protocol describes a request as [`Presented`]. [`Access::admit`] returns its [`Caller`], and [`Caller::may`]
//! answers for each limit that the request names. A [`Refusal`] says what was lacking, and the protocol translates it.
//!
//! | configuration | administrative calls | other calls |
//! | --- | --- | --- |
//! | no admin token, no clients | programs on this machine | all programs |
//! | an admin token | with the token | all programs |
//! | clients | with the admin token, or by the rights of a client | by the rights of a client, or with the admin token |
//!
//! The clients are those of the registry's configuration, so they follow its file.

mod call;
mod caller;
mod clients;
mod counts;
#[cfg(feature = "resp")]
mod login;
mod presented;
mod refusal;
mod tokens;

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use sluicegate::Registry;
use sluicegate::config::ClientConfig;

pub(crate) use call::Call;
pub(crate) use caller::Caller;
#[cfg(feature = "resp")]
pub(crate) use login::{Login, LoginError};
pub(crate) use presented::{Presented, PresentedToken};
pub(crate) use refusal::{Refusal, RefusalKind};
pub(crate) use tokens::Tokens;

use clients::Clients;
use counts::Counts;
#[cfg(feature = "resp")]
use login::Found;

/// Decides who may make a call.
pub(crate) struct Access {
    registry: Registry,
    tokens: Tokens,
    clients: RwLock<Arc<Clients>>,
    /// Counts of the requests whose caller is unknown.
    unknown: Counts,
    /// Counts of the requests with the admin token.
    admin: Counts,
}

impl Access {
    /// Creates the access of a service with these limits and clients.
    pub(crate) fn new(tokens: Tokens, registry: Registry) -> Self {
        let clients = RwLock::new(Arc::new(Clients::new(registry.clients(), &tokens, None)));
        Self { registry, tokens, clients, unknown: Counts::default(), admin: Counts::default() }
    }

    /// Returns `true` if administrative calls are open to every program on this machine.
    pub(crate) fn is_open(&self) -> bool {
        !self.tokens.has_admin() && self.clients().is_empty()
    }

    /// Returns the caller of a request, if it may make calls of this kind.
    ///
    /// If the request names limits, ask [`Caller::may`] for each.
    ///
    /// # Errors
    /// Returns a refusal for an unknown caller, and for one without the right to such calls.
    pub(crate) fn admit(&self, presented: &Presented<'_>, call: Call) -> Result<Caller, Refusal> {
        let found = self.find(presented, call);
        self.counted(&found, call)?;
        found
    }

    /// Counts a request. Returns its caller if one was found and may make calls of this kind.
    fn counted<'c>(
        &self,
        found: &'c Result<Caller, Refusal>,
        call: Call,
    ) -> Result<&'c Caller, Refusal> {
        let caller = found.as_ref().map_err(|refusal| {
            self.unknown.count_refusal(refusal.kind);
            refusal.clone()
        })?;
        match caller {
            Caller::Client(client) => client.counts().count_request(),
            Caller::Admin => self.admin.count_request(),
            Caller::Anyone | Caller::Local => {}
        }
        caller.may_make(call)?;
        Ok(caller)
    }

    /// Returns whether the caller of a request may make administrative calls too. Counts nothing.
    #[cfg(feature = "envoy")]
    pub(crate) fn may_administer(&self, caller: &Caller, presented: &Presented<'_>) -> bool {
        match caller {
            // Without clients, other calls don't look at the credentials.
            Caller::Anyone => self.find(presented, Call::Administer).is_ok(),
            known => known.can(Call::Administer),
        }
    }

    /// Returns the caller of a request on a connection, as [`Access::admit`] does. Looks it up again only when the
    /// configuration has changed.
    ///
    /// # Errors
    /// Returns the errors of [`Access::admit`].
    #[cfg(feature = "resp")]
    pub(crate) fn admit_on<'l>(
        &self,
        login: &'l mut Login,
        call: Call,
    ) -> Result<&'l Caller, Refusal> {
        let found = self.found(login);
        let caller = if call.is_administrative() { &found.administrative } else { &found.other };
        self.counted(caller, call)
    }

    /// Returns whether a connection has presented valid credentials, or needs none for calls that aren't administrative.
    #[cfg(feature = "resp")]
    pub(crate) fn knows(&self, login: &mut Login) -> bool {
        self.found(login).other.is_ok()
    }

    /// Verifies a token, and gives it to a connection. With a name, it must be that of the token's client, or `admin`. A
    /// refused login changes nothing.
    ///
    /// # Errors
    /// Returns an error if the service has no tokens, or no caller of this name has the token.
    #[cfg(feature = "resp")]
    pub(crate) fn log_in(
        &self,
        login: &mut Login,
        name: Option<&[u8]>,
        token: &[u8],
    ) -> Result<(), LoginError> {
        if self.is_open() {
            return Err(LoginError::NoTokens);
        }
        let is_local = || login.verify_local();
        let presented =
            Presented { token: PresentedToken::One(token), certificate: None, is_local: &is_local };
        let caller = self.find(&presented, Call::Administer).and_then(|caller| {
            let own = caller.name();
            if name.is_none_or(|name| own.is_some_and(|own| own.as_bytes() == name)) {
                Ok(())
            } else {
                Err(Refusal::wrong("the token doesn't belong to this name"))
            }
        });
        caller.map_err(|refusal| {
            self.unknown.count_refusal(refusal.kind);
            LoginError::Refused(refusal)
        })?;
        login.set_token(token);
        Ok(())
    }

    /// Returns the callers of a connection.
    #[cfg(feature = "resp")]
    fn found<'l>(&self, login: &'l mut Login) -> &'l Found {
        // Read first, so a change in between is noticed by the next request.
        let generation = self.registry.generation();
        let known = login.found.take().filter(|found| found.generation == generation);
        let found = known.unwrap_or_else(|| {
            let is_local = || login.verify_local();
            let presented = Presented {
                token: login.token().map_or(PresentedToken::None, PresentedToken::One),
                certificate: login.certificate.as_ref(),
                is_local: &is_local,
            };
            let [administrative, other] =
                [Call::Administer, Call::Take].map(|call| self.find(&presented, call));
            Found { generation, administrative, other }
        });
        login.found.insert(found)
    }

    fn find(&self, presented: &Presented<'_>, call: Call) -> Result<Caller, Refusal> {
        let clients = self.clients();
        if !clients.is_empty() {
            return self.authenticate(&clients, presented);
        }
        if !call.is_administrative() {
            return Ok(Caller::Anyone);
        }
        if !self.tokens.has_admin() {
            return (presented.is_local)().map(|()| Caller::Local).map_err(Refusal::forbidden);
        }
        match presented.token {
            PresentedToken::One(token) if self.tokens.is_admin(self.tokens.tag(token)) => {
                Ok(Caller::Admin)
            }
            PresentedToken::One(_) => Err(Refusal::wrong("the admin token is wrong")),
            PresentedToken::Malformed(why) => Err(Refusal::wrong(why)),
            PresentedToken::None => Err(Refusal::missing("this call needs the admin token")),
        }
    }

    /// Finds the caller by its token, or else by its certificate. So a wrong token is refused even with a certificate.
    fn authenticate(
        &self,
        clients: &Clients,
        presented: &Presented<'_>,
    ) -> Result<Caller, Refusal> {
        let client = match (&presented.token, presented.certificate) {
            (PresentedToken::Malformed(why), _) => return Err(Refusal::wrong(*why)),
            (PresentedToken::One(token), _) => {
                let tag = self.tokens.tag(token);
                if self.tokens.is_admin(tag) {
                    return Ok(Caller::Admin);
                }
                let client = clients.with_tag(tag);
                client.ok_or_else(|| Refusal::wrong("the token is wrong: no client has it"))?
            }
            (PresentedToken::None, Some(certificate)) => clients
                .with_certificate(certificate)
                .ok_or_else(|| Refusal::wrong("no client has a name of this certificate"))?,
            (PresentedToken::None, None) => {
                return Err(Refusal::missing("this call needs the token of a client"));
            }
        };
        Ok(Caller::Client(Arc::clone(client)))
    }

    /// Returns the clients in force.
    fn clients(&self) -> Arc<Clients> {
        let configured = self.registry.clients();
        let known = Arc::clone(&self.clients.read().unwrap_or_else(PoisonError::into_inner));
        if known.are_of(&configured) {
            return known;
        }
        let mut known = self.clients.write().unwrap_or_else(PoisonError::into_inner);
        // Another request may have taken over the same configuration, or a newer one.
        let configured = self.registry.clients();
        if !known.are_of(&configured) {
            *known = Arc::new(Clients::new(configured, &self.tokens, Some(&known)));
        }
        Arc::clone(&known)
    }
}

/// Reads the numbers of requests and refusals at each scrape. Its labels are the names of configured clients.
#[derive(Debug)]
pub(crate) struct AccessCollector(pub(crate) Arc<Access>);

impl Collector for AccessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Self(access) = self;
        let clients = access.clients();
        let has_admin = access.tokens.has_admin();
        let admin = has_admin.then_some((ClientConfig::ADMIN, &access.admin));
        let named = || clients.iter().map(|client| (client.name(), client.counts())).chain(admin);
        let help = "Requests of a client, or with the admin token";
        let mut requests =
            encoder.encode_descriptor("client_requests", help, None, MetricType::Counter)?;
        for (client, counts) in named() {
            let number = ConstCounter::new(counts.requests());
            number.encode(requests.encode_family(&[("client", client)])?)?;
        }
        let help = "Requests that were refused because of their caller, by client and reason";
        let mut refused =
            encoder.encode_descriptor("refused_requests", help, None, MetricType::Counter)?;
        let unknown = RefusalKind::ALL.map(|kind| ("", &access.unknown, kind));
        let forbidden =
            clients.iter().map(|client| (client.name(), client.counts(), RefusalKind::Forbidden));
        for (client, counts, kind) in unknown.into_iter().chain(forbidden) {
            let labels = [("client", client), ("reason", kind.as_str())];
            ConstCounter::new(counts.refusals(kind)).encode(refused.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

/// Omits the tokens.
impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
