//! The check of the cases that are part of this crate.

use sluicegate_core::Store;

use crate::cases::{self, SAMPLES, StoreTarget};

/// Checks that every case of [`SAMPLES`] gets its required answer.
pub async fn the_case_file_passes<S: Store>(store: &S) {
    let cases = cases::read(SAMPLES).unwrap();
    let mut target = StoreTarget::new(store);
    let report = cases::run(&mut target, &cases, |_, _| {}).await.unwrap();
    target.forget().await.unwrap();
    assert_eq!((report.passed, report.failures.as_slice()), (cases.len(), &[][..]), "{report}");
}
