//! Links and headings of Markdown files, as a code host renders them.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

/// Returns the ranges of `text` that are targets of links and images, outside of code.
pub(crate) fn targets(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for (start, line) in prose(text) {
        let definition = line.starts_with('[').then(|| line.find("]: ")).flatten();
        if let Some(end) = definition {
            let from = start + end + 3;
            found.push(from..from + line[end + 3..].trim_end().len());
            continue;
        }
        let line = without_code(line);
        let mut at = 0;
        while let Some(open) = line[at..].find("](") {
            let from = at + open + 2;
            let Some(length) = line[from..].find([')', ' ']) else { break };
            found.push(start + from..start + from + length);
            at = from + length;
        }
    }
    found
}

/// Returns the anchors of the headings in `text`.
pub(crate) fn anchors(text: &str) -> Vec<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let headings = prose(text).filter_map(|(_, line)| {
        let heading = line.trim_start_matches('#');
        (heading.len() < line.len()).then(|| heading.strip_prefix(' ')).flatten()
    });
    headings
        .map(|heading| {
            let anchor = anchor(heading);
            let count = seen.entry(anchor.clone()).or_default();
            *count += 1;
            if *count == 1 { anchor } else { format!("{anchor}-{}", *count - 1) }
        })
        .collect()
}

/// Returns the text of the first heading.
pub(crate) fn title(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("# ")).map(str::trim)
}

/// Splits a target into the path and the anchor.
pub(crate) fn split(target: &str) -> (&str, Option<&str>) {
    target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)))
}

/// Returns whether a target is an address on the web.
pub(crate) fn is_external(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:")
}

/// Resolves the path of a link in `page`, without `.` and `..`.
pub(crate) fn resolved(page: &Path, path: &str) -> PathBuf {
    if path.is_empty() {
        return page.to_path_buf();
    }
    let mut resolved = page.parent().unwrap_or(Path::new("")).to_path_buf();
    for component in Path::new(path).components() {
        match component {
            Component::ParentDir => drop(resolved.pop()),
            Component::Normal(name) => resolved.push(name),
            _ => {}
        }
    }
    resolved
}

/// Returns the lines outside of fenced code, each with its start.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut start = 0;
    let mut fence: Option<&str> = None;
    text.split_inclusive('\n').filter_map(move |line| {
        let at = start;
        start += line.len();
        let trimmed = line.trim_start();
        let length = trimmed.len() - trimmed.trim_start_matches(['`', '~']).len();
        match fence {
            Some(open) => {
                if trimmed.starts_with(open) && trimmed[length..].trim().is_empty() {
                    fence = None;
                }
                None
            }
            None if length >= 3 => {
                fence = trimmed.get(..length);
                None
            }
            None => Some((at, line)),
        }
    })
}

/// Replaces inline code with blanks, which keeps the length of the line.
fn without_code(line: &str) -> String {
    let mut result = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(open) = rest.find('`') {
        let ticks = rest[open..].len() - rest[open..].trim_start_matches('`').len();
        let fence = &rest[open..open + ticks];
        let Some(length) = rest[open + ticks..].find(fence) else { break };
        result.push_str(&rest[..open]);
        let end = open + ticks + length + ticks;
        result.extend(std::iter::repeat_n(' ', end - open));
        rest = &rest[end..];
    }
    result + rest
}

/// Returns the anchor that a code host, and mdBook, gives to a heading.
fn anchor(heading: &str) -> String {
    // A link shows only its text.
    let mut shown = String::new();
    let mut rest = heading.trim();
    while let Some((before, after)) = rest.split_once("](") {
        shown.push_str(before);
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    shown.push_str(rest);
    let kept = |character: char| match character {
        ' ' => Some('-'),
        '-' | '_' => Some(character),
        _ => character.is_alphanumeric().then_some(character),
    };
    shown.to_lowercase().chars().filter_map(kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_of_code_only() {
        let text = "\
See [one](a.md#b) and ![two](c.svg), not `[x](y)`.
```rust
let z = [f](z);
```
[three]: d.md
[four
lines](e.md \"title\") and `` ` [x](y) `` [five](f(1).md)
";
        let found: Vec<_> = targets(text).into_iter().map(|range| &text[range]).collect();
        assert_eq!(found, ["a.md#b", "c.svg", "d.md", "e.md", "f(1"]);
    }

    #[test]
    fn headings_have_the_anchors_that_a_code_host_gives_them() {
        let text = "# `on_x`: what's [new](a.md) – now\n```sh\n# no heading\n```\n## Two\n## Two\n#three\n";
        assert_eq!(anchors(text), ["on_x-whats-new--now", "two", "two-1"]);
        assert_eq!(title(text), Some("`on_x`: what's [new](a.md) – now"));
    }

    #[test]
    fn paths_are_resolved_from_the_folder_of_their_page() {
        let page = Path::new("docs/recipes/login.md");
        let shown = |path| resolved(page, path).display().to_string();
        assert_eq!(shown("../../README.md"), "README.md");
        assert_eq!(shown("./jobs.md"), "docs/recipes/jobs.md");
        assert_eq!(shown(""), "docs/recipes/login.md");
    }
}
