//! Requests for the rate limit service.

use bytes::{BufMut as _, Bytes, BytesMut};
use prost::Message as _;
use sluicegate_envoy::service::protos::rate_limit_descriptor::Entry;
use sluicegate_envoy::service::protos::{RateLimitDescriptor, RateLimitRequest};

use crate::embedded::next;

/// The domain whose descriptors have limits.
pub const DOMAIN: &str = "bench";
/// The keys of the descriptors that have limits, each with the number of its values.
pub const ENTRIES: [(&str, u64); 3] = [("user", 100_000), ("tenant", 1_000), ("route", 10)];
/// The number of different messages.
const MESSAGES: usize = 1 << 14;

/// Returns messages with this number of descriptors. Up to three have different keys; more have the first one.
pub fn messages(domain: &str, descriptors: usize) -> Vec<Bytes> {
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let mut descriptor = |index: usize| {
        let (key, values) = if descriptors > ENTRIES.len() { ENTRIES[0] } else { ENTRIES[index] };
        let value = format!("{DOMAIN}:42:{key}:{:09}", next(&mut state) % values);
        entry(key, value)
    };
    let mut message = |_| {
        let descriptors = (0..descriptors).map(&mut descriptor).collect();
        framed(&RateLimitRequest { domain: domain.to_owned(), descriptors, hits_addend: 0 })
    };
    (0..MESSAGES).map(&mut message).collect()
}

/// Returns a message that no limit admits, with a descriptor of each key.
pub fn excessive() -> Bytes {
    let descriptors = ENTRIES.map(|(key, _)| entry(key, "excessive".to_owned())).into();
    framed(&RateLimitRequest { domain: DOMAIN.to_owned(), descriptors, hits_addend: u32::MAX })
}

fn entry(key: &str, value: String) -> RateLimitDescriptor {
    let entries = vec![Entry { key: key.to_owned(), value }];
    RateLimitDescriptor { entries, ..RateLimitDescriptor::default() }
}

/// Encodes a message as gRPC sends it.
fn framed(request: &RateLimitRequest) -> Bytes {
    let mut bytes = BytesMut::new();
    // It isn't compressed.
    bytes.put_u8(0);
    bytes.put_u32(request.encoded_len() as u32);
    bytes.extend_from_slice(&request.encode_to_vec());
    bytes.freeze()
}
