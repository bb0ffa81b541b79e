//! Any text as a config file. Invalid text is refused with at least one problem, each with a place in
//! the text. Valid text has limits that print as they read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sluicegate::Config;
use sluicegate_core::Policy;

fuzz_target!(|text: &str| {
    match Config::parse(text, "limits.yaml") {
        Ok(config) => {
            assert!(!config.limits.is_empty(), "{text:?}");
            for limit in &config.limits {
                for member in limit.limit.members() {
                    let printed = member.policy().to_string();
                    assert_eq!(printed.parse::<Policy>().as_ref(), Ok(member.policy()), "{text:?}");
                }
            }
            let _shown = config.warnings().iter().map(ToString::to_string).collect::<String>();
        }
        Err(errors) => assert!(!errors.to_string().is_empty(), "{text:?}"),
    }
});
