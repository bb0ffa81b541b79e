//! Links of the documentation: between the files, as a code host shows them, and between the pages of the book.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::files::files;
use crate::markdown::{anchors, is_external, resolved, split, targets};

/// Checks that every link in a Markdown file of the repository leads to a file and a heading. Returns the number of
/// links.
pub(crate) fn check_files(root: &Path) -> Result<usize> {
    let texts = texts(root, "md")?;
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
    none_broken("links", &broken).map(|()| links)
}

/// Checks that every link within the book leads to a file and an anchor. Returns the number of links.
pub(crate) fn check_book(book: &Path) -> Result<usize> {
    let pages = texts(book, "html")?;
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
    none_broken("links of the book", &broken).map(|()| links)
}

fn none_broken(links: &str, broken: &[String]) -> Result<()> {
    if broken.is_empty() {
        return Ok(());
    }
    bail!("{links} that lead nowhere:\n{}", broken.join("\n"))
}

/// Returns the texts of the files with an extension, by their paths from the root.
fn texts(root: &Path, extension: &str) -> Result<BTreeMap<PathBuf, String>> {
    let files = files(root, Path::new(""))?.into_iter();
    let wanted = files.filter(|path| path.extension().is_some_and(|own| own == extension));
    let read = |path: PathBuf| {
        let text = fs::read_to_string(root.join(&path));
        let text = text.with_context(|| format!("read {}", path.display()))?;
        Ok((path, text))
    };
    wanted.map(read).collect()
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
