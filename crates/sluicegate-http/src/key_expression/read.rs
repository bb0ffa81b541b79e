//! Parses key expressions.

use std::ops::Range;

use http::HeaderName;
use sluicegate_core::nearest;

use super::KeyExpression;
use crate::key_component::{KeyComponent, is_bare};

/// A fault in an expression, and the bytes at fault.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) place: Range<usize>,
    pub(super) message: String,
}

const PLAIN: [(&str, KeyComponent); 6] = [
    ("ip", KeyComponent::Ip),
    ("user", KeyComponent::User),
    ("method", KeyComponent::Method),
    ("path", KeyComponent::Path),
    ("route", KeyComponent::Route),
    ("host", KeyComponent::Host),
];
/// Components that need a name, with an example of one.
const NAMED: [(&str, &str); 3] =
    [("header", "x-api-key"), ("cookie", "session"), ("query", "api_key")];
const ALL: &str = "ip, user, method, path, route, host, header:NAME, cookie:NAME, query:NAME or text in quotes such as 'all'";

/// Separates alternatives.
const OR: &str = "or";

/// Parses an expression into the components of its alternatives.
pub(super) fn alternatives(text: &str) -> Result<Vec<Box<[KeyComponent]>>, Problem> {
    const MAX_BYTES: usize = KeyExpression::MAX_BYTES;
    if text.len() > MAX_BYTES {
        let end = text.char_indices().map(|(at, _)| at).take_while(|&at| at <= MAX_BYTES).last();
        let end = end.unwrap_or_default();
        let message =
            format!("the expression has {} bytes, but may have at most {MAX_BYTES}", text.len());
        return Err(Problem { place: end..end, message });
    }
    let mut reader = Reader { text, at: 0 };
    let mut alternatives: Vec<Box<[KeyComponent]>> = Vec::new();
    loop {
        reader.skip_white_space();
        let start = reader.at;
        let components = reader.components()?;
        let place = start..start + reader.read_from(start).trim_end().len();
        if alternatives.len() == KeyExpression::MAX_ALTERNATIVES {
            let message =
                format!("a key has at most {} alternatives", KeyExpression::MAX_ALTERNATIVES);
            return Err(Problem { place, message });
        }
        if let Some(earlier) = alternatives.iter().find(|earlier| precedes(earlier, &components)) {
            let message = format!(
                "this alternative is never used, because a request that has it also has `{}`: write it before that, or remove it",
                joined(earlier)
            );
            return Err(Problem { place, message });
        }
        alternatives.push(components.into());
        if !reader.takes_or() {
            return Ok(alternatives);
        }
    }
}

/// Returns whether every request that has the components of `later` has those of `earlier`.
fn precedes(earlier: &[KeyComponent], later: &[KeyComponent]) -> bool {
    let is_everywhere = |component: &KeyComponent| {
        matches!(component, KeyComponent::Literal(_) | KeyComponent::Method | KeyComponent::Path)
    };
    earlier.iter().all(|component| is_everywhere(component) || later.contains(component))
}

fn joined(components: &[KeyComponent]) -> String {
    components.iter().map(ToString::to_string).collect::<Vec<_>>().join("+")
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn next(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip_white_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Returns the text before the first character that is not `part` of it.
    fn take_while(&mut self, part: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|character| !part(character)).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or_default()
    }

    /// Returns the text that was read since `start`.
    fn read_from(&self, start: usize) -> &'t str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// Returns the word that begins here.
    fn word(&self) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|character| !is_bare(character) || character == ':');
        rest.get(..end.unwrap_or(rest.len())).unwrap_or_default()
    }

    /// Skips the word between two alternatives, if it comes next.
    fn takes_or(&mut self) -> bool {
        let found = self.word() == OR;
        if found {
            self.at += OR.len();
        }
        found
    }

    /// Returns the components of an alternative, up to the end or to `or`.
    fn components(&mut self) -> Result<Vec<KeyComponent>, Problem> {
        let mut components: Vec<KeyComponent> = Vec::new();
        loop {
            self.skip_white_space();
            let start = self.at;
            let component = self.component()?;
            let place = start..self.at;
            if components.len() == KeyExpression::MAX_COMPONENTS {
                let message =
                    format!("a key has at most {} components", KeyExpression::MAX_COMPONENTS);
                return Err(Problem { place, message });
            }
            let is_literal = matches!(component, KeyComponent::Literal(_));
            if !is_literal && components.contains(&component) {
                let message = format!("`{component}` occurs twice: name each component once");
                return Err(Problem { place, message });
            }
            components.push(component);
            self.skip_white_space();
            match self.next() {
                None => return Ok(components),
                Some('+') => self.at += 1,
                Some(_) if self.word() == OR => return Ok(components),
                Some(_) => return Err(self.no_joint()),
            }
        }
    }

    /// Returns the problem where a component ended and neither `+` nor `or` follows.
    fn no_joint(&self) -> Problem {
        let word = self.word();
        if word.eq_ignore_ascii_case(OR) || matches!(word, "|" | "||") {
            let place = self.at..self.at + word.len();
            return Problem { place, message: format!("write `{OR}` instead of `{word}`") };
        }
        let place = self.at..self.text.len();
        let message = format!(
            "another component begins here: write `+` before it, or `{OR}` if it is an alternative"
        );
        Problem { place, message }
    }

    fn component(&mut self) -> Result<KeyComponent, Problem> {
        if self.next() == Some('\'') {
            return self.quoted().map(|text| KeyComponent::Literal(text.into()));
        }
        let start = self.at;
        let word = self.take_while(|character| is_bare(character) && character != ':');
        let place = start..self.at;
        let plain = PLAIN.iter().find(|(name, _)| *name == word);
        let named = NAMED.iter().find(|(name, _)| *name == word);
        if word.is_empty() {
            return Err(self.no_component(place));
        }
        if self.next() != Some(':') {
            return match (plain, named) {
                (Some((_, component)), _) => Ok(component.clone()),
                _ if word == OR => Err(Problem {
                    place,
                    message: format!("a component is missing before `{OR}`: write one of {ALL}"),
                }),
                (None, Some((word, example))) => Err(Problem {
                    place,
                    message: format!("`{word}` needs a name: write one as in `{word}:{example}`"),
                }),
                (None, None) => Err(unknown(word, place)),
            };
        }
        if plain.is_some() {
            let place = self.at..self.text.len();
            return Err(Problem {
                place,
                message: format!("`{word}` takes no name: write `{word}`"),
            });
        }
        if named.is_none() {
            return Err(unknown(word, place));
        }
        self.at += 1;
        self.named(word)
    }

    /// Returns the component `word` with the name that comes next.
    fn named(&mut self, word: &str) -> Result<KeyComponent, Problem> {
        let start = self.at;
        let quoted;
        let name = if self.next() == Some('\'') {
            quoted = self.quoted()?;
            &quoted
        } else {
            self.take_while(is_bare)
        };
        let place = start..self.at;
        if name.is_empty() {
            let example = NAMED.iter().find(|(name, _)| *name == word).map_or("", |(_, name)| name);
            let message = format!("the name is missing: write one as in `{word}:{example}`");
            return Err(Problem { place, message });
        }
        match word {
            "cookie" => Ok(KeyComponent::Cookie(name.into())),
            "query" => Ok(KeyComponent::Query(name.into())),
            _ => HeaderName::from_bytes(name.as_bytes()).map(KeyComponent::Header).map_err(|_| {
                let message = format!(
                    "`{}` is not the name of a header field: write letters, digits and `-`, such as x-api-key",
                    shown(name)
                );
                Problem { place, message }
            }),
        }
    }

    /// Returns the text between the quotes that begin here.
    fn quoted(&mut self) -> Result<String, Problem> {
        let start = self.at;
        self.at += 1;
        let mut text = String::new();
        while let Some(character) = self.next() {
            let place = self.at..self.at + character.len_utf8();
            self.at = place.end;
            match character {
                '\'' => return Ok(text),
                '\\' => match self.next() {
                    Some(escaped @ ('\'' | '\\')) => {
                        self.at += escaped.len_utf8();
                        text.push(escaped);
                    }
                    _ => {
                        let message =
                            r"`\` may only precede `'` or `\`: write `\\` for a backslash";
                        return Err(Problem { place, message: message.to_owned() });
                    }
                },
                control if control.is_control() => {
                    let message = "a control character can't be part of a key expression";
                    return Err(Problem { place, message: message.to_owned() });
                }
                other => text.push(other),
            }
        }
        let place = start..self.at;
        Err(Problem { place, message: "unclosed quote: write `'` after the text".to_owned() })
    }

    /// Returns the problem where a component is expected and none begins.
    fn no_component(&self, place: Range<usize>) -> Problem {
        let message = match self.next() {
            _ if self.text.trim().is_empty() => {
                "the expression is empty: write one such as `ip` or `user+method`".to_owned()
            }
            None | Some('+') => format!("a component is missing here: write one of {ALL}"),
            Some(character) => {
                format!("`{character}` can't begin a component: write one of {ALL}")
            }
        };
        let width = self.next().filter(|&character| character != '+').map_or(0, char::len_utf8);
        Problem { place: place.start..place.end + width, message }
    }
}

fn unknown(word: &str, place: Range<usize>) -> Problem {
    let known = PLAIN.iter().map(|(name, _)| *name).chain(NAMED.iter().map(|(name, _)| *name));
    let hint = match *nearest(word, known) {
        [name, ..] if NAMED.iter().any(|(named, _)| *named == name) => {
            format!("did you mean `{name}:NAME`?")
        }
        [name, ..] => format!("did you mean `{name}`?"),
        [] => format!("write one of {ALL}"),
    };
    Problem { place, message: format!("unknown component `{}`: {hint}", shown(word)) }
}

/// Returns the first 40 characters of a word.
fn shown(word: &str) -> String {
    const MAX_CHARS: usize = 40;
    match word.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => word.get(..end).unwrap_or(word).chars().chain(['…']).collect(),
        None => word.to_owned(),
    }
}
