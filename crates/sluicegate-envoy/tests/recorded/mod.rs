//! The recorded requests of the incumbent, with its answers.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use sluicegate_envoy::incumbent::{Increments, LoadOptions, Override, Rules, Settings, Unit};

/// A time at which a week and a month end together, as they did at the recording.
///
/// The recorded headers name the first unit with the right number of seconds.
pub(crate) const NOW: u64 = 1_795_810_837_250_000;

/// Returns the recorded requests.
pub(crate) fn requests() -> Vec<Value> {
    cases(include_str!("requests.jsonl"))
}

/// Returns the cases of a file with recorded answers.
pub(crate) fn cases(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
}

/// Returns the names and texts of a case's files.
pub(crate) fn files(case: &Value) -> Vec<(&str, &str)> {
    let files = case["files"].as_object().expect("a case has files");
    files.iter().map(|(name, text)| (name.as_str(), text.as_str().expect("text"))).collect()
}

/// Returns the settings and rules of a server with the variables and files of a case.
pub(crate) fn server_of(case: &Value) -> (Settings, Rules) {
    let lookup = |name: &str| case["env"][name].as_str().map(str::to_owned);
    let settings = Settings::from_lookup(lookup).expect("the variables are valid");
    let options = LoadOptions { merge_domains: settings.merge_domains, strict: false };
    let rules = Rules::load(files(case), options).expect("the files are valid");
    (settings, rules)
}

/// Returns the limit that a descriptor brings.
pub(crate) fn override_of(descriptor: &Value) -> Option<Override> {
    let (number, unit) =
        descriptor["limit"].as_str()?.split_once('/').expect("a number and a unit");
    let unit = Unit::from_name(unit).expect("a unit");
    Some(Override { requests_per_unit: number.parse().expect("a number"), unit })
}

/// Returns the hits of a request.
pub(crate) fn hits_of(asked: &Value) -> u32 {
    asked["hits"].as_u64().unwrap_or_default().try_into().expect("32 bits")
}

/// Returns the recorded answer to a request at [`NOW`].
pub(crate) fn expected(asked: &Value) -> Value {
    let mut expected = json!({"code": asked["code"], "is": asked["is"]});
    for field in ["headers", "metadata"] {
        if !asked[field].is_null() {
            expected[field] = asked[field].clone();
        }
    }
    if let Some(reset) = expected.pointer_mut("/headers/2/1") {
        let unit = reset.as_str().and_then(|text| Unit::from_name(text.strip_prefix("left of ")?));
        *reset = json!(unit.expect("a unit").window(NOW).left.to_string());
    }
    let descriptors = expected.pointer_mut("/metadata/descriptors").and_then(Value::as_array_mut);
    for limit in descriptors.into_iter().flatten().filter_map(|it| it.get_mut("limit")) {
        // The recorded text has one space or two.
        *limit = json!(limit.as_str().expect("text").replace("  ", " "));
    }
    expected
}

/// Returns the sums of metrics in the form of the recorded ones.
pub(crate) fn sums<'i>(increments: impl IntoIterator<Item = &'i Increments>) -> Map<String, Value> {
    let mut sums: BTreeMap<String, BTreeMap<&str, u64>> = BTreeMap::new();
    for increments in increments {
        let (domain, key1, key2) = increments.metric.labels();
        let labels: Vec<&str> = [domain, key1].into_iter().chain(key2).collect();
        let sums = sums.entry(labels.join(" | ")).or_default();
        for (name, count) in increments.on_page().into_iter().filter(|(_, count)| *count > 0) {
            *sums.entry(name).or_default() += count;
        }
    }
    sums.retain(|_, counts| !counts.is_empty());
    sums.into_iter().map(|(labels, counts)| (labels, json!(counts))).collect()
}
