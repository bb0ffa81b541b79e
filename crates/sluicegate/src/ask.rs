//! A key and its costs: the argument of a limiter's methods.

mod key;
mod made;

use std::borrow::Cow;
use std::time::Duration;

use sluicegate_core::{
    Cost, Costs, Error, Idempotency, Limit, LimitName, Member, RequestError, RequestErrorKind,
    RequestId, RequestIdError, Timestamp,
};
#[cfg(feature = "config")]
use sluicegate_http::Key;
use smallvec::SmallVec;

use key::AskKey;
use made::Made;

/// A key and the request's cost: the argument of the methods of [`Limiter`](crate::Limiter) and [`Gate`](crate::Gate).
///
/// Text, bytes, integers, IP addresses, and tuples of 2 to 4 of them convert to an `Ask`. Values of your own do if they
/// implement [`KeyPart`](crate::question::KeyPart). `limiter.check("alice")` charges each policy's own cost, which is 1 by
/// default. [`Ask::cost`] sets one cost for all policies. [`Ask::cost_of`] sets the cost of one policy by its name. The
/// policies that aren't named then cost nothing, unless [`Ask::cost`] sets their cost. Costs are validated when the
/// request is sent. An invalid cost is an [`Error::Request`], regardless of the limiter's setting for store failures.
///
/// ```
/// use sluicegate::{Ask, Limiter, MemoryStore};
///
/// let limiter = Limiter::new(
///     MemoryStore::new(),
///     sluicegate::Limit::new("llm", ["fixed_window 60/min as requests", "fixed_window 90000/min as tokens"])?,
/// );
/// let left = |decision: sluicegate::Decision| {
///     ["requests", "tokens"].map(|name| decision.outcome(name).unwrap().remaining().unwrap())
/// };
/// let ask = Ask::new("alice").cost_of("requests", 1).cost_of("tokens", 1_200);
/// assert_eq!(left(limiter.check(ask).now()?), [59, 88_800]);
/// // What isn't named isn't touched: this gives tokens back, but no request.
/// assert_eq!(left(limiter.refund(Ask::new("alice").cost_of("tokens", 300)).now()?), [59, 89_100]);
/// // One unit of every other policy.
/// assert_eq!(left(limiter.check(Ask::new("alice").cost(1).cost_of("tokens", 100)).now()?), [58, 89_000]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// An integer makes the key of its decimal text, and an address that of its canonical text. The parts of a tuple are
/// separated by `|`. A `\` precedes each `|` and `\` inside a part, so different tuples never make the same key. Keys of
/// up to 40 bytes need no allocation.
///
/// ```
/// use std::net::{IpAddr, Ipv4Addr};
/// use sluicegate::{Ask, Limiter, MemoryStore};
///
/// let limiter = Limiter::new(MemoryStore::new(), sluicegate::Limit::new("api", ["fixed_window 2/d"])?);
/// let (tenant, user_id) = ("acme", 42_u64);
/// assert_eq!(limiter.check((tenant, user_id)).now()?.remaining(), Some(1));
/// assert_eq!(limiter.check("acme|42").now()?.remaining(), Some(0), "the key is this text");
/// assert_eq!(limiter.check(user_id).now()?.remaining(), Some(1));
/// assert_eq!(Ask::from(("a|b", IpAddr::from(Ipv4Addr::LOCALHOST))).key(), br"a\|b|127.0.0.1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Ask<'a> {
    key: AskKey<'a>,
    terms: Terms<'a>,
    at: Option<Timestamp>,
    once: Option<AskedOnce>,
    /// The keys and terms after the first, for limits that are decided together.
    also: SmallVec<[(AskKey<'a>, Terms<'a>); 1]>,
    /// Policies that charge nothing for this request, as bits by their index in the limit.
    spared: u64,
    priority: u8,
    /// The limits that the caller named too and that aren't asked, with their keys; for observers.
    unasked: Option<Box<Unasked<'a>>>,
}

/// Limits that a gate doesn't ask about a request, each with its key.
pub(crate) type Unasked<'a> = [(LimitName, Cow<'a, [u8]>)];

/// The id of the request, and how long a repeat is recognized.
#[derive(Clone, Copy, Debug)]
struct AskedOnce {
    id: Result<RequestId, RequestIdError>,
    lasts: Duration,
}

/// The request's cost under the policies of one limit.
#[derive(Clone, Debug, Default)]
struct Terms<'a> {
    whole: DefaultCost,
    named: SmallVec<[(&'a str, u64); 2]>,
    made: Made<'a>,
}

/// The cost under every policy that isn't named.
#[derive(Clone, Copy, Debug, Default)]
enum DefaultCost {
    /// The policy's own cost, or 0 if other policies are named.
    #[default]
    Unsaid,
    /// The policy's own cost, even if other policies are named.
    Own,
    Units(u64),
    Zero,
    /// The limit is not asked.
    NotAsked,
}

impl<'a> Ask<'a> {
    /// Default time for which a repeat is recognized by the [id](Ask::request_id) of its request.
    pub const KNOWN_FOR: Duration = Duration::from_secs(60);

    /// Asks about `key`, at the policies' own costs.
    pub fn new<K: AsRef<[u8]> + ?Sized>(key: &'a K) -> Self {
        Self::of(AskKey::Given(key.as_ref()))
    }

    /// Asks about a key made from a request, at the policies' own costs. Unlike plain bytes, such a
    /// key knows the client's network, which the allow and block lists of a [`Gate`](crate::Gate)
    /// match.
    #[cfg(feature = "config")]
    pub fn from_key(key: &'a Key) -> Self {
        let mut ask = Self::new(key.as_bytes());
        ask.terms.made = Some(key);
        ask
    }

    /// Asks about bytes without a client's network; `like` is a key without one.
    #[cfg(feature = "macros")]
    #[inline]
    pub(crate) fn without_network(key: &'a [u8], like: &'a Key) -> Self {
        let mut ask = Self::new(key);
        ask.terms.made = Some(like);
        ask
    }

    /// Asks nothing: for one of several limits that are decided together but that doesn't concern
    /// the request. Its policies charge nothing and refuse nothing.
    pub fn nothing() -> Self {
        let mut ask = Self::new("");
        ask.terms.made = made::no_key();
        ask.terms.whole = DefaultCost::NotAsked;
        ask
    }

    /// Leaves only the limit at this index to ask, of several that are decided together.
    #[cfg(feature = "config")]
    pub(crate) fn only(mut self, index: usize) -> Self {
        let nothing = || {
            let Self { key, terms, .. } = Self::nothing();
            (key, terms)
        };
        if index != 0 {
            (self.key, self.terms) = nothing();
        }
        for (at, also) in (1..).zip(&mut self.also) {
            if at != index {
                *also = nothing();
            }
        }
        self
    }

    /// Sets the cost under policies that aren't named to their own.
    pub(crate) const fn own_otherwise(mut self) -> Self {
        self.terms.whole = DefaultCost::Own;
        self
    }

    /// Sets the cost under policies that aren't named to 0.
    pub(crate) const fn nothing_otherwise(mut self) -> Self {
        self.terms.whole = DefaultCost::Zero;
        self
    }

    #[inline]
    fn of(key: AskKey<'a>) -> Self {
        let terms =
            Terms { whole: DefaultCost::Unsaid, named: SmallVec::new(), made: Made::default() };
        Self {
            key,
            terms,
            at: None,
            once: None,
            also: SmallVec::new(),
            spared: 0,
            priority: 0,
            unasked: None,
        }
    }

    /// Sets the cost under every policy that [`Ask::cost_of`] doesn't name: from 1 to 2^53 − 1
    /// units.
    pub const fn cost(mut self, units: u64) -> Self {
        self.terms.whole = DefaultCost::Units(units);
        self
    }

    /// Sets the cost under the policy named `policy`: from 0 to 2^53 − 1 units. A policy with cost
    /// 0 is not charged and never refuses. Neither are policies that aren't named, unless
    /// [`Ask::cost`] sets their cost. A reset looks at no cost.
    pub fn cost_of(mut self, policy: &'a str, units: u64) -> Self {
        self.terms.named.push((policy, units));
        self
    }

    /// Adds the key and cost for the next of several limits that are decided
    /// [together](sluicegate_core::Limit::together).
    ///
    /// ```
    /// use sluicegate::{Ask, Limit, Limiter, MemoryStore};
    ///
    /// let login = Limit::together([
    ///     sluicegate::Limit::new("address", ["gcra 10/s"])?,
    ///     sluicegate::Limit::new("account", ["gcra 5/min"])?,
    /// ])?;
    /// let limiter = Limiter::new(MemoryStore::new(), login);
    /// let decision = limiter.check(Ask::new("192.0.2.7").and(Ask::new("alice"))).now()?;
    /// assert!(decision.is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn and(mut self, next: impl Into<Self>) -> Self {
        let next = next.into();
        self.also.push((next.key, next.terms));
        self.also.extend(next.also);
        self.once = self.once.or(next.once);
        self
    }

    /// Sets the time at which the request is evaluated, for a limiter with
    /// [`TimeSource::Injected`](sluicegate_core::TimeSource::Injected).
    pub const fn at(mut self, time: Timestamp) -> Self {
        self.at = Some(time);
        self
    }

    /// Sets the priority with which the request [waits](crate::question::Question::within) in a queue: from 0, the
    /// highest and the default, to 15. One beyond the lowest of the queue counts as that.
    pub const fn priority(mut self, priority: u8) -> Self {
        self.priority = priority;
        self
    }

    pub(crate) const fn priority_of(&self) -> u8 {
        self.priority
    }

    /// Gives the request an id of 1 to 255 bytes, so that a repeat is not charged again.
    ///
    /// Once the request was allowed, a repeat gets the same decision and is charged nothing, for a minute by default
    /// ([`Ask::known_for`]). So a request whose answer was lost can be repeated. An id works for a check, a charge, a
    /// hold and a grant of up to a number of units. A denial isn't remembered.
    ///
    /// The id's scope is the limit and the key; for several limits together, those of the first. An id that is repeated
    /// with another operation, cost, key or hold is a [`Conflict`](RequestErrorKind::Conflict). A key with 65,536 ids
    /// is [`Full`](RequestErrorKind::Full). Limits that are decided together have to be [on one
    /// server](RequestErrorKind::Unsupported), or in one slot of a cluster.
    ///
    /// ```
    /// use std::time::Duration;
    /// use sluicegate::{Ask, Limiter, MemoryStore};
    /// use sluicegate::error::RequestErrorKind;
    ///
    /// let limit = sluicegate::Limit::new("mail", ["fixed_window 100/h"])?;
    /// let limiter = Limiter::new(MemoryStore::new(), limit);
    /// let ask = || Ask::new("alice").cost(30).request_id("mail-4711");
    /// assert_eq!(limiter.check(ask()).now()?.remaining(), Some(70));
    /// let again = limiter.check(ask().known_for(Duration::from_secs(60 * 60))).now()?;
    /// assert!(again.is_allowed() && again.is_repeat());
    /// assert_eq!(limiter.peek("alice").now()?.remaining(), Some(70));
    ///
    /// let error = limiter.check(ask().cost(31)).now().unwrap_err();
    /// assert_eq!(error.as_request().map(|it| it.kind()), Some(RequestErrorKind::Conflict));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn request_id(mut self, id: impl AsRef<[u8]>) -> Self {
        let lasts = self.once.map_or(Self::KNOWN_FOR, |once| once.lasts);
        self.once = Some(AskedOnce { id: RequestId::of(id), lasts });
        self
    }

    /// Sets for how long a repeat of the request is known by its [id](Ask::request_id): 1 s to a day,
    /// counted from the decision. Default: a minute. Without an id it has no effect.
    pub fn known_for(mut self, lasts: Duration) -> Self {
        if let Some(once) = &mut self.once {
            once.lasts = lasts;
        }
        self
    }

    /// Sets the cost under these policies to 0, overriding all other settings. The policies are bits by their index in
    /// the limit.
    pub(crate) const fn sparing(mut self, policies: u64) -> Self {
        self.spared = policies;
        self
    }

    /// Returns the key; for limits that are decided together, the first key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns the key for the limit at `index`, empty if there is no such limit.
    pub(crate) fn key_of(&self, index: usize) -> Cow<'a, [u8]> {
        match index.checked_sub(1) {
            Some(also) => self.also.get(also).map_or(Cow::Borrowed(&[]), |(key, _)| key.to_cow()),
            None => self.key.to_cow(),
        }
    }

    /// Replaces the key for the limit at `index`.
    pub(crate) fn set_key(&mut self, index: usize, key: Vec<u8>) {
        let replaced = match index.checked_sub(1) {
            Some(also) => self.also.get_mut(also).map(|(key, _)| key),
            None => Some(&mut self.key),
        };
        if let Some(replaced) = replaced {
            *replaced = key.into();
        }
    }

    /// Returns the keys after the first.
    #[inline]
    pub(crate) fn also(&self) -> SmallVec<[&[u8]; 2]> {
        self.also.iter().map(|(key, _)| &**key).collect()
    }

    /// Returns the keys, one for each limit that is asked.
    pub(crate) fn keys(&self) -> SmallVec<[&[u8]; 2]> {
        std::iter::once(&*self.key).chain(self.also.iter().map(|(key, _)| &**key)).collect()
    }

    /// Adds the limits that the caller named but that aren't asked.
    pub(crate) fn beside(mut self, unasked: impl Into<Box<Unasked<'a>>>) -> Self {
        self.unasked = Some(unasked.into());
        self
    }

    /// Returns the limits that the caller named too and that aren't asked.
    pub(crate) fn unasked(&self) -> &Unasked<'a> {
        self.unasked.as_deref().unwrap_or_default()
    }

    /// Returns one `Ask` for several limits that are decided together, from one each.
    pub(crate) fn each(&self) -> impl Iterator<Item = Self> {
        let first = (self.key.clone(), self.terms.clone());
        std::iter::once(first).chain(self.also.iter().cloned()).map(|(key, terms)| Ask {
            key,
            terms,
            at: self.at,
            priority: self.priority,
            once: self.once,
            ..Ask::new("")
        })
    }

    /// Returns the subjects: each key, and whether its limit is asked.
    pub(crate) fn subjects(&self) -> impl ExactSizeIterator<Item = Subject<'_>> {
        (0..self.len()).map(move |index| {
            let (key, terms) = match index.checked_sub(1) {
                Some(also) => (&self.also[also].0, &self.also[also].1),
                None => (&self.key, &self.terms),
            };
            Subject { key, made: terms.made, is_nothing: terms.is_nothing() }
        })
    }

    /// Returns whether one of the limits is not asked.
    #[inline]
    pub(crate) fn has_nothing(&self) -> bool {
        self.terms.is_nothing() || self.also.iter().any(|(_, terms)| terms.is_nothing())
    }

    /// Returns the number of limits, including those not asked.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        1 + self.also.len()
    }

    /// Returns the id of the request.
    #[inline]
    pub(crate) fn once(&self) -> Result<Option<Idempotency>, Error> {
        let Some(AskedOnce { id, lasts }) = self.once else { return Ok(None) };
        match id {
            Ok(id) => Ok(Some(Idempotency { id, lasts })),
            Err(error) => Err(RequestError::from(error).into()),
        }
    }

    pub(crate) const fn time(&self) -> Option<Timestamp> {
        self.at
    }

    /// Returns the costs in the order of the limit; `each` stores them if they differ.
    #[inline]
    pub(crate) fn costs<'e>(
        &self,
        limit: &Limit,
        each: &'e mut SmallVec<[u64; 4]>,
    ) -> Result<Costs<'e>, Error> {
        if self.terms.named.is_empty() && self.also.is_empty() && self.spared == 0 {
            match self.terms.whole {
                DefaultCost::Unsaid | DefaultCost::Own => return Ok(Costs::Own),
                DefaultCost::Units(units) => return Ok(Costs::Same(cost(units)?)),
                DefaultCost::Zero | DefaultCost::NotAsked => {}
            }
        }
        each.extend(limit.members().iter().map(|member| member.policy().cost().get()));
        self.terms.write(limit, 0, each)?;
        for (index, (_, terms)) in self.also.iter().enumerate() {
            terms.write(limit, index + 1, each)?;
        }
        for (index, units) in each.iter_mut().enumerate() {
            *units = if self.spared >> index & 1 == 0 { *units } else { 0 };
        }
        Ok(Costs::Each(each))
    }
}

/// The subject of one of the limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) made: Made<'a>,
    pub(crate) is_nothing: bool,
}

impl Terms<'_> {
    fn is_nothing(&self) -> bool {
        matches!(self.whole, DefaultCost::NotAsked) && self.named.is_empty()
    }

    /// Writes the costs of the policies of one part of the limit.
    fn write(&self, limit: &Limit, part: usize, each: &mut [u64]) -> Result<(), Error> {
        let members =
            || limit.members().iter().enumerate().filter(|(_, member)| member.part() == part);
        let whole = match self.whole {
            DefaultCost::Unsaid if self.named.is_empty() => None,
            DefaultCost::Own => None,
            DefaultCost::Units(units) => Some(cost(units)?.get()),
            DefaultCost::Unsaid | DefaultCost::Zero | DefaultCost::NotAsked => Some(0),
        };
        if let Some(units) = whole {
            members().for_each(|(index, _)| each[index] = units);
        }
        for (index, (name, units)) in self.named.iter().enumerate() {
            if self.named[..index].iter().any(|(earlier, _)| earlier == name) {
                return Err(invalid(format!(
                    "the cost of policy `{name}` is set twice: set it once"
                )));
            }
            let found = members().find(|(_, member)| member.name().as_str() == *name);
            let Some((position, _)) = found else {
                return Err(no_policy(limit, Some(part), name));
            };
            if *units > Cost::MAX.get() {
                return Err(invalid(format!(
                    "the cost of policy `{name}` is {units}, but must be a whole number from 0 to {}",
                    Cost::MAX
                )));
            }
            each[position] = *units;
        }
        Ok(())
    }
}

#[inline]
fn cost(units: u64) -> Result<Cost, Error> {
    Cost::new(units).map_err(|error| invalid(error.to_string()))
}

/// Returns the error for a policy that a limit doesn't have, or one part of it.
#[cold]
pub(crate) fn no_policy(limit: &Limit, part: Option<usize>, policy: &str) -> Error {
    let is_meant = |member: &&Member| part.is_none_or(|part| member.part() == part);
    let members = limit.members().iter().filter(is_meant);
    let names: Vec<_> = members.map(|member| member.name().as_str()).collect();
    let limit = part.and_then(|part| limit.parts().get(part)).unwrap_or_else(|| limit.name());
    invalid(format!(
        "limit `{limit}` has no policy `{}`: its policies are {}",
        policy.escape_debug(),
        names.join(", ")
    ))
}

#[cold]
fn invalid(message: String) -> Error {
    RequestError::new(RequestErrorKind::Invalid, message).into()
}

#[cfg(test)]
mod tests;
