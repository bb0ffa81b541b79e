//! The counters of quotas.

use std::sync::atomic::{AtomicU64, Ordering};

/// A reason to ignore what a client reported.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Ignored {
    /// A bucket without an id, or with an id that is too large.
    Id,
    /// A bucket above the number of one stream.
    TooMany,
    /// Numbers of requests that can't be true.
    Requests,
}

impl Ignored {
    /// All reasons.
    pub const ALL: [Self; 3] = [Self::Id, Self::TooMany, Self::Requests];

    /// Returns the reason as a word: `id`, `too_many` or `requests`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::TooMany => "too_many",
            Self::Requests => "requests",
        }
    }
}

/// Numbers of quotas, as of now or since the start.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct QuotaCounts {
    /// Open streams.
    pub streams: u64,
    /// Buckets that the open streams have.
    pub buckets: u64,
    /// Messages of clients.
    pub messages: u64,
    /// Reports about buckets in them.
    pub reports: u64,
    /// Assignments with a new or changed share.
    pub assigned: u64,
    /// Assignments that were carried on.
    pub carried_on: u64,
    /// Requests for a share that the store refused, because too little was free.
    pub refused: u64,
    /// Requests for a share that the store failed to answer.
    pub failed: u64,
    /// Buckets that were abandoned.
    pub abandoned: u64,
    /// Answers that couldn't be delivered in time. Their streams were closed.
    pub late: u64,
    /// Reports that were ignored, by [`Ignored::ALL`].
    pub ignored: [u64; Ignored::ALL.len()],
}

macro_rules! counters {
    ($($name:ident),*) => {
        /// The counters behind [`QuotaCounts`].
        #[derive(Debug, Default)]
        pub(super) struct Counts {
            $($name: AtomicU64,)*
            ignored: [AtomicU64; Ignored::ALL.len()],
        }

        impl Counts {
            pub(super) fn read(&self) -> QuotaCounts {
                QuotaCounts {
                    $($name: self.$name.load(Ordering::Relaxed),)*
                    ignored: self.ignored.each_ref().map(|it| it.load(Ordering::Relaxed)),
                }
            }
        }
    };
}

counters!(
    streams, buckets, messages, reports, assigned, carried_on, refused, failed, abandoned, late
);

impl Counts {
    pub(super) fn stream_opened(&self) {
        add(&self.streams, 1);
    }

    pub(super) fn stream_closed(&self, buckets: usize) {
        self.streams.fetch_sub(1, Ordering::Relaxed);
        self.buckets_left(buckets);
    }

    pub(super) fn bucket_came(&self) {
        add(&self.buckets, 1);
    }

    pub(super) fn buckets_left(&self, number: usize) {
        self.buckets.fetch_sub(number as u64, Ordering::Relaxed);
    }

    pub(super) fn message(&self, reports: usize) {
        add(&self.messages, 1);
        add(&self.reports, reports as u64);
    }

    pub(super) fn assigned(&self) {
        add(&self.assigned, 1);
    }

    pub(super) fn carried_on(&self) {
        add(&self.carried_on, 1);
    }

    pub(super) fn refused(&self) {
        add(&self.refused, 1);
    }

    pub(super) fn failed(&self) {
        add(&self.failed, 1);
    }

    pub(super) fn abandoned(&self) {
        add(&self.abandoned, 1);
    }

    pub(super) fn late(&self) {
        add(&self.late, 1);
    }

    pub(super) fn ignored(&self, why: Ignored) {
        add(&self.ignored[why as usize], 1);
    }
}

fn add(counter: &AtomicU64, number: u64) {
    counter.fetch_add(number, Ordering::Relaxed);
}
