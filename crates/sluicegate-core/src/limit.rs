//! A named set of policies, which a call site refers to.

mod error;
mod kept;
mod member;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::algorithm::Algorithm;
use crate::ban::Ban;
use crate::failure::{RequestError, RequestErrorKind};
use crate::kernel::Rule;
use crate::name::{LimitName, PolicyName};
use crate::on_expiry::OnExpiry;
use crate::policy::{DeniedCharge, Enforcement, IntoPolicy, Policy};

pub use error::LimitError;
pub use member::{Identity, Member};

/// A named set of policies that are decided together, all or nothing.
///
/// ```
/// use sluicegate_core::Limit;
///
/// let limit = Limit::new("login", ["token_bucket 10/s burst 20", "fixed_window 100/d"])?;
/// let names: Vec<_> = limit.members().iter().map(|member| member.name().as_str()).collect();
/// assert_eq!(names, ["token_bucket", "fixed_window"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A limit has one subject, so all its policies evaluate one key. [`Limit::together`] combines
/// several limits into one, in which each part has its own subject.
///
/// Cloning is cheap: clones are one limit.
#[derive(Clone)]
pub struct Limit(Handle);

#[derive(Clone)]
enum Handle {
    Counted(Arc<Content>),
    /// Leaked on purpose: see [`Limit::keep`].
    Kept(&'static Content),
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Content {
    name: LimitName,
    members: Box<[Member]>,
    /// The names under which the parts store their states. Most limits have one part, themselves.
    parts: Box<[LimitName]>,
    /// The ban rule of each part.
    bans: Box<[Option<Ban>]>,
    /// The treatment of holds that are never settled, for each part.
    on_expiry: Box<[OnExpiry]>,
}

impl Limit {
    /// The maximum number of policies in a limit.
    pub const MAX_POLICIES: usize = 64;

    /// Creates a limit of one or more policies, each a [`Policy`] or its spec.
    ///
    /// ```
    /// use std::time::Duration;
    /// use sluicegate_core::{Limit, Policy, Rate};
    ///
    /// let limit = Limit::new("login", ["token_bucket 10/s burst 20", "fixed_window 100/d"])?;
    /// assert_eq!(limit.members().len(), 2);
    ///
    /// // Numbers that come from elsewhere need no spec.
    /// let bucket = Policy::token_bucket(Rate::new(10, Duration::from_secs(1))?, 20)?;
    /// let limit = Limit::new("login", [bucket])?;
    /// assert_eq!(limit.members()[0].policy().to_string(), "token_bucket 10/s burst 20");
    ///
    /// let error = Limit::new("login", ["token_bucket 10/m"]).unwrap_err();
    /// assert!(error.to_string().contains("write `min` for minutes"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Policies without a name are named after their algorithm: `gcra`, then `gcra-2`, `gcra-3` for
    /// repeats, in order.
    ///
    /// # Errors
    /// Returns an error if the name or a spec is invalid, or if the number of policies isn't from 1
    /// to [`Limit::MAX_POLICIES`]. Also returns an error if two policies have the same name, or
    /// names with the same short hash. The message says what to change.
    pub fn new<P: IntoPolicy>(
        name: impl AsRef<str>,
        policies: impl IntoIterator<Item = P>,
    ) -> Result<Self, LimitError> {
        let name = name.as_ref().parse()?;
        let policies: Result<Vec<Policy>, _> =
            policies.into_iter().map(IntoPolicy::into_policy).collect();
        Self::of_policies(name, policies?)
    }

    fn of_policies(name: LimitName, policies: Vec<Policy>) -> Result<Self, LimitError> {
        if policies.is_empty() {
            return Err(LimitError::Empty);
        }
        if policies.len() > Self::MAX_POLICIES {
            return Err(LimitError::TooMany { count: policies.len() });
        }
        let mut members: Vec<Member> = Vec::with_capacity(policies.len());
        let mut words: Vec<&'static str> = Vec::new();
        for (index, policy) in policies.into_iter().enumerate() {
            let name = policy.name().cloned().unwrap_or_else(|| {
                let word = policy.algorithm().keyword();
                words.push(word);
                default_name(word, words.iter().filter(|&&other| other == word).count())
            });
            let identity = Identity::new(&name, &policy);
            for earlier in &members {
                if earlier.name == name {
                    return Err(LimitError::DuplicateName { name, index });
                }
                if earlier.identity == identity {
                    return Err(LimitError::TagCollision {
                        first: earlier.name.clone(),
                        second: name,
                    });
                }
            }
            members.push(Member { name, policy, identity, part: 0, has_namesake: false });
        }
        let (parts, bans) = ([name.clone()].into(), [None].into());
        let on_expiry = [OnExpiry::Keep].into();
        Ok(Self::of(Content { parts, bans, on_expiry, name, members: members.into() }))
    }

    /// Combines limits into one that decides all or nothing. Each part has its own subject.
    ///
    /// An example is a login per address and per account. A part shares its states with the limit
    /// it was made from. [`Request::also`](crate::Request::also) sets the subjects after the first.
    ///
    /// ```
    /// use sluicegate_core::Limit;
    ///
    /// let by_address = Limit::new("address", vec!["gcra 10/s"])?;
    /// let by_account = Limit::new("account", vec!["gcra 5/min"])?;
    /// let login = Limit::together([by_address, by_account])?;
    /// assert_eq!(login.parts().len(), 2);
    /// assert_eq!(login.members()[1].part(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if there is no limit, or if two limits have the same name. Also returns an
    /// error if they have more than [`Limit::MAX_POLICIES`] policies in total.
    pub fn together(limits: impl IntoIterator<Item = Self>) -> Result<Self, LimitError> {
        let mut limits = limits.into_iter();
        let mut whole = limits.next().ok_or(LimitError::Empty)?.content().clone();
        let (mut members, mut parts) = (whole.members.into_vec(), whole.parts.into_vec());
        let (mut bans, mut on_expiry) = (whole.bans.into_vec(), whole.on_expiry.into_vec());
        for limit in limits {
            let limit = limit.content();
            if let Some(name) = limit.parts.iter().find(|name| parts.contains(name)) {
                return Err(LimitError::DuplicatePart { name: name.clone() });
            }
            let first = parts.len();
            parts.extend(limit.parts.iter().cloned());
            bans.extend(limit.bans.iter().copied());
            on_expiry.extend(limit.on_expiry.iter().copied());
            members.extend(limit.members.iter().cloned().map(|mut member| {
                member.part += u8::try_from(first).unwrap_or(u8::MAX);
                member
            }));
            if members.len() > Self::MAX_POLICIES {
                return Err(LimitError::TooMany { count: members.len() });
            }
        }
        if let [_, _, ..] = parts.as_slice() {
            whole.name = LimitName::joined(&parts);
        }
        let names: Vec<PolicyName> = members.iter().map(|member| member.name.clone()).collect();
        for member in &mut members {
            member.has_namesake |=
                names.iter().filter(|name| **name == member.name).nth(1).is_some();
        }
        let (members, parts, bans) = (members.into(), parts.into(), bans.into());
        let on_expiry = on_expiry.into();
        Ok(Self::of(Content { name: whole.name, members, parts, bans, on_expiry }))
    }

    /// Returns a limit with only some parts of this one, given by their indices in
    /// [`Limit::parts`].
    ///
    /// The parts are in the order given, and so are their policies. The result decides about the
    /// parts as this limit does. Its policies have namesakes if they have some in this limit. For
    /// stores that can't decide about all parts together.
    ///
    /// ```
    /// use sluicegate_core::Limit;
    ///
    /// let limit = |name: &str, spec: &str| -> Result<Limit, Box<dyn std::error::Error>> {
    ///     Ok(Limit::new(name, vec![spec])?)
    /// };
    /// let [a, b, c] = [limit("a", "gcra 1/s")?, limit("b", "gcra 2/s")?, limit("c", "gcra 3/s")?];
    /// let all = Limit::together([a.clone(), b, c.clone()])?;
    /// let some = all.only(&[2, 0]);
    /// assert_eq!(some.parts(), [c.name().clone(), a.name().clone()]);
    /// assert_eq!((some.name().as_str(), some.members().len()), ("c + a", 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// Panics if there is no part with such an index.
    #[must_use]
    pub fn only(&self, parts: &[usize]) -> Self {
        let content = self.content();
        let of_part = |(new, &old): (usize, &usize)| {
            let members = content.members.iter().filter(move |member| member.part() == old);
            members
                .cloned()
                .map(move |member| Member { part: u8::try_from(new).unwrap_or(u8::MAX), ..member })
        };
        let members = parts.iter().enumerate().flat_map(of_part).collect();
        let bans = parts.iter().map(|&part| content.bans[part]).collect();
        let on_expiry = parts.iter().map(|&part| content.on_expiry[part]).collect();
        let parts: Box<[LimitName]> =
            parts.iter().map(|&part| content.parts[part].clone()).collect();
        let name = match &*parts {
            [only] => only.clone(),
            several => LimitName::joined(several),
        };
        Self::of(Content { name, members, parts, bans, on_expiry })
    }

    /// Returns this limit for use with `others` that only some decisions include.
    ///
    /// A policy that shares its name with one of theirs [has a namesake](Member::has_namesake) in
    /// every decision. Others that are parts of this limit already are ignored.
    #[must_use]
    pub fn with_namesakes_of<'o>(&self, others: impl IntoIterator<Item = &'o Self>) -> Self {
        let mut content = self.content().clone();
        for other in others {
            if other.parts().iter().any(|part| content.parts.contains(part)) {
                continue;
            }
            for member in &mut content.members {
                member.has_namesake |= other.position(member.name.as_str()).is_some();
            }
        }
        Self::of(content)
    }

    /// Returns the limit's name. For several limits together, their names are joined with ` + `.
    #[must_use]
    pub fn name(&self) -> &LimitName {
        &self.content().name
    }

    /// Returns the policies with their names, in the order given.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.content().members
    }

    /// Returns the names of the parts, each of which has its own subject. Most limits have one
    /// part, themselves.
    #[must_use]
    pub fn parts(&self) -> &[LimitName] {
        &self.content().parts
    }

    /// Returns this limit with a ban rule for each of its parts. `None` turns bans off.
    ///
    /// ```
    /// use sluicegate_core::{Ban, Limit};
    ///
    /// let ban: Ban = "5/1min for 15min".parse()?;
    /// let limit = Limit::new("login", vec!["gcra 10/min"])?.banning(ban);
    /// assert_eq!(limit.ban(0), Some(&ban));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn banning(&self, ban: impl Into<Option<Ban>>) -> Self {
        let (mut content, ban) = (self.content().clone(), ban.into());
        content.bans.iter_mut().for_each(|of_part| *of_part = ban);
        Self::of(content)
    }

    /// Returns the ban rule of a part, by its index in [`Limit::parts`]; `None` if the part bans no
    /// subject.
    #[must_use]
    pub fn ban(&self, part: usize) -> Option<&Ban> {
        self.content().bans.get(part)?.as_ref()
    }

    /// Returns `true` if any part bans subjects.
    #[must_use]
    #[inline]
    pub fn has_bans(&self) -> bool {
        self.content().bans.iter().any(Option::is_some)
    }

    /// Sets what each part does with [holds](crate::Hold) that are never settled.
    #[must_use]
    pub fn with_on_expiry(&self, on_expiry: OnExpiry) -> Self {
        let mut content = self.content().clone();
        content.on_expiry.fill(on_expiry);
        Self::of(content)
    }

    /// Returns what a part does with holds that are never settled, by its index in
    /// [`Limit::parts`].
    #[must_use]
    pub fn on_expiry(&self, part: usize) -> OnExpiry {
        self.content().on_expiry.get(part).copied().unwrap_or_default()
    }

    /// Makes a limit with the same name and settings, and other policies.
    ///
    /// A limit that was made of several becomes one with a single part, which has the settings of
    /// the first.
    ///
    /// ```
    /// use sluicegate_core::Limit;
    ///
    /// let limit = Limit::new("login", ["gcra 5/min"])?.banning("3/1h for 1d".parse().ok());
    /// let looser = limit.with_policies(vec!["gcra 50/min".parse()?])?;
    /// assert_eq!((looser.name(), looser.ban(0)), (limit.name(), limit.ban(0)));
    /// assert_eq!(looser.members()[0].policy().to_string(), "gcra 50/min");
    ///
    /// let both = Limit::together([limit, Limit::new("search", ["gcra 1/s"])?])?;
    /// assert_eq!(both.with_policies(vec!["gcra 9/s".parse()?])?.name(), both.name());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`Limit::new`] about policies.
    pub fn with_policies(&self, policies: Vec<Policy>) -> Result<Self, LimitError> {
        Ok(Self::of_policies(self.name().clone(), policies)?.otherwise_as(self, 0))
    }

    /// Keeps these policies and copies the other settings from a part of `other`.
    ///
    /// These are its ban rule and its treatment of holds that are never settled. For code that
    /// changes a part's numbers.
    #[must_use]
    pub fn otherwise_as(&self, other: &Self, part: usize) -> Self {
        self.banning(other.ban(part).copied()).with_on_expiry(other.on_expiry(part))
    }

    /// Returns `true` if any part returns the units of holds that are never settled.
    #[must_use]
    #[inline]
    pub fn has_returns(&self) -> bool {
        self.content().on_expiry.contains(&OnExpiry::Return)
    }

    /// Returns the index of the first policy with this name.
    #[must_use]
    pub fn position(&self, name: &str) -> Option<usize> {
        self.members().iter().position(|member| member.name.as_str() == name)
    }

    /// Returns `true` if all policies support reservations.
    #[must_use]
    pub fn can_reserve(&self) -> bool {
        self.members().iter().all(|member| member.policy.rule().profile().can_reserve)
    }

    /// Returns `true` if units can be leased.
    ///
    /// Each policy must be a token bucket, GCRA, a leaky bucket or a fixed window. No policy may be
    /// `shadow` or charge denied requests, and the limit must not ban subjects.
    #[must_use]
    pub fn can_lease(&self) -> bool {
        !self.has_bans()
            && self.members().iter().map(Member::policy).all(|policy| {
                policy.rule().profile().can_lease
                    && policy.enforcement() == Enforcement::Enforced
                    && policy.denied_charge() == DeniedCharge::Free
            })
    }

    /// Returns `true` if a [share](crate::for_stores::Pace) of the rate can be leased.
    ///
    /// The limit [can lease](Self::can_lease), and its one policy is a token bucket, GCRA or a leaky
    /// bucket with a rate.
    #[must_use]
    pub fn can_pace(&self) -> bool {
        let [member] = self.members() else { return false };
        self.can_lease()
            && match member.policy().algorithm() {
                Algorithm::TokenBucket { rate, .. }
                | Algorithm::Gcra { rate, .. }
                | Algorithm::LeakyBucket { rate, .. } => rate.count() > 0,
                _ => false,
            }
    }

    /// Returns `true` if a policy counts units in flight. Each request must then
    /// [hold](crate::Request::hold) the units that it takes.
    #[must_use]
    pub fn has_permits(&self) -> bool {
        self.longest_hold().is_some()
    }

    /// Returns how long a request may hold its units, if a policy counts units in flight: the
    /// shortest time of these policies.
    #[must_use]
    pub fn longest_hold(&self) -> Option<Duration> {
        let holds = self.members().iter().filter_map(|member| match member.policy().rule() {
            Rule::Permits(permits) => Some(Duration::from_micros(permits.hold())),
            _ => None,
        });
        holds.min()
    }

    /// Returns the index of the policy with the queue in which a request can
    /// [wait](crate::Request::waiting).
    ///
    /// `None` unless exactly one policy has a queue. Shadows have none.
    #[must_use]
    pub fn only_queue(&self) -> Option<usize> {
        let mut queues = self.members().iter().enumerate().filter(|(_, member)| member.has_queue());
        let (index, _) = queues.next()?;
        queues.next().is_none().then_some(index)
    }

    /// Returns [`Limit::only_queue`] for a request that waits there.
    ///
    /// # Errors
    /// Returns an error of kind [`RequestErrorKind::Unsupported`] unless there is exactly one
    /// queue.
    pub(crate) fn queue(&self) -> Result<usize, RequestError> {
        self.only_queue().ok_or_else(|| {
            let name = self.name();
            let message = if self.members().iter().any(Member::has_queue) {
                format!(
                    "limit `{name}` has several queues, and a request waits in one: leave `queue` to one policy"
                )
            } else {
                format!("limit `{name}` has no queue: add `queue M` to its `concurrency` policy")
            };
            RequestError::new(RequestErrorKind::Unsupported, message)
        })
    }

    /// Returns `true` if this limit is a clone of `other`, not only equal to it.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        std::ptr::eq(self.content(), other.content())
    }

    fn of(content: Content) -> Self {
        Self(Handle::Counted(Arc::new(content)))
    }

    #[inline]
    fn content(&self) -> &Content {
        match &self.0 {
            Handle::Counted(content) => content,
            Handle::Kept(content) => content,
        }
    }
}

impl PartialEq for Limit {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || self.content() == other.content()
    }
}

impl Eq for Limit {}

impl fmt::Debug for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.content().fmt(f)
    }
}

fn default_name(word: &str, occurrence: usize) -> PolicyName {
    let text = if occurrence == 1 { word.to_owned() } else { format!("{word}-{occurrence}") };
    #[expect(
        clippy::expect_used,
        reason = "keywords of algorithms are valid names and short enough for a suffix"
    )]
    text.parse().expect("a valid name")
}
