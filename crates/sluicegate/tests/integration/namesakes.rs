//! Limiters of one name.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use sluicegate::{Limit, Limiter, MemoryStore};

use crate::log;

#[test]
fn limiters_of_one_name_with_different_algorithms_are_in_the_log_once() {
    let store = MemoryStore::new();
    let of = |store: &MemoryStore, name: &str, specs: &[&str]| {
        Limiter::new(store.clone(), Limit::new(name, specs).unwrap())
    };
    let told = log::warnings(|| {
        let bucket = of(&store, "api", &["token_bucket 1/s", "fixed_window 9/d"]);
        let alike = [
            of(&store, "api", &["token_bucket 5/s burst 9"]),
            of(&store, "api", &["fixed_window 9/month calendar UTC"]),
            of(&store, "web", &["sliding_log 1/s"]),
            of(&MemoryStore::new(), "api", &["sliding_log 1/s"]),
        ];
        drop((bucket, alike));
        let _next = of(&store, "api", &["gcra 1/s"]);
    });
    assert_eq!(
        told,
        Vec::<String>::new(),
        "they share an algorithm, or aren't in use at the same time"
    );

    let told = log::warnings(|| {
        let _bucket = of(&store, "api", &["token_bucket 1/s", "fixed_window 9/d"]);
        for _ in 0..3 {
            let _log = of(&store, "api", &["sliding_log 1/s"]);
        }
    });
    let text = "two limiters of this name count apart: one has `token_bucket` and `fixed_window`, the other \
                `sliding_log`. Give them the same algorithm if their requests should count together, or different \
                names if not";
    assert_eq!(told, [text]);
}
