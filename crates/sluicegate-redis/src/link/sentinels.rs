//! Sentinels, which watch a primary with its replicas, and know its address.
//!
//! A sentinel that was cut off keeps naming the old primary. So [`Sentinels`] asks all of them at the same
//! time, and believes the one with the latest failover. Each failover has a number, the configuration epoch,
//! which sentinels use to agree among themselves too.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::endpoint::Endpoint;
use super::handshake::{self, Talk};
use super::problem::Problem;
use crate::redis_url::Host;
use crate::resp::{Command, Value};

/// Interval of asking whether the primary is unchanged, while a connection to it is open.
///
/// Sentinels also announce changes to subscribers. But a subscription can end unnoticed, so queries are
/// necessary anyway. And a sentinel that missed the change would announce nothing.
const PERIOD: Duration = Duration::from_secs(1);

/// Maximum time for all sentinels together, which is part of the time for a connection.
const PATIENCE: Duration = Duration::from_millis(400);
/// Additional time for the others once most have answered.
const GRACE: Duration = Duration::from_millis(50);

/// The sentinels of a primary.
pub(crate) struct Sentinels {
    each: Vec<Arc<Sentinel>>,
    /// The sentinels' name for the primary.
    name: String,
    /// The last believed answer.
    known: Mutex<Option<Word>>,
    /// Time and result of the last check whether the primary is unchanged.
    lately: tokio::sync::Mutex<Option<(Instant, Option<Host>)>>,
}

struct Sentinel {
    endpoint: Endpoint,
    /// An idle connection.
    open: Mutex<Option<Talk>>,
}

/// A sentinel's answer: the address of the primary, and its failover number.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Word {
    host: Host,
    /// 0 before the first failover, or if the user isn't permitted to query it.
    epoch: u64,
}

/// A sentinel's failure, and the names that it knows if the name is unknown.
struct Silence {
    problem: Problem,
    known: Vec<String>,
}

impl Sentinels {
    pub(crate) fn new(template: &Endpoint, hosts: Vec<Host>, name: String) -> Self {
        Self::at(hosts.into_iter().map(|host| template.at(host)), name)
    }

    /// Returns the same sentinels, with connections of their own.
    pub(super) fn apart(&self) -> Self {
        Self::at(self.each.iter().map(|sentinel| sentinel.endpoint.clone()), self.name.clone())
    }

    fn at(endpoints: impl Iterator<Item = Endpoint>, name: String) -> Self {
        let sentinel = |endpoint| Arc::new(Sentinel { endpoint, open: Mutex::new(None) });
        Self {
            each: endpoints.map(sentinel).collect(),
            name,
            known: Mutex::new(None),
            lately: tokio::sync::Mutex::default(),
        }
    }

    /// Returns the address of the primary.
    pub(super) async fn primary(&self) -> Result<Host, Problem> {
        let answers = self.ask().await;
        let words: Vec<&Word> = answers.iter().filter_map(|answer| answer.as_ref().ok()).collect();
        let mut known = lock(&self.known);
        if let Some(word) = believed(&words, known.as_ref(), self.each.len()) {
            let host = word.host.clone();
            *known = Some(word);
            return Ok(host);
        }
        drop(known);
        let (mut problems, mut names) = (Vec::new(), Vec::new());
        for (sentinel, answer) in self.each.iter().zip(answers) {
            if let Err(Silence { problem, known }) = answer {
                problems.push((sentinel.endpoint.address.clone(), problem));
                names.extend(known);
            }
        }
        names.sort_unstable();
        names.dedup();
        Err(Problem::not_found(&names, &Problem::of_all(&problems)))
    }

    /// Returns once the sentinels name another primary.
    pub(super) async fn announce_another(&self, than: Host) {
        loop {
            tokio::time::sleep(PERIOD).await;
            if self.primary_lately().await.is_some_and(|now| now != than) {
                return;
            }
        }
    }

    /// Returns the primary as of at most half a period ago, so that one of several connections asks for all.
    async fn primary_lately(&self) -> Option<Host> {
        let mut lately = self.lately.lock().await;
        if let Some((at, host)) = &*lately
            && at.elapsed() < PERIOD / 2
        {
            return host.clone();
        }
        let host = self.primary().await.ok();
        *lately = Some((Instant::now(), host.clone()));
        host
    }

    /// Asks all sentinels at the same time, and waits for those that answer soon.
    async fn ask(&self) -> Vec<Result<Word, Silence>> {
        let mut asked = JoinSet::new();
        for (place, sentinel) in self.each.iter().enumerate() {
            let (sentinel, name) = (Arc::clone(sentinel), self.name.clone());
            asked.spawn(async move { (place, sentinel.ask(&name).await) });
        }
        let mut answers: Vec<_> = self.each.iter().map(|_| None).collect();
        let (mut until, mut words) = (Instant::now() + PATIENCE, 0);
        while let Ok(Some(answer)) = tokio::time::timeout_at(until, asked.join_next()).await {
            let Ok((place, answer)) = answer else { continue };
            words += usize::from(answer.is_ok());
            if answer.is_ok() && is_most(words, answers.len()) {
                until = until.min(Instant::now() + GRACE);
            }
            answers[place] = Some(answer);
        }
        let late = || Problem::late_answer(PATIENCE);
        // The reason of one silent sentinel is enough.
        let mut why = None;
        if words == 0
            && let Some(silent) = answers.iter().position(Option::is_none)
        {
            let endpoint = &self.each[silent].endpoint;
            why = Some(handshake::silent(endpoint, PATIENCE).await);
        }
        let answers = answers
            .into_iter()
            .map(|answer| answer.unwrap_or_else(|| Err(why.take().unwrap_or_else(late).into())));
        answers.collect()
    }
}

impl Sentinel {
    async fn ask(&self, name: &str) -> Result<Word, Silence> {
        // Take the connection out, so that one with an unread answer is never used again.
        let open = lock(&self.open).take();
        if let Some(mut talk) = open
            && let Ok(answers) = talk.ask_all(&questions(name)).await
        {
            return self.read(&answers, talk).await;
        }
        let silence = |problem| Silence { problem, known: Vec::new() };
        let mut talk = handshake::meet(&self.endpoint).await.map_err(silence)?;
        match talk.ask_all(&questions(name)).await {
            Ok(answers) => self.read(&answers, talk).await,
            Err(broken) => Err(silence(handshake::unusable(&talk, &self.endpoint, broken).await)),
        }
    }

    async fn read(&self, answers: &[Value], mut talk: Talk) -> Result<Word, Silence> {
        let [primary, address] = answers else { return Err(Problem::no_protocol().into()) };
        let outcome = match (host(address), address) {
            (Some(host), _) => Ok(Word { host, epoch: epoch(primary) }),
            (None, Value::Nil) => {
                let all = talk.ask(&Command::of(&[b"SENTINEL", b"MASTERS"])).await;
                Err(Silence { problem: Problem::unknown_name(), known: names(all.ok()) })
            }
            (None, Value::Error(words)) => Err(Problem::of_sentinel(words, &self.endpoint).into()),
            (None, _) => return Err(Problem::no_protocol().into()),
        };
        *lock(&self.open) = Some(talk);
        outcome
    }
}

impl From<Problem> for Silence {
    fn from(problem: Problem) -> Self {
        Self { problem, known: Vec::new() }
    }
}

impl fmt::Debug for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sentinels({})", self.name)
    }
}

/// Returns two queries: for the failover number, and for the primary's address. A server answers batched
/// queries without doing anything in between.
fn questions(name: &str) -> [Command; 2] {
    [
        Command::of(&[b"SENTINEL", b"MASTER", name.as_bytes()]),
        Command::of(&[b"SENTINEL", b"get-master-addr-by-name", name.as_bytes()]),
    ]
}

/// Returns the answer with the latest failover. Among equals, the one with the most votes is returned, then
/// the first.
///
/// An older answer replaces the known one only if a majority of all sentinels answers: sentinels that are set
/// up again restart their count.
fn believed(words: &[&Word], known: Option<&Word>, sentinels: usize) -> Option<Word> {
    let votes = |word: &Word| words.iter().filter(|other| ***other == *word).count();
    let rank = |word: &Word| (word.epoch, votes(word));
    // Take the first of equal answers: `max_by_key` returns the last.
    let newest = words.iter().copied().rev().max_by_key(|word| rank(word))?;
    match known {
        Some(known) if known.epoch > newest.epoch && !is_most(words.len(), sentinels) => {
            Some(known.clone())
        }
        _ => Some(newest.clone()),
    }
}

const fn is_most(some: usize, all: usize) -> bool {
    some * 2 > all
}

/// Parses an address of sentinels: a host and a port.
fn host(answer: &Value) -> Option<Host> {
    let Value::Array(words) = answer else { return None };
    let [Value::Bytes(name), Value::Bytes(port)] = words.as_slice() else { return None };
    let name = std::str::from_utf8(name).ok().filter(|name| !name.is_empty())?;
    let port = std::str::from_utf8(port).ok()?.parse().ok().filter(|port| *port > 0)?;
    Some(Host { name: name.to_owned(), port })
}

fn epoch(primary: &Value) -> u64 {
    field(primary, "config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or(0)
}

/// Returns the names of all watched primaries.
fn names(all: Option<Value>) -> Vec<String> {
    let Some(Value::Array(primaries)) = all else { return Vec::new() };
    primaries.iter().filter_map(|primary| field(primary, "name")).collect()
}

/// Returns a field of a primary's description.
fn field(primary: &Value, name: &str) -> Option<String> {
    let Value::Array(words) = primary else { return None };
    let mut pairs = words.chunks_exact(2);
    let is_it = |pair: &&[Value]| matches!(&pair[0], Value::Bytes(word) if word == name);
    match &pairs.find(is_it)?[1] {
        Value::Bytes(value) => Some(String::from_utf8_lossy(value).into_owned()),
        _ => None,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code under these locks panics halfway.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(name: &str, epoch: u64) -> Word {
        Word { host: Host { name: name.to_owned(), port: 6_379 }, epoch }
    }

    #[test]
    fn who_has_seen_the_latest_failover_is_believed() {
        let (old, new, other) = (word("old", 4), word("new", 5), word("other", 5));
        for (words, known, believed_one) in [
            (vec![], None, None),
            (vec![&old], None, Some(&old)),
            (vec![&old, &old, &new], None, Some(&new)),
            (vec![&new, &old, &old], None, Some(&new)),
            // Equal numbers: the answer of the majority, then the first.
            (vec![&new, &other, &other], None, Some(&other)),
            (vec![&other, &new], None, Some(&other)),
            // One sentinel that missed the failover can't undo it. A majority that was set up again can.
            (vec![&old], Some(&new), Some(&new)),
            (vec![&old, &old], Some(&new), Some(&old)),
            (vec![&new], Some(&old), Some(&new)),
            (vec![&other], Some(&new), Some(&other)),
            (vec![], Some(&new), None),
        ] {
            assert_eq!(believed(&words, known, 3).as_ref(), believed_one, "{words:?} {known:?}");
        }
    }

    #[test]
    fn addresses_of_version_six_come_without_brackets() {
        let words = [&b"::1"[..], b"6379"].map(|word| Value::Bytes(word.to_vec().into()));
        let host = host(&Value::Array(words.to_vec())).unwrap();
        assert_eq!(host.to_string(), "[::1]:6379");
    }
}
