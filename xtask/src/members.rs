//! The workspace, as `cargo metadata` tells it: no list of crates is kept here.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::run::cargo;

/// What cargo knows of the workspace.
#[derive(Debug, Deserialize)]
pub(crate) struct Workspace {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
    /// Where cargo builds, which a developer may have set elsewhere.
    pub(crate) target_directory: PathBuf,
}

/// A package: a member, or something that a member depends on.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    /// The oldest compiler it says it builds with.
    pub(crate) rust_version: Option<String>,
    #[serde(default)]
    pub(crate) features: BTreeMap<String, Vec<String>>,
    /// The registries it may be published to; `None` for any, empty for none.
    #[serde(default)]
    publish: Option<Vec<String>>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    keywords: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
    #[serde(default)]
    license: Option<String>,
    #[serde(default)]
    readme: Option<PathBuf>,
}

impl Workspace {
    /// The members alone: reads their manifests and nothing else.
    pub(crate) fn members_only() -> Result<Self> {
        Self::read(&["--no-deps"])
    }

    fn read(options: &[&str]) -> Result<Self> {
        let mut command = cargo(&["metadata", "--format-version", "1"]);
        let output = command.args(options).output().context("can't run `cargo metadata`")?;
        if !output.status.success() {
            bail!("`cargo metadata` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        serde_json::from_slice(&output.stdout).context("`cargo metadata` printed something else")
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| self.workspace_members.contains(&package.id))
    }

    /// The members that a registry will have.
    pub(crate) fn published(&self) -> impl Iterator<Item = &Package> {
        self.members().filter(|package| package.is_published())
    }
}

impl Package {
    /// What a registry asks of a package, or shows of it, and is not there.
    pub(crate) fn lacking(&self) -> Vec<&'static str> {
        let words = &self.keywords;
        let checks = [
            ("description", self.description.as_ref().is_some_and(|text| !text.is_empty())),
            ("license", self.license.is_some()),
            ("rust-version", self.rust_version.is_some()),
            ("readme", self.readme.is_some()),
            ("categories, one to five", (1..=5).contains(&self.categories.len())),
            ("keywords, one to five", (1..=5).contains(&words.len())),
            ("keywords of at most 20 bytes", words.iter().all(|word| word.len() <= 20)),
        ];
        checks.into_iter().filter(|(_, is_there)| !is_there).map(|(what, _)| what).collect()
    }

    fn is_published(&self) -> bool {
        self.publish.as_ref().is_none_or(|registries| !registries.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_crate_says_what_it_is() {
        let workspace = Workspace::members_only().unwrap();
        assert!(workspace.published().count() > 1);
        for package in workspace.published() {
            assert_eq!(package.lacking(), [] as [&str; 0], "{}", package.name);
        }
    }
}
