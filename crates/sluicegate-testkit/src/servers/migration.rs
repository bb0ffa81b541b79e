//! The move of a slot from one node of a cluster to another, step by step.

use std::ops::RangeInclusive;

use super::cluster::Cluster;
use super::error::ServerError;
use super::resp::Reply;

/// Maximum time for a node to send a key, in ms.
const TIMEOUT_MS: &str = "5000";

/// A slot's migration from one node to another, by the commands that tools use for it. A test can
/// stop after any step; the rest isn't done.
///
/// Between [`open`](Self::open) and [`assign`](Self::assign), the old owner answers `ASK` to a
/// command whose keys it no longer has. It answers `TRYAGAIN` if it still has only some of the
/// keys. The new owner answers `MOVED`, unless `ASKING` comes first.
#[derive(Debug)]
pub struct Migration<'a> {
    cluster: &'a Cluster,
    slot: String,
    from: usize,
    to: usize,
}

impl Cluster {
    /// Returns the migration of one slot to the node `to`, which hasn't begun yet.
    ///
    /// # Panics
    /// Panics if no node serves it.
    #[must_use]
    pub fn migration(&self, slot: u16, to: usize) -> Migration<'_> {
        Migration { cluster: self, slot: slot.to_string(), from: self.primary_of(slot), to }
    }

    /// Moves slots with all their keys to the node `to`, one after the other, and waits until all
    /// nodes know.
    ///
    /// # Errors
    /// Returns an error if a node refuses a step.
    pub fn migrate(&self, slots: RangeInclusive<u16>, to: usize) -> Result<(), ServerError> {
        for slot in slots {
            let migration = self.migration(slot, to);
            if migration.from() != to {
                migration.open()?;
                while migration.move_keys(100)? > 0 {}
                migration.assign()?;
            }
        }
        self.settle();
        Ok(())
    }
}

impl Migration<'_> {
    /// Returns the number of the node that had the slot.
    #[must_use]
    pub fn from(&self) -> usize {
        self.from
    }

    /// Returns the number of the node that gets the slot.
    #[must_use]
    pub fn to(&self) -> usize {
        self.to
    }

    /// Opens the migration: first `SETSLOT IMPORTING` on the node that gets the slot, then `SETSLOT
    /// MIGRATING` on the other one.
    ///
    /// # Errors
    /// Returns an error if a node refuses.
    pub fn open(&self) -> Result<(), ServerError> {
        self.set_slot(self.to, &["IMPORTING", self.id(self.from)])?;
        self.set_slot(self.from, &["MIGRATING", self.id(self.to)])
    }

    /// Sends up to `most` of the slot's keys (`MIGRATE`). Returns how many were sent: 0 if none are
    /// left.
    ///
    /// # Errors
    /// Returns an error if the node refuses.
    pub fn move_keys(&self, most: usize) -> Result<usize, ServerError> {
        let most = most.to_string();
        let words: [&[u8]; 4] =
            [b"CLUSTER", b"GETKEYSINSLOT", self.slot.as_bytes(), most.as_bytes()];
        let keys = match self.server(self.from).command(&words)? {
            Reply::Array(keys) => keys,
            reply => return Err(ServerError::Refused(reply.to_string())),
        };
        let keys = keys.into_iter().filter_map(|key| match key {
            Reply::Bytes(key) => Some(key),
            _ => None,
        });
        let keys: Vec<Vec<u8>> = keys.collect();
        self.send(&keys)?;
        Ok(keys.len())
    }

    /// Sends one key (`MIGRATE`). A missing key has no effect.
    ///
    /// # Errors
    /// Returns an error if the node refuses.
    pub fn move_key(&self, key: &[u8]) -> Result<(), ServerError> {
        self.send(&[key.to_vec()])
    }

    /// Gives the slot to its new owner (`SETSLOT NODE`): first there, then on the old owner and the
    /// other primaries. The old owner refuses while it has keys of the slot.
    ///
    /// # Errors
    /// Returns an error if a node refuses.
    pub fn assign(&self) -> Result<(), ServerError> {
        let mut order = vec![self.to, self.from];
        let primaries = self.cluster.primaries_seen_by(self.to)?;
        order.extend(primaries.into_iter().filter(|at| ![self.to, self.from].contains(at)));
        order.into_iter().try_for_each(|at| self.set_slot(at, &["NODE", self.id(self.to)]))
    }

    /// Cancels the migration (`SETSLOT STABLE`). The slot stays at the old owner. Keys that have
    /// already moved stay at the new one, where no client finds them.
    ///
    /// # Errors
    /// Returns an error if a node refuses.
    pub fn cancel(&self) -> Result<(), ServerError> {
        self.set_slot(self.from, &["STABLE"])?;
        self.set_slot(self.to, &["STABLE"])
    }

    fn send(&self, keys: &[Vec<u8>]) -> Result<(), ServerError> {
        if keys.is_empty() {
            return Ok(());
        }
        let (ip, port) = self.server(self.to).host();
        let mut words = ["MIGRATE", &ip, &port, "", "0", TIMEOUT_MS].map(str::as_bytes).to_vec();
        if let Some(password) = self.cluster.password() {
            words.extend([b"AUTH", password.as_bytes()]);
        }
        words.push(b"KEYS");
        words.extend(keys.iter().map(Vec::as_slice));
        match self.server(self.from).command(&words)? {
            Reply::Error(why) => Err(ServerError::Refused(why)),
            _ => Ok(()),
        }
    }

    fn set_slot(&self, node: usize, words: &[&str]) -> Result<(), ServerError> {
        let all = [&["CLUSTER", "SETSLOT", &self.slot], words].concat();
        self.server(node).cli(&all).map(|_| ())
    }

    fn server(&self, number: usize) -> &super::server::Server {
        self.cluster.node(number).server()
    }

    fn id(&self, number: usize) -> &str {
        self.cluster.node(number).id()
    }
}
