//! The caller that code runs for.

use std::future::Future;
use std::net::IpAddr;

use sluicegate_http::{Cidr, ClientAddress, Key, User};
use tokio::task::futures::TaskLocalFuture;

/// The caller that code runs for: `key = ip` and `key = user` of a limited function refer to it.
///
/// It is set inside a [scope](Caller::scope), which middleware opens around each request. A spawned
/// task is outside of that scope: open one for it.
///
/// ```
/// use sluicegate::{Caller, http::User};
///
/// fn who() -> Option<User> {
///     Caller::current().user().cloned()
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let caller = Caller::new().with_user(User::new("alice"));
/// let seen = caller.scope(async { who() }).await;
/// assert_eq!(seen, Some(User::new("alice")));
/// assert_eq!(who(), None);
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[must_use]
pub struct Caller {
    network: Option<Cidr>,
    user: Option<User>,
}

tokio::task_local! {
    static CALLER: Caller;
}

impl Caller {
    /// Returns a caller without an address and without a user.
    pub const fn new() -> Self {
        Self { network: None, user: None }
    }

    /// Sets the address. An IPv6 address counts as its /64 network, as in requests.
    pub fn with_ip(self, address: IpAddr) -> Self {
        self.with_network(ClientAddress::peer().network_of(address))
    }

    /// Sets the network, which counts as one subject.
    pub fn with_network(self, network: Cidr) -> Self {
        Self { network: Some(network), ..self }
    }

    /// Sets the user. A user with an empty name counts as no user.
    pub fn with_user(self, user: User) -> Self {
        Self { user: Some(user).filter(|user| !user.as_bytes().is_empty()), ..self }
    }

    /// Returns the key made from the caller's network.
    #[must_use]
    pub fn ip(&self) -> Option<Key> {
        self.network.map(Key::of_network)
    }

    /// Returns the user.
    #[must_use]
    pub const fn user(&self) -> Option<&User> {
        self.user.as_ref()
    }

    /// Returns the caller that this code runs for. Outside of any scope, it has no address and no user.
    pub fn current() -> Self {
        Self::with_current(Self::clone)
    }

    /// Calls `look` with the current caller, like [`Caller::current`] without cloning.
    pub fn with_current<R>(look: impl FnOnce(&Self) -> R) -> R {
        // Moved into the scope's closure, or still here outside of any scope.
        let mut look = Some(look);
        let seen = CALLER.try_with(|caller| look.take().map(|look| look(caller)));
        match (seen, look) {
            (Ok(Some(seen)), _) => seen,
            (_, Some(look)) => look(&Self::new()),
            // The closure runs at most once, with a value.
            (_, None) => unreachable!("only the closure takes it"),
        }
    }

    /// Runs a future for this caller.
    pub fn scope<F: Future>(self, future: F) -> impl Future<Output = F::Output> + use<F> {
        CALLER.scope(self, future)
    }

    /// [`Caller::scope`] with a named future type, to embed in another future.
    pub(crate) fn scoped<F: Future>(self, future: F) -> TaskLocalFuture<Self, F> {
        CALLER.scope(self, future)
    }

    /// Runs synchronous code for this caller.
    pub fn scope_sync<R>(self, code: impl FnOnce() -> R) -> R {
        CALLER.sync_scope(self, code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> Option<String> {
        Caller::with_current(|caller| {
            caller.user().map(|user| String::from_utf8_lossy(user.as_bytes()).into_owned())
        })
    }

    #[test]
    fn scopes_nest_and_end() {
        let alice = Caller::new().with_user(User::new("alice"));
        let bob = Caller::new().with_user(User::new("bob"));
        assert_eq!(name(), None);
        alice.scope_sync(|| {
            assert_eq!(name().as_deref(), Some("alice"));
            bob.scope_sync(|| assert_eq!(name().as_deref(), Some("bob")));
            assert_eq!(name().as_deref(), Some("alice"));
        });
        assert_eq!(name(), None);
    }

    #[tokio::test]
    async fn a_spawned_task_has_no_caller_until_it_is_given_one() {
        let alice = Caller::new().with_user(User::new("alice"));
        alice
            .scope(async {
                let current = Caller::current();
                assert_eq!(tokio::spawn(async { name() }).await.unwrap(), None);
                let with = tokio::spawn(current.scope(async { name() })).await.unwrap();
                assert_eq!(with.as_deref(), Some("alice"));
            })
            .await;
    }

    #[test]
    fn an_address_counts_as_its_network_and_an_empty_user_as_nobody() {
        let at = |address: &str| Caller::new().with_ip(address.parse().unwrap());
        assert_eq!(at("2001:db8::1"), at("2001:db8::2"));
        assert_eq!(at("192.0.2.1").ip(), Some(Key::new("192.0.2.1")));
        assert_ne!(at("192.0.2.1"), at("192.0.2.2"));
        assert_eq!(Caller::new().with_user(User::new("")), Caller::new());
    }
}
