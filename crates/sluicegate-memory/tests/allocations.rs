//! A decision allocates nothing, with one policy or with sixteen. In a file of its own, because the
//! counter takes the place of the allocator.

use std::sync::Arc;

use allocation_counter::measure;
use sluicegate_core::{EmbeddedStore, Limit, Operation, Request, Store, TimeSource};
use sluicegate_memory::MemoryStore;

#[test]
fn a_decision_on_a_known_key_allocates_nothing() {
    let kernels = [
        "token_bucket 1000/s burst 100000",
        "fixed_window 100000/h",
        "sliding_window 100000/h slices 60",
        "sliding_counter 1000/h",
        "smooth 5/s",
        "warmup 5/s over 10s",
        "leaky_bucket 5/s",
        "fixed_window 1000/h aligned",
    ];
    for count in [1, 8, 16] {
        let store = MemoryStore::new();
        let policies =
            kernels.iter().cycle().take(count).map(|spec| spec.parse().unwrap()).collect();
        let limit = Arc::new(Limit::new("x".parse().unwrap(), policies).unwrap());
        let handle = store.open(limit, TimeSource::Store);
        let keys: Vec<Vec<u8>> = (0..50_u8).map(|key| vec![key; 24]).collect();
        for key in &keys {
            let _ = store.decide_now(&handle, Request::check(key)).unwrap();
        }
        let mut denied = 0;
        let allocated = measure(|| {
            use Operation::{Check, Peek, Refund, TakeUpTo};
            for operation in [Check, Peek, TakeUpTo, Refund] {
                for key in &keys {
                    let request = Request { operation, ..Request::check(key) };
                    denied += usize::from(store.decide_now(&handle, request).unwrap().is_denied());
                }
            }
            store.decide_many(
                &handle,
                keys.iter().map(|key| Request::check(key)),
                |_, decision| {
                    denied += usize::from(decision.unwrap().is_denied());
                },
            );
            let peek = Request { operation: Peek, ..Request::check(b"nobody") };
            denied += usize::from(store.decide_now(&handle, peek).unwrap().is_denied());
        });
        assert_eq!(allocated.count_total, 0, "{count} policies, {denied} denied");
    }
}
