//! `cargo xtask plots`: the plots of the guide's pages on policies.

use anyhow::Result;

use crate::run::{cargo, run};
use crate::servers::workspace_root;

/// Plays the guide's recording through every policy and writes the plots to `docs/policies`.
pub(crate) fn plots() -> Result<()> {
    let program = ["run", "--quiet", "--package", "sluicegate-replay", "--example", "policy_plots"];
    run(cargo(&program).arg("--").arg(workspace_root().join("docs/policies")))
}
