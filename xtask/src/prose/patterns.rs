//! Patterns of English that is hard to read.

use super::category::Category;
use super::openings;
use super::passage::{Passage, Role, Word};
use super::phrases::Phrases;
use super::words::ENTRIES;

/// A pattern in a file.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) category: Category,
    pub(super) line: usize,
    pub(super) pattern: &'static str,
    pub(super) advice: &'static str,
    /// The words around it
    pub(super) text: String,
}

/// Looks for every pattern.
#[derive(Debug)]
pub(super) struct Finder {
    phrases: Phrases,
}

/// A pattern of whole sentences: its name, its advice, and the index of the word where it starts.
struct Rule {
    name: &'static str,
    advice: &'static str,
    find: fn(&Passage, usize) -> Option<usize>,
}

/// A sentence is shorter.
const MAX_WORDS: usize = 25;
/// The number of words that a finding shows before and after its first word.
const SHOWN: (usize, usize) = (3, 9);

const RULES: [Rule; 9] = [
    Rule {
        name: "headless opening",
        advice: "start with the subject, not with `what`, `who`, `those` or `of`",
        find: openings::headless,
    },
    Rule {
        name: "first doc line",
        advice: "start with a noun or a verb, in a sentence that stands alone",
        find: openings::first_line,
    },
    Rule {
        name: "the same",
        advice: "write a first line that doesn't compare with another item",
        find: openings::the_same,
    },
    Rule {
        name: "function docs",
        advice: "start with a verb in the third person, such as `Returns`",
        find: openings::function,
    },
    Rule { name: "error docs", advice: "start with `Returns an error if`", find: openings::error },
    Rule {
        name: "inverted order",
        advice: "write the subject before the verb",
        find: openings::inverted,
    },
    Rule { name: "long sentence", advice: "split it: under 25 words a sentence", find: long },
    Rule { name: "two colons", advice: "write at most one colon in a sentence", find: two_colons },
    Rule { name: "exclamation mark", advice: "end with a full stop", find: exclamation },
];

impl Finder {
    /// Reads the phrases of all patterns.
    pub(super) fn new() -> Self {
        let mut phrases = Phrases::default();
        for (index, entry) in ENTRIES.iter().enumerate() {
            for phrase in entry.phrases {
                phrases.add(index, phrase);
            }
        }
        Self { phrases }
    }

    /// Returns the patterns in a passage.
    pub(super) fn find(&self, passage: &Passage) -> Vec<Finding> {
        let mut found = Vec::new();
        for (index, sentence) in passage.sentences.iter().enumerate() {
            let mut add = |at: usize, pattern, advice| {
                let (line, text) = (sentence[at].line, shown(sentence, at));
                found.push(Finding { category: passage.category, line, pattern, advice, text });
            };
            for (entry, at) in self.phrases.find(sentence) {
                add(at, ENTRIES[entry].name, ENTRIES[entry].advice);
            }
            for rule in &RULES {
                if let Some(at) = (rule.find)(passage, index) {
                    add(at, rule.name, rule.advice);
                }
            }
        }
        found
    }
}

/// Returns the words around a pattern.
fn shown(sentence: &[Word], at: usize) -> String {
    let (start, end) = (at.saturating_sub(SHOWN.0), sentence.len().min(at + SHOWN.1));
    let words = sentence[start..end].iter().map(|word| format!("{}{}", word.text, word.after));
    let words: Vec<String> = words.collect();
    let (before, after) =
        (if start > 0 { "… " } else { "" }, if end < sentence.len() { " …" } else { "" });
    format!("{before}{}{after}", words.join(" ").trim())
}

fn long(passage: &Passage, index: usize) -> Option<usize> {
    let words = passage.sentences[index].len();
    (words >= MAX_WORDS && passage.role != Role::Heading).then_some(0)
}

fn two_colons(passage: &Passage, index: usize) -> Option<usize> {
    // A placeholder before a colon is the place of an error.
    let is_colon = |(_, word): &(usize, &Word)| {
        word.after.trim_matches(')') == ":" && !word.text.ends_with('}')
    };
    let mut colons = passage.sentences[index].iter().enumerate().filter(is_colon);
    colons.nth(1).map(|(at, _)| at)
}

fn exclamation(passage: &Passage, index: usize) -> Option<usize> {
    passage.sentences[index].iter().position(|word| word.after.ends_with('!') && !word.is_code())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of patterns, the role of a passage, a text in which each is found, and one in which it isn't.
    const TEXTS: [(&str, Role, &str, &str); 16] = [
        (
            "headless opening",
            Role::Plain,
            "It waits. What has expired is removed.",
            "What has expired?",
        ),
        ("headless opening", Role::Plain, "Of a log, the entries.", "Of course it waits."),
        ("headless opening", Role::Plain, "Those of a part.", "Those are parts."),
        ("headless opening", Role::Literal, "what is unused returns", "whose first part is short"),
        ("headless opening", Role::Plain, "Who waits has a ticket.", "Waiters have tickets."),
        ("first doc line", Role::Item, "How long it waits.", "Maximum wait."),
        ("first doc line", Role::Module, "at whole multiples", "`at` is a whole multiple."),
        (
            "the same",
            Role::Function,
            "The same with a name.",
            "Returns the same key for all requests.",
        ),
        ("function docs", Role::Function, "The files.", "Returns the files."),
        (
            "error docs",
            Role::Errors,
            "If the URL is none.",
            "Returns an error if the URL is invalid.",
        ),
        ("inverted order", Role::Plain, "It waits. So does a reset.", "A reset also waits."),
        ("long sentence", Role::Plain, LONG, "a b c d e f g h i j k l m n o p q r s t u v w x."),
        ("two colons", Role::Plain, "One: two: three.", "{file}: one: two at 12:30."),
        ("exclamation mark", Role::Plain, "It works!", "It calls `format!` once."),
        ("headless opening", Role::Plain, "That of a part.", "That part waits."),
        ("function docs", Role::Function, "Whether it waits.", "Returns `true` if it waits."),
    ];
    const LONG: &str = "a b c d e f g h i j k l m n o p q r s t u v w x y.";

    fn names(role: Role, text: &str) -> Vec<&'static str> {
        let passage = Passage::new(Category::Rest, role, &[(1, text.to_owned())]);
        Finder::new().find(&passage).iter().map(|finding| finding.pattern).collect()
    }

    #[test]
    fn every_rule_is_found_in_its_wrong_text_and_not_in_its_right_one() {
        for (name, role, wrong, right) in TEXTS {
            assert!(names(role, wrong).contains(&name), "{name}: {wrong}");
            assert!(!names(role, right).contains(&name), "{name}: {right}");
        }
        for rule in &RULES {
            assert!(TEXTS.iter().any(|(name, ..)| *name == rule.name), "{}", rule.name);
        }
    }

    #[test]
    fn every_entry_is_found_in_its_wrong_text_and_not_in_its_right_one() {
        for entry in ENTRIES {
            assert!(names(Role::Plain, entry.wrong).contains(&entry.name), "{}", entry.wrong);
            assert!(!names(Role::Plain, entry.right).contains(&entry.name), "{}", entry.right);
        }
    }

    #[test]
    fn a_finding_shows_the_words_around_it() {
        let text = "A call that was sent fails at once, if the server is down or overloaded.";
        let passage = Passage::new(Category::Rest, Role::Plain, &[(7, text.to_owned())]);
        let found = Finder::new().find(&passage);
        assert_eq!(found[0].line, 7);
        assert_eq!(found[0].text, "… was sent fails at once, if the server is down or overloaded.");
    }
}
