//! A decision allocates nothing, with one policy or with sixteen.

use allocation_counter::measure;
use sluicegate_core::{Limit, OpenOptions, Operation, Request, Store};
use sluicegate_memory::MemoryStore;

#[test]
fn a_decision_on_a_known_key_allocates_once_where_it_has_more_than_three_policies() {
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
    for (count, allocations_each) in [(1, 0), (3, 0), (4, 1), (8, 1), (16, 1)] {
        let store = MemoryStore::new();
        let limit = Limit::new("x", kernels.iter().cycle().take(count)).unwrap();
        let handle = store.open(limit, OpenOptions::default());
        let keys: Vec<Vec<u8>> = (0..50_u8).map(|key| vec![key; 24]).collect();
        for key in &keys {
            let _ = handle.decide(Request::check(key)).unwrap();
        }
        let mut denied = 0;
        let allocated = measure(|| {
            use Operation::{Check, Peek, Refund, Take};
            for operation in [Check, Peek, Take, Refund] {
                for key in &keys {
                    let request = Request::new(operation, key);
                    denied += usize::from(handle.decide(request).unwrap().is_denied());
                }
            }
            handle.decide_many(keys.iter().map(|key| Request::check(key)), |_, decision| {
                denied += usize::from(decision.unwrap().is_denied());
            });
            let peek = Request::new(Peek, b"nobody");
            denied += usize::from(handle.decide(peek).unwrap().is_denied());
        });
        let decisions = 5 * 50 + 1;
        assert_eq!(
            allocated.count_total,
            allocations_each * decisions,
            "{count} policies, {denied} denied"
        );
    }
}
