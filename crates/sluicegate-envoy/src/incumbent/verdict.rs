//! The verdict on a request, from the values of its counters.

use std::sync::Arc;

use super::answer::{Answer, Code, CurrentLimit, Status};
use super::charge::Counted;
use super::dynamic_metadata;
use super::increments::{Increments, Level};
use super::matching::{Match, Matches, Native};
use super::request::Request;
use super::settings::{HeaderNames, Settings};

/// The value of a counter after its charge, or the decision of a rule's block.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Reading {
    /// The value in the current window.
    After(u64),
    /// A local cache has the counter as over its limit, and it wasn't charged.
    KnownOver,
    /// The status of a rule with a block, regardless of `shadow_mode`.
    Decided(Status),
}

/// An answer and what to count of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Answer to the request.
    pub answer: Answer,
    /// Additions to the rules' metrics: one entry for each descriptor with a limit.
    pub increments: Vec<Increments>,
    /// Whether `SHADOW_MODE` let a denied request pass.
    pub is_shadowed: bool,
    /// Whether each descriptor's counter is over its limit now, for a local cache.
    pub over: Vec<bool>,
}

impl Matches {
    /// Answers a request at a time in microseconds since the epoch.
    ///
    /// `readings` has the counter of each descriptor with a limit, after its [charge](Self::charges), and the status of each
    /// one with a block. A missing counter is 0, and a missing status is OK.
    ///
    /// A counter exceeds its limit if its value is above it. A request is denied if a counter exceeds a limit that isn't a
    /// quota, or if all quotas are exceeded.
    #[must_use]
    pub fn verdict(
        &self,
        request: &Request<'_>,
        settings: &Settings,
        readings: &[Option<Reading>],
        micros: u64,
    ) -> Verdict {
        let mut increments = Vec::new();
        let mut over = Vec::with_capacity(self.descriptors.len());
        let mut statuses = Vec::with_capacity(self.descriptors.len());
        for (index, counted) in self.counted(request).enumerate() {
            let reading = readings.get(index).and_then(Option::as_ref);
            let Some(counted) = counted else {
                statuses.push(match self.descriptors.get(index) {
                    Some(Match::Unlimited(_)) => Status::of_nothing(Code::Ok, u32::MAX),
                    Some(Match::Native(native)) => {
                        let (status, counted) = decided(native, request, index, reading);
                        increments.push(counted);
                        status
                    }
                    _ => Status::of_nothing(Code::Ok, 0),
                });
                over.push(false);
                continue;
            };
            let level = level(counted, reading);
            increments.push(if counted.is_refund {
                Increments::none(counted.limit.metric.clone())
            } else {
                Increments::new(counted, level, settings.near_limit_ratio)
            });
            over.push(!matches!(level, Level::Within(_)));
            statuses.push(status(counted, level, micros));
        }
        let code = self.code(&statuses, settings);
        let is_shadowed = settings.shadow_mode && code == Code::OverLimit;
        let headers = settings.response_headers.as_ref();
        let response_headers = headers.and_then(|names| self.headers(&statuses, settings, names));
        let dynamic_metadata = settings.response_dynamic_metadata.then(|| {
            let is_passed = |status: &Status| status.code == Code::Ok;
            let passed =
                self.descriptors.iter().zip(&statuses).filter(|(_, status)| is_passed(status));
            let rules = passed.filter_map(|(found, _)| found.limiting());
            dynamic_metadata::new(request, rules.map(Arc::as_ref))
        });
        let answer = Answer {
            code: if is_shadowed { Code::Ok } else { code },
            statuses,
            response_headers: response_headers.unwrap_or_default(),
            dynamic_metadata,
        };
        Verdict { answer, increments, is_shadowed, over }
    }

    fn code(&self, statuses: &[Status], settings: &Settings) -> Code {
        let (mut quotas, mut quotas_over, mut limits_over) = (0, 0, 0);
        for (found, status) in self.descriptors.iter().zip(statuses) {
            let is_over = status.code == Code::OverLimit;
            match found {
                Match::Unlimited(_) => {}
                found if is_quota(found, settings) => {
                    quotas += 1;
                    quotas_over += u32::from(is_over);
                }
                _ => limits_over += u32::from(is_over),
            }
        }
        let is_over = limits_over > 0 || quotas > 0 && quotas == quotas_over;
        if is_over { Code::OverLimit } else { Code::Ok }
    }

    /// Returns the headers for the last limit over, or for the one with the fewest remaining requests.
    fn headers(
        &self,
        statuses: &[Status],
        settings: &Settings,
        names: &HeaderNames,
    ) -> Option<Vec<(String, String)>> {
        let mut shown: Option<&Status> = None;
        let mut fewest = u32::MAX;
        for (found, status) in self.descriptors.iter().zip(statuses) {
            let is_fewer = status.current_limit.is_some() && status.remaining < fewest;
            if is_fewer || status.code == Code::OverLimit && !is_quota(found, settings) {
                shown = Some(status);
                fewest = status.remaining;
            }
        }
        let shown = shown?;
        let limit = shown.current_limit.as_ref()?;
        Some(vec![
            (names.limit.clone(), limit.requests_per_unit.to_string()),
            (names.remaining.clone(), shown.remaining.to_string()),
            (names.reset.clone(), shown.reset_seconds.unwrap_or(0).to_string()),
        ])
    }
}

/// Returns whether a descriptor counts as a quota. With `QUOTA_MODE`, one without a limit is a quota that isn't over.
fn is_quota(found: &Match, settings: &Settings) -> bool {
    settings.quota_mode || found.limiting().is_some_and(|rule| rule.is_quota())
}

/// Returns the status of a descriptor whose rule has a block, and the additions to its metrics.
fn decided(
    native: &Native,
    request: &Request<'_>,
    index: usize,
    reading: Option<&Reading>,
) -> (Status, Increments) {
    let mut status = match reading {
        Some(Reading::Decided(status)) => status.clone(),
        _ => Status::of_nothing(Code::Ok, 0),
    };
    let is_over = status.code == Code::OverLimit;
    if native.rule.is_shadow() {
        status.code = Code::Ok;
    }
    let charged = request.descriptors.get(index).filter(|it| !it.is_negative_hits);
    let hits = charged.map_or(0, |descriptor| request.hits(descriptor));
    let increments =
        Increments::of_decision(native.metric.clone(), hits, is_over, native.rule.is_shadow());
    (status, increments)
}

fn level(counted: Counted<'_>, reading: Option<&Reading>) -> Level {
    /// Hits from which the incumbent's counters would overflow.
    const TOO_MANY: u64 = 1 << 63;
    let most = u64::from(counted.limit.requests_per_unit);
    let after = match reading {
        Some(Reading::KnownOver) if counted.is_refund => return Level::Within(most),
        Some(Reading::KnownOver) => return Level::KnownOver,
        Some(Reading::After(after)) => *after,
        Some(Reading::Decided(_)) | None => 0,
    };
    if counted.is_refund {
        Level::Within(after)
    } else if counted.hits >= TOO_MANY {
        Level::Over(after.max(counted.hits))
    } else if after > most {
        Level::Over(after)
    } else {
        Level::Within(after)
    }
}

fn status(counted: Counted<'_>, level: Level, micros: u64) -> Status {
    let limit = counted.limit;
    let remaining = match level {
        Level::Within(after) => u64::from(limit.requests_per_unit).saturating_sub(after),
        Level::Over(_) | Level::KnownOver => 0,
    };
    let is_denied = !matches!(level, Level::Within(_)) && !limit.is_shadow();
    Status {
        code: if is_denied { Code::OverLimit } else { Code::Ok },
        current_limit: Some(CurrentLimit {
            name: limit.name().to_owned(),
            requests_per_unit: limit.requests_per_unit,
            unit: Some(limit.unit),
        }),
        remaining: u32::try_from(remaining).unwrap_or(u32::MAX),
        reset_seconds: Some(limit.unit.window(micros).left),
    }
}
