//! The Rust kernels over a plain map: the shortest path from a request to its answer.

use std::collections::HashMap;
use std::future::{Future, Pending, ready};
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use sluicegate_core::for_stores::{Book, Identity, Now, Step, Stored, step_with_books};
use sluicegate_core::{
    Answer, Ban, BoxFuture, Clock as _, Costs, Decision, Error, Holder, Limit, Listing,
    ManualClock, Member, OnExpiry, OpenOptions, OpenedLimit, Operation, Page, Policy, Request,
    Store, StoreError, StoreId, TimeSource,
};

use crate::reference::Clock;

/// A store of one limit without key expiry, memory bounds or threads.
#[derive(Clone, Debug)]
pub struct Kernels {
    limit: Limit,
    clock: Clock,
    states: HashMap<StateKey, Stored>,
    books: HashMap<(usize, Vec<u8>), Book>,
}

/// The key of a state: the limit's part, its subject and the policy.
pub type StateKey = (usize, Vec<u8>, Identity);

impl Kernels {
    /// Creates a store for one limit.
    ///
    /// # Panics
    /// Panics if the policies can't form one limit.
    #[must_use]
    pub fn new(policies: Vec<Policy>, clock: Clock) -> Self {
        Self::of_limit(limit_of(policies), clock)
    }

    /// Creates a store for one limit, which may consist of several parts.
    #[must_use]
    pub fn of_limit(limit: Limit, clock: Clock) -> Self {
        Self { limit, clock, states: HashMap::new(), books: HashMap::new() }
    }

    /// Changes the policies and keeps the consumed units.
    ///
    /// # Panics
    /// Panics if the policies can't form one limit.
    pub fn set_policies(&mut self, policies: Vec<Policy>) {
        self.limit = limit_of(policies).otherwise_as(&self.limit, 0);
    }

    /// Bans keys of the limit that are denied too often.
    #[must_use]
    pub fn banning(mut self, ban: Option<Ban>) -> Self {
        self.limit = self.limit.banning(ban);
        self
    }

    /// Sets the limit's rule for holds that expire without being settled.
    #[must_use]
    pub fn with_on_expiry(mut self, on_expiry: OnExpiry) -> Self {
        self.limit = self.limit.with_on_expiry(on_expiry);
        self
    }

    /// Returns the policies as a limit.
    #[must_use]
    pub const fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Returns all stored states.
    #[must_use]
    pub const fn states(&self) -> &HashMap<StateKey, Stored> {
        &self.states
    }

    /// Returns the stored states of one subject of a part.
    #[must_use]
    pub fn of(&self, part: usize, subject: &[u8]) -> Vec<(Identity, Stored)> {
        let mine =
            self.states.iter().filter(|((other, key, _), _)| *other == part && key == subject);
        let mut states: Vec<_> = mine.map(|((.., id), state)| (*id, state.clone())).collect();
        states.sort_by_key(|(id, _)| *id);
        states
    }

    /// Restores the states of some subjects from an earlier store.
    pub fn put_back(&mut self, earlier: &Self, subjects: &[(usize, Vec<u8>)]) {
        for (part, subject) in subjects {
            self.states.retain(|(other, key, _), _| other != part || key != subject);
            for (id, state) in earlier.of(*part, subject) {
                self.states.insert((*part, subject.clone(), id), state);
            }
        }
    }

    /// Decides one request.
    ///
    /// # Errors
    /// Returns the errors of [`step_with_books`].
    pub fn decide(
        &mut self,
        now: u64,
        key: &[u8],
        operation: Operation<'_>,
        costs: Costs<'_>,
    ) -> Result<Decision, Error> {
        self.ask(now, &Request::new(operation, key).costs(costs))
    }

    /// Decides one request about one subject for each part of the limit.
    ///
    /// # Errors
    /// Returns the errors of [`step_with_books`].
    pub fn decide_together(
        &mut self,
        now: u64,
        subjects: &[&[u8]],
        operation: Operation<'_>,
        costs: Costs<'_>,
    ) -> Result<Decision, Error> {
        let (key, also) =
            subjects.split_first().map_or((&[][..], subjects), |(key, also)| (*key, also));
        self.ask(now, &Request::new(operation, key).also(also).costs(costs))
    }

    /// Decides any request at `now`, in µs.
    ///
    /// # Errors
    /// Returns the errors of [`step_with_books`].
    pub fn ask(&mut self, now: u64, request: &Request<'_>) -> Result<Decision, Error> {
        let max_clock_back = match self.clock {
            Clock::Own { max_clock_back_us } => Some(max_clock_back_us),
            Clock::Injected => None,
        };
        let now = Now { micros: now, max_clock_back };
        let limit = self.limit.clone();
        let key = |member: &Member| {
            (member.part(), request.subject(member.part()).to_vec(), member.identity())
        };
        let states = &mut self.states;
        let books =
            Shelf { books: &mut self.books, key: |part| (part, request.subject(part).to_vec()) };
        decide(&limit, request, now, books, |member, write| match write {
            None => states.get(&key(member)).cloned(),
            Some(Some(state)) => states.insert(key(member), state),
            Some(None) => states.remove(&key(member)),
        })
    }
}

/// The hold books of a request's subjects, by part.
struct Shelf<'b, K, F> {
    books: &'b mut HashMap<K, Book>,
    key: F,
}

impl<K: Eq + Hash, F: Fn(usize) -> K> Shelf<'_, K, F> {
    fn read(&self, limit: &Limit) -> Vec<Book> {
        let parts = 0..limit.parts().len();
        parts.map(|part| self.books.get(&(self.key)(part)).cloned().unwrap_or_default()).collect()
    }

    fn write(&mut self, books: Vec<Book>, step: &Step) {
        for (part, book) in books.into_iter().enumerate() {
            if step.forgets() {
                if let Some(kept) = self.books.get_mut(&(self.key)(part)) {
                    kept.forget_holds();
                }
            } else if step.books & (1 << part) != 0 {
                self.books.insert((self.key)(part), book);
            }
        }
    }
}

/// Calls [`step_with_books`] over any map of states. `states` is called with `None` to read a
/// policy's state, otherwise to store or remove it.
fn decide<K: Eq + Hash>(
    limit: &Limit,
    request: &Request<'_>,
    now: Now,
    mut shelf: Shelf<'_, K, impl Fn(usize) -> K>,
    mut states: impl FnMut(&Member, Option<Option<Stored>>) -> Option<Stored>,
) -> Result<Decision, Error> {
    let members = limit.members();
    let mut held: Vec<Option<Stored>> = members.iter().map(|member| states(member, None)).collect();
    let mut books = shelf.read(limit);
    let step = step_with_books(limit, request, now, &mut held, &mut books)?;
    shelf.write(books, &step);
    for (index, (member, held)) in members.iter().zip(held).enumerate() {
        if step.changed & (1 << index) != 0 {
            states(member, Some(held));
        }
    }
    Ok(step.decision)
}

/// The simplest possible store: a map under one lock, from which no state is ever removed. Clones
/// share one store.
#[derive(Clone, Debug, Default)]
pub struct MapStore {
    states: Arc<Mutex<HashMap<MapKey, Stored>>>,
    books: Arc<Mutex<HashMap<BookKey, Book>>>,
    clock: Arc<ManualClock>,
}

/// The time source, the limit's name, the subject and the policy.
type MapKey = (TimeSource, String, Vec<u8>, Identity);
/// A [`MapKey`] without the policy.
type BookKey = (TimeSource, String, Vec<u8>);

/// A limit that a [`MapStore`] has opened.
#[derive(Clone, Debug)]
pub struct MapLimit {
    store: MapStore,
    limit: Limit,
    time: TimeSource,
}

impl MapStore {
    /// Returns the clock for requests without a time. It stands still until it is moved.
    #[must_use]
    pub fn clock(&self) -> &ManualClock {
        &self.clock
    }
}

impl MapLimit {
    fn decide(&self, request: &Request<'_>) -> Result<Decision, Error> {
        let is_injected = self.time != TimeSource::Store;
        request.validate_time(&self.limit, is_injected)?;
        let now = Now {
            micros: request.time().unwrap_or_else(|| self.store.clock.now()).as_micros(),
            max_clock_back: (!is_injected).then_some(5_000_000),
        };
        let key = |member: &Member| {
            let name = self.limit.parts()[member.part()].to_string();
            (self.time.clone(), name, request.subject(member.part()).to_vec(), member.identity())
        };
        let mut states = self.store.states.lock().unwrap_or_else(PoisonError::into_inner);
        if let Operation::Reset = request.operation() {
            // Remove the states of former policies too; the limit's own policies keep their leased
            // units.
            let subjects = self.limit.parts().iter().enumerate();
            let subjects: Vec<_> =
                subjects.map(|(part, name)| (name.as_str(), request.subject(part))).collect();
            let own: Vec<MapKey> = self.limit.members().iter().map(key).collect();
            states.retain(|stored, _| {
                let (time, limit, subject, _) = stored;
                *time != self.time
                    || !subjects.contains(&(limit.as_str(), subject.as_slice()))
                    || own.contains(stored)
            });
        }
        let mut books = self.store.books.lock().unwrap_or_else(PoisonError::into_inner);
        let shelf = Shelf {
            books: &mut *books,
            key: |part: usize| {
                let name = self.limit.parts()[part].to_string();
                (self.time.clone(), name, request.subject(part).to_vec())
            },
        };
        decide(&self.limit, request, now, shelf, |member, write| match write {
            None => states.get(&key(member)).cloned(),
            Some(Some(state)) => states.insert(key(member), state),
            Some(None) => states.remove(&key(member)),
        })
    }

    fn list_holders(&self, key: &[u8], page: &Page<'_>) -> Result<Listing<Holder>, Error> {
        let is_injected = self.time != TimeSource::Store;
        Listing::<Holder>::validate(&self.limit, page, is_injected)?;
        let now = page.time().unwrap_or_else(|| self.store.clock.now()).as_micros();
        let books = self.store.books.lock().unwrap_or_else(PoisonError::into_inner);
        let name = self.limit.parts()[0].to_string();
        let nothing = Book::default();
        let book = books.get(&(self.time.clone(), name, key.to_vec())).unwrap_or(&nothing);
        Ok(Listing::<Holder>::of_book(&self.limit, book, page, now)?)
    }
}

impl Store for MapStore {
    type Opened = MapLimit;

    fn inner(&self) -> Option<&dyn Store> {
        None
    }

    fn id(&self) -> StoreId {
        StoreId::new(&format!("map:{:p}", Arc::as_ptr(&self.states)))
    }

    fn open(&self, limit: Limit, options: OpenOptions) -> MapLimit {
        MapLimit { store: self.clone(), limit, time: options.time }
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(ready(Ok(())))
    }
}

impl OpenedLimit for MapLimit {
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
        Answer::<Pending<_>>::Now(self.decide(&request))
    }

    fn holders<'a>(
        &'a self,
        key: &'a [u8],
        page: Page<'a>,
    ) -> BoxFuture<'a, Result<Listing<Holder>, Error>> {
        Box::pin(ready(self.list_holders(key, &page)))
    }
}

fn limit_of(policies: Vec<Policy>) -> Limit {
    #[expect(clippy::expect_used, reason = "a test that builds an invalid limit must fail")]
    Limit::new("test", policies).expect("policies that can be one limit")
}
