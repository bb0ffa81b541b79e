//! Texts of a Rust file: documentation, comments and string literals.

use super::category::Category;
use super::markdown;
use super::passage::{NumberedLine, Passage, Role};
use super::rust_lines::{Comment, Line, lines};
use super::scopes::{Scope, scopes};

/// A Rust file's place in the workspace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Whether users see the documentation of its public items and its string literals.
    pub(super) is_published: bool,
    /// Whether its module is public.
    pub(super) is_public: bool,
    /// Whether the documentation of its types is the help of a command.
    pub(super) is_help: bool,
}

/// Reads the texts of a file.
pub(super) fn passages(text: &str, place: Place) -> Vec<Passage> {
    let lines = lines(text);
    let scopes = scopes(&lines);
    let mut passages = Vec::new();
    let mut index = 0;
    while index < lines.len() {
        let line = &lines[index];
        let start = index;
        index += 1;
        literals(line, place, scopes[start], &mut passages);
        let Some(comment) = &line.comment else { continue };
        let is_alone = line.code.trim().is_empty();
        let mut texts = vec![(start + 1, text_of(comment))];
        while let Some(next) = lines.get(index).filter(|_| is_alone)
            && next.code.trim().is_empty()
            && let Some(more) = next.comment.as_ref()
            && std::mem::discriminant(more) == std::mem::discriminant(comment)
        {
            index += 1;
            texts.push((index, text_of(more)));
        }
        match comment {
            Comment::Plain(_) => plain(texts, &mut passages),
            Comment::Module(_) => {
                let is_public = place.is_published && place.is_public;
                let category = if is_public { Category::Rustdoc } else { Category::Rest };
                docs(texts, category, Role::Module, &mut passages);
            }
            Comment::Item(_) => {
                let item = Item::after(&lines[index..]);
                let scope = scopes.get(index + item.skipped).copied().unwrap_or_default();
                let is_public = item.is_public || scope == Scope::Public;
                let category = match item.role {
                    Role::Item if place.is_help => Category::Texts,
                    _ if place.is_published && is_public => Category::Rustdoc,
                    _ => Category::Rest,
                };
                let is_tested = item.is_test || scope == Scope::Test;
                let role = if is_tested { Role::Item } else { item.role };
                docs(texts, category, role, &mut passages);
            }
        }
    }
    passages
}

/// The item that documentation belongs to.
struct Item {
    role: Role,
    is_public: bool,
    is_test: bool,
    /// The number of lines with attributes before it
    skipped: usize,
}

impl Item {
    fn after(lines: &[Line]) -> Self {
        let (mut open, mut is_test) = (0_usize, false);
        for (skipped, line) in lines.iter().enumerate() {
            let code = line.code.trim();
            if open > 0 || code.starts_with("#[") {
                is_test |= ["#[test]", "::test]", "::test("].iter().any(|word| code.contains(word));
                open += code.matches('[').count();
                open = open.saturating_sub(code.matches(']').count());
            } else if !code.is_empty() {
                let is_public = code.starts_with("pub ");
                let words = code.split([' ', '(', '<']);
                let mut words =
                    words.filter(|word| !word.is_empty()).map(|word| word.trim_end_matches(')'));
                let is_before = |word: &&str| {
                    ["pub", "crate", "super", "const", "async", "unsafe", "extern", "\"\""]
                        .contains(word)
                };
                let is_function = words.find(|word| !is_before(word)) == Some("fn");
                let role = if is_function { Role::Function } else { Role::Item };
                return Self { role, is_public, is_test, skipped };
            }
        }
        Self { role: Role::Item, is_public: false, is_test: false, skipped: 0 }
    }
}

fn text_of(comment: &Comment) -> String {
    let (Comment::Item(text) | Comment::Module(text) | Comment::Plain(text)) = comment;
    text.clone()
}

/// Adds the paragraphs of documentation.
fn docs(lines: Vec<NumberedLine>, category: Category, first: Role, passages: &mut Vec<Passage>) {
    let (mut is_first, mut role) = (true, Role::Plain);
    for block in markdown::blocks(lines) {
        if block.is_heading {
            let is_errors = block.lines.iter().any(|(_, text)| text == "Errors");
            role = if is_errors { Role::Errors } else { Role::Plain };
            continue;
        }
        let role = if is_first { first } else { role };
        passages.push(Passage::new(category, role, &block.lines));
        is_first = false;
    }
}

/// Adds a comment.
fn plain(lines: Vec<NumberedLine>, passages: &mut Vec<Passage>) {
    for block in markdown::blocks(lines) {
        passages.push(Passage::new(Category::Rest, Role::Comment, &block.lines));
    }
}

/// Adds the string literals of a line that are sentences: users read those of published code.
fn literals(line: &Line, place: Place, scope: Scope, passages: &mut Vec<Passage>) {
    for literal in &line.literals {
        let is_reason = literal.code_before.trim_end().ends_with("reason =");
        let is_read = place.is_published && scope != Scope::Test;
        let category = if is_reason { Category::Rest } else { Category::Texts };
        for lines in &literal.paragraphs {
            if is_reason || is_read && is_sentence(lines) {
                passages.push(Passage::new(category, Role::Literal, lines));
            }
        }
    }
}

/// Returns `true` if a literal has at least four words.
fn is_sentence(lines: &[NumberedLine]) -> bool {
    let words = lines.iter().flat_map(|(_, line)| line.split_whitespace());
    words.filter(|word| word.starts_with(char::is_alphabetic)).count() >= 4
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
//! A module.

/// A public type.
///
/// ```
/// let it = "fenced";
/// ```
#[derive(
    Debug,
)]
pub struct A {
    /// A private field.
    b: u8, // A comment.
}

pub enum B {
    /// A variant.
    C {
        /// A field of it.
        d: u8,
    },
}

impl A {
    /// Returns a number.
    ///
    /// # Errors
    /// Never.
    #[expect(dead_code, reason = "a reason")]
    pub const fn e(&self) -> Result<u8, ()> {
        f("a text of five words", "three short words")
    }
}

#[cfg(test)]
mod tests {
    fn g() {
        f("a text of tests that is not read")
    }
}
"#;

    #[test]
    fn texts_have_their_readers() {
        let place = Place { is_published: true, is_public: true, is_help: false };
        let found = passages(TEXT, place).into_iter().map(|passage| {
            let words: Vec<String> =
                passage.sentences.concat().into_iter().map(|word| word.text).collect();
            (passage.category, passage.role, words.join(" "))
        });
        let expected = [
            (Category::Rustdoc, Role::Module, "A module"),
            (Category::Rustdoc, Role::Item, "A public type"),
            (Category::Rest, Role::Item, "A private field"),
            (Category::Rest, Role::Comment, "A comment"),
            (Category::Rustdoc, Role::Item, "A variant"),
            (Category::Rustdoc, Role::Item, "A field of it"),
            (Category::Rustdoc, Role::Function, "Returns a number"),
            (Category::Rustdoc, Role::Errors, "Never"),
            (Category::Rest, Role::Literal, "a reason"),
            (Category::Texts, Role::Literal, "a text of five words"),
        ];
        let expected = expected.map(|(category, role, text)| (category, role, text.to_owned()));
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }
}
