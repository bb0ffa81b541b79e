//! Fragments: rules in Lua that the scripts contain inline, without a function and its call.
//!
//! A fragment is written as a function with an upper-case name, and used as a call of that function:
//!
//! ```lua
//! function DRAIN(deficit, newest, at, refill)
//!   deficit = deficit - (at - newest) * refill
//!   if deficit < 0 then deficit = 0 end
//! end
//! ```
//!
//! The body replaces the call, as a block, with the arguments in place of the parameters. If the body sets a
//! parameter, it changes the argument, which is how a fragment returns values. The body sees its arguments and
//! [`SHARED`], but nothing else of the code around the call.
//!
//! A fragment without parameters is a step: a part of the one place that uses it. It is inserted without a
//! block, so it sees earlier declarations, and later code sees its declarations.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::constants;
use super::source::{Place, Source};
use super::token::{is_capital, is_name, tokens};

/// Names that all parts of the script share: functions of Lua and of the server.
const SHARED: [&str; 8] = ["call", "math", "pack", "redis", "string", "table", "type", "unpack"];

/// Upper-case names that a server gives to every script.
const GIVEN: [&str; 2] = ["KEYS", "ARGV"];

/// The keywords that a fragment may use. A function would be made each time, and `return` would leave the
/// function around the call.
const KEYWORDS: [&str; 19] = [
    "and", "break", "do", "else", "elseif", "end", "false", "for", "if", "in", "local", "nil",
    "not", "or", "repeat", "then", "true", "until", "while",
];

/// All fragments, by name.
#[derive(Debug, Default)]
pub(super) struct Fragments<'t>(BTreeMap<&'t str, Fragment<'t>>);

#[derive(Debug)]
struct Fragment<'t> {
    parameters: Vec<&'t str>,
    body: &'t str,
    /// Start of the body.
    place: Place,
    locals: BTreeSet<&'t str>,
}

/// A problem of a script.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct FragmentError {
    place: Place,
    problem: String,
}

impl fmt::Display for FragmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.problem)
    }
}

impl<'t> Fragments<'t> {
    /// Adds the fragments of a file.
    pub(super) fn add(&mut self, file: &'static str, text: &'t str) -> Result<(), FragmentError> {
        let mut definition = None;
        let (mut start, mut line) = (0, 0);
        for whole in text.split_inclusive('\n') {
            line += 1;
            let place = Place { file, line };
            let wrong = |problem: &str| FragmentError { place, problem: problem.to_owned() };
            let end = start + whole.len();
            match (definition, whole.trim_end()) {
                (None, line_text) if line_text.starts_with("function ") => {
                    let head = line_text.trim_start_matches("function ");
                    let (name, parameters) = head
                        .strip_suffix(')')
                        .and_then(|head| head.split_once('('))
                        .filter(|(name, _)| is_capital(name))
                        .ok_or_else(|| wrong("expected `function NAME(parameter, …)`"))?;
                    definition = Some((name, parameters, end, Place { file, line: line + 1 }));
                }
                (None, line_text) if line_text.is_empty() || line_text.starts_with("--") => {}
                (None, _) => return Err(wrong("expected a fragment or a comment")),
                (Some((name, parameters, body, place)), "end") => {
                    let fragment = Fragment::new(name, parameters, &text[body..start], place)?;
                    if self.0.insert(name, fragment).is_some() {
                        return Err(wrong("a fragment of this name is there already"));
                    }
                    definition = None;
                }
                _ => {}
            }
            start = end;
        }
        match definition {
            Some((name, _, _, place)) => {
                Err(FragmentError { place, problem: format!("`{name}` has no `end` of its own") })
            }
            None => Ok(()),
        }
    }

    /// Makes a script of its text, with fragments in place of their calls, and values in place of template
    /// constants.
    ///
    /// # Errors
    /// Returns an error if a name has no value, or a fragment doesn't fit where it is used, or isn't used.
    pub(super) fn script(&self, text: &str, place: Place) -> Result<Source, FragmentError> {
        let mut writer =
            Writer { fragments: self, source: Source::default(), used: BTreeSet::new() };
        writer.write(&[], text, place)?;
        let unused = self.0.iter().find(|(name, _)| !writer.used.contains(*name));
        if let Some((name, Fragment { place, .. })) = unused {
            return Err(FragmentError { place: *place, problem: format!("nothing uses `{name}`") });
        }
        Ok(writer.source)
    }
}

/// A script in the making.
struct Writer<'f, 't> {
    fragments: &'f Fragments<'t>,
    source: Source,
    used: BTreeSet<&'f str>,
}

impl<'f> Writer<'f, '_> {
    /// Writes a text inside these fragments.
    fn write(&mut self, outer: &[&str], text: &str, mut place: Place) -> Result<(), FragmentError> {
        let mut rest = text;
        while let Some(token) = tokens(rest).next() {
            rest = &rest[token.len()..];
            let wrong = |problem| FragmentError { place, problem };
            if let Some((name, fragment)) = self.fragments.0.get_key_value(token) {
                rest = self.write_fragment(outer, name, fragment, rest, place)?;
                continue;
            }
            match constants::find(token) {
                _ if !is_capital(token) || GIVEN.contains(&token) => {
                    self.source.push(token, place);
                }
                Some(value) => self.source.push(&value.to_string(), place),
                None => {
                    return Err(wrong(format!("`{token}` is neither a fragment nor a constant")));
                }
            }
            place.line += token.matches('\n').count();
        }
        Ok(())
    }

    /// Writes a fragment in place of its call, and returns the text after the call.
    fn write_fragment<'r>(
        &mut self,
        outer: &[&str],
        name: &'f str,
        fragment: &Fragment<'_>,
        after: &'r str,
        place: Place,
    ) -> Result<&'r str, FragmentError> {
        let wrong = |problem| FragmentError { place, problem };
        if outer.contains(&name) {
            return Err(wrong(format!("`{name}` uses itself")));
        }
        let (arguments, after) = after
            .strip_prefix('(')
            .and_then(|after| after.split_once(')'))
            .ok_or_else(|| wrong(format!("`{name}` needs its arguments in one line")))?;
        let body = fragment.with(name, arguments).map_err(wrong)?;
        let is_used = !self.used.insert(name);
        let outer: Vec<&str> = outer.iter().copied().chain([name]).collect();
        if !fragment.is_step() {
            self.source.push("do\n", place);
            self.write(&outer, &body, fragment.place)?;
            self.source.push("end", place);
        } else if is_used {
            return Err(wrong(format!("`{name}` is a step, which stands in one place")));
        } else {
            self.write(&outer, body.trim(), fragment.place)?;
        }
        Ok(after)
    }
}

impl<'t> Fragment<'t> {
    fn new(
        name: &str,
        parameters: &'t str,
        body: &'t str,
        place: Place,
    ) -> Result<Self, FragmentError> {
        if constants::find(name).is_some() {
            return Err(FragmentError { place, problem: format!("`{name}` is a constant") });
        }
        let parameters: Vec<&str> =
            parameters.split(", ").filter(|each| !each.is_empty()).collect();
        if parameters.is_empty() {
            return Ok(Self { parameters, body, place, locals: BTreeSet::new() });
        }
        let locals = locals(body);
        let mut line = place.line;
        let mut before = ["", ""];
        for token in tokens(body) {
            let is_known = || {
                let lists: [&[&str]; 3] = [&SHARED, &KEYWORDS, &parameters];
                lists.iter().any(|list| list.contains(&token)) || locals.contains(token)
            };
            if is_name(token) && !is_capital(token) && !is_field(before) && !is_known() {
                let problem = format!("`{name}` sees no `{token}`: make it a parameter");
                return Err(FragmentError { place: Place { line, ..place }, problem });
            }
            line += token.matches('\n').count();
            before = [before[1], token];
        }
        Ok(Self { parameters, body, place, locals })
    }

    const fn is_step(&self) -> bool {
        self.parameters.is_empty()
    }

    /// Returns the body with arguments for the parameters.
    fn with(&self, name: &str, arguments: &str) -> Result<String, String> {
        let arguments = arguments.split(',').map(str::trim).filter(|each| !each.is_empty());
        let arguments: Vec<&str> = arguments.collect();
        if arguments.len() != self.parameters.len() {
            let expected = self.parameters.join(", ");
            return Err(format!("`{name}` takes ({expected}), not {} arguments", arguments.len()));
        }
        if let Some(other) = arguments.iter().find(|argument| !is_reference(argument)) {
            return Err(format!("`{name}` takes names, fields and numbers, not `{other}`"));
        }
        let named: BTreeSet<&str> =
            arguments.iter().filter_map(|argument| argument.split('.').next()).collect();
        let mut words: BTreeMap<&str, String> = self
            .locals
            .iter()
            .filter(|local| named.contains(**local))
            .map(|local| (*local, format!("{local}_of_{}", name.to_lowercase())))
            .collect();
        let arguments = arguments.iter().map(|argument| (*argument).to_owned());
        words.extend(self.parameters.iter().copied().zip(arguments));
        let mut body = String::new();
        let mut before = ["", ""];
        for token in tokens(self.body) {
            let word = words.get(token).filter(|_| !is_field(before));
            body.push_str(word.map_or(token, String::as_str));
            before = [before[1], token];
        }
        Ok(body)
    }
}

/// Returns `true` if the next token is the name of a field, and not of a variable.
fn is_field([before, last]: [&str; 2]) -> bool {
    last == "." && before != "."
}

/// Returns `true` for text that can replace a parameter anywhere.
fn is_reference(argument: &str) -> bool {
    let mut tokens = tokens(argument);
    let is_word =
        |token: &str| token.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    tokens.next().is_some_and(is_word)
        && tokens
            .enumerate()
            .all(|(at, token)| if at % 2 == 0 { token == "." } else { is_name(token) })
}

/// Returns the names that a body declares.
fn locals(body: &str) -> BTreeSet<&str> {
    let mut locals = BTreeSet::new();
    let mut declares = false;
    for token in tokens(body).filter(|token| !token.trim().is_empty()) {
        match token {
            "local" | "for" => declares = true,
            "," => {}
            name if declares && is_name(name) && !KEYWORDS.contains(&name) => {
                locals.insert(name);
            }
            _ => declares = false,
        }
    }
    locals
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "-- Rules.

-- Lowers a number.
function LOWER(number, by)
  local least = 0
  number = number - by
  if number < least then number = least end
end

-- Lowers the number of a thing twice.
function LOWER_TWICE(thing)
  LOWER(thing.number, 1)
  LOWER(thing.number, MAX)
end

function READ_IT()
  local it = { number = key }
end
";

    fn written(text: &str) -> Result<Source, FragmentError> {
        let mut fragments = Fragments::default();
        fragments.add("rules", FILE)?;
        let mut writer =
            Writer { fragments: &fragments, source: Source::default(), used: BTreeSet::new() };
        writer.write(&[], text, Place { file: "part", line: 1 })?;
        Ok(writer.source)
    }

    fn problem(text: &str) -> String {
        written(text).unwrap_err().to_string()
    }

    #[test]
    fn a_fragment_stands_in_place_of_its_call() {
        let text = "local x = 'LOWER(1)' -- LOWER(1)\n  LOWER(x, 3) return x\n";
        let expected = "local x = 'LOWER(1)' -- LOWER(1)\n  do\n  local least = 0\n  x = x - 3\n  \
                        if x < least then x = least end\nend return x\n";
        let source = written(text).unwrap();
        assert_eq!(source.text(), expected);
        let places: Vec<_> = (1..=6).map(|line| source.place(line).unwrap().to_string()).collect();
        let rules = ["rules.lua:5", "rules.lua:6", "rules.lua:7"];
        assert_eq!(places[..2], ["part.lua:1", "part.lua:2"]);
        assert_eq!((&places[2..5], &*places[5]), (&rules.map(str::to_owned)[..], "part.lua:2"));
    }

    #[test]
    fn a_local_of_a_fragment_does_not_hide_an_argument() {
        let source = written("LOWER(least.number, least)").unwrap();
        let expected = "do\n  local least_of_lower = 0\n  least.number = least.number - least\n  if least.number \
                        < least_of_lower then least.number = least_of_lower end\nend";
        assert_eq!(source.text(), expected);
    }

    #[test]
    fn fragments_are_made_of_fragments() {
        let source = written("LOWER_TWICE(it)").unwrap();
        assert!(
            source.text().contains("it.number = it.number - 9007199254740991"),
            "{}",
            source.text()
        );
        assert_eq!(source.place(4).unwrap().to_string(), "rules.lua:6");
    }

    #[test]
    fn a_step_shares_the_place_where_it_stands() {
        let source = written("READ_IT()\nreturn it").unwrap();
        assert_eq!(source.text(), "local it = { number = key }\nreturn it");
        let twice = "part.lua:2: `READ_IT` is a step, which stands in one place";
        assert_eq!(problem("READ_IT()\nREAD_IT()"), twice);
    }

    #[test]
    fn a_fragment_that_nothing_uses_is_an_error() {
        let mut fragments = Fragments::default();
        fragments.add("rules", FILE).unwrap();
        let place = Place { file: "part", line: 1 };
        let error = fragments.script("LOWER_TWICE(it)", place).unwrap_err();
        assert_eq!(error.to_string(), "rules.lua:17: nothing uses `READ_IT`");
    }

    #[test]
    fn a_call_that_does_not_fit_says_what_to_change() {
        assert_eq!(
            problem("\nLOWER(x)"),
            "part.lua:2: `LOWER` takes (number, by), not 1 arguments"
        );
        let fields = "part.lua:1: `LOWER` takes names, fields and numbers, not `y + 1`";
        assert_eq!(problem("LOWER(x, y + 1)"), fields);
        assert_eq!(
            problem("x = LOWEST"),
            "part.lua:1: `LOWEST` is neither a fragment nor a constant"
        );
        assert_eq!(problem("LOWER (x)"), "part.lua:1: `LOWER` needs its arguments in one line");
    }

    #[test]
    fn a_file_of_fragments_that_is_wrong_says_where() {
        let problem = |text: &'static str| {
            let mut fragments = Fragments::default();
            let problem = fragments.add("rules", text).unwrap_err().to_string();
            problem.strip_prefix("rules.lua:").unwrap().to_owned()
        };
        let parts = "2: `A` sees no `now`: make it a parameter";
        assert_eq!(problem("function A(x)\n  x = now\nend\n"), parts);
        assert_eq!(
            problem("function A(x)\n  return x\nend\n"),
            "2: `A` sees no `return`: make it a parameter"
        );
        assert_eq!(problem("x = 1\n"), "1: expected a fragment or a comment");
        assert_eq!(
            problem("function lower(x)\nend\n"),
            "1: expected `function NAME(parameter, …)`"
        );
        assert_eq!(problem("function A(x)\n"), "2: `A` has no `end` of its own");
        assert_eq!(problem("function MAX()\nend\n"), "2: `MAX` is a constant");
        let twice = "4: a fragment of this name is there already";
        assert_eq!(problem("function A(x)\nend\nfunction A(x)\nend\n"), twice);
        let mut fragments = Fragments::default();
        fragments.add("rules", "function A(x)\n  A(x)\nend\n").unwrap();
        let error = fragments.script("A(y)", Place { file: "part", line: 1 }).unwrap_err();
        assert_eq!(error.to_string(), "rules.lua:2: `A` uses itself");
    }
}
