//! `cargo xtask pages`: the pages of the documentation that programs write.

use anyhow::Result;

use crate::run::{cargo, run};

/// Writes `docs/command-line.md`. A test of the same name fails if the page is out of date.
pub(crate) fn pages() -> Result<()> {
    let test = ["test", "--quiet", "--package", "sluicegate-server", "--lib", "cli::reference"];
    run(cargo(&test).env("SLUICEGATE_WRITE_PAGES", "1"))
}
