//! Random entries and keys, checked against the documentation.

use std::cmp::Ordering;

use proptest::prelude::*;

use super::expression;
use crate::cidr::Cidr;
use crate::key::Key;
use crate::key_expression::KeyExpression;
use crate::key_matcher::{KeyMap, KeyMatcher, Pattern};

/// Bytes that are often the beginning of others, or have a meaning in keys.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![4 => Just(b'a'), 4 => Just(b'b'), 1 => Just(0), 1 => Just(b'|'), 1 => Just(b'\\')];
    prop::collection::vec(byte, 0..4)
}

fn network() -> impl Strategy<Value = Cidr> {
    (any::<bool>(), 0..4_u32, 0..=32_u8).prop_map(|(mapped, high, length)| {
        let address = std::net::Ipv4Addr::from_bits(high << 29);
        if mapped {
            Cidr::masked(std::net::Ipv6Addr::from_bits(u128::from(high) << 125).into(), length)
        } else {
            Cidr::masked(address.into(), length)
        }
    })
}

fn pattern() -> impl Strategy<Value = Pattern> {
    prop_oneof![
        3 => bytes().prop_map(|text| Pattern::Exact(text.into())),
        3 => bytes().prop_map(|text| Pattern::Prefix(text.into())),
        1 => Just(Pattern::Prefix(Box::default())),
        2 => network().prop_map(Pattern::Range),
        1 => network().prop_map(|network| Pattern::Exact(network.to_string().into_bytes().into())),
    ]
}

fn entry() -> impl Strategy<Value = KeyMatcher> {
    prop::collection::vec(pattern(), 1..4).prop_map(|parts| KeyMatcher { components: parts.into() })
}

/// A component of a key: text, or the client's network.
#[derive(Clone, Debug)]
enum Part {
    Text(Vec<u8>),
    Network(Cidr),
}

impl Part {
    fn key(&self) -> Key {
        match self {
            Self::Text(text) => Key::new(text),
            Self::Network(network) => Key::of_network(*network),
        }
    }

    fn text(&self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.clone(),
            Self::Network(network) => network.to_string().into_bytes(),
        }
    }
}

/// Makes parts with at most one network, as a request has at most one address.
fn parts() -> impl Strategy<Value = Vec<Part>> {
    let texts = prop::collection::vec(bytes().prop_map(Part::Text), 1..4);
    (texts, prop::option::of((any::<prop::sample::Index>(), network()))).prop_map(
        |(mut parts, network)| {
            if let Some((at, network)) = network {
                let at = at.index(parts.len());
                parts[at] = Part::Network(network);
            }
            parts
        },
    )
}

/// Checks an entry as the documentation defines a match.
fn is_match(entry: &KeyMatcher, key: &[Part]) -> bool {
    let is_open = matches!(entry.components.last(), Some(Pattern::Prefix(_)));
    let own = &entry.components;
    if let [Pattern::Range(range)] = &**own {
        return key.iter().any(|part| matches!(part, Part::Network(it) if range.covers(*it)));
    }
    if let ([part], [_, .., last]) = (key, &**own) {
        let texts: Option<Vec<Vec<u8>>> = own[..own.len() - 1]
            .iter()
            .map(|pattern| match pattern {
                Pattern::Exact(text) => Some(text.to_vec()),
                Pattern::Prefix(_) => None,
                Pattern::Range(range) => Some(range.to_string().into_bytes()),
            })
            .collect();
        let Some(mut texts) = texts else { return false };
        let text = match last {
            Pattern::Exact(text) | Pattern::Prefix(text) => text.to_vec(),
            Pattern::Range(range) => range.to_string().into_bytes(),
        };
        texts.push(text);
        let whole = texts.join(&b'|');
        return if is_open { part.text().starts_with(&whole) } else { part.text() == whole };
    }
    let counts = if is_open { own.len() <= key.len() } else { own.len() == key.len() };
    counts
        && own.iter().zip(key).all(|(pattern, part)| match (pattern, part) {
            (Pattern::Exact(text), part) => part.text() == **text,
            (Pattern::Prefix(text), part) => part.text().starts_with(text),
            (Pattern::Range(range), Part::Network(network)) => range.covers(*network),
            (Pattern::Range(_), Part::Text(_)) => false,
        })
}

/// Returns the order of the documentation; equal where the order of the entries decides.
fn compare(a: &KeyMatcher, b: &KeyMatcher) -> Ordering {
    let is_exact = |entry: &KeyMatcher| {
        entry.components.iter().all(|component| matches!(component, Pattern::Exact(_)))
    };
    let range = |entry: &KeyMatcher| {
        let length = |component: &Pattern| match component {
            Pattern::Range(range) => Some(range.len()),
            _ => None,
        };
        entry.components.iter().filter_map(length).max()
    };
    let first = a.components.iter().zip(&b.components).find_map(|(a, b)| {
        let order = match (a, b) {
            (Pattern::Exact(_), Pattern::Exact(_)) => Ordering::Equal,
            (Pattern::Exact(_), _) => Ordering::Less,
            (_, Pattern::Exact(_)) => Ordering::Greater,
            (Pattern::Range(a), Pattern::Range(b)) => b.len().cmp(&a.len()),
            (Pattern::Range(_), _) => Ordering::Less,
            (_, Pattern::Range(_)) => Ordering::Greater,
            (Pattern::Prefix(a), Pattern::Prefix(b)) => b.len().cmp(&a.len()),
        };
        (order != Ordering::Equal).then_some(order)
    });
    is_exact(b)
        .cmp(&is_exact(a))
        .then(range(b).cmp(&range(a)))
        .then(first.unwrap_or_else(|| b.components.len().cmp(&a.components.len())))
}

/// Returns a pattern that matches more: the `by` last characters or bits may differ, or all.
fn widened(pattern: &Pattern, by: usize) -> Pattern {
    let shorter = |text: &[u8]| Pattern::Prefix(text[..text.len().saturating_sub(by)].into());
    match pattern {
        same if by == 0 => same.clone(),
        Pattern::Exact(text) | Pattern::Prefix(text) => shorter(text),
        Pattern::Range(range) => {
            let length = range.len().saturating_sub(u8::try_from(by).unwrap());
            Pattern::Range(Cidr::masked(range.address(), length))
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_map_finds_what_looking_at_every_entry_does(
        entries in prop::collection::vec(entry(), 0..12), parts in parts(),
    ) {
        let map = KeyMap::new(&KeyExpression::default(), entries.iter().cloned().zip(0..));
        let key = Key::join(&parts.iter().map(Part::key).collect::<Vec<_>>());
        let matching = (0..entries.len()).filter(|&index| is_match(&entries[index], &parts));
        let best = matching.min_by(|&a, &b| compare(&entries[a], &entries[b]).then(a.cmp(&b)));
        prop_assert_eq!(map.find(key.view()).copied(), best, "{:?}", key);
        prop_assert_eq!(map.is_empty(), entries.is_empty());
        // Text is read like the key, except for the address.
        let made_by = ["user", "user+method", "user+method+path"][parts.len() - 1];
        let read = expression(made_by).read(key.as_bytes()).without_network();
        let without: Vec<Part> = parts.iter().map(|part| Part::Text(part.text())).collect();
        let matching = (0..entries.len()).filter(|&index| is_match(&entries[index], &without));
        let best = matching.min_by(|&a, &b| compare(&entries[a], &entries[b]).then(a.cmp(&b)));
        prop_assert_eq!(map.find(read).copied(), best, "{:?}", key);
    }

    #[test]
    fn an_entry_inside_of_another_is_the_more_specific_one(
        parts in parts(), wide in prop::collection::vec(0..4_usize, 6),
    ) {
        // An entry for this very key, widened twice.
        let widened = |entry: &KeyMatcher, by: &[usize]| KeyMatcher {
            components: entry.components.iter().zip(by).map(|(part, by)| widened(part, *by)).collect(),
        };
        let exact = |part: &Part| match part {
            Part::Text(text) => Pattern::Exact(text.as_slice().into()),
            Part::Network(network) => Pattern::Range(*network),
        };
        let key = KeyMatcher { components: parts.iter().map(exact).collect() };
        let inner = widened(&key, &wide[..3]);
        let outer = widened(&inner, &wide[3..]);
        prop_assert!(is_match(&inner, &parts), "{} {:?}", inner, parts);
        let of_inner = if inner == outer { "outer" } else { "inner" };
        let map = KeyMap::new(&KeyExpression::default(), [(outer, "outer"), (inner, of_inner)]);
        let key = Key::join(&parts.iter().map(Part::key).collect::<Vec<_>>());
        prop_assert_eq!(map.find(key.view()), Some(&of_inner));
    }

    #[test]
    fn an_entry_prints_as_it_reads(entry in entry()) {
        // The empty key has no text, because empty text is an error.
        prop_assume!(entry != KeyMatcher::exact(""));
        prop_assert_eq!(entry.to_string().parse::<KeyMatcher>(), Ok(entry));
    }

    #[test]
    fn any_text_is_an_entry_or_refused(text in "[a*|\\\\x0-9./:é]{0,12}|\\PC{0,8}") {
        match text.parse::<KeyMatcher>() {
            Ok(entry) => prop_assert_eq!(entry.to_string().parse::<KeyMatcher>(), Ok(entry)),
            Err(error) => prop_assert!(error.column() <= text.chars().count().max(1), "{}", error),
        }
    }
}
