//! Texts of files that are neither Rust nor Markdown: comments of scripts and settings, and pages.

use super::category::Category;
use super::markdown;
use super::passage::{NumberedLine, Passage, Role};

/// Tags inside a sentence.
const INLINE: [&str; 6] = ["a", "b", "code", "em", "span", "strong"];

/// Reads the comments of a script, which start with `marker`. Consecutive lines are one comment.
pub(super) fn comments(text: &str, marker: &str) -> Vec<Passage> {
    let mut groups: Vec<Vec<NumberedLine>> = Vec::new();
    let (mut is_open, mut in_names) = (false, false);
    for (index, line) in text.lines().enumerate() {
        let Some((code, comment)) = split(line, marker) else {
            (is_open, in_names) = (false, false);
            continue;
        };
        in_names = lists_names(comment) || in_names && comment.starts_with("   ");
        if in_names {
            is_open = false;
            continue;
        }
        let is_alone = code.trim().is_empty();
        let comment = (index + 1, comment.trim_start_matches(marker).to_owned());
        match groups.last_mut().filter(|_| is_open && is_alone) {
            Some(group) => group.push(comment),
            None => groups.push(vec![comment]),
        }
        is_open = is_alone;
    }
    let blocks = groups.into_iter().flat_map(markdown::blocks);
    blocks.map(|block| Passage::new(Category::Rest, Role::Comment, &block.lines)).collect()
}

/// Reads the text of an HTML page, without styles and scripts.
pub(super) fn html(text: &str) -> Vec<Passage> {
    let mut passages = Vec::new();
    let mut hidden = None;
    for (index, line) in text.lines().enumerate() {
        let mut shown = String::new();
        let line = without_templates(line);
        let mut rest = &*line;
        while !rest.is_empty() {
            let (before, after) = rest.split_once('<').unwrap_or((rest, ""));
            let (tag, after) = after.split_once('>').unwrap_or((after, ""));
            if hidden.is_none() {
                shown.push_str(before);
            }
            let name = tag.split(' ').next().unwrap_or_default();
            if !INLINE.contains(&name.trim_start_matches('/')) {
                shown.push('\n');
            }
            match hidden {
                Some(end) => hidden = (name != end).then_some(end),
                None if name == "style" => hidden = Some("/style"),
                None if name == "script" => hidden = Some("/script"),
                None => {}
            }
            rest = after;
        }
        for part in shown.lines().filter(|part| part.trim().contains(' ')) {
            passages.push(Passage::new(
                Category::Texts,
                Role::Plain,
                &[(index + 1, part.to_owned())],
            ));
        }
    }
    passages
}

/// Drops the tags of templates.
fn without_templates(line: &str) -> String {
    let mut depth = 0_usize;
    let shown = line.chars().filter(|letter| {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => return depth == 0,
        }
        false
    });
    shown.collect()
}

/// Reads the summaries and descriptions of a description of an interface.
pub(super) fn interface(text: &str) -> Vec<Passage> {
    let mut passages = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for key in ["\"summary\": \"", "\"description\": \""] {
            for (at, _) in line.match_indices(key) {
                let value = &line[at + key.len()..];
                let mut quotes = value.match_indices('"').map(|(at, _)| at);
                let end = quotes.find(|at| !value[..*at].ends_with('\\'));
                let value = value[..end.unwrap_or(value.len())].replace("\\\"", "\"");
                passages.push(Passage::new(Category::Texts, Role::Plain, &[(index + 1, value)]));
            }
        }
    }
    passages
}

/// Returns `true` if a comment lists the names that a fragment of a script reads or sets.
fn lists_names(comment: &str) -> bool {
    ["reads", "sets", "returns", "in", "out"].iter().any(|word| {
        comment.trim_start().strip_prefix(word).is_some_and(|rest| rest.starts_with("  "))
    })
}

/// Splits a line at its comment: a marker after white space, outside of quotes.
fn split<'a>(line: &'a str, marker: &str) -> Option<(&'a str, &'a str)> {
    let at = line.match_indices(marker).map(|(at, _)| at).find(|at| {
        let code = &line[..*at];
        let is_apart = code.is_empty() || code.ends_with(char::is_whitespace);
        let is_outside = |quote: char| code.matches(quote).count().is_multiple_of(2);
        is_apart && is_outside('"') && is_outside('\'')
    })?;
    Some((&line[..at], &line[at + marker.len()..])).filter(|(_, text)| !text.starts_with('!'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(passages: Vec<Passage>) -> Vec<(usize, String)> {
        let shown = passages.into_iter().map(|passage| {
            let words = passage.sentences.concat();
            let texts: Vec<&str> = words.iter().map(|word| &*word.text).collect();
            (words[0].line, texts.join(" "))
        });
        shown.collect()
    }

    #[test]
    fn comments_of_scripts_are_found() {
        let text = "-- One\n-- and two.\nlocal a = '-- no' -- Three.\n-- Four.\n-- reads  a, b\n--        c\n-- Five.\n";
        let expected = [(1, "One and two"), (3, "Three"), (4, "Four"), (7, "Five")];
        let expected = expected.map(|(line, text)| (line, text.to_owned()));
        assert_eq!(shown(comments(text, "--")), expected);
        assert_eq!(shown(comments("#!/bin/sh\na=\"# b\" # c d\n", "#")), [(2, "c d".to_owned())]);
    }

    #[test]
    fn pages_and_descriptions_have_text() {
        let page = "<title>A page</title>\n<style>\na b {}\n</style>\n<p>One <b>bold</b> word{{ not }}</p><p>Not here</p>\n";
        let expected = [(1, "A page"), (5, "One bold word"), (5, "Not here")];
        assert_eq!(shown(html(page)), expected.map(|(line, text)| (line, text.to_owned())));
        let description = "{\"summary\": \"Take a cost\",\n \"description\": \"All, or \\\"none\\\".\"},\n\"a\": {\"description\": \"One.\"}, \"b\": \"two\"";
        let expected = [(1, "Take a cost"), (2, "All or none"), (3, "One")];
        assert_eq!(
            shown(interface(description)),
            expected.map(|(line, text)| (line, text.to_owned()))
        );
    }
}
