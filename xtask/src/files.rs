//! The files of the repository.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// Folders that aren't part of the repository: generated files, and the history.
const SKIPPED: [&str; 6] = [".git", "target", "corpus", "artifacts", "mutants.out", "node_modules"];

/// Returns the files of the repository below a folder, as paths from its root, in order.
pub(crate) fn files(root: &Path, folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let full = root.join(folder);
    for entry in fs::read_dir(&full).with_context(|| format!("read {}", full.display()))? {
        let entry = entry?;
        let name = entry.file_name();
        if SKIPPED.iter().any(|skipped| name == *skipped) {
            continue;
        }
        let path = folder.join(name);
        if entry.file_type()?.is_dir() {
            files.extend(self::files(root, &path)?);
        } else {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Returns whether a file is Markdown, by its name.
pub(crate) fn is_markdown(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md")
}
