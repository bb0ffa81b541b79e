//! Files with texts, and how each is read.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::category::Category;
use super::markdown;
use super::passage::{Passage, Role};
use super::rust_texts::{self, Place};
use super::scripts;
use crate::files::files;

/// The texts of a file.
#[derive(Debug)]
pub(super) struct Texts {
    /// The path from the workspace's folder, with slashes
    pub(super) file: String,
    pub(super) passages: Vec<Passage>,
}

/// The folder of inputs of the fuzz targets.
const SEEDS: &str = "fuzz/seeds/";
/// Crates that users don't depend on.
const UNPUBLISHED: &str = "crates/sluicegate-testkit/";

/// Reads all texts of the workspace, sorted by file.
///
/// # Errors
/// Returns an error if a file can't be read.
pub(super) fn texts(root: &Path) -> Result<Vec<Texts>> {
    let mut texts = Vec::new();
    for path in files(root, Path::new(""))? {
        let file = path.to_string_lossy().replace('\\', "/");
        let path = root.join(&path);
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let extension =
            path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let read = || fs::read_to_string(&path).with_context(|| path.display().to_string());
        let passages = match extension {
            _ if file.starts_with(SEEDS) => continue,
            "md" => guide(&read()?),
            "rs" => {
                let text = read()?;
                rust_texts::passages(&text, place(&path, &file, &text))
            }
            "lua" => scripts::comments(&read()?, "--"),
            "toml" | "yaml" | "py" => scripts::comments(&read()?, "#"),
            "html" => scripts::html(&read()?),
            _ if name == "openapi.json" => scripts::interface(&read()?),
            _ if file == ".ci/run" => scripts::comments(&read()?, "#"),
            _ => continue,
        };
        texts.push(Texts { file, passages });
    }
    texts.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(texts)
}

fn guide(text: &str) -> Vec<Passage> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.to_owned()));
    let passages = markdown::blocks(lines).into_iter().map(|block| {
        let role = if block.is_heading { Role::Heading } else { Role::Plain };
        Passage::new(Category::Guides, role, &block.lines)
    });
    passages.collect()
}

fn place(path: &Path, file: &str, text: &str) -> Place {
    let is_published =
        file.starts_with("crates/") && file.contains("/src/") && !file.starts_with(UNPUBLISHED);
    let is_test = file.ends_with("/tests.rs");
    let is_help = is_published && text.lines().any(|line| line.starts_with("use clap::"));
    Place { is_published: is_published && !is_test, is_public: is_public(path), is_help }
}

/// Returns `true` if the file is the root of a library, or its parent module declares it public.
fn is_public(path: &Path) -> bool {
    let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
    if name == "lib" {
        return true;
    }
    let Some(folder) = path.parent() else { return false };
    let parents = [folder.with_extension("rs"), folder.join("lib.rs")];
    let declaration = format!("pub mod {name};");
    let declares = |parent: &Path| {
        fs::read_to_string(parent).is_ok_and(|text| text.lines().any(|line| line == declaration))
    };
    parents.iter().any(|parent| declares(parent))
}
