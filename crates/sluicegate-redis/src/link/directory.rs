//! The nodes of a cluster, which know each other's addresses. [`Directory`] asks them in turn, starting with
//! the one that answered last.
//!
//! A node that was cut off keeps reporting an old layout. An answer is outdated if its node doesn't know the
//! latest change, or says that it is cut off. Such an answer is used only if no other node has a newer one.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::endpoint::Endpoint;
use super::handshake;
use super::problem::Problem;
use crate::redis_url::Host;
use crate::resp::{Command, Value};

/// Maximum time for all nodes together, which is part of the time for a connection.
const PATIENCE: Duration = Duration::from_millis(600);
/// Longest and shortest time for each node.
const LONGEST: Duration = Duration::from_millis(200);
const SHORTEST: Duration = Duration::from_millis(50);
/// Maximum number of answers to compare, if none is new enough.
const ANSWERS: usize = 4;

/// Servers that are asked in turn, until one answers.
pub(crate) struct Directory {
    /// The access options of the nodes, without an address.
    template: Endpoint,
    hosts: Mutex<Vec<Host>>,
}

/// The age of an answer.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Age {
    /// Whether the node can see most of the others.
    pub(crate) is_in_touch: bool,
    /// Number of the latest change of owners that the node knows.
    pub(crate) epoch: u64,
}

impl Age {
    /// The age that any answer of a node in touch reaches.
    pub(crate) const ANY: Self = Self { is_in_touch: true, epoch: 0 };

    /// Returns the age of a node's answers from its `CLUSTER INFO`. If the user isn't permitted to query it,
    /// the answer counts as new.
    pub(crate) fn of(info: &Value) -> Self {
        let Value::Bytes(info) = info else { return Self { is_in_touch: true, epoch: u64::MAX } };
        let info = String::from_utf8_lossy(info);
        let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name));
        Self {
            is_in_touch: field("cluster_state:") != Some("fail"),
            epoch: field("cluster_current_epoch:").and_then(|it| it.parse().ok()).unwrap_or(0),
        }
    }
}

impl Directory {
    pub(crate) fn new(template: Endpoint, hosts: Vec<Host>) -> Self {
        Self { template, hosts: Mutex::new(hosts) }
    }

    /// Returns the access options of the nodes, without an address.
    pub(crate) const fn template(&self) -> &Endpoint {
        &self.template
    }

    /// Queries one node after the other, until an answer can be read and is at least as new as the known one.
    /// Otherwise returns the newest of several answers, or the problem of each node.
    pub(crate) async fn ask<T>(
        &self,
        questions: &[Command],
        known: Age,
        read: impl Fn(&Endpoint, Vec<Value>) -> Result<(Age, T), Problem> + Send,
    ) -> Result<(Age, T), Problem> {
        let hosts = self.hosts().clone();
        let count = u32::try_from(hosts.len()).unwrap_or(u32::MAX).max(1);
        let patience = (PATIENCE / count).clamp(SHORTEST, LONGEST);
        let (mut answers, mut newest) = (0, None::<(Age, T)>);
        let mut problems = Vec::new();
        for host in hosts {
            let endpoint = self.template.at(host.clone());
            let answer = match tokio::time::timeout(patience, ask(&endpoint, questions)).await {
                Ok(answer) => answer.and_then(|values| read(&endpoint, values)),
                Err(_) => Err(handshake::silent(&endpoint, patience).await),
            };
            match answer {
                Ok(answer) if answer.0 >= known => return Ok(answer),
                Ok(answer) => {
                    answers += 1;
                    if newest.as_ref().is_none_or(|newest| newest.0 < answer.0) {
                        newest = Some(answer);
                    }
                }
                Err(problem) => problems.push((endpoint.address, problem)),
            }
            self.doubt(&host);
            if answers == ANSWERS {
                break;
            }
        }
        newest.ok_or_else(|| Problem::of_all(&problems))
    }

    /// Replaces the nodes. The first one stays first if it is still a node.
    pub(crate) fn replace(&self, mut new: Vec<Host>) {
        let mut hosts = self.hosts();
        if let Some(first) = hosts.first()
            && let Some(at) = new.iter().position(|host| host == first)
        {
            new.swap(0, at);
        }
        *hosts = new;
    }

    /// Moves a server behind the others.
    fn doubt(&self, host: &Host) {
        let mut hosts = self.hosts();
        if hosts.first() == Some(host) {
            hosts.rotate_left(1);
        }
    }

    fn hosts(&self) -> MutexGuard<'_, Vec<Host>> {
        // No code under this lock panics halfway.
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn ask(endpoint: &Endpoint, questions: &[Command]) -> Result<Vec<Value>, Problem> {
    let mut talk = handshake::meet(endpoint).await?;
    match talk.ask_all(questions).await {
        Ok(values) => Ok(values),
        Err(broken) => Err(handshake::unusable(&talk, endpoint, broken).await),
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_testkit::servers::{Server, available};
    use sluicegate_testkit::wait::until_seldom;

    use super::*;
    use crate::redis_url::RedisUrl;

    const INFO: [&[u8]; 2] = [b"CLUSTER", b"INFO"];

    /// Starts nodes that don't know each other, the first with the earliest change.
    fn start(epochs: &[&str]) -> Vec<Server> {
        let binary = &available().unwrap()[0];
        let start = |epoch: &&str| {
            let node = Server::start_with(binary, &["--cluster-enabled", "yes"]).unwrap();
            node.cli(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).unwrap();
            node.cli(&["CLUSTER", "SET-CONFIG-EPOCH", epoch]).unwrap();
            node
        };
        epochs.iter().map(start).collect()
    }

    fn directory(nodes: &[Server]) -> Directory {
        let host = |node: &Server| Host { name: "127.0.0.1".to_owned(), port: node.port() };
        let url: RedisUrl = nodes[0].url().replace("redis://", "redis+cluster://").parse().unwrap();
        Directory::new(Endpoint::new(&url).unwrap(), nodes.iter().map(host).collect())
    }

    fn await_states(nodes: &[Server], states: &[&str]) {
        for (node, state) in nodes.iter().zip(states) {
            until_seldom("a node in that state", || match node.cli(&["CLUSTER", "INFO"]) {
                Ok(info) if info.contains(&format!("cluster_state:{state}")) => Ok(()),
                other => Err(other.map_err(|error| error.to_string())),
            });
        }
    }

    /// Returns the node that answers, and the age of its answer.
    async fn ask(directory: &Directory, known: Age) -> (u64, u16) {
        let read = |endpoint: &Endpoint, values: Vec<Value>| {
            Ok((Age::of(&values[0]), endpoint.host().unwrap().port))
        };
        let (age, port) = directory.ask(&[Command::of(&INFO)], known, read).await.unwrap();
        (age.epoch, port)
    }

    #[tokio::test]
    async fn a_node_that_missed_the_latest_change_is_believed_only_if_nobody_knows_better() {
        let nodes = start(&["3", "4", "7", "5", "9"]);
        let directory = directory(&nodes);
        await_states(&nodes, &["ok"; 5]);
        let knowing = |epoch| Age { is_in_touch: true, epoch };
        assert_eq!(ask(&directory, Age::ANY).await, (3, nodes[0].port()));
        assert_eq!(ask(&directory, knowing(5)).await, (7, nodes[2].port()));
        // This node is asked first from now on.
        assert_eq!(ask(&directory, Age::ANY).await, (7, nodes[2].port()));
        // The fifth node is not asked: the nodes with 7, 5, 9 and 3 are.
        assert_eq!(ask(&directory, knowing(10)).await, (9, nodes[4].port()));
    }

    #[tokio::test]
    async fn a_node_that_is_cut_off_is_passed_over() {
        let nodes = start(&["9", "3"]);
        let directory = directory(&nodes);
        nodes[0].cli(&["CLUSTER", "DELSLOTS", "1"]).unwrap();
        await_states(&nodes, &["fail", "ok"]);
        assert_eq!(ask(&directory, Age::ANY).await, (3, nodes[1].port()));
    }
}
