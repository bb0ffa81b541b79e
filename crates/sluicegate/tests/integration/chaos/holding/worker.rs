//! A process that takes units, holds, renews and settles them, and waits for them, until it is killed.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use sluicegate::config::StoreUrl;
use sluicegate::decision::{HoldFound, HoldId, HoldToken};
use sluicegate::error::StoreErrorKind;
use sluicegate::store::{
    Hold, OpenOptions, OpenedLimit as _, Queued, Request, SharedLimit, SharedStore, Span,
    Store as _, StoreOptions, Ticket,
};
use sluicegate::{Ask, Decision, Error, Limiter, Permit, Usage};
use sluicegate_testkit::processes::{Process, say, told};
use tokio::runtime::Builder;
use tokio::time::sleep;

use super::journal::{Deal, Denial, Event, Found, Journal, Manner};
use super::rules::{BOTH, GRANTS, HELD, JOBS, Job, KEYS, PERMITS, QUEUED, TICKET_LIVES};
use crate::chaos::load::{DEADLINE, subject, wall_clock};

/// Starts a worker, which writes to this file.
pub(crate) fn start(journal: &Path, url: &str, prefix: &str, crew: Crew) -> Process {
    let (has_limiters, held_for) = (crew == Crew::All, crew.held_for());
    let words = [
        journal.display().to_string(),
        url.to_owned(),
        prefix.to_owned(),
        held_for.to_string(),
        has_limiters.to_string(),
    ];
    Process::start("chaos::holding::worker::worker", &words.each_ref().map(String::as_str))
}

/// The kinds of waiters in the queue, and the duration of holds that aren't renewed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Crew {
    /// Limiters, whose tickets last for 5 s, and waiters that poll on their own; holds last a second.
    All,
    /// Only waiters that poll on their own; holds last a second.
    Impatient,
    /// Waiters like in [`Self::Impatient`]; holds outlast a failover.
    Lasting,
}

impl Crew {
    pub(crate) fn held_for(self) -> Span {
        let seconds = if self == Self::Lasting { 3 } else { 1 };
        Span::from_millis(1_000 * seconds).unwrap()
    }
}

#[test]
#[ignore = "a process of the scenarios of what is held"]
fn worker() {
    let [journal, url, prefix, held_for, has_limiters] = told();
    let held_for = held_for.parse().unwrap();
    ends_with_its_parent();
    let worker = Arc::new(Worker::new(Path::new(&journal), &url, &prefix, held_for));
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for key in 0..KEYS {
            tokio::spawn(Arc::clone(&worker).keeps_permits(key));
            tokio::spawn(Arc::clone(&worker).keeps_holds(key));
            tokio::spawn(Arc::clone(&worker).waits(key));
            tokio::spawn(Arc::clone(&worker).waits(key));
            if has_limiters == "true" {
                tokio::spawn(Arc::clone(&worker).lets_a_limiter_wait(key));
            }
            for rule in [GRANTS, BOTH, JOBS] {
                tokio::spawn(Arc::clone(&worker).does_jobs(rule, key));
            }
        }
        say("runs");
        std::future::pending::<()>().await;
    });
}

/// Exits when its parent does, which may also be killed.
fn ends_with_its_parent() {
    thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
}

struct Worker {
    journal: Journal,
    limiters: Vec<Limiter<SharedStore>>,
    /// The limit with a queue, without the limiter around it.
    queue: SharedLimit,
    held_for: Span,
}

/// Sleeps for `millis` ms, and up to twice that.
async fn pause(millis: u64) {
    sleep(Duration::from_millis(millis + fastrand::u64(..=millis))).await;
}

impl Worker {
    fn new(journal: &Path, url: &str, prefix: &str, held_for: Span) -> Self {
        let mut options = StoreOptions::default();
        options.prefix = prefix.parse().unwrap();
        options.deadline = DEADLINE;
        let store = url.parse::<StoreUrl>().unwrap().open(&options).unwrap();
        let queue = store.open(HELD[QUEUED].limit(held_for), OpenOptions::default());
        let limiters = HELD.iter().map(|held| Limiter::new(store.clone(), held.limit(held_for)));
        Self { journal: Journal::begin(journal), limiters: limiters.collect(), queue, held_for }
    }

    /// Takes permits, which renew themselves and report whether they are lost.
    async fn keeps_permits(self: Arc<Self>, key: usize) {
        loop {
            let limiter = &self.limiters[PERMITS];
            let name = subject(key);
            let deal = self.journal.deal();
            asks(deal, PERMITS, key, 1, Manner::Permit, 0);
            let ask = limiter.permit(&name).max_life(Duration::from_secs(6));
            let answer = if fastrand::bool() {
                ask.await
            } else {
                // It retries, and only the last denial is returned.
                ask.within(Duration::from_millis(300)).await
            };
            self.keeps(deal, answer).await;
            pause(10).await;
        }
    }

    async fn keeps(&self, deal: Deal<'_>, answer: Result<Permit, Error>) {
        let taken = answer.as_ref().map(Permit::decision).map_err(Clone::clone);
        if !notes_answer(deal, taken) {
            return;
        }
        let Ok(permit) = answer else { return };
        for _ in 0..fastrand::u64(1..30) {
            pause(25).await;
            let time = wall_clock();
            if permit.is_lost() {
                break;
            }
            deal.notes_at(time, Event::Acts);
        }
        deal.notes(Event::Settles);
        // A dropped permit is released without a report.
        if fastrand::u8(..12) > 0 {
            let settled = permit.settle(Usage::as_charged()).await;
            notes_settled(deal, settled.map(|settled| settled.unwrap()));
        }
    }

    /// Takes explicit holds, which are sometimes renewed, and are released or left to expire.
    async fn keeps_holds(self: Arc<Self>, key: usize) {
        loop {
            let rule = if fastrand::u8(..6) == 0 { QUEUED } else { PERMITS };
            let name = subject(key);
            let deal = self.journal.deal();
            asks(deal, rule, key, 1, Manner::AtOnce, 0);
            let sent = wall_clock();
            match self.limiters[rule].check(&name).hold(self.held_for.into()).await {
                Ok(grant) => {
                    if notes_answer(deal, Ok(grant.decision())) {
                        self.holds(deal, rule, grant.token().unwrap(), sent).await;
                    }
                }
                Err(error) => drop(notes_answer(deal, Err(error))),
            }
            pause(30).await;
        }
    }

    async fn holds(&self, deal: Deal<'_>, rule: usize, token: &HoldToken, sent: u64) {
        let limiter = &self.limiters[rule];
        let mut ends = sent + self.held_for.as_micros();
        for _ in 0..fastrand::u64(1..9) {
            pause(25).await;
            let time = wall_clock();
            if time >= ends {
                return;
            }
            deal.notes_at(time, Event::Acts);
            if fastrand::u8(..4) == 0 {
                let asked = deal.notes(Event::Renews { lasts: self.held_for.as_micros() });
                match limiter.renew(token, self.held_for.into()).await {
                    Ok(decision) => {
                        let is_live = decision.hold_found() == Some(HoldFound::Live);
                        deal.notes(Event::Renewed { is_live });
                        if !is_live {
                            return;
                        }
                        ends = asked + self.held_for.as_micros();
                    }
                    Err(error) => drop(notes_answer(deal, Err(error))),
                }
            }
        }
        if fastrand::u8(..5) > 0 {
            self.settles(deal, rule, token, Usage::as_charged).await;
        }
    }

    /// Sends it again until it is answered, or the hold has ended.
    async fn settles(
        &self,
        deal: Deal<'_>,
        rule: usize,
        token: &HoldToken,
        usage: impl Fn() -> Usage<'static>,
    ) {
        for _ in 0..6 {
            deal.notes(Event::Settles);
            let settled = self.limiters[rule].settle(token, usage()).await;
            if notes_settled(deal, settled) {
                return;
            }
            pause(150).await;
        }
    }

    /// Polls repeatedly, which records the number of tickets ahead.
    async fn waits(self: Arc<Self>, key: usize) {
        loop {
            let (name, priority) = (subject(key), fastrand::u8(..2));
            let deal = self.journal.deal();
            let id = HoldId::from_bytes(fastrand::u128(..).to_be_bytes());
            let token =
                HoldToken::new(id, [(self.limiters[QUEUED].limit().name().clone(), &*name)]);
            let token = token.unwrap();
            let patience = fastrand::u64(3..60);
            let ticket = Ticket { priority, lives: TICKET_LIVES };
            let hold = Hold { id, lasts: self.held_for.into() };
            let mut has_units = false;
            let mut is_full = false;
            let mut sent = 0;
            for _ in 0..patience {
                sent = asks(deal, QUEUED, key, 1, Manner::Waits { priority }, 0);
                let request = Request::check(name.as_bytes()).hold(&hold).waiting(&ticket);
                let answer = self.queue.ask(request).wait().await;
                is_full = matches!(&answer, Ok(it) if it.queued() == Some(Queued::Full));
                has_units = notes_answer(deal, answer.as_ref().map_err(Clone::clone));
                // Units that may have been taken are settled, and not requested again under the same id.
                if has_units || is_full || answer.is_err() {
                    break;
                }
                pause(35).await;
            }
            if has_units {
                self.holds(deal, QUEUED, &token, sent).await;
            } else if !is_full && fastrand::bool() {
                self.settles(deal, QUEUED, &token, Usage::nothing).await;
            }
            pause(20).await;
        }
    }

    /// Limiters wait, in their way.
    async fn lets_a_limiter_wait(self: Arc<Self>, key: usize) {
        loop {
            let (name, priority) = (subject(key), fastrand::u8(..2));
            let limiter = &self.limiters[QUEUED];
            let deal = self.journal.deal();
            let within = Span::from_millis(fastrand::u64(100..4_000)).unwrap();
            if fastrand::bool() {
                asks(deal, QUEUED, key, 1, Manner::PermitWaits { priority }, 0);
                let ask = Ask::new(&name).priority(priority);
                let answer = limiter.permit(ask).within(within.into()).await;
                self.keeps(deal, answer).await;
            } else {
                let sent = asks(deal, QUEUED, key, 1, Manner::GrantWaits { priority }, 0);
                let ask = Ask::new(&name).priority(priority);
                match limiter.check(ask).hold(self.held_for.into()).within(within.into()).await {
                    Ok(grant) => {
                        if notes_answer(deal, Ok(grant.decision())) {
                            // It may have been taken long before.
                            let taken = grant.taken_at().unwrap().as_micros().max(sent);
                            self.holds(deal, QUEUED, grant.token().unwrap(), taken).await;
                        }
                    }
                    Err(error) => drop(notes_answer(deal, Err(error))),
                }
            }
            pause(20).await;
        }
    }

    /// Does jobs that any process may do, under the id of the job. A process that doesn't learn whether units were
    /// taken retries.
    async fn does_jobs(self: Arc<Self>, rule: usize, key: usize) {
        loop {
            let (name, job) = (subject(key), Job::at(wall_clock()));
            let deal = self.journal.deal();
            let limiter = &self.limiters[rule];
            let ask = || Ask::new(&name).cost(job.units()).request_id(job.name());
            for _ in 0..4 {
                asks(deal, rule, key, job.units(), Manner::AtOnce, job.0);
                let answer = if rule == JOBS {
                    limiter.check(ask()).await.map(|decision| (decision, None))
                } else {
                    let grant = limiter.check(ask()).hold(self.held_for.into()).await;
                    grant.map(|grant| (grant.decision().clone(), grant.into_token()))
                };
                let taken = answer.as_ref().map(|(decision, _)| decision).map_err(Clone::clone);
                let is_taken = notes_answer(deal, taken);
                match answer {
                    Ok((_, Some(token))) if is_taken => {
                        if let Some(used) = job.used() {
                            pause(fastrand::u64(1..300)).await;
                            self.settles(deal, rule, &token, || Usage::of_every(used)).await;
                        }
                        break;
                    }
                    // Repeat it, regardless of its answer: its outcome is now known.
                    Ok(_) if is_taken && fastrand::bool() => pause(20).await,
                    Ok(_) => break,
                    Err(_) => pause(100).await,
                }
            }
            pause(90).await;
        }
    }
}

fn asks(deal: Deal<'_>, rule: usize, key: usize, units: u64, manner: Manner, job: u64) -> u64 {
    let [rule, key] = [rule, key].map(|number| u64::try_from(number).unwrap());
    deal.notes(Event::Asks { rule, key, units, manner, job })
}

/// Returns whether it was allowed.
fn notes_answer(deal: Deal<'_>, answer: Result<&Decision, Error>) -> bool {
    let event = match answer {
        Ok(decision) if decision.is_allowed() => {
            let at = decision.taken_at().unwrap().as_micros();
            let lasts = decision.hold().map_or(0, |hold| Span::from(hold.lasts).as_micros());
            Event::Took { at, lasts, is_repeat: decision.is_repeat() }
        }
        Ok(decision) => Event::Denied(match decision.queued() {
            Some(Queued::Waits { ahead, .. }) => Denial::Behind(ahead),
            Some(_) => Denial::Full,
            None => Denial::Plain,
        }),
        Err(Error::Store(error)) => {
            let is_known =
                matches!(error.kind(), StoreErrorKind::Unavailable | StoreErrorKind::Overloaded);
            Event::Failed { is_unknown: !is_known }
        }
        Err(other) => panic!("{other}"),
    };
    deal.notes(event);
    matches!(event, Event::Took { .. })
}

/// Returns whether it was answered.
fn notes_settled(deal: Deal<'_>, settled: Result<Decision, Error>) -> bool {
    let found = match settled {
        Ok(decision) => match decision.hold_found().unwrap() {
            HoldFound::Live => Found::Live,
            HoldFound::Settled => Found::Settled,
            HoldFound::Waited => Found::Waited,
            HoldFound::Unknown => Found::Unknown,
            other => panic!("{other:?}"),
        },
        Err(Error::Store(_)) => Found::Error,
        Err(other) => panic!("{other}"),
    };
    deal.notes(Event::Settled(found));
    found != Found::Error
}
