//! The differences between two configurations of limits, as sentences.

use sluicegate_core::{Limit, Policy};

use crate::config_file::{LimitConfig, Switch};
use crate::on_store_failure::OnStoreFailure;

/// Returns a sentence for each difference between two configurations of one limit.
pub(super) fn sentences(before: &LimitConfig, after: &LimitConfig) -> Vec<String> {
    let name = before.limit.name();
    let mut sentences = policies(&before.limit, &after.limit);
    let mut note = |what: &str, from: String, to: String| {
        if from != to {
            sentences.push(format!("Limit `{name}`: {what} changed from {from} to {to}."));
        }
    };
    note("`enabled`", on_off(before.enabled), on_off(after.enabled));
    note("`key`", code(&before.key), code(&after.key));
    note("`missing_key`", word(&before.missing_key), word(&after.missing_key));
    let failure = |config: &LimitConfig| failure(config.on_store_failure).to_owned();
    note("`on_store_failure`", failure(before), failure(after));
    let deadline = |config: &LimitConfig| match config.deadline {
        Some(deadline) => format!("{} ms", deadline.as_millis()),
        None => "the store's own".to_owned(),
    };
    note("`deadline`", deadline(before), deadline(after));
    note("`deny_cache`", on_off(before.deny_cache), on_off(after.deny_cache));
    note("`retry_unknown`", on_off(before.retry_unknown), on_off(after.retry_unknown));
    let mut note_list = |what: &str, differs: bool, from: usize, to: usize| {
        if differs {
            sentences.push(format!("Limit `{name}`: {what} changed from {from} to {to} entries."));
        }
    };
    let lists = [
        ("`allow`", before.allow != after.allow, before.allow.len(), after.allow.len()),
        ("`block`", before.block != after.block, before.block.len(), after.block.len()),
        (
            "`overrides`",
            before.overrides != after.overrides,
            before.overrides.len(),
            after.overrides.len(),
        ),
    ];
    for (what, differs, from, to) in lists {
        note_list(what, differs, from, to);
    }
    for (what, differs) in [
        ("`ban`", before.limit.ban(0) != after.limit.ban(0)),
        ("`leases`", before.leases != after.leases),
        ("`replicas`", before.replicas != after.replicas),
    ] {
        if differs {
            sentences.push(format!("Limit `{name}`: {what} changed."));
        }
    }
    if sentences.is_empty() {
        sentences.push(format!("Limit `{name}` changed."));
    }
    sentences
}

fn policies(before: &Limit, after: &Limit) -> Vec<String> {
    let name = before.name();
    let of = |limit: &Limit| -> Vec<(String, Policy)> {
        let members = limit.members().iter();
        members.map(|member| (member.name().to_string(), member.policy().clone())).collect()
    };
    let (known, next) = (of(before), of(after));
    let find = |all: &[(String, Policy)], wanted: &str| {
        all.iter().find(|(name, _)| name == wanted).map(|(_, policy)| policy.to_string())
    };
    let mut sentences = Vec::new();
    for (policy, numbers) in &next {
        match find(&known, policy) {
            None => sentences.push(format!("Limit `{name}`: policy `{numbers}` was added.")),
            Some(from) if from != numbers.to_string() => sentences.push(format!(
                "Limit `{name}`: policy `{policy}` changed from `{from}` to `{numbers}`."
            )),
            Some(_) => {}
        }
    }
    for (policy, numbers) in &known {
        if find(&next, policy).is_none() {
            sentences.push(format!("Limit `{name}`: policy `{numbers}` was removed."));
        }
    }
    sentences
}

fn on_off(switch: Switch) -> String {
    if switch == Switch::On { "true" } else { "false" }.to_owned()
}

fn code(value: &impl ToString) -> String {
    format!("`{}`", value.to_string())
}

fn word(value: &impl std::fmt::Debug) -> String {
    format!("{value:?}").to_lowercase()
}

const fn failure(answer: OnStoreFailure) -> &'static str {
    match answer {
        OnStoreFailure::Allow => "allow",
        OnStoreFailure::Deny => "deny",
        OnStoreFailure::Local => "local",
        OnStoreFailure::Error => "error",
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;

    fn of(before: &str, after: &str) -> Vec<String> {
        let limit = |text: &str| {
            let text = format!("limits: {{a: {text}}}");
            Config::parse(&text, "limits.yaml").unwrap().limits.remove(0)
        };
        super::sentences(&limit(before), &limit(after))
    }

    #[test]
    fn each_difference_is_a_sentence() {
        let before = "{policies: [gcra 5/min as steady, fixed_window 9/d as day], deadline: 20ms}";
        let after = "{policies: [gcra 6/min as steady, gcra 1/s as fast], deadline: 30ms, key: 'header:x-api-key', \
                     on_store_failure: allow, block: [mallory], missing_key: refuse, enabled: false}";
        assert_eq!(
            of(before, after),
            [
                "Limit `a`: policy `steady` changed from `gcra 5/min as steady` to `gcra 6/min as steady`.",
                "Limit `a`: policy `gcra 1/s as fast` was added.",
                "Limit `a`: policy `fixed_window 9/d as day` was removed.",
                "Limit `a`: `enabled` changed from true to false.",
                "Limit `a`: `key` changed from `ip` to `header:x-api-key`.",
                "Limit `a`: `missing_key` changed from shared to refuse.",
                "Limit `a`: `on_store_failure` changed from error to allow.",
                "Limit `a`: `deadline` changed from 20 ms to 30 ms.",
                "Limit `a`: `block` changed from 0 to 1 entries.",
            ]
        );
    }
}
