//! The boards of keys: what processes tell each other about a key. This store has one process, so they are few.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use sluicegate_core::LimitName;
use sluicegate_core::for_stores::{Post, Posted};

/// The boards of all keys.
#[derive(Debug, Default)]
pub(crate) struct Boards(Mutex<Shown>);

#[derive(Debug, Default)]
struct Shown {
    boards: HashMap<(LimitName, Vec<u8>), Board>,
    /// The number of boards at which those without entries are removed.
    sweep_at: usize,
}

/// The content and the end in µs of each entry, by its name.
type Board = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;

impl Boards {
    /// Puts an entry on a board at `now`, in µs, and returns all entries in the order of their names.
    pub(crate) fn exchange(
        &self,
        (limit, key): (&LimitName, &[u8]),
        post: Option<Post<'_>>,
        now: u64,
    ) -> Vec<Posted> {
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shown.sweep(now);
        let board = shown.boards.entry((limit.clone(), key.to_vec())).or_default();
        board.retain(|_, (_, ends)| *ends > now);
        if let Some(post) = post
            && (board.len() < Post::MOST || board.contains_key(post.name))
        {
            let ends = now.saturating_add(post.lasts.as_micros());
            board.insert(post.name.to_vec(), (post.value.to_vec(), ends));
        }
        let posted = |(name, (value, _)): (&Vec<u8>, &(Vec<u8>, u64))| Posted {
            name: name.clone(),
            value: value.clone(),
        };
        board.iter().map(posted).collect()
    }
}

impl Shown {
    /// Removes boards without entries, once there are twice as many as after the last time.
    fn sweep(&mut self, now: u64) {
        if self.boards.len() >= self.sweep_at {
            self.boards.retain(|_, board| board.values().any(|(_, ends)| *ends > now));
            self.sweep_at = 2 * self.boards.len() + 64;
        }
    }
}
