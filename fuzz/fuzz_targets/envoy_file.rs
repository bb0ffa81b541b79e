//! Any bytes as a rate limit file of Envoy's service. A refused file has at least one problem. The rules of any other file
//! print, and answer a request for each of them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sluicegate_envoy::incumbent::{Descriptor, LoadOptions, Reading, Request, Rules, Settings};

fuzz_target!(|bytes: &[u8]| {
    let rules = match Rules::load([("f.yaml", bytes)], LoadOptions::default()) {
        Ok(rules) => rules,
        Err(errors) => return assert!(!errors.to_string().is_empty()),
    };
    let settings = Settings { response_dynamic_metadata: true, ..Settings::default() };
    for rule in rules.rules() {
        assert!(rule.line().starts_with(rule.path()));
        let path = rule.path().strip_prefix(rule.domain()).unwrap_or_default();
        let entries =
            path.split('.').map(|entry| entry.split_once('_').unwrap_or((entry, ""))).skip(1);
        let descriptor = Descriptor { entries: entries.collect(), ..Descriptor::default() };
        let request =
            Request { domain: rule.domain(), descriptors: vec![descriptor], hits_addend: 1 };
        let matches = rules.matches(&request, &settings);
        let verdict = matches.verdict(&request, &settings, &[Some(Reading::After(1))], 0);
        assert_eq!(verdict.answer.statuses.len(), 1);
    }
});
