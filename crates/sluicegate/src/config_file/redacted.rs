//! Hides the passwords of a config file's text.

use std::ops::Range;

use super::Config;
use super::tree::{self, Node, Value};

impl Config {
    /// Returns the text of a config file, or a message about one, with `***` instead of passwords. Lines keep their
    /// numbers.
    ///
    /// In YAML, values are hidden by their places, however they are spelled: the fields `password`, and the users and
    /// passwords of URLs. In comments and in other text, the look of the text decides.
    ///
    /// ```
    /// use sluicegate::Config;
    ///
    /// let text = "store: redis://me:s3cret@db:6379 # s3cret since May";
    /// assert_eq!(Config::without_passwords(text), "store: redis://***@db:6379 # *** since May");
    /// ```
    #[must_use]
    pub fn without_passwords(text: &str) -> String {
        let mut secrets = Secrets::default();
        if let Ok((root, _)) = tree::read(text, usize::MAX) {
            secrets.find(&root, text, false);
        }
        let shown = redacted_by_look(&secrets.hidden_in(text));
        // The same secret may be in a comment or another value.
        secrets.words.iter().fold(shown, |shown, word| shown.replace(word, HIDDEN))
    }
}

const HIDDEN: &str = "***";

/// The secrets of a file.
#[derive(Default)]
struct Secrets {
    /// The bytes of values, and the text that replaces them.
    places: Vec<(Range<usize>, String)>,
    /// Secrets that are long enough to be searched for.
    words: Vec<String>,
}

impl Secrets {
    /// Adds the secrets of a value and of all inside it.
    fn find(&mut self, node: &Node, text: &str, is_password: bool) {
        match &node.value {
            Value::List(nodes) => nodes.iter().for_each(|it| self.find(it, text, is_password)),
            Value::Map(entries) => {
                for (key, node) in entries {
                    self.find(node, text, is_password || key.name == "password");
                }
            }
            Value::Text(value) if is_password => self.hide(node, HIDDEN.to_owned(), value),
            Value::Text(value) => {
                let Some((scheme, rest)) = value.split_once("://") else { return };
                let Some((secret, host)) = rest.rsplit_once('@') else { return };
                let shown = format!("{scheme}://{HIDDEN}@{host}");
                let shown = if shown.contains(char::is_whitespace) { HIDDEN } else { &shown };
                self.hide(node, shown.to_owned(), secret);
                self.add_words(secret.split_once(':').map_or("", |(_, password)| password));
            }
            _ if is_password => self.hide(node, HIDDEN.to_owned(), node.written(text)),
            _ => {}
        }
    }

    fn hide(&mut self, node: &Node, shown: String, secret: &str) {
        self.places.push((node.bytes(), shown));
        self.add_words(secret);
    }

    fn add_words(&mut self, secret: &str) {
        const FEWEST: usize = 4;
        let lines = secret.lines().map(str::trim).filter(|line| line.len() >= FEWEST);
        self.words.extend(lines.map(str::to_owned));
    }

    /// Returns the text with its values hidden.
    fn hidden_in(&mut self, text: &str) -> String {
        // An alias has the place of its anchor.
        self.places.sort_unstable_by_key(|(bytes, _)| bytes.start);
        let (mut hidden, mut end) = (String::with_capacity(text.len()), 0);
        for (bytes, shown) in &self.places {
            let Some(value) = text.get(bytes.clone()).filter(|_| bytes.start >= end) else {
                continue;
            };
            hidden.push_str(text.get(end..bytes.start).unwrap_or_default());
            hidden.push_str(shown);
            hidden.extend(value.chars().filter(|it| *it == '\n'));
            end = bytes.end;
        }
        hidden.push_str(text.get(end..).unwrap_or_default());
        hidden
    }
}

/// Hides everything that looks like a password: in URLs, and after `password:`.
fn redacted_by_look(text: &str) -> String {
    let mut hidden = String::with_capacity(text.len());
    // The indentation of a field whose value is on the lines below.
    let mut below: Option<usize> = None;
    for line in text.split_inclusive('\n') {
        let indentation = line.len() - line.trim_start().len();
        if below.is_some_and(|field| indentation > field && !line.trim().is_empty()) {
            hidden.push_str(line.get(..indentation).unwrap_or_default());
            hidden.push_str("***");
            hidden.push_str(if line.ends_with('\n') { "\n" } else { "" });
            continue;
        }
        below = None;
        let (line, is_open) = without_fields(&without_urls(line));
        if is_open {
            below = Some(indentation);
        }
        hidden.push_str(&line);
    }
    hidden
}

/// Hides the user and the password of each URL of a line: everything up to the last `@` of a word.
fn without_urls(line: &str) -> String {
    let mut hidden = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find("://") {
        let (before, url) = rest.split_at(at + 3);
        hidden.push_str(before);
        let end = url.find(char::is_whitespace).unwrap_or(url.len());
        let (word, after) = url.split_at(end);
        match word.rfind('@') {
            None => hidden.push_str(word),
            Some(at) => {
                let (user, host) = word.split_at(at);
                match user.split_once(':') {
                    Some((user, _)) if !user.contains('@') => {
                        hidden.push_str(user);
                        hidden.push(':');
                    }
                    _ => {}
                }
                hidden.push_str("***");
                hidden.push_str(host);
            }
        }
        rest = after;
    }
    hidden.push_str(rest);
    hidden
}

/// Hides the values of the field `password`. Returns also whether a value continues below the line.
fn without_fields(line: &str) -> (String, bool) {
    const FIELD: &str = "password";
    let mut hidden = String::with_capacity(line.len());
    let mut rest = line;
    let mut is_open = false;
    while let Some(at) = rest.find(FIELD) {
        let (before, after) = rest.split_at(at + FIELD.len());
        hidden.push_str(before);
        let value = after.trim_start_matches(['"', '\'']).trim_start_matches([' ', '\t']);
        let Some(value) = value.strip_prefix(':') else {
            rest = after;
            continue;
        };
        hidden.push_str(after.strip_suffix(value).unwrap_or_default());
        let start = value.trim_start_matches([' ', '\t']);
        hidden.push_str(value.strip_suffix(start).unwrap_or_default());
        let quote = start.chars().next().filter(|first| ['"', '\''].contains(first));
        let plain_end = || start.find([',', '}', '\n']).unwrap_or(start.len());
        let end = match quote {
            // A quote within the value may be escaped, so the last one of the line ends it.
            Some(quote) => start.rfind(quote).filter(|end| *end > 0).map(|end| end + 1),
            None => Some(plain_end()),
        };
        let end = end.unwrap_or_else(|| start.trim_end_matches('\n').len());
        let (value, after) = start.split_at(end);
        is_open =
            value.trim().is_empty() || value.starts_with(['|', '>', '&', '!']) || quote.is_some();
        if !value.trim().is_empty() {
            hidden.push_str("***");
        }
        rest = after;
    }
    hidden.push_str(rest);
    (hidden, is_open)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_looks_like_a_password_is_hidden() {
        for (text, hidden) in [
            ("store: redis://me:s3cret@db:6379/0\n", "store: redis://me:***@db:6379/0\n"),
            ("store: \"redis://:s3:c@r@et@db\" # x\n", "store: \"redis://:***@db\" # x\n"),
            ("# was rediss://u:s3cret@a,rediss://v:s3cret@b", "# was rediss://u:***@b"),
            ("store: redis://s3cret@db", "store: redis://***@db"),
            ("url: http://host:80/a", "url: http://host:80/a"),
            ("redis: {password: s3cret, user: a}", "redis: {password: ***, user: a}"),
            ("  password: 's3''cret' # x\n  user: a", "  password: *** # x\n  user: a"),
            ("  \"password\" : s3cret\n", "  \"password\" : ***\n"),
            ("  password_file: /run/x\n", "  password_file: /run/x\n"),
            (
                "r:\n  password: |\n    s3cret\n  user: a\n",
                "r:\n  password: ***\n    ***\n  user: a\n",
            ),
            ("r:\n  password:\n    s3cret\nlimits: 1", "r:\n  password:\n    ***\nlimits: 1"),
            (
                " 3 | store: redis://u:s3cret@h\n   |   ^^^",
                " 3 | store: redis://u:***@h\n   |   ^^^",
            ),
        ] {
            assert_eq!(redacted_by_look(text), hidden, "{text}");
            assert!(!hidden.contains("s3"));
        }
    }

    /// Each spelling has the password `s3cret`, or with spaces and line breaks.
    #[test]
    fn passwords_are_hidden_however_yaml_spells_them() {
        for text in [
            "redis: {password: s3cret}",
            "redis: {\"password\": s3cret, user: a}",
            "redis: {password: \"s3\\x63ret\"}",
            "redis: {\"pass\\x77ord\": s3cret}",
            "redis:\n  password: 's3''cret'\n  user: a",
            "redis:\n  ? password\n  : s3cret\n  user: a",
            "redis:\n  password: &p s3cret\n  user: *p",
            "redis:\n  user: &p s3cret\n  password: *p",
            "redis:\n  user: &p\n    s3cret\n  password: *p",
            "redis:\n  password: !!str s3cret\n  user: a",
            "redis: {password:\n s3cret\n, user: a}",
            "redis: {password:\n  \"s3\\\n  cret\", user: a}",
            "redis:\n  password: >-\n    s3\n    cret\n  user: a",
            "redis:\n  password: |+\n\n    s3\n\n    cret\n  user: a",
            "redis:\n  password: s3\n    cret\n  user: a",
            "redis:\n  password: \"s3 } , # '\n    cret\"\n  user: a",
            "redis: {sentinel: {password: [s3cret, {a: s3cret}]}}",
            "redis: &r {password: s3cret}\nother: {<<: *r}",
            "{\"redis\": {\"password\": \"s3cret\"}}",
            "store: redis://user:s3cret@db",
            "store: redis://s3cret@db",
            "store: 'redis://user:s3 cret@db'",
            "store: \"redis:\\x2f/user:s3cret@db\"",
            "store: \"redis://user:s3\\\n  cret@db\"",
            "store: >-\n  redis://user:s3cret@db",
            "store: >-\n  redis://user:s3\n  cret@db",
            "store: &s redis://user:s3cret@a,user:s3cret@b\nother: *s",
            "store: redis://user:s3@c:ret@db",
            "store: redis://user:${s3cret}@db",
            "store:\n  redis://user:s3cret@db # s3cret",
            "redis: {password: s3cret} # before: s3cret",
        ] {
            let shown = Config::without_passwords(text);
            let has_secret =
                shown.contains("s3") || shown.contains("cret") || shown.contains("ret@");
            assert!(!has_secret, "{text}\n{shown}");
            assert!(tree::read(text, 100).is_ok(), "{text}");
            assert_eq!(shown.matches('\n').count(), text.matches('\n').count(), "{text}\n{shown}");
        }
        let number = Config::without_passwords("redis: {password: 123456}\n# 123456");
        assert_eq!(number, "redis: {password: ***}\n# ***");
        let plain = "limits:\n  a: {policies: [gcra 5/s], block: [a@b.c]} # a@b.c\n";
        assert_eq!(Config::without_passwords(plain), plain);
    }
}
