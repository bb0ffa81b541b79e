//! A limit with numbers for each key as the target of requests.

use sluicegate_core::Error;

use super::{AtOnce, Question, Verb, WithNumbers};
use crate::ask::Ask;
use crate::keyed::Keyed;

/// A request about a key, by which a [`Keyed`] finds the numbers.
pub trait AboutKey {
    /// Returns the key; for several limits that are decided together, the first one. `None` for a list of keys.
    fn key(&self) -> Option<&[u8]>;

    /// Returns whether the request wants to be admitted, so that lists and switches answer it.
    fn wants_admission(&self) -> bool;
}

/// A request for the limit of a key.
#[derive(Clone, Debug)]
pub struct ToGet<'a>(Ask<'a>);

impl<T: WithNumbers> Keyed<T> {
    /// Returns the [`Limiter`](crate::Limiter) or [`Gate`](crate::Gate) that has the numbers of a key.
    ///
    /// It is for a limit whose numbers belong to another key than the counted one. An example is a tenant whose users are
    /// counted. It is also for joining gates. Its numbers never change, so get it for each request.
    ///
    /// ```
    /// use sluicegate::{Config, Registry};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let config = "limits: {user: {policies: [gcra 5/min]}, address: {policies: [gcra 10/s]}}";
    /// let registry = Registry::open(&Config::parse(config, "limits.yaml")?)?;
    /// let plans = registry.keyed("user", async |tenant: String| match tenant.as_str() {
    ///     "acme" => Ok(["gcra 50/min burst 10"]),
    ///     _ => Err("no such tenant"),
    /// });
    /// let login = plans.get("acme").await?.and(registry.gate("address"))?;
    /// assert!(login.check("acme/alice").and("192.0.2.7").await?.is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the error of the maker, as any request does.
    pub fn get<'k>(&self, key: impl Into<Ask<'k>>) -> Question<'_, Self, ToGet<'k>> {
        Question::new(self, ToGet(key.into()))
    }
}

impl<T: WithNumbers> Verb<Keyed<T>> for ToGet<'_> {
    type Output = T;
    type Error = Error;

    fn at_once(&self, keyed: &Keyed<T>) -> Option<Result<T, Error>> {
        keyed.known(self.0.key()).map(Ok)
    }

    async fn later(self, keyed: &Keyed<T>) -> Result<T, Error> {
        keyed.find(self.0.key()).await
    }
}

impl AtOnce for ToGet<'_> {}

impl<T: WithNumbers, V: Verb<T> + AboutKey> Verb<Keyed<T>> for V {
    type Output = V::Output;
    type Error = V::Error;

    const WORKS_ON: bool = <V as Verb<T>>::WORKS_ON;

    fn at_once(&self, keyed: &Keyed<T>) -> Option<Result<Self::Output, Self::Error>> {
        let target = match numbers_of(self, keyed) {
            Some(key) => keyed.known(key)?,
            None => keyed.base().clone(),
        };
        Verb::<T>::at_once(self, &target)
    }

    async fn later(self, keyed: &Keyed<T>) -> Result<Self::Output, Self::Error> {
        let key = numbers_of(&self, keyed).map(<[u8]>::to_vec);
        let target = match key {
            Some(key) => keyed.find(&key).await?,
            None => keyed.base().clone(),
        };
        Verb::<T>::later(self, &target).await
    }
}

/// Returns the key whose numbers a request needs, if any.
fn numbers_of<'v, T: WithNumbers>(verb: &'v impl AboutKey, keyed: &Keyed<T>) -> Option<&'v [u8]> {
    let needs = |key: &&[u8]| !verb.wants_admission() || !keyed.base().needs_no_numbers(key);
    verb.key().filter(needs)
}
