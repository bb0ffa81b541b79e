//! The limits that a configuration assigns to descriptors and buckets (`envoy: domains:`).

use std::borrow::Cow;

use sluicegate::config::{DescriptorLimit, EnvoyDomain};
use sluicegate::http::OnMissingKey;
use sluicegate::{Error, Registry};
use sluicegate_core::RequestErrorKind;

/// Returns the limit that is assigned to the entries of a descriptor or a bucket, and the key that they make.
pub(super) fn find<'c, 'e>(
    domain: &'c EnvoyDomain,
    entries: &[(&'e str, &'e str)],
) -> Option<(&'c DescriptorLimit, Cow<'e, [u8]>)> {
    let mut lines = domain.descriptors.iter();
    lines.find_map(|line| Some((line, line.key_of(entries)?)))
}

/// Returns what a limit does without a key, if an error means that the key doesn't fit it.
pub(super) fn missing_key(registry: &Registry, limit: &str, error: &Error) -> Option<OnMissingKey> {
    let is_unfit = error.as_request().is_some_and(|it| it.kind() == RequestErrorKind::UnfitKey);
    is_unfit.then(|| registry.limit(limit).map(|limit| limit.missing_key).unwrap_or_default())
}
