//! Rings of files: groups in which each file depends on each other one.
//!
//! A file depends on the files that define the names in its `use` lines and paths. A name that a
//! parent or the root re-exports counts for the file that defines it. Tests don't count, and neither
//! do names that a file takes from its own parent module.

mod graph;
mod names;
mod tree;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::members::Workspace;
use crate::run::say;
use graph::rings;
pub(crate) use names::{attributes, is_test};
use tree::Tree;

/// Fails if files of a crate depend on each other in a ring.
///
/// # Errors
/// Returns an error if there is a ring, or if a file can't be parsed.
pub(crate) fn check() -> Result<()> {
    let mut count = 0;
    for package in Workspace::members_only()?.members() {
        for root in package.roots() {
            let tree = Tree::read(root)?;
            for ring in rings(&tree.arrows()) {
                count += 1;
                say(&described(&package.name, &tree, &ring));
            }
        }
    }
    if count > 0 {
        bail!("{count} rings: move what two files of a ring share into a file of its own");
    }
    Ok(())
}

/// Returns the files of a crate from its root on, without files of tests only.
///
/// # Errors
/// Returns an error if a file can't be read or parsed.
pub(crate) fn sources(root: &Path) -> Result<Vec<PathBuf>> {
    Ok(Tree::read(root)?.files().to_vec())
}

/// Describes a ring: its arrows, with the names that cause each.
fn described(package: &str, tree: &Tree, ring: &BTreeSet<usize>) -> String {
    let mut lines = vec![format!("{package}: {} files in a ring", ring.len())];
    for (from, to, names) in tree.arrows_with_names() {
        if ring.contains(&from) && ring.contains(&to) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let (from, to) = (shown(tree.path(from)), shown(tree.path(to)));
            lines.push(format!("  {from} -> {to}: {}", names.join(", ")));
        }
    }
    lines.join("\n")
}

fn shown(path: &Path) -> String {
    let text = path.display().to_string();
    text.split_once("/src/").map_or(text.clone(), |(_, inside)| inside.to_owned())
}
