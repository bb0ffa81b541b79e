//! Lines of Rust, each with its code, its comment and its string literals apart.

use super::passage::NumberedLine;

/// A line of Rust.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// The code, in which each string literal is `""`
    pub(super) code: String,
    pub(super) comment: Option<Comment>,
    /// The string literals that start here
    pub(super) literals: Vec<Literal>,
}

/// A comment without its slashes.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Comment {
    /// `///`
    Item(String),
    /// `//!`
    Module(String),
    Plain(String),
}

/// A string literal.
#[derive(Debug)]
pub(super) struct Literal {
    /// The code on the same line before it
    pub(super) code_before: String,
    /// Its text, apart at the line breaks that the program prints
    pub(super) paragraphs: Vec<Vec<NumberedLine>>,
}

/// Reads a file. The first line has the index 0 and the number 1.
pub(super) fn lines(text: &str) -> Vec<Line> {
    let mut reader = Reader { rest: text, lines: vec![Line::default()] };
    while reader.step().is_some() {}
    reader.lines
}

struct Reader<'a> {
    rest: &'a str,
    lines: Vec<Line>,
}

impl<'a> Reader<'a> {
    /// Reads a literal, a comment or one character of code.
    fn step(&mut self) -> Option<()> {
        let letter = self.rest.chars().next()?;
        match letter {
            '/' if self.rest.starts_with("//") => {
                let comment = self.take(self.rest.find('\n').unwrap_or(self.rest.len()));
                self.line().comment = Some(comment_of(comment));
            }
            '/' if self.rest.starts_with("/*") => {
                let comment = self.take(self.rest.find("*/").map_or(self.rest.len(), |at| at + 2));
                for _ in comment.matches('\n') {
                    self.lines.push(Line::default());
                }
            }
            '"' => self.literal(),
            'r' if !self.follows_word() && self.raw_hashes().is_some() => self.raw_literal(),
            '\'' => self.character(),
            '\n' => {
                self.take(1);
                self.lines.push(Line::default());
            }
            letter => {
                self.take(letter.len_utf8());
                self.line().code.push(letter);
            }
        }
        Some(())
    }

    fn line(&mut self) -> &mut Line {
        let last = self.lines.len() - 1;
        &mut self.lines[last]
    }

    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// Returns `true` if the next character continues a name.
    fn follows_word(&mut self) -> bool {
        let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
        let code = self.line().code.as_str();
        let before = code.strip_suffix(['b', 'c']).unwrap_or(code);
        code.ends_with(is_word) && (before.len() == code.len() || before.ends_with(is_word))
    }

    /// Returns the number of `#` of a raw literal that starts here.
    fn raw_hashes(&self) -> Option<usize> {
        let after = self.rest[1..].trim_start_matches('#');
        after.starts_with('"').then(|| self.rest.len() - 1 - after.len())
    }

    fn raw_literal(&mut self) {
        let hashes = self.raw_hashes().unwrap_or_default();
        self.take(hashes + 2);
        let end = format!("\"{}", "#".repeat(hashes));
        let text = self.take(self.rest.find(&end).unwrap_or(self.rest.len()));
        self.take(end.len());
        let first = self.lines.len();
        let lines = text.lines().enumerate();
        let paragraphs = lines.map(|(index, line)| vec![(first + index, line.to_owned())]);
        self.add(text, paragraphs.collect());
    }

    fn literal(&mut self) {
        self.take(1);
        let mut letters = self.rest.char_indices();
        let end = loop {
            match letters.next() {
                Some((_, '\\')) => drop(letters.next()),
                Some((at, '"')) => break at,
                Some(_) => {}
                None => break self.rest.len(),
            }
        };
        let text = self.take(end);
        self.take(1);
        self.add(text, paragraphs(text, self.lines.len()));
    }

    /// Adds a literal to the line where it starts, and the lines that it spans.
    fn add(&mut self, text: &str, paragraphs: Vec<Vec<NumberedLine>>) {
        let code_before = self.line().code.clone();
        self.line().code.push_str("\"\"");
        self.line().literals.push(Literal { code_before, paragraphs });
        for _ in text.matches('\n') {
            self.lines.push(Line::default());
        }
    }

    /// Reads a character literal, or the tick of a lifetime.
    fn character(&mut self) {
        let mut letters = self.rest.char_indices().skip(1);
        let escaped = matches!(letters.next(), Some((_, '\\')));
        let end = if escaped {
            letters.next();
            letters.find(|(_, letter)| *letter == '\'').map(|(at, _)| at)
        } else {
            letters.next().filter(|(_, letter)| *letter == '\'').map(|(at, _)| at)
        };
        self.take(end.map_or(1, |end| end + 1));
        self.line().code.push('\'');
    }
}

fn comment_of(text: &str) -> Comment {
    if let Some(docs) = text.strip_prefix("//!") {
        return Comment::Module(docs.to_owned());
    }
    match text.strip_prefix("///") {
        Some(docs) if !docs.starts_with('/') => Comment::Item(docs.to_owned()),
        _ => Comment::Plain(text.trim_start_matches('/').to_owned()),
    }
}

/// Splits a literal that starts in the line `first` at its line breaks, escaped or not.
fn paragraphs(text: &str, first: usize) -> Vec<Vec<NumberedLine>> {
    let mut paragraphs = vec![Vec::new()];
    for (index, line) in text.lines().enumerate() {
        let continues = line.ends_with('\\');
        let parts = line.strip_suffix('\\').unwrap_or(line).split("\\n");
        for (part, text) in parts.enumerate() {
            if part > 0 {
                paragraphs.push(Vec::new());
            }
            if let Some(last) = paragraphs.last_mut() {
                last.push((first + index, text.replace("\\\"", "\"")));
            }
        }
        if !continues {
            paragraphs.push(Vec::new());
        }
    }
    paragraphs.retain(|lines| lines.iter().any(|(_, text)| !text.is_empty()));
    paragraphs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_comments_and_literals_are_told_apart() {
        let text = "//! Docs\n/// More\nfn a<'a>(b: &'a str) { // why\n    c(\"// \\\"no\\\" \\na\\\n     two\", '\"', '\\'');\n\
            d(r#\"a \"b\" { c\"#, br\"e\"); /* x\ny */ } //// z\n";
        let lines = lines(text);
        assert_eq!(lines[0].comment, Some(Comment::Module(" Docs".to_owned())));
        assert_eq!(lines[1].comment, Some(Comment::Item(" More".to_owned())));
        assert_eq!(lines[2].code, "fn a<'a>(b: &'a str) { ");
        assert_eq!(lines[2].comment, Some(Comment::Plain(" why".to_owned())));
        assert_eq!(lines[3].code, "    c(\"\"");
        let two = [vec![(4, "// \"no\" ".into())], vec![(4, "a".into()), (5, "     two".into())]];
        assert_eq!(lines[3].literals[0].paragraphs, two);
        assert_eq!(lines[4].code, ", ', ');");
        assert_eq!(lines[5].code, "d(\"\", b\"\"); ");
        assert_eq!(lines[5].literals[0].paragraphs, [[(6, "a \"b\" { c".into())]]);
        assert_eq!(lines[6].code, " } ");
        assert_eq!(lines[6].comment, Some(Comment::Plain(" z".to_owned())));
    }
}
