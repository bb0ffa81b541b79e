//! Any bytes as a push of a control plane. Its rules are in force completely, or the former ones stay and there is a
//! reason.
//!
//! | bytes | input |
//! | --- | --- |
//! | 1 | whether the rest is a whole push, and whether domains are merged |
//! | … | a push, or its resources, each after 2 bytes with its length |

#![no_main]

use std::collections::BTreeSet;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use prost::Message as _;
use prost_types::Any;
use sluicegate::testing::{ManualClock, Timestamp};
use sluicegate::{Config, MemoryStore, Registry};
use sluicegate_envoy::incumbent::{
    ControlPlane, Descriptor, Environment, LoadOptions, Request, RuleSource, Rules, Settings,
};
use sluicegate_envoy::service::protos::DiscoveryResponse;
use sluicegate_envoy::service::protos::rules::{RateLimitConfig, RateLimitDescriptor};
use sluicegate_envoy::service::{RateLimits, XdsClient, XdsEvent};
use tokio::runtime::Runtime;

const TYPE: &str = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig";
const FORMER: &str = "\
domain: former
descriptors:
  - {key: k, rate_limit: {unit: hour, requests_per_unit: 9}}
";

static PLANE: LazyLock<ControlPlane> = LazyLock::new(|| {
    let variables = [("CONFIG_TYPE".to_owned(), "GRPC_XDS_SOTW".to_owned())];
    match Environment::read(variables).expect("they are valid").source {
        RuleSource::Xds(plane) => *plane,
        _ => unreachable!("the rules are those of a control plane"),
    }
});
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime")
});

fuzz_target!(|input: &[u8]| {
    let Some((&shape, rest)) = input.split_first() else { return };
    let push = if shape & 1 == 0 { whole(rest) } else { Some(of_resources(rest)) };
    let Some(push) = push else { return };
    let client = XdsClient::new(PLANE.clone(), shape & 2 != 0).expect("it is valid");
    let clock = ManualClock::new(Timestamp::from_micros_clamped(1_795_810_837_250_000));
    let registry = Registry::builder(MemoryStore::builder().clock(clock).build()).build();
    let mut base = Config::default();
    base.limits.clear();
    let limits = RateLimits::new(registry.clone(), base, Settings::default());
    let former = Rules::load([("former.yaml", FORMER)], LoadOptions::default()).expect("valid");
    limits.load(former).expect("they are limits");
    let (lines, names) = (limits.lines(), names(&registry));
    assert_eq!(remaining(&limits, "former", "k"), Some(8));

    match client.load(&push, &limits) {
        XdsEvent::Applied { .. } => {
            let mut domains = BTreeSet::new();
            let (mut rules, mut limited) = (0, 0);
            for resource in &push.resources {
                let config = RateLimitConfig::decode(&*resource.value).expect("it was decoded");
                count(&config.descriptors, &mut rules, &mut limited);
                for descriptor in &config.descriptors {
                    let _ = remaining(&limits, &config.domain, &descriptor.key);
                }
                domains.insert(config.domain);
            }
            assert_eq!(limits.lines().len(), rules, "{push:?}");
            assert_eq!(registry.limits().len(), limited + domains.len(), "{push:?}");
            // A second time, it changes nothing.
            let lines = limits.lines();
            let again = client.load(&push, &limits);
            assert!(
                matches!(&again, XdsEvent::Applied { changes, .. } if changes.is_empty()),
                "{again}"
            );
            assert_eq!(limits.lines(), lines);
        }
        XdsEvent::Refused { why, .. } => {
            assert!(!why.is_empty() && why.chars().count() < 4_000, "{why}");
            assert_eq!((limits.lines(), self::names(&registry)), (lines, names), "{why}");
            assert_eq!(remaining(&limits, "former", "k"), Some(7), "{why}");
        }
        other => panic!("{other}"),
    }
});

/// Reads a push as it is on the wire.
fn whole(bytes: &[u8]) -> Option<DiscoveryResponse> {
    DiscoveryResponse::decode(bytes).ok()
}

/// Makes a push of resources.
fn of_resources(mut bytes: &[u8]) -> DiscoveryResponse {
    let mut resources = Vec::new();
    while let Some((&length, rest)) = bytes.split_first_chunk() {
        let (value, rest) = rest.split_at(usize::from(u16::from_be_bytes(length)).min(rest.len()));
        resources.push(Any { type_url: TYPE.to_owned(), value: value.to_vec() });
        bytes = rest;
    }
    DiscoveryResponse { resources, type_url: TYPE.to_owned(), ..DiscoveryResponse::default() }
}

/// Counts the rules, and those with a limit.
fn count(descriptors: &[RateLimitDescriptor], rules: &mut usize, limited: &mut usize) {
    for descriptor in descriptors {
        if let Some(policy) = &descriptor.rate_limit {
            *rules += 1;
            *limited += usize::from(!policy.unlimited);
        }
        count(&descriptor.descriptors, rules, limited);
    }
}

/// Takes a unit. Returns the remaining ones; `None` without a limit.
fn remaining(limits: &RateLimits, domain: &str, key: &str) -> Option<u32> {
    let descriptor = Descriptor { entries: vec![(key, "x")], ..Descriptor::default() };
    let request = Request { domain, descriptors: vec![descriptor], hits_addend: 1 };
    let decided = RUNTIME.block_on(limits.decide(&request)).expect("the embedded store answers");
    let status = &decided.verdict.answer.statuses[0];
    status.current_limit.as_ref().map(|_| status.remaining)
}

fn names(registry: &Registry) -> Vec<String> {
    registry.limits().iter().map(|it| it.limit.name().to_string()).collect()
}
