//! Compiler errors for wrong uses of `#[limit(…)]`: each says what to write instead.
//!
//! The expected errors are in `wrong/*.stderr`. After a change, `TRYBUILD=overwrite` rewrites them;
//! read the diff. Correct uses are tested in the crate `sluicegate`.

#[test]
fn wrong_uses_fail_with_what_to_write() {
    trybuild::TestCases::new().compile_fail("tests/wrong/*.rs");
}
