//! The stream of one Envoy.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use sluicegate::config::EnvoyConfig;
use sluicegate::http::{Key, OnMissingKey};
use sluicegate::store::{Counted, CountedKey};
use sluicegate_core::{Error, LimitName};
use tonic::Status;

use super::booking::{Booked, Booking, book};
use super::bucket::{Bucket, Usage};
use super::counts::Ignored;
use super::message::{self, Blanket, Id, Outgoing};
use super::{FundKey, Shared, board};
use crate::protos::envoy::service::rate_limit_quota::v3::rate_limit_quota_response::BucketAction;
use crate::protos::envoy::service::rate_limit_quota::v3::rate_limit_quota_usage_reports::BucketQuotaUsage;
use crate::protos::envoy::service::rate_limit_quota::v3::{
    RateLimitQuotaResponse, RateLimitQuotaUsageReports,
};
use crate::quota::{Assignment, Numbers, Plan, plan};
use crate::service::assigned::{find, missing_key};
use crate::service::rights::Rights;

/// The stream of one Envoy: its buckets, and what they have.
///
/// When it is dropped, its shares stay booked until their ends.
pub struct QuotaStream {
    shared: Arc<Shared>,
    rights: Rights,
    /// The domain, once a message has one.
    domain: Option<String>,
    buckets: HashMap<Id, Bucket>,
    /// Reports that aren't answered yet.
    reported: VecDeque<(Id, Usage)>,
}

/// The assignment of a bucket by the configuration.
enum Meant {
    Blanket(Blanket),
    Share(CountedKey, Numbers),
    /// The limit isn't known at the moment.
    Nothing,
}

/// A bucket that asks for a share.
struct Wanting {
    id: Id,
    fund: Arc<FundKey>,
    counted: CountedKey,
    numbers: Numbers,
}

impl QuotaStream {
    /// The maximum number of buckets of a stream. Further ones are ignored.
    pub const MOST_BUCKETS: usize = 10_000;
    /// The maximum number of entries in a bucket's id.
    pub const MOST_ENTRIES: usize = 32;
    /// The maximum number of bytes in a bucket's id. So a stream takes at most 20 MB.
    pub const MOST_BYTES: usize = 1_024;
    /// The maximum number of requests that a report can be true about.
    pub const MOST_REQUESTS: u64 = 1_000_000_000_000;
    /// The maximum number of buckets that one message answers, so that no answer in it is old.
    const AT_A_TIME: usize = 1_000;
    /// The longest time from the request for a share until its message is handed to the network, in µs. The network has
    /// the rest of a second.
    pub(crate) const FRESH_FOR: u64 = Assignment::MARGIN * 2 / 5;

    pub(super) fn new(shared: Arc<Shared>, rights: Rights) -> Self {
        shared.counts.stream_opened();
        Self { shared, rights, domain: None, buckets: HashMap::new(), reported: VecDeque::new() }
    }

    /// Takes the reports of a message, which [`answer`](Self::answer) answers.
    ///
    /// # Errors
    /// Returns the status with which the stream ends: for a first message without a domain, or another domain than before.
    pub fn take(&mut self, reports: RateLimitQuotaUsageReports) -> Result<(), Status> {
        self.shared.counts.message(reports.bucket_quota_usages.len());
        self.take_domain(reports.domain)?;
        let usages = self.usages(reports.bucket_quota_usages);
        self.reported.extend(usages);
        Ok(())
    }

    /// Answers reports, up to 1,000 buckets in a message. Returns `None` when all reports are answered.
    ///
    /// # Errors
    /// Returns the status with which the stream ends, if the client has no right to a limit.
    pub async fn answer(&mut self) -> Result<Option<Outgoing>, Status> {
        while !self.reported.is_empty() {
            let count = self.reported.len().min(Self::AT_A_TIME);
            let usages: Vec<_> = self.reported.drain(..count).collect();
            let now = self.shared.now();
            if let Some(answer) = outgoing(self.actions(usages, now).await?, now) {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }

    /// Returns what to tell the buckets after their reports.
    async fn actions(
        &mut self,
        usages: Vec<(Id, Usage)>,
        now: u64,
    ) -> Result<Vec<BucketAction>, Status> {
        let config = self.shared.registry.envoy();
        let (mut actions, mut wanting) = (Vec::new(), Vec::new());
        for (id, usage) in usages {
            match self.meaning(&config, &id)? {
                Meant::Blanket(blanket) => actions.extend(self.tell(id, blanket, now)),
                Meant::Share(counted, numbers) => {
                    counted.report(usage.allowed, usage.denied);
                    if let Some(fund) = self.report(&id, usage, &counted, now) {
                        wanting.push(Wanting { id, fund, counted, numbers });
                    }
                }
                Meant::Nothing => {}
            }
        }
        self.assign(wanting, &mut actions, now).await;
        Ok(actions)
    }

    /// Abandons the buckets whose assignments have run out, so that their next requests are reported immediately.
    #[must_use]
    pub fn expire(&mut self) -> Option<Outgoing> {
        let now = self.shared.now();
        let shared = Arc::clone(&self.shared);
        let mut actions = Vec::new();
        let before = self.buckets.len();
        self.buckets.retain(|id, bucket| {
            let is_over = bucket.ends_at() <= now;
            if is_over && bucket.held().is_some() {
                shared.counts.abandoned();
                actions.push(message::abandon(id.clone()));
            }
            if is_over {
                bucket.leave(&shared);
            }
            !is_over
        });
        self.shared.counts.buckets_left(before - self.buckets.len());
        outgoing(actions, now)
    }

    /// Returns the instant from which [`expire`](Self::expire) has something to do, in µs of the stopwatch.
    #[must_use]
    pub fn expires_at(&self) -> Option<u64> {
        self.buckets.values().map(Bucket::ends_at).min()
    }

    /// Takes the domain: it is in the first message, or in each.
    fn take_domain(&mut self, domain: String) -> Result<(), Status> {
        match &self.domain {
            Some(known) if domain.is_empty() || *known == domain => Ok(()),
            Some(_) => Err(Status::invalid_argument(
                "the domain differs from that of earlier messages: use one stream for each domain",
            )),
            None if domain.is_empty() => Err(Status::invalid_argument(
                "the first message has no domain: set `domain` in the filter",
            )),
            None => {
                self.domain = Some(domain);
                Ok(())
            }
        }
    }

    /// Returns the usage of each bucket once, in the order of the message.
    fn usages(&self, reports: Vec<BucketQuotaUsage>) -> Vec<(Id, Usage)> {
        let counts = &self.shared.counts;
        let mut usages: Vec<(Id, Usage)> =
            Vec::with_capacity(reports.len().min(Self::MOST_BUCKETS));
        let mut places = HashMap::<Id, usize>::new();
        for report in reports {
            let id = report.bucket_id.map(|id| id.bucket).unwrap_or_default();
            let bytes: usize = id.iter().map(|(key, value)| key.len() + value.len()).sum();
            if id.is_empty() || id.len() > Self::MOST_ENTRIES || bytes > Self::MOST_BYTES {
                counts.ignored(Ignored::Id);
                continue;
            }
            let [allowed, denied] = [report.num_requests_allowed, report.num_requests_denied];
            if allowed.max(denied) > Self::MOST_REQUESTS {
                counts.ignored(Ignored::Requests);
                continue;
            }
            let seconds =
                report.time_elapsed.map_or(0, |it| u64::try_from(it.seconds).unwrap_or(0));
            let usage = Usage { allowed, denied, seconds: seconds.min(3_600) };
            match places.entry(id) {
                Entry::Occupied(known) => usages[*known.get()].1.add(usage),
                Entry::Vacant(_) if usages.len() == Self::MOST_BUCKETS => {
                    counts.ignored(Ignored::TooMany);
                }
                Entry::Vacant(new) => {
                    usages.push((new.key().clone(), usage));
                    new.insert(usages.len() - 1);
                }
            }
        }
        usages
    }

    /// Returns what the configuration assigns a bucket to.
    fn meaning(&self, config: &EnvoyConfig, id: &Id) -> Result<Meant, Status> {
        let domain = self.domain.as_ref().and_then(|domain| config.domains.get(domain));
        let entries: Vec<_> =
            id.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let Some((line, key)) = domain.and_then(|domain| find(domain, &entries)) else {
            return Ok(Meant::Blanket(Blanket::Unlimited));
        };
        let limit = line.limit();
        self.rights.ask(limit.as_str())?;
        Ok(match self.counted(limit, &key) {
            Ok(Counted::Never) => Meant::Blanket(Blanket::Allowed),
            Ok(Counted::By(counted)) => match Numbers::of(counted.limit()) {
                Some(numbers) => Meant::Share(counted, numbers),
                None => {
                    self.warn(limit);
                    Meant::Blanket(Blanket::Abandoned)
                }
            },
            Ok(_) => Meant::Blanket(Blanket::Denied),
            Err(error) => {
                tracing::debug!(limit = limit.as_str(), %error, "a bucket isn't assigned");
                Meant::Nothing
            }
        })
    }

    /// Returns how a limit counts a key. A client chooses its parts, so a key that doesn't fit counts as a missing one.
    fn counted(&self, limit: &LimitName, key: &[u8]) -> Result<Counted, Error> {
        let gate = self.shared.registry.gate(limit.as_str());
        gate.counted(key).or_else(|error| {
            match missing_key(&self.shared.registry, limit.as_str(), &error) {
                None => Err(error),
                Some(OnMissingKey::Refuse) => Ok(Counted::Blocked),
                Some(OnMissingKey::Skip) => Ok(Counted::Never),
                Some(_) => gate.counted(Key::shared().as_bytes()),
            }
        })
    }

    /// Logs once that a limit can't be assigned.
    fn warn(&self, limit: &LimitName) {
        if self.shared.state().told.insert(limit.clone()) {
            tracing::warn!(
                limit = limit.as_str(),
                "Envoy's quota filter can't share the limit, so its buckets are abandoned. Give the limit one bucket \
                 policy, or use Envoy's rate limit filter"
            );
        }
    }

    /// Returns the bucket with an id, unless there are too many.
    fn bucket(&mut self, id: &Id) -> Option<&mut Bucket> {
        if !self.buckets.contains_key(id) {
            if self.buckets.len() >= Self::MOST_BUCKETS {
                self.shared.counts.ignored(Ignored::TooMany);
                return None;
            }
            self.shared.counts.bucket_came();
            self.buckets.insert(id.clone(), Bucket::default());
        }
        self.buckets.get_mut(id)
    }

    /// Returns the action that tells a bucket that it gets no share, if it is due.
    fn tell(&mut self, id: Id, blanket: Blanket, now: u64) -> Option<BucketAction> {
        let shared = Arc::clone(&self.shared);
        let bucket = self.bucket(&id)?;
        bucket.reported = now;
        bucket.leave(&shared);
        if !bucket.is_due(blanket, now) {
            return None;
        }
        bucket.told = Some((blanket, now));
        if blanket == Blanket::Abandoned {
            shared.counts.abandoned();
        }
        Some(blanket.action(id))
    }

    /// Notes a report. Returns the fund, if it is time to ask it for a share.
    fn report(
        &mut self,
        id: &Id,
        usage: Usage,
        counted: &CountedKey,
        now: u64,
    ) -> Option<Arc<FundKey>> {
        let shared = Arc::clone(&self.shared);
        let key = FundKey { limit: counted.limit().name().clone(), key: counted.key().into() };
        let fund = shared.state().funds.get_key_value(&key).map(|(known, _)| Arc::clone(known));
        let fund = fund.unwrap_or_else(|| Arc::new(key));
        let bucket = self.bucket(id)?;
        bucket.report(usage, Arc::clone(&fund), &shared, now);
        bucket.holder.as_ref()?.may_ask(now).then_some(fund)
    }

    /// Requests shares for buckets from the store, and adds the actions for them.
    async fn assign(&mut self, wanting: Vec<Wanting>, actions: &mut Vec<BucketAction>, now: u64) {
        self.note(&wanting);
        let mut funds = HashMap::new();
        for Wanting { fund, counted, .. } in &wanting {
            funds.entry(Arc::clone(fund)).or_insert_with(|| counted.clone());
        }
        let funds: Vec<_> = funds.into_iter().collect();
        board::exchange(&self.shared, &funds).await;
        let (mut ids, mut bookings, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        {
            let mut state = self.shared.state();
            for Wanting { id, fund, counted, numbers } in wanting {
                let holder = self.buckets.get_mut(&id).and_then(|bucket| bucket.holder.as_mut());
                let (Some(holder), Some(known)) = (holder, state.funds.get_mut(&fund)) else {
                    continue;
                };
                if known.is_refused {
                    refused.push(id);
                    continue;
                }
                let plan = plan(&holder.facts(numbers), &mut known.fund, now);
                if plan == Plan::Nothing {
                    continue;
                }
                holder.asked = Some(now);
                let held = holder.held.clone();
                bookings.push(Booking { counted, numbers, held, plan, outcome: None });
                ids.push(id);
            }
        }
        for id in refused {
            actions.extend(self.tell(id, Blanket::Denied, now));
        }
        book(&self.shared, &mut bookings).await;
        for (id, booking) in ids.into_iter().zip(bookings) {
            actions.extend(self.apply(id, booking));
        }
    }

    /// Lets the funds know what their holders need and have.
    fn note(&self, wanting: &[Wanting]) {
        let mut state = self.shared.state();
        for Wanting { id, fund, numbers, .. } in wanting {
            let holder = self.buckets.get(id).and_then(|bucket| bucket.holder.as_ref());
            let Some(holder) = holder else { continue };
            let share = holder.held.as_ref().map_or(0, |held| held.share);
            let known = state.fund(fund, *numbers);
            known.fund.note(holder.number, holder.need(*numbers), share);
        }
    }

    /// Applies what came of a booking, and returns what to tell the bucket.
    fn apply(&mut self, id: Id, booking: Booking) -> Option<BucketAction> {
        let shared = Arc::clone(&self.shared);
        let (new, retired) = match booking.outcome? {
            Booked::CarriedOn(new) => {
                shared.counts.carried_on();
                (new, 0)
            }
            Booked::Changed(new) => {
                shared.counts.assigned();
                let before = booking.held.as_ref().map_or(0, |held| held.share);
                let rest = before.saturating_sub(new.share);
                (new, rest)
            }
            Booked::New(new) => {
                shared.counts.assigned();
                (new, booking.held.as_ref().map_or(0, |held| held.share))
            }
            Booked::Nothing | Booked::Failed => return None,
        };
        let holder = self.buckets.get_mut(&id)?.holder.as_mut()?;
        let mut state = shared.state();
        let known = state.fund(&holder.fund, booking.numbers);
        if let Some(held) = &booking.held {
            known.fund.retire(retired, held.ends);
        }
        known.fund.note(holder.number, holder.need(booking.numbers), new.share);
        drop(state);
        let action = message::assignment(id, &new);
        holder.held = Some(new);
        Some(action)
    }
}

impl Drop for QuotaStream {
    fn drop(&mut self) {
        let shared = Arc::clone(&self.shared);
        self.buckets.values_mut().for_each(|bucket| bucket.leave(&shared));
        shared.counts.stream_closed(self.buckets.len());
    }
}

impl std::fmt::Debug for QuotaStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QuotaStream")
            .field("domain", &self.domain)
            .field("buckets", &self.buckets.len())
            .finish_non_exhaustive()
    }
}

/// Returns the message with these actions, if there are any.
fn outgoing(bucket_action: Vec<BucketAction>, now: u64) -> Option<Outgoing> {
    let fresh_until = now.saturating_add(QuotaStream::FRESH_FOR);
    let message = RateLimitQuotaResponse { bucket_action };
    (!message.bucket_action.is_empty()).then_some(Outgoing { message, fresh_until })
}
