//! Requests get the recorded answers, from counters in a map.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use sluicegate_envoy::incumbent::{
    Answer, Charge, Code, CounterKey, Descriptor, Increments, Look, Metadata, MetadataValue,
    Reading, Request, Rules, Settings, Status,
};

use crate::recorded::{self, NOW};

#[test]
fn requests_get_the_recorded_answers() {
    for case in &recorded::requests() {
        let name = case["case"].as_str().expect("a name");
        let mut server = Server::new(case);
        for (index, asked) in case["asked"].as_array().expect("requests").iter().enumerate() {
            let answer = server.ask(asked);
            assert_eq!(
                written(&answer),
                recorded::expected(asked),
                "request {index} of {name}: {asked}"
            );
        }
        if let Some(counted) = case["counted"].as_object() {
            assert_eq!(recorded::sums(&server.increments), *counted, "{name}");
        }
    }
}

struct Server {
    rules: Rules,
    settings: Settings,
    counters: HashMap<(CounterKey, u64), Counter>,
    increments: Vec<Increments>,
}

#[derive(Default)]
struct Counter {
    count: u64,
    is_known_over: bool,
}

impl Server {
    fn new(case: &Value) -> Self {
        let (settings, rules) = recorded::server_of(case);
        Self { rules, settings, counters: HashMap::new(), increments: Vec::new() }
    }

    fn ask(&mut self, asked: &Value) -> Answer {
        let request = request(asked);
        let matches = self.rules.matches(&request, &self.settings);
        let keys: Vec<Option<(CounterKey, u64)>> = matches
            .descriptors
            .iter()
            .map(|found| {
                found.limited().map(|limit| (limit.counter.clone(), limit.unit.window(NOW).start))
            })
            .collect();
        let looks: Vec<Look> = keys
            .iter()
            .map(|key| {
                let counter = key.as_ref().and_then(|key| self.counters.get(key));
                counter.map_or_else(Look::default, |counter| Look {
                    is_known_over: counter.is_known_over,
                    count: counter.count,
                })
            })
            .collect();
        let charges = matches.charges(&request, &self.settings, &looks);
        let readings: Vec<Option<Reading>> = keys
            .iter()
            .zip(charges)
            .map(|(key, charge)| {
                let counter = self.counters.entry(key.clone()?).or_default();
                match charge? {
                    Charge::Add(hits) => counter.count = counter.count.saturating_add(hits),
                    Charge::Refund(hits) => counter.count = counter.count.saturating_sub(hits),
                    Charge::Skip => return Some(Reading::KnownOver),
                }
                Some(Reading::After(counter.count))
            })
            .collect();
        let verdict = matches.verdict(&request, &self.settings, &readings, NOW);
        if self.settings.local_cache_bytes > 0 {
            for (key, _) in keys.into_iter().zip(&verdict.over).filter(|(_, over)| **over) {
                let key = key.expect("a counter is over");
                self.counters.entry(key).or_default().is_known_over = true;
            }
        }
        self.increments.extend(verdict.increments);
        verdict.answer
    }
}

fn request(asked: &Value) -> Request<'_> {
    Request {
        domain: asked["domain"].as_str().expect("a domain"),
        descriptors: asked["of"].as_array().expect("descriptors").iter().map(descriptor).collect(),
        hits_addend: recorded::hits_of(asked),
    }
}

fn descriptor(of: &Value) -> Descriptor<'_> {
    let entries = of["e"].as_array().expect("entries").iter();
    Descriptor {
        entries: entries
            .map(|entry| (entry[0].as_str().expect("a key"), entry[1].as_str().expect("a value")))
            .collect(),
        limit: recorded::override_of(of),
        hits_addend: of["hits"].as_u64(),
        is_negative_hits: false,
    }
}

/// Returns an answer in the form of the recorded ones.
fn written(answer: &Answer) -> Value {
    let statuses: Vec<String> = answer.statuses.iter().map(status).collect();
    let mut written = json!({"code": code(answer.code), "is": statuses});
    if !answer.response_headers.is_empty() {
        written["headers"] = json!(answer.response_headers);
    }
    if let Some(metadata) = &answer.dynamic_metadata {
        written["metadata"] = map(metadata);
    }
    written
}

fn status(status: &Status) -> String {
    let mut text = format!("{} {}", code(status.code), status.remaining);
    if let Some(limit) = &status.current_limit {
        let unit = limit.unit.expect("a unit");
        assert_eq!(status.reset_seconds, Some(unit.window(NOW).left));
        text.push_str(&format!(" of {}/{unit} {}", limit.requests_per_unit, limit.name));
    }
    text.trim_end().to_owned()
}

const fn code(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::OverLimit => "OVER_LIMIT",
    }
}

fn map(fields: &Metadata) -> Value {
    fields.iter().map(|(name, value)| (name.clone(), metadata(value))).collect::<Map<_, _>>().into()
}

fn metadata(value: &MetadataValue) -> Value {
    match value {
        MetadataValue::Null => Value::Null,
        MetadataValue::Bool(value) => json!(value),
        MetadataValue::Number(number) => json!(number),
        MetadataValue::Text(text) => json!(text),
        MetadataValue::List(items) => items.iter().map(metadata).collect(),
        MetadataValue::Map(fields) => map(fields),
    }
}
