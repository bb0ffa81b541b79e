//! The rules in a push.

use prost::Message as _;
use prost_types::value::Kind;
use prost_types::{Any, Struct, Value};
use sluicegate_core::printable;

use crate::incumbent::{
    DescriptorConfig, DomainConfig, LimitConfig, Metadata, MetadataValue, ReplacedLimit, Rules,
    Unit, cut,
};
use crate::protos::envoy::service::discovery::v3::DiscoveryResponse;
use crate::protos::ratelimit::config::ratelimit::v3::{
    RateLimitConfig, RateLimitDescriptor, RateLimitPolicy,
};

/// The type of the resources.
pub(super) const TYPE: &str = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig";

/// Maximum length of a reason, in characters.
const MOST: usize = 2_000;

/// Makes the rules of a push: all of them, or none.
///
/// # Errors
/// Returns the reason if a part of it is wrong.
pub(super) fn rules(push: &DiscoveryResponse, merge_domains: bool) -> Result<Rules, String> {
    // The type of the whole push may be missing, because each resource has its own.
    if !push.type_url.is_empty() {
        check_type("the push", &push.type_url)?;
    }
    let domains = (1..).zip(&push.resources).map(|(number, resource)| domain(number, resource));
    let domains = domains.collect::<Result<Vec<_>, _>>()?;
    Rules::new(domains, merge_domains).map_err(|errors| cut(&format!("{errors:#}"), MOST))
}

fn check_type(subject: &str, url: &str) -> Result<(), String> {
    // The part before the last slash isn't part of the type.
    let name = |url: &str| url.rsplit('/').next().map(str::to_owned);
    if name(url) == name(TYPE) {
        Ok(())
    } else {
        Err(format!("{subject} has the type `{}`, but must have {TYPE}", shown(url)))
    }
}

fn domain(number: usize, resource: &Any) -> Result<DomainConfig, String> {
    let subject = format!("resource {number}");
    check_type(&subject, &resource.type_url)?;
    let message = RateLimitConfig::decode(resource.value.as_slice())
        .map_err(|error| format!("{subject} isn't a RateLimitConfig: {error}"))?;
    let origin = if message.name.is_empty() { subject } else { shown(&message.name) };
    let descriptors = message.descriptors.into_iter().map(descriptor).collect();
    Ok(DomainConfig::new(&origin, &message.domain, descriptors))
}

fn descriptor(message: RateLimitDescriptor) -> DescriptorConfig {
    DescriptorConfig {
        rate_limit: message.rate_limit.map(limit),
        descriptors: message.descriptors.into_iter().map(descriptor).collect(),
        shadow_mode: message.shadow_mode,
        quota_mode: message.quota_mode,
        detailed_metric: message.detailed_metric,
        metadata: message.metadata.map(metadata).unwrap_or_default(),
        ..DescriptorConfig::new(&message.key, &message.value)
    }
}

fn limit(message: RateLimitPolicy) -> LimitConfig {
    let unit = match message.unit {
        0 => String::new(),
        number => Unit::from_number(number)
            .map_or_else(|| number.to_string(), |unit| unit.name().to_owned()),
    };
    LimitConfig {
        unlimited: message.unlimited,
        name: message.name,
        replaces: message.replaces.iter().map(|it| ReplacedLimit::new(&it.name)).collect(),
        ..LimitConfig::new(message.requests_per_unit, &unit)
    }
}

fn metadata(message: Struct) -> Metadata {
    message.fields.into_iter().map(|(name, it)| (name, value(it))).collect()
}

fn value(message: Value) -> MetadataValue {
    match message.kind {
        None | Some(Kind::NullValue(_)) => MetadataValue::Null,
        Some(Kind::BoolValue(it)) => MetadataValue::Bool(it),
        Some(Kind::NumberValue(it)) => MetadataValue::Number(it),
        Some(Kind::StringValue(it)) => MetadataValue::Text(it),
        Some(Kind::ListValue(it)) => {
            MetadataValue::List(it.values.into_iter().map(value).collect())
        }
        Some(Kind::StructValue(it)) => MetadataValue::Map(metadata(it)),
    }
}

/// Returns the beginning of a text of the control plane, for messages.
pub(super) fn shown(text: &str) -> String {
    printable(&cut(text, 100))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protos::ratelimit::config::ratelimit::v3::RateLimitReplace;

    fn policy(unit: i32) -> Option<RateLimitPolicy> {
        Some(RateLimitPolicy { unit, requests_per_unit: 3, ..RateLimitPolicy::default() })
    }

    fn of(key: &str, rate_limit: Option<RateLimitPolicy>) -> RateLimitDescriptor {
        let key = key.to_owned();
        RateLimitDescriptor { key, rate_limit, ..RateLimitDescriptor::default() }
    }

    fn config(domain: &str, descriptors: Vec<RateLimitDescriptor>) -> Any {
        let name = format!("{domain}-config");
        let config = RateLimitConfig { name, domain: domain.to_owned(), descriptors };
        Any { type_url: TYPE.to_owned(), value: config.encode_to_vec() }
    }

    fn push(resources: Vec<Any>) -> DiscoveryResponse {
        let type_url = TYPE.to_owned();
        DiscoveryResponse { resources, type_url, ..DiscoveryResponse::default() }
    }

    #[test]
    fn all_fields_of_a_message_become_rules() {
        let metadata = Struct {
            fields: [("team".to_owned(), Value { kind: Some(Kind::StringValue("a".to_owned())) })]
                .into(),
        };
        let gold = RateLimitDescriptor {
            value: "gold".to_owned(),
            shadow_mode: true,
            quota_mode: true,
            detailed_metric: true,
            metadata: Some(metadata),
            descriptors: vec![of("path", policy(7))],
            ..of("plan", policy(1))
        };
        let free = RateLimitPolicy {
            unlimited: true,
            name: "free".to_owned(),
            replaces: vec![RateLimitReplace { name: "other".to_owned() }],
            ..RateLimitPolicy::default()
        };
        let resources =
            vec![config("shop", vec![gold, of("free", Some(free))]), config("b", vec![])];
        let rules = rules(&push(resources), false).unwrap();
        assert_eq!(rules.domain_count(), 2);
        let lines: Vec<String> = rules.lines().collect();
        assert_eq!(lines.len(), 3, "{lines:?}");
        let line =
            "shop.plan_gold: unit=SECOND requests_per_unit=3, shadow_mode: true, quota_mode: true";
        assert!(lines.iter().any(|it| it == line), "{lines:?}");
        assert!(
            lines.iter().any(|it| it.starts_with("shop.plan_gold.path: unit=WEEK ")),
            "{lines:?}"
        );
    }

    #[test]
    fn one_wrong_part_refuses_the_push_with_a_reason() {
        let good = || config("good", vec![of("user", policy(1))]);
        let typed = |url: &str| Any { type_url: url.to_owned(), ..good() };
        for (wrong, reason) in [
            (config("", vec![]), "-config: has no domain"),
            (config("shop", vec![of("user", policy(0))]), "rate_limit: has no unit"),
            (config("shop", vec![of("user", policy(99))]), "but is `99`"),
            (config("shop", vec![of("", policy(1))]), "descriptors[0]: has no key"),
            (config("shop", vec![of("a", policy(1)), of("a", policy(2))]), "the key and value `a`"),
            (good(), "the domain `good`"),
            (Any { value: b"\x0a\xff".to_vec(), ..good() }, "resource 2 isn't a RateLimitConfig"),
            (typed("type.googleapis.com/a.B"), "resource 2 has the type `type.googleapis.com/a.B`"),
            (typed(""), "resource 2 has the type ``"),
        ] {
            let refused = rules(&push(vec![good(), wrong]), false).unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
        let other =
            DiscoveryResponse { type_url: "type.googleapis.com/x".to_owned(), ..push(vec![]) };
        assert!(rules(&other, false).unwrap_err().starts_with("the push has the type"));
    }

    #[test]
    fn domains_are_merged_on_request_and_no_resources_are_no_rules() {
        let both = || {
            push(vec![
                config("shop", vec![of("a", policy(1))]),
                config("shop", vec![of("b", policy(1))]),
            ])
        };
        assert_eq!(rules(&both(), true).unwrap().rules().len(), 2);
        assert!(rules(&both(), false).is_err());
        assert_eq!(rules(&push(vec![]), false).unwrap().domain_count(), 0);
    }

    #[test]
    fn deep_and_long_messages_are_refused_with_short_reasons() {
        let deep = (0..200).fold(of("k", policy(1)), |below, _| RateLimitDescriptor {
            descriptors: vec![below],
            ..of("k", None)
        });
        assert!(rules(&push(vec![config("shop", vec![deep])]), false).is_err());
        let long = "x".repeat(1_000_000);
        let many = (0..500).map(|_| config(&long, vec![of(&long, None)])).collect();
        assert!(rules(&push(many), false).unwrap_err().len() < 4 * MOST);
        let whole = config("shop", vec![of("user", policy(1))]);
        for end in 1..whole.value.len() {
            let cut = Any { value: whole.value[..end].to_vec(), ..whole.clone() };
            // A message that is cut between fields is valid.
            let _ = rules(&push(vec![cut]), false);
        }
    }
}
