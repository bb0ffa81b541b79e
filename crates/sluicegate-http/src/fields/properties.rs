//! Tests of the fields with an independent parser.

use proptest::prelude::*;
use sfv::{BareItem, Item, ListEntry, Parser};
use sluicegate_core::{Cost, Costs, RetryAfter, Span};

use super::quota::clamp;
use super::{FieldFormat, LimitFields, Partition, retry_after};
use crate::test_limit::TestLimit;

/// Returns the members of a structured list.
fn parsed(text: &str) -> Vec<Item> {
    let list =
        Parser::new(text).parse::<sfv::List>().unwrap_or_else(|error| panic!("{text}: {error}"));
    list.into_iter()
        .map(|entry| match entry {
            ListEntry::Item(item) => item,
            other => panic!("{other:?} is no item"),
        })
        .collect()
}

fn integer(item: &Item, name: &str) -> Option<u64> {
    item.params.get(name).map(|value| match value {
        BareItem::Integer(number) => u64::try_from(i64::from(*number)).unwrap(),
        other => panic!("{name} is {other:?}"),
    })
}

fn name(item: &Item) -> String {
    match &item.bare_item {
        BareItem::String(name) => name.as_str().to_owned(),
        other => panic!("{other:?} is no string"),
    }
}

/// Policies of any kind with numbers up to the largest.
fn policy() -> impl Strategy<Value = String> {
    let number = prop_oneof![0..12_u64, Just(9_007_199_254_740_991)];
    (number, "s|min|d|500ms", 0..6_usize, any::<bool>()).prop_map(|(count, per, kind, shadow)| {
        let rest = match kind {
            0 => format!("token_bucket {}/{per} burst {count}", count.clamp(1, 1_000)),
            1 => format!("fixed_window {count}/{per}"),
            2 => format!("gcra 3/{per}"),
            3 => format!("sliding_log {}/{per}", count.min(20)),
            4 => format!("smooth {}/{per}", count.clamp(1, 10)),
            _ => format!("sliding_counter {}/{per}", count.min(1_000)),
        };
        if shadow { format!("{rest} shadow") } else { rest }
    })
}

proptest! {
    #[test]
    fn another_program_reads_the_same_numbers(
        policies in prop::collection::vec(policy(), 1..5),
        costs in prop::collection::vec(1..6_u64, 1..6),
        wait in 0..3_000_u64,
    ) {
        let policies: Vec<&str> = policies.iter().map(String::as_str).collect();
        let parsed_policies: Result<Vec<sluicegate_core::Policy>, _> =
            policies.iter().map(|spec| spec.parse()).collect();
        // Rates that can't be exact are rejected.
        prop_assume!(parsed_policies.is_ok());
        let test = TestLimit::new(&policies);
        let partition = Partition::of(&"ip+user".parse().unwrap());
        for cost in costs {
            let decision = test.check(cost);
            let wanted: Vec<_> = test.limit.members().iter().zip(decision.policies())
                .filter(|(_, outcome)| !outcome.is_shadow()).collect();
            let names: Vec<String> =
                wanted.iter().map(|(member, _)| member.name().as_str().to_owned()).collect();
            for (format, left, window) in
                [(FieldFormat::Draft11, "r", "t"), (FieldFormat::DraftNext, "a", "w")]
            {
                let partitions = std::slice::from_ref(&partition);
                let fields = LimitFields::new(&test.limit, format).with_partitions(partitions);
                let fields = fields.of(&decision).costs(Costs::Same(Cost::new(cost).unwrap()));
                let pairs = fields.pairs();
                prop_assert_eq!(pairs.iter().any(|(name, _)| *name == "ratelimit"), !names.is_empty());
                let retry = retry_after(&decision);
                for (field, text) in pairs {
                    if field == "retry-after" {
                        prop_assert_eq!(text.parse::<u64>().ok(), retry);
                        prop_assert!(retry >= Some(1) && decision.is_denied());
                        continue;
                    }
                    let items = parsed(&text);
                    prop_assert_eq!(items.iter().map(name).collect::<Vec<_>>(), &names[..]);
                    for (item, (_, outcome)) in items.iter().zip(&wanted) {
                        match field {
                            "ratelimit" => {
                                let remaining = outcome.remaining().map(clamp);
                                prop_assert!(remaining.is_none_or(|left_now| integer(item, left) == Some(left_now)));
                                // A window depends on its own policy only.
                                let end = match outcome.retry_after() {
                                    RetryAfter::After(span) => Some(span),
                                    RetryAfter::NotRefused => outcome.reset_after(),
                                    _ => None,
                                };
                                let end = end.map(|span| clamp(Span::from(span).as_secs_ceil()));
                                prop_assert_eq!(integer(item, window), end, "{}", text);
                                let told = (format == FieldFormat::DraftNext).then_some(cost);
                                prop_assert_eq!(integer(item, "c"), told);
                            }
                            "ratelimit-policy" => {
                                prop_assert!(integer(item, "q").is_some());
                                prop_assert_ne!(integer(item, "w"), Some(0));
                            }
                            _ => prop_assert_eq!(item.params.get("user_id"), Some(&BareItem::Boolean(true))),
                        }
                    }
                }
            }
            let draft = LimitFields::new(&test.limit, FieldFormat::Draft03);
            for (field, text) in draft.of(&decision).pairs() {
                let items = parsed(&text);
                prop_assert!(field == "ratelimit-limit" || items.len() == 1);
                prop_assert!(items.iter().all(|item| matches!(item.bare_item, BareItem::Integer(_))));
            }
            test.advance(Span::from_millis(wait).unwrap());
        }
    }

    #[test]
    fn any_partition_is_read_by_another_program(
        dimensions in prop::collection::vec(("[a-z*][a-z0-9_.*-]{0,5}", "[ -~]{0,6}", any::<bool>()), 1..5),
    ) {
        let mut partition = Partition::default();
        let mut expected = Vec::new();
        for (name, value, varies) in dimensions {
            let next = if varies {
                partition.clone().varies_by(&name)
            } else {
                partition.clone().applies_to(&name, &value)
            };
            if let Ok(next) = next {
                partition = next;
                expected.push((name, (!varies).then_some(value)));
            }
        }
        let test = TestLimit::new(&["gcra 1/s"]);
        let fields = LimitFields::new(&test.limit, FieldFormat::DraftNext).with_partitions(&[partition]);
        let decision = test.check(1);
        let pairs = fields.of(&decision).pairs();
        let (_, text) = pairs.iter().find(|(name, _)| *name == "ratelimit-partition").unwrap();
        let items = parsed(text);
        let read: Vec<_> = items[0].params.iter().map(|(name, value)| {
            (name.as_str().to_owned(), match value {
                BareItem::Boolean(true) => None,
                BareItem::Token(text) => Some(text.as_str().to_owned()),
                BareItem::String(text) => Some(text.as_str().to_owned()),
                other => panic!("{other:?}"),
            })
        }).collect();
        prop_assert_eq!(read, expected);
    }
}
