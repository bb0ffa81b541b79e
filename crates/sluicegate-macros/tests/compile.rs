//! What the compiler says of wrong uses of `#[limit(…)]`: what to write instead.
//!
//! The messages are in `wrong/*.stderr`. After a change `TRYBUILD=overwrite` writes them anew; read
//! them then. Right uses are tested in the crate `sluicegate`.

#[test]
fn wrong_uses_are_refused_with_what_to_write() {
    trybuild::TestCases::new().compile_fail("tests/wrong/*.rs");
}
