//! Passages: pieces of text, split into sentences and words.

use super::category::Category;

/// A paragraph, a heading, a list item, a table cell, a comment or a string literal.
#[derive(Debug)]
pub(super) struct Passage {
    pub(super) category: Category,
    pub(super) role: Role,
    pub(super) sentences: Vec<Vec<Word>>,
}

/// The place of a passage in its document.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Role {
    Plain,
    Heading,
    Comment,
    /// A string literal, whose start may follow other text
    Literal,
    /// A paragraph below the heading `# Errors`
    Errors,
    /// The first paragraph of a module's documentation
    Module,
    /// The first paragraph of a function's documentation
    Function,
    /// The first paragraph of any other item's documentation
    Item,
}

/// A word with the punctuation that follows it.
#[derive(Clone, Debug)]
pub(super) struct Word {
    /// The word as written, without punctuation
    pub(super) text: String,
    /// The word in lower case
    pub(super) lower: String,
    /// The punctuation between this word and the next one
    pub(super) after: String,
    pub(super) line: usize,
}

/// A line of text with its number in the file.
pub(super) type NumberedLine = (usize, String);

/// Abbreviations whose full stop ends no sentence.
const ABBREVIATIONS: [&str; 6] = ["e.g", "i.e", "etc", "vs", "cf", "no"];

impl Passage {
    /// Splits lines into sentences.
    pub(super) fn new(category: Category, role: Role, lines: &[NumberedLine]) -> Self {
        Self { category, role, sentences: sentences(words(lines)) }
    }
}

impl Role {
    /// Returns `true` if the passage is the first paragraph of an item's documentation.
    pub(super) fn starts_docs(self) -> bool {
        matches!(self, Self::Module | Self::Function | Self::Item)
    }
}

impl Word {
    /// Returns `true` if this is a code span, or begins with one.
    pub(super) fn is_code(&self) -> bool {
        self.text.starts_with('`')
    }

    fn ends_sentence(&self) -> bool {
        self.after.contains(['.', '?', '!']) && !ABBREVIATIONS.contains(&&*self.lower)
    }
}

/// Splits words where a full stop, a question mark or an exclamation mark is followed by a capital letter.
fn sentences(words: Vec<Word>) -> Vec<Vec<Word>> {
    let (mut sentences, mut current) = (Vec::new(), Vec::<Word>::new());
    for word in words {
        let may_start = !word.text.starts_with(char::is_lowercase);
        if may_start && current.last().is_some_and(Word::ends_sentence) {
            sentences.push(std::mem::take(&mut current));
        }
        current.push(word);
    }
    if !current.is_empty() {
        sentences.push(current);
    }
    sentences
}

/// Splits lines at white space, except in code spans. Drops the targets of links.
fn words(lines: &[NumberedLine]) -> Vec<Word> {
    let mut words = Vec::new();
    let mut chunk = String::new();
    let mut in_code = false;
    for (index, (line, text)) in lines.iter().enumerate() {
        let mut rest = text.as_str();
        while let Some(letter) = rest.chars().next() {
            rest = &rest[letter.len_utf8()..];
            if letter == '`' {
                let later = || lines[index + 1..].iter().any(|(_, text)| text.contains('`'));
                in_code = !in_code && (rest.contains('`') || later());
                chunk.push(letter);
            } else if in_code {
                chunk.push(letter);
            } else if letter.is_whitespace() {
                push(&mut words, &chunk, *line);
                chunk.clear();
            } else if letter == ']' && rest.starts_with(['(', '[']) {
                let end = rest.find([')', ']']).map_or(rest.len(), |end| end + 1);
                rest = &rest[end..];
            } else if letter != '[' && letter != ']' {
                chunk.push(if letter == '’' { '\'' } else { letter });
            }
        }
        if in_code {
            chunk.push(' ');
        } else {
            push(&mut words, &chunk, *line);
            chunk.clear();
        }
    }
    if let Some((line, _)) = lines.last() {
        push(&mut words, &chunk, *line);
    }
    words
}

/// Adds a chunk without the punctuation around it, which goes to the words before and after.
fn push(words: &mut Vec<Word>, chunk: &str, line: usize) {
    let is_mark = |letter: char| "\"'“”‘*_().,;:?!…–—-→|".contains(letter);
    let text = chunk.trim_start_matches(is_mark);
    let before = &chunk[..chunk.len() - text.len()];
    let marks = text.trim_end_matches(is_mark);
    let after = &text[marks.len()..];
    let kept = |marks: &str| marks.replace(['"', '\'', '“', '”', '‘', '*', '_'], "");
    if let Some(last) = words.last_mut() {
        last.after.push_str(&kept(before));
    }
    if !marks.is_empty() {
        let lower = marks.to_lowercase();
        words.push(Word { text: marks.to_owned(), lower, after: kept(after), line });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passage(text: &str) -> Passage {
        let lines: Vec<NumberedLine> =
            text.lines().enumerate().map(|(index, line)| (index + 1, line.to_owned())).collect();
        Passage::new(Category::Rest, Role::Plain, &lines)
    }

    #[test]
    fn sentences_end_at_a_full_stop_before_a_capital_letter() {
        let passage = passage(
            "A key, e.g. `a. B`, expires\nafter 1.5 s. It is gone! [Link](a b. C). `x` is.",
        );
        let shown: Vec<String> = passage
            .sentences
            .iter()
            .map(|words| words.iter().map(|word| &*word.text).collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(shown, ["A key e.g `a. B` expires after 1.5 s", "It is gone", "Link", "`x` is"]);
        assert_eq!(passage.sentences[0][4].line, 1);
        assert_eq!(passage.sentences[0][5].line, 2);
        assert_eq!(passage.sentences[0][1].after, ",");
    }

    #[test]
    fn a_single_backtick_opens_no_code() {
        assert_eq!(passage("a ` b\nc").sentences[0].len(), 4);
        assert_eq!(passage("`a\nb` c").sentences[0].len(), 2);
    }
}
