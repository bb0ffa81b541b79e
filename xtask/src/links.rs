//! Links of the documentation: between the files, as a code host shows them, and between the pages of the book.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::markdown::{anchors, is_external, resolved, split, targets};

/// Checks that every link in a Markdown file of the repository leads to a file and a heading. Returns the number of
/// links.
pub(crate) fn check_files(root: &Path) -> Result<usize> {
    let pages = files(root, Path::new(""))?.into_iter().filter(|path| is_markdown(path));
    let mut texts = BTreeMap::new();
    for page in pages {
        let text = fs::read_to_string(root.join(&page));
        texts.insert(page.clone(), text.with_context(|| format!("read {}", page.display()))?);
    }
    let (mut broken, mut links) = (Vec::new(), 0);
    for (page, text) in &texts {
        for target in targets(text).into_iter().map(|range| &text[range]) {
            if is_external(target) {
                continue;
            }
            links += 1;
            let (path, anchor) = split(target);
            let to = resolved(page, path);
            let is_there = match (texts.get(&to), anchor) {
                (Some(text), Some(anchor)) => anchors(text).iter().any(|known| known == anchor),
                (None, Some(_)) => false,
                (_, None) => root.join(&to).exists(),
            };
            if !is_there {
                broken.push(format!("{}: {target}", page.display()));
            }
        }
    }
    if broken.is_empty() {
        Ok(links)
    } else {
        bail!("links that lead nowhere:\n{}", broken.join("\n"))
    }
}

/// Checks that every link within the book leads to a file and an anchor. Returns the number of links.
pub(crate) fn check_book(book: &Path) -> Result<usize> {
    let mut pages = BTreeMap::new();
    collect_html(book, book, &mut pages)?;
    let (mut broken, mut links) = (Vec::new(), 0);
    for (page, html) in &pages {
        // The links of the 404 page are relative to an unknown page, the one that it is shown for.
        if page == Path::new("404.html") {
            continue;
        }
        for target in attributes(html, "href").chain(attributes(html, "src")) {
            if is_external(target) || target.starts_with("data:") || target.is_empty() {
                continue;
            }
            links += 1;
            let (path, anchor) = split(target);
            let to = resolved(page, path);
            let is_there = match (pages.get(&to), anchor) {
                (Some(html), Some(anchor)) if !anchor.is_empty() => {
                    attributes(html, "id").any(|id| id == anchor)
                }
                _ => book.join(&to).is_file(),
            };
            if !is_there {
                broken.push(format!("{}: {target}", page.display()));
            }
        }
    }
    if broken.is_empty() {
        Ok(links)
    } else {
        bail!("links of the book that lead nowhere:\n{}", broken.join("\n"))
    }
}

fn collect_html(book: &Path, folder: &Path, pages: &mut BTreeMap<PathBuf, String>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            collect_html(book, &path, pages)?;
        } else if path.extension().is_some_and(|extension| extension == "html") {
            pages.insert(path.strip_prefix(book)?.to_path_buf(), fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

/// Returns the values of an attribute in HTML that mdBook generated.
fn attributes<'h>(html: &'h str, name: &str) -> impl Iterator<Item = &'h str> {
    let start = format!(" {name}=\"");
    let mut rest = html;
    std::iter::from_fn(move || {
        let (_, after) = rest.split_once(&start)?;
        let (value, after) = after.split_once('"')?;
        rest = after;
        Some(value)
    })
}

/// Returns whether a file is Markdown, by its name.
pub(crate) fn is_markdown(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md")
}

/// Folders of generated files, which aren't part of the repository.
const WRITTEN: [&str; 4] = ["target", "corpus", "artifacts", "mutants.out"];

/// Returns the files of the repository below a folder, as paths from its root, in order.
pub(crate) fn files(root: &Path, folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let full = root.join(folder);
    for entry in fs::read_dir(&full).with_context(|| format!("read {}", full.display()))? {
        let entry = entry?;
        let name = entry.file_name();
        let is_hidden = name.as_encoded_bytes().starts_with(b".");
        if is_hidden || WRITTEN.iter().any(|written| name == *written) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::workspace_root;

    #[test]
    fn links_of_the_documentation_lead_somewhere() {
        assert!(check_files(&workspace_root()).unwrap() > 100);
    }

    #[test]
    fn attributes_are_read_from_html() {
        let html = r##"<a class="x" href="a.html#b">x</a> <a href="#">y</a><h2 id="b">"##;
        assert_eq!(attributes(html, "href").collect::<Vec<_>>(), ["a.html#b", "#"]);
        assert_eq!(attributes(html, "id").collect::<Vec<_>>(), ["b"]);
    }
}
