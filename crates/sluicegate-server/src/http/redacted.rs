//! Hides the passwords of a config file's text.

/// Returns a text with `***` instead of passwords: those in URLs, in comments too, and those of the field `password`.
pub(super) fn redacted(text: &str) -> String {
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
    fn passwords_are_hidden_wherever_they_are() {
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
            assert_eq!(redacted(text), hidden, "{text}");
            assert!(!redacted(text).contains("s3"));
        }
    }
}
