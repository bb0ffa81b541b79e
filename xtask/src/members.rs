//! The workspace and its locked dependencies, read from `cargo metadata`: there is no list of crates
//! here.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::run::cargo;

/// The output of `cargo metadata` about the workspace.
#[derive(Debug, Deserialize)]
pub(crate) struct Workspace {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
    resolve: Option<Resolve>,
    /// Cargo's build folder, which a developer may have configured.
    pub(crate) target_directory: PathBuf,
}

/// A package: a member, or something that a member depends on.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    /// The oldest compiler that it claims to build with.
    pub(crate) rust_version: Option<String>,
    #[serde(default)]
    features: BTreeMap<String, Vec<String>>,
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
    #[serde(default)]
    targets: Vec<Target>,
}

/// A build target of a package.
#[derive(Debug, Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
    src_path: PathBuf,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Debug, Deserialize)]
struct DependencyKind {
    /// `None` for a normal dependency.
    kind: Option<String>,
}

impl Workspace {
    /// Returns the members alone, from their manifests only.
    pub(crate) fn members_only() -> Result<Self> {
        Self::read(&["--no-deps"])
    }

    /// Returns the members and all of their locked dependencies, with every feature, for every
    /// system.
    pub(crate) fn locked() -> Result<Self> {
        Self::read(&["--locked", "--all-features"])
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

    /// Returns the names of the programs with tests. Several members may have programs of one name.
    pub(crate) fn tests(&self) -> BTreeSet<&str> {
        let targets = self.members().flat_map(|package| &package.targets);
        let tests = targets.filter(|target| target.kind.iter().any(|kind| kind == "test"));
        tests.map(|target| target.name.as_str()).collect()
    }

    /// Returns the members that are published to a registry.
    pub(crate) fn published(&self) -> impl Iterator<Item = &Package> {
        self.members().filter(|package| package.is_published())
    }

    /// Returns the published members with everything that their users have to build, without
    /// dependencies of tests only.
    pub(crate) fn published_with_dependencies(&self) -> Vec<&Package> {
        let packages: HashMap<&str, &Package> =
            self.packages.iter().map(|package| (&*package.id, package)).collect();
        let nodes = self.resolve.iter().flat_map(|resolve| &resolve.nodes);
        let nodes: HashMap<&str, &Node> = nodes.map(|node| (&*node.id, node)).collect();
        let mut reached = HashSet::new();
        let mut next: Vec<&str> = self.published().map(|package| &*package.id).collect();
        while let Some(id) = next.pop() {
            if reached.insert(id) {
                let needed = nodes.get(id).into_iter().flat_map(|node| &node.deps);
                let needed = needed.filter(|dependency| dependency.is_built());
                next.extend(needed.map(|dependency| &*dependency.pkg));
            }
        }
        let mut built: Vec<&Package> =
            reached.into_iter().filter_map(|id| packages.get(id).copied()).collect();
        built.sort_by(|a, b| a.id.cmp(&b.id));
        built
    }
}

impl Package {
    /// Returns the root files of its library and its programs.
    pub(crate) fn roots(&self) -> impl Iterator<Item = &Path> {
        let is_code = |target: &&Target| {
            target.kind.iter().any(|kind| matches!(kind.as_str(), "lib" | "bin" | "proc-macro"))
        };
        self.targets.iter().filter(is_code).map(|target| &*target.src_path)
    }

    /// Returns the entries that a registry requires of a package, or shows, and that it lacks.
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

    /// Returns its features, without a `default` that is another name of one feature or of all of them.
    pub(crate) fn sets_of_features(&self) -> impl Iterator<Item = &str> {
        let is_new = |(name, others): &(&String, &Vec<String>)| {
            *name != "default" || (2..self.features.len() - 1).contains(&others.len())
        };
        self.features.iter().filter(is_new).map(|(name, _)| name.as_str())
    }

    fn is_published(&self) -> bool {
        self.publish.as_ref().is_none_or(|registries| !registries.is_empty())
    }
}

impl Dependency {
    fn is_built(&self) -> bool {
        self.dep_kinds.iter().any(|kind| kind.kind.as_deref() != Some("dev"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_tests_depend_on_is_not_built() {
        let package = |id: &str, publish: &str| {
            format!(r#"{{"id":"{id}","name":"{id}","version":"1.0.0","publish":{publish}}}"#)
        };
        let packages = [
            package("library", "null"),
            package("tool", "[]"),
            package("used", "null"),
            package("used-by-build", "null"),
            package("used-by-tests", "null"),
            package("used-by-tool", "null"),
        ];
        let text = format!(
            r#"{{"packages":[{}],"workspace_members":["library","tool"],"target_directory":"target",
            "resolve":{{"nodes":[
                {{"id":"library","deps":[
                    {{"pkg":"used","dep_kinds":[{{"kind":"dev"}},{{"kind":null}}]}},
                    {{"pkg":"used-by-tests","dep_kinds":[{{"kind":"dev"}}]}}]}},
                {{"id":"tool","deps":[{{"pkg":"used-by-tool","dep_kinds":[{{"kind":null}}]}}]}},
                {{"id":"used","deps":[{{"pkg":"used-by-build","dep_kinds":[{{"kind":"build"}}]}}]}}
            ]}}}}"#,
            packages.join(",")
        );
        let workspace: Workspace = serde_json::from_str(&text).unwrap();
        let built = workspace.published_with_dependencies();
        let names: Vec<&str> = built.iter().map(|package| &*package.name).collect();
        assert_eq!(names, ["library", "used", "used-by-build"]);
    }

    #[test]
    fn every_published_crate_says_what_it_is() {
        let workspace = Workspace::members_only().unwrap();
        assert!(workspace.published().count() > 1);
        assert!(workspace.tests().is_superset(&["binary", "integration"].into()));
        for package in workspace.published() {
            assert_eq!(package.lacking(), [] as [&str; 0], "{}", package.name);
        }
    }
}
