//! The fleet: its processes, and the shares of limits that Envoys have.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

use super::error::{ApiError, json};
use super::guard;
use super::service::Service;
use crate::access::Call;
use crate::fleet::{Entry, differing_for_ms};

#[derive(Serialize)]
struct Fleet {
    /// In the order of their names.
    processes: Vec<ProcessEntry>,
    /// Time for which two configurations have decided concurrently; `null` if there is only one.
    differing_for_ms: Option<u64>,
    quotas: QuotasEntry,
}

#[derive(Serialize)]
struct ProcessEntry {
    #[serde(flatten)]
    entry: Entry,
    /// Whether it is the one that answers.
    is_self: bool,
}

/// The quotas at this replica. Rates are in requests per second.
#[derive(Default, Serialize)]
struct QuotasEntry {
    streams: u64,
    buckets: u64,
    /// At most a thousand, in the order of their names.
    limits: Vec<LimitEntry>,
}

#[derive(Serialize)]
struct LimitEntry {
    limit: String,
    keys: u64,
    shares: SharesEntry,
    /// At most 10, those that need most first.
    busiest: Vec<KeyEntry>,
}

#[derive(Serialize)]
struct KeyEntry {
    /// Beginning of the key.
    key: String,
    shares: SharesEntry,
}

#[derive(Serialize)]
struct SharesEntry {
    assigned_buckets: u64,
    rate: f64,
    assigned: f64,
    needed: f64,
    unassigned: f64,
}

/// `GET /v1/fleet`: 200 with the processes, and the quotas of the limits that the caller may see.
pub(super) async fn fleet(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let (head, _) = request.into_parts();
    let caller = guard::admit(&service.access, &head, Call::Inspect)?;
    let quotas = quotas(&service, |limit| caller.covers(limit));
    let entries = service.fleet.entries();
    let differing_for_ms = differing_for_ms(&entries);
    let own = service.fleet.id();
    let sees_all = caller.covers_all();
    let process = |mut entry: Entry| {
        // The rows of limits show them.
        entry.used.clear();
        // The message quotes the file, which names other limits.
        if let Some(refused) = entry.refused.as_mut().filter(|_| !sees_all) {
            refused.message = "this client doesn't see the whole configuration".to_owned();
        }
        ProcessEntry { is_self: entry.id == own, entry }
    };
    let processes = entries.into_iter().map(process).collect();
    Ok(json(StatusCode::OK, &Fleet { processes, differing_for_ms, quotas }))
}

/// Returns nothing: without the feature, no Envoy has a share.
#[cfg(not(feature = "envoy"))]
fn quotas(_: &Service, _: impl Fn(&str) -> bool) -> QuotasEntry {
    QuotasEntry::default()
}

#[cfg(feature = "envoy")]
use of_envoys::quotas;

#[cfg(feature = "envoy")]
mod of_envoys {
    use sluicegate_envoy::service::{KeyQuotas, LimitQuotas, QuotaShares};

    use super::super::quota_rates::{MOST_LIMITS, per_second};
    use super::{KeyEntry, LimitEntry, QuotasEntry, Service, SharesEntry};
    use crate::decisions::shown;

    pub(crate) fn quotas(service: &Service, is_shown: impl Fn(&str) -> bool) -> QuotasEntry {
        let fleet = service.quotas.fleet();
        let shown = fleet.limits.into_iter().filter(|row| is_shown(&row.limit));
        QuotasEntry {
            streams: fleet.counts.streams,
            buckets: fleet.counts.buckets,
            limits: shown.take(MOST_LIMITS).map(LimitEntry::new).collect(),
        }
    }

    impl LimitEntry {
        fn new(row: LimitQuotas) -> Self {
            Self {
                keys: row.keys,
                shares: SharesEntry::new(row.shares),
                busiest: row.busiest.iter().map(KeyEntry::new).collect(),
                limit: row.limit,
            }
        }
    }

    impl KeyEntry {
        fn new(row: &KeyQuotas) -> Self {
            Self { key: shown(&row.key), shares: SharesEntry::new(row.shares) }
        }
    }

    impl SharesEntry {
        fn new(shares: QuotaShares) -> Self {
            Self {
                assigned_buckets: shares.assigned_buckets,
                rate: per_second(shares.rate),
                assigned: per_second(shares.assigned),
                needed: per_second(shares.needed),
                unassigned: per_second(shares.unassigned),
            }
        }
    }
}
