//! Small changes to a Lua file: changed operators and bounds, and removed calls.

use std::ops::Range;

/// A range of the text, and its replacement.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Change {
    pub(super) at: Range<usize>,
    pub(super) with: String,
}

impl Change {
    /// Returns the changed text.
    pub(super) fn apply(&self, text: &str) -> String {
        format!("{}{}{}", &text[..self.at.start], self.with, &text[self.at.end..])
    }

    /// Returns the changed line with both texts in it, which identifies the change. It has no line
    /// number, because any other change to the file would make that wrong.
    pub(super) fn shown(&self, text: &str) -> String {
        let start = text[..self.at.start].rfind('\n').map_or(0, |end| end + 1);
        let end = text[self.at.end..].find('\n').map_or(text.len(), |end| self.at.end + end);
        let (from, with) = (&text[self.at.clone()], &self.with);
        let change = format!("«{from} → {with}»");
        let line = [&text[start..self.at.start], &change, &text[self.at.end..end]].concat();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

/// Returns all changes to a file, in its order.
pub(super) fn changes(text: &str) -> Vec<Change> {
    let tokens = tokens(text);
    let mut changes = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let word = &text[token.clone()];
        let before = index.checked_sub(1).map_or("", |before| &text[tokens[before].clone()]);
        let after = tokens.get(index + 1).map_or("", |after| &text[after.clone()]);
        for with in instead_of(word, before, after) {
            changes.push(Change { at: token.clone(), with });
        }
        if let Some(end) = call_that_stands_alone(text, &tokens, index) {
            changes.push(Change { at: token.start..end, with: String::new() });
        }
    }
    changes
}

/// Returns the possible replacements of a token.
fn instead_of(word: &str, before: &str, after: &str) -> Vec<String> {
    let is_called = after == "(";
    let one = |with: &str| vec![with.to_owned()];
    match word {
        "<" => one("<="),
        "<=" => one("<"),
        ">" => one(">="),
        ">=" => one(">"),
        "==" => one("~="),
        "~=" => one("=="),
        "+" => one("-"),
        "-" if is_operand_end(before) => one("+"),
        "*" => one("/"),
        "/" => one("*"),
        "%" => one("/"),
        "^" => one("*"),
        "and" => one("or"),
        "or" => one("and"),
        "not" => one(""),
        "true" => one("false"),
        "false" => one("true"),
        "max" if is_called => one("min"),
        "min" if is_called => one("max"),
        "ceil" if is_called => one("floor"),
        "floor" if is_called => one("ceil"),
        _ => {
            if let Ok(number) = word.parse::<u64>() {
                let less = number.checked_sub(1).map(|less| less.to_string());
                return [(number + 1).to_string()].into_iter().chain(less).collect();
            }
            // A constant of the Rust code, if it isn't a format or a table.
            let is_constant = word.starts_with(|first: char| first.is_ascii_uppercase())
                && !word.contains(|letter: char| letter.is_ascii_lowercase());
            let is_text = before == "(" && after == "," || matches!(word, "KEYS" | "ARGV");
            if is_constant && !is_text && word != "FIXED_SIZES" {
                return one(&format!("({word} + 1)"));
            }
            Vec::new()
        }
    }
}

/// Returns the end of a call that is a whole statement and begins with the token.
fn call_that_stands_alone(text: &str, tokens: &[Range<usize>], from: usize) -> Option<usize> {
    let word = |index: usize| tokens.get(index).map_or("", |token| &text[token.clone()]);
    let before = from.checked_sub(1).map_or("", word);
    let begins = matches!(before, "" | "then" | "else" | "do" | "repeat" | "end")
        || is_operand_end(before)
            && text[..tokens[from].start].trim_end_matches(' ').ends_with('\n');
    if !begins || !is_name(word(from)) {
        return None;
    }
    let mut at = from + 1;
    while word(at) == "." && is_name(word(at + 1)) {
        at += 2;
    }
    if word(at) != "(" {
        return None;
    }
    let mut depth = 0;
    loop {
        match word(at) {
            "(" | "{" | "[" => depth += 1,
            ")" | "}" | "]" => depth -= 1,
            "" => return None,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            break;
        }
    }
    // Skip calls whose result is assigned to or used.
    let goes_on = matches!(word(at), "." | "[" | "(" | ":" | "=" | ",");
    (!goes_on).then(|| tokens[at - 1].end)
}

fn is_name(word: &str) -> bool {
    const KEYWORDS: [&str; 12] = [
        "if", "for", "while", "return", "local", "function", "break", "end", "else", "elseif",
        "repeat", "until",
    ];
    word.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && !KEYWORDS.contains(&word)
}

/// Returns whether an expression may end with the word.
fn is_operand_end(word: &str) -> bool {
    const OPEN: [&str; 13] = [
        "and", "or", "not", "return", "then", "else", "do", "in", "if", "while", "until", "local",
        "elseif",
    ];
    word.ends_with(|last: char| last.is_ascii_alphanumeric() || "_)]}'\"".contains(last))
        && !OPEN.contains(&word)
}

/// Returns the tokens, without comments.
fn tokens(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let from = at;
        let until = |mut at: usize, goes_on: &dyn Fn(u8) -> bool| {
            while at < bytes.len() && goes_on(bytes[at]) {
                at += 1;
            }
            at
        };
        match bytes[at] {
            byte if byte.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            b'-' if bytes.get(at + 1) == Some(&b'-') => {
                at = until(at, &|byte| byte != b'\n');
                continue;
            }
            quote @ (b'\'' | b'"') => at = until(at + 1, &|byte| byte != quote) + 1,
            byte if byte.is_ascii_alphanumeric() || byte == b'_' => {
                at = until(at, &|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            }
            b'=' | b'~' | b'<' | b'>' if bytes.get(at + 1) == Some(&b'=') => at += 2,
            b'.' => at = until(at, &|byte| byte == b'.'),
            _ => at += 1,
        }
        tokens.push(from..at.min(bytes.len()));
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        changes(text).iter().map(|change| change.shown(text)).collect()
    }

    #[test]
    fn operators_and_bounds_change() {
        assert_eq!(
            shown("if a <= 2 and not b then -- 1 < 2\n  x = -y - MAX\nend"),
            [
                "if a «<= → <» 2 and not b then -- 1 < 2",
                "if a <= «2 → 3» and not b then -- 1 < 2",
                "if a <= «2 → 1» and not b then -- 1 < 2",
                "if a <= 2 «and → or» not b then -- 1 < 2",
                "if a <= 2 and «not → » b then -- 1 < 2",
                "x = -y «- → +» MAX",
                "x = -y - «MAX → (MAX + 1)»",
            ]
        );
        assert_eq!(shown("x = pack(PAIR, KEYS, 'a + b')"), [""; 0]);
        assert_eq!(shown("x = ceil(y)"), ["x = «ceil → floor»(y)"]);
    }

    #[test]
    fn calls_that_are_statements_are_dropped() {
        assert_eq!(
            shown("forget(p)\nif x then redis.call('SET', a[b], {}) end\ny = f(x)"),
            ["«forget(p) → »", "if x then «redis.call('SET', a[b], {}) → » end"]
        );
        assert_eq!(shown("a.b(c).d = e\nlocal x =\n  f(y)\nreturn g(h)"), [""; 0]);
        let text = "a(b)\nc(d)";
        assert_eq!(changes(text)[1].apply(text), "a(b)\n");
    }
}
