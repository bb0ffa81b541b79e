//! Sentinels, which watch a primary with its replicas, and know where it is.
//!
//! One that was cut off goes on naming the primary that it knew. So all of them are asked at once, and
//! whoever has seen the latest fail-over is believed: each fail-over has a number, the configuration
//! epoch, and by that sentinels settle it among themselves too.

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

/// How often they are asked whether the primary is still the same while there is a connection to it.
///
/// They would also tell it to who subscribes. But a subscription can die without a word, so that one
/// has to ask anyway, and a sentinel that missed the change itself would announce nothing.
const PERIOD: Duration = Duration::from_secs(1);

/// How long all of them together may take, as a part of the time that a connection may take.
const PATIENCE: Duration = Duration::from_millis(400);
/// How much longer the others may take once most have answered.
const GRACE: Duration = Duration::from_millis(50);

/// The sentinels of a primary.
pub(crate) struct Sentinels {
    each: Vec<Arc<Sentinel>>,
    /// What they call the primary.
    name: String,
    /// What was gone by last.
    known: Mutex<Option<Word>>,
    /// When they were last asked whether it is still the same, and what they said.
    lately: tokio::sync::Mutex<Option<(Instant, Option<Host>)>>,
}

struct Sentinel {
    endpoint: Endpoint,
    /// A connection, while nobody uses it.
    open: Mutex<Option<Talk>>,
}

/// What a sentinel says: where the primary is, since which fail-over.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Word {
    host: Host,
    /// 0 before the first, and where the user may not ask.
    epoch: u64,
}

/// Why one says nothing, and the names that it knows if it is the name.
struct Silence {
    problem: Problem,
    known: Vec<String>,
}

impl Sentinels {
    pub(crate) fn new(template: &Endpoint, hosts: Vec<Host>, name: String) -> Self {
        let sentinel =
            |host| Arc::new(Sentinel { endpoint: template.at(host), open: Mutex::new(None) });
        Self {
            each: hosts.into_iter().map(sentinel).collect(),
            name,
            known: Mutex::new(None),
            lately: tokio::sync::Mutex::default(),
        }
    }

    /// Where the primary is.
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

    /// Returns when they say that the primary is another one.
    pub(super) async fn announce_another(&self, than: Host) {
        loop {
            tokio::time::sleep(PERIOD).await;
            if self.primary_lately().await.is_some_and(|now| now != than) {
                return;
            }
        }
    }

    /// Where the primary was half a period ago at most: of several connections, one asks for all.
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

    /// Asks all at once, and waits for all that answer soon.
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
        // Why one is silent tells enough of all.
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
        // Taken out, so that one whose answer nobody awaits is never used again.
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

/// The first says since which fail-over the primary is the one that the second names. A server
/// answers what comes together without doing anything in between.
fn questions(name: &str) -> [Command; 2] {
    [
        Command::of(&[b"SENTINEL", b"MASTER", name.as_bytes()]),
        Command::of(&[b"SENTINEL", b"get-master-addr-by-name", name.as_bytes()]),
    ]
}

/// Of what was said, that since the latest fail-over; of several such, what most say, then what comes
/// first. What is known is not given up for something older unless most of all sentinels say so: they
/// count anew when they are set up anew.
fn believed(words: &[&Word], known: Option<&Word>, sentinels: usize) -> Option<Word> {
    let votes = |word: &Word| words.iter().filter(|other| ***other == *word).count();
    let rank = |word: &Word| (word.epoch, votes(word));
    // The first of those that are equal: `max_by_key` answers the last.
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

/// An address as sentinels tell it: a host and a port.
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

/// The names of all that is watched.
fn names(all: Option<Value>) -> Vec<String> {
    let Some(Value::Array(primaries)) = all else { return Vec::new() };
    primaries.iter().filter_map(|primary| field(primary, "name")).collect()
}

/// A field of what is known of a primary.
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
    // Nothing that is done under these locks panics half way.
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
            // Equal: what most say, then the first.
            (vec![&new, &other, &other], None, Some(&other)),
            (vec![&other, &new], None, Some(&other)),
            // One alone that has missed it can't undo it; most can, who were set up anew.
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
