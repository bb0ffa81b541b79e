//! The move of a slot from one node of a cluster to another, step by step.

use std::ops::RangeInclusive;

use super::cluster::Cluster;
use super::error::ServerError;
use super::resp::Reply;

/// How long a node may take to send a key, in ms.
const TIMEOUT_MS: &str = "5000";

/// A slot on its way from one node to another, by the commands that tools use for it. A test may
/// stop after any step and look; what it doesn't finish stays as it is.
///
/// Between [`open`](Self::open) and [`assign`](Self::assign), the old owner answers `ASK` to a
/// command whose keys it no longer has, and `TRYAGAIN` to one that has only some of its keys
/// there. The new owner answers `MOVED`, unless `ASKING` comes first.
#[derive(Debug)]
pub struct Migration<'a> {
    cluster: &'a Cluster,
    slot: String,
    from: usize,
    to: usize,
}

impl Cluster {
    /// The move of one slot to the node `to`, which is yet to be begun.
    ///
    /// # Panics
    /// If no node serves it.
    #[must_use]
    pub fn migration(&self, slot: u16, to: usize) -> Migration<'_> {
        Migration { cluster: self, slot: slot.to_string(), from: self.primary_of(slot), to }
    }

    /// Moves slots with all their keys to the node `to`, one after the other, and waits until all
    /// nodes know.
    ///
    /// # Errors
    /// When a node refuses a step.
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
    /// The number of the node that had the slot.
    #[must_use]
    pub fn from(&self) -> usize {
        self.from
    }

    /// The number of the node that gets it.
    #[must_use]
    pub fn to(&self) -> usize {
        self.to
    }

    /// First `SETSLOT IMPORTING` on the node that gets the slot, then `SETSLOT MIGRATING` on the
    /// other one.
    ///
    /// # Errors
    /// When a node refuses.
    pub fn open(&self) -> Result<(), ServerError> {
        self.set_slot(self.to, &["IMPORTING", self.id(self.from)])?;
        self.set_slot(self.from, &["MIGRATING", self.id(self.to)])
    }

    /// Sends up to `most` of the slot's keys over (`MIGRATE`), and answers how many went: 0 when
    /// none are left.
    ///
    /// # Errors
    /// When the node refuses.
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

    /// Sends this one key over (`MIGRATE`); nothing happens if it isn't there.
    ///
    /// # Errors
    /// When the node refuses.
    pub fn move_key(&self, key: &[u8]) -> Result<(), ServerError> {
        self.send(&[key.to_vec()])
    }

    /// Gives the slot to its new owner (`SETSLOT NODE`): there first, then on the old one and on
    /// the other primaries. The old owner refuses as long as it has keys of it.
    ///
    /// # Errors
    /// When a node refuses.
    pub fn assign(&self) -> Result<(), ServerError> {
        let mut order = vec![self.to, self.from];
        let primaries = self.cluster.primaries_seen_by(self.to)?;
        order.extend(primaries.into_iter().filter(|at| ![self.to, self.from].contains(at)));
        order.into_iter().try_for_each(|at| self.set_slot(at, &["NODE", self.id(self.to)]))
    }

    /// Gives it up (`SETSLOT STABLE`): the slot stays where it was, and so do the keys that have
    /// moved already, where nobody finds them.
    ///
    /// # Errors
    /// When a node refuses.
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
