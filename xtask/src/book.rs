//! `cargo xtask book`: the documentation as a book of HTML pages in `target/book`, with a search that needs no
//! server.
//!
//! `docs/SUMMARY.md` lists the chapters. The files in `docs/` link to each other and to the rest of
//! the repository, in the form that a code host resolves. So the book is made from a copy in
//! `target/book-source`, where each linked file of the repository is a page too.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::files::{files, is_markdown};
use crate::links::{check_book, check_files};
use crate::markdown::{is_external, resolved, split, targets, title};
use crate::run::{ensure_program, program, run, say};
use crate::servers::workspace_root;

/// The folder of the book's sources. `book.toml` names it too, and the output folder.
const SOURCE: &str = "target/book-source";
const BOOK: &str = "target/book";
const SUMMARY: &str = "docs/SUMMARY.md";
/// The largest file that becomes a page, in bytes.
const LARGEST: usize = 256 * 1024;

/// Installs mdBook into `target/tools` unless it is installed.
pub(crate) fn ensure_mdbook() -> Result<()> {
    ensure_program("mdbook", "0.5.4", &["--no-default-features", "--features", "search"])
}

/// Builds the book, and checks its links and the links between the files.
pub(crate) fn book() -> Result<()> {
    ensure_mdbook()?;
    let root = workspace_root();
    check_files(&root)?;
    Source::of(&root)?.write(&root.join(SOURCE))?;
    run(program(Path::new("mdbook")).arg("build"))?;
    let links = check_book(&root.join(BOOK))?;
    say(&format!("{links} links checked; open {BOOK}/index.html"));
    Ok(())
}

/// The sources of the book.
struct Source<'r> {
    root: &'r Path,
    /// The text of each page, by its path in the sources.
    pages: BTreeMap<PathBuf, String>,
    /// Files that are copied, such as images.
    files: BTreeSet<PathBuf>,
    /// Pages that `docs/SUMMARY.md` doesn't list: the rest of the repository.
    others: BTreeSet<PathBuf>,
    /// Pages whose links have not been followed.
    open: Vec<PathBuf>,
}

impl<'r> Source<'r> {
    fn of(root: &'r Path) -> Result<Self> {
        let mut source = Self {
            root,
            pages: BTreeMap::new(),
            files: BTreeSet::new(),
            others: BTreeSet::new(),
            open: Vec::new(),
        };
        let summary = source.read(Path::new(SUMMARY))?;
        for range in targets(&summary) {
            let path = resolved(Path::new(SUMMARY), &summary[range]);
            source.add_page(&path)?;
        }
        for path in files(root, Path::new("docs"))?.into_iter().filter(|path| is_markdown(path)) {
            if path != Path::new(SUMMARY) && !source.pages.contains_key(&path) {
                bail!("{SUMMARY} doesn't list {}", path.display());
            }
        }
        let listed: BTreeSet<_> = source.pages.keys().cloned().collect();
        while let Some(page) = source.open.pop() {
            source.follow_links(&page)?;
        }
        source.others =
            source.pages.keys().filter(|page| !listed.contains(*page)).cloned().collect();
        let summary = source.summary(&summary);
        source.pages.insert("SUMMARY.md".into(), summary);
        Ok(source)
    }

    fn read(&self, path: &Path) -> Result<String> {
        let text = fs::read_to_string(self.root.join(path));
        text.with_context(|| format!("can't read {}", path.display()))
    }

    fn add_page(&mut self, path: &Path) -> Result<()> {
        if !self.pages.contains_key(path) {
            let text = self.read(path)?;
            self.pages.insert(path.to_path_buf(), text);
            self.open.push(path.to_path_buf());
        }
        Ok(())
    }

    /// Adds all link targets of a page to the book, and adjusts its links.
    fn follow_links(&mut self, page: &Path) -> Result<()> {
        let mut text = self.pages.get(page).cloned().unwrap_or_default();
        // From the last to the first, so that the remaining ranges stay valid.
        for range in targets(&text).into_iter().rev() {
            let target = text[range.clone()].to_owned();
            let (path, anchor) = split(&target);
            if path.is_empty() || is_external(&target) {
                continue;
            }
            let to = resolved(page, path);
            let suffix = self
                .suffix(&to)
                .with_context(|| format!("{}: {target} leads nowhere", page.display()))?;
            let anchor = anchor.map_or_else(String::new, |anchor| format!("#{anchor}"));
            let path = format!("{}{suffix}", path.trim_end_matches('/'));
            text.replace_range(range, &format!("{}{anchor}", in_book(&path)));
        }
        self.pages.insert(page.to_path_buf(), text);
        Ok(())
    }

    /// Adds a file or folder of the repository to the book. Returns the suffix of its path in links.
    fn suffix(&mut self, to: &Path) -> Result<&'static str> {
        let full = self.root.join(to);
        if is_markdown(to) {
            self.add_page(to)?;
            Ok("")
        } else if full.is_dir() {
            let readme = to.join("README.md");
            if self.root.join(&readme).is_file() {
                self.add_page(&readme)?;
            } else if !self.pages.contains_key(&readme) {
                let text = self.listing(to)?;
                self.pages.insert(readme.clone(), text);
                self.open.push(readme);
            }
            Ok("/README.md")
        } else if to.starts_with("docs") && full.is_file() {
            self.files.insert(to.to_path_buf());
            Ok("")
        } else {
            let page = PathBuf::from(format!("{}.md", to.display()));
            if !self.pages.contains_key(&page) {
                let text = self.listed_file(to)?;
                self.pages.insert(page, text);
            }
            Ok(".md")
        }
    }

    /// Returns a page with links to the files of a folder.
    fn listing(&self, folder: &Path) -> Result<String> {
        let mut page = format!("# {}\n\n", folder.display());
        for file in files(self.root, folder)? {
            let name = file.strip_prefix(folder)?.display();
            writeln!(page, "- [{name}]({name})")?;
        }
        Ok(page)
    }

    /// Returns a page that shows a file.
    fn listed_file(&self, file: &Path) -> Result<String> {
        let text = self.read(file)?;
        if text.len() > LARGEST {
            bail!("{} has {} bytes: link to a smaller file", file.display(), text.len());
        }
        let language = file.extension().unwrap_or_default().display();
        let language = match language.to_string().as_str() {
            "rs" => "rust",
            "jsonl" => "json",
            other => other,
        }
        .to_owned();
        Ok(format!("# {}\n\n````{language}\n{text}````\n", file.display()))
    }

    /// Returns the list of chapters, with paths from the root of the sources. The rest of the
    /// repository is at its end.
    fn summary(&self, summary: &str) -> String {
        let mut text = summary.to_owned();
        for range in targets(summary).into_iter().rev() {
            let path = resolved(Path::new(SUMMARY), &summary[range.clone()]);
            text.replace_range(range, &in_book(&path.display().to_string()));
        }
        if !self.others.is_empty() {
            text.push_str("- [Files]()\n");
        }
        for page in &self.others {
            let title = self.pages.get(page).and_then(|text| title(text)).unwrap_or_default();
            let _ = writeln!(text, "  - [{title}]({})", in_book(&page.display().to_string()));
        }
        text
    }

    fn write(&self, folder: &Path) -> Result<()> {
        if folder.exists() {
            fs::remove_dir_all(folder)
                .with_context(|| format!("can't remove {}", folder.display()))?;
        }
        let write = |path: &Path, bytes: &[u8]| {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap_or(folder))
                .and_then(|()| fs::write(&path, bytes))
                .with_context(|| format!("can't write {}", path.display()))
        };
        for (path, text) in &self.pages {
            write(Path::new(&in_book(&path.display().to_string())), text.as_bytes())?;
        }
        for path in &self.files {
            let bytes = fs::read(self.root.join(path));
            write(path, &bytes.with_context(|| format!("can't read {}", path.display()))?)?;
        }
        Ok(())
    }
}

/// Returns the path of a page in the book's sources. A folder's `README.md` is its `index.md`, as browsers
/// expect it.
fn in_book(path: &str) -> String {
    match path.strip_suffix("README.md") {
        Some(folder) if folder.is_empty() || folder.ends_with('/') => format!("{folder}index.md"),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_book_has_every_page_of_the_documentation_and_what_they_link_to() {
        let root = workspace_root();
        let source = Source::of(&root).unwrap();
        let page = |path: &str| &*source.pages[Path::new(path)];
        assert!(page("SUMMARY.md").starts_with("# Summary\n\n[Sluicegate](index.md)\n"));
        assert!(page("SUMMARY.md").contains("(docs/policies/token_bucket.md)"));
        assert!(page("docs/recipes/login.md").contains("](../../examples/src/bin/login.rs.md)"));
        assert!(page("examples/src/bin/login.rs.md").contains("````rust\n"));
        assert!(source.files.contains(Path::new("docs/policies/token_bucket.svg")));
    }

    #[test]
    fn the_readme_of_a_folder_is_its_index() {
        for (path, there) in [
            ("README.md", "index.md"),
            ("crates/x/README.md", "crates/x/index.md"),
            ("docs/NOT-README.md", "docs/NOT-README.md"),
        ] {
            assert_eq!(in_book(path), there);
        }
    }
}
