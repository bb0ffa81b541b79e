//! Braces of Rust: for each line, whether it is in a public enum or trait, or in a test.

use super::rust_lines::Line;

/// The block that a line is in.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Scope {
    #[default]
    Other,
    /// A public enum or trait, whose variants and methods are public too
    Public,
    Test,
}

/// Returns for each line the block in which it starts.
pub(super) fn scopes(lines: &[Line]) -> Vec<Scope> {
    let mut open = Vec::new();
    let mut header = String::new();
    let mut scopes = Vec::with_capacity(lines.len());
    for line in lines {
        scopes.push(open.last().copied().unwrap_or_default());
        for letter in line.code.chars() {
            match letter {
                '{' => {
                    open.push(opened(&header, open.last().copied().unwrap_or_default()));
                    header.clear();
                }
                '}' => {
                    open.pop();
                    header.clear();
                }
                ';' => header.clear(),
                letter => header.push(letter),
            }
        }
        header.push(' ');
    }
    scopes
}

/// Returns the block that opens after `header`.
fn opened(header: &str, outside: Scope) -> Scope {
    let is_test =
        ["#[cfg(test)]", "#[test]", "::test]", "::test("].iter().any(|word| header.contains(word));
    let header = header.rsplit(']').next().unwrap_or_default().trim();
    let is_public = ["pub enum ", "pub trait ", "pub unsafe trait "]
        .iter()
        .any(|word| header.starts_with(word));
    match outside {
        _ if is_test => Scope::Test,
        Scope::Test => Scope::Test,
        _ if is_public => Scope::Public,
        Scope::Public if !header.contains("fn ") => Scope::Public,
        _ => Scope::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::super::rust_lines::lines;
    use super::*;

    #[test]
    fn public_enums_and_tests_are_scopes() {
        let text = "pub(crate) enum A {\nB,\n}\n#[derive(Debug)]\npub enum C {\nD {\ne: u8,\n},\n}\npub trait F {\n\
            fn g() {\nh();\n}\n}\n#[cfg(test)]\nmod tests {\nfn i() {\nj();\n}\n}\nk!();\n";
        let scopes = scopes(&lines(text));
        let lines_in = |wanted: Scope| -> Vec<usize> {
            (1..=scopes.len()).filter(|line| scopes[line - 1] == wanted).collect()
        };
        assert_eq!(lines_in(Scope::Public), [6, 7, 8, 9, 11, 14]);
        assert_eq!(lines_in(Scope::Test), [17, 18, 19, 20]);
    }
}
