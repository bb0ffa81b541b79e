//! Any text as a policy: it is refused with a message, or prints as a spec of the same policy.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sluicegate_core::Policy;

fuzz_target!(|text: &str| {
    match text.parse::<Policy>() {
        Ok(policy) => {
            let printed = policy.to_string();
            let read = printed.parse::<Policy>();
            assert_eq!(read.as_ref(), Ok(&policy), "{text:?} prints as {printed:?}");
            // A printed spec has the canonical spelling, so it prints unchanged.
            assert_eq!(read.map(|policy| policy.to_string()).as_ref(), Ok(&printed), "{text:?}");
        }
        Err(error) => assert!(!error.to_string().is_empty(), "{text:?}"),
    }
});
