//! Patterns at the start of a sentence.

use super::passage::{Passage, Role, Word};

/// Words with which the first line of documentation never starts.
const FIRST: [&str; 12] =
    ["what", "who", "whose", "those", "where", "how", "that", "as", "of", "it", "and", "whom"];
/// Words that start a noun phrase or a clause, where a function's documentation has a verb.
const NO_VERBS: [&str; 40] = [
    "a", "all", "an", "any", "as", "at", "by", "each", "every", "for", "from", "how", "if", "in",
    "is", "it", "its", "no", "not", "of", "on", "one", "only", "so", "some", "that", "the",
    "these", "they", "this", "those", "to", "what", "when", "where", "whether", "which", "who",
    "whose", "with",
];
/// Units that a noun phrase may start with.
const UNITS: [&str; 3] = ["ns", "µs", "ms"];
/// The fewest words of a sentence: shorter ones are labels.
const MIN_WORDS: usize = 3;

/// Finds a sentence that starts with a relative clause without a noun, or with `Of`.
pub(super) fn headless(passage: &Passage, index: usize) -> Option<usize> {
    let sentence = &passage.sentences[index];
    if passage.role == Role::Heading || starts_docs(passage, index) || is_question(sentence) {
        return None;
    }
    is_headless(passage, sentence).then_some(0)
}

/// Finds a first line of documentation that starts in the middle of a thought.
pub(super) fn first_line(passage: &Passage, index: usize) -> Option<usize> {
    let first = passage.sentences[index].first().filter(|_| starts_docs(passage, index))?;
    let is_name = first.text.contains([':', '/', '-', '.']) || UNITS.contains(&&*first.text);
    let is_lower = first.text.starts_with(char::is_lowercase) && !is_name;
    let is_listed = passage.role != Role::Function && FIRST.contains(&&*first.lower);
    (is_lower || is_listed).then_some(0)
}

/// Finds a first line of documentation that compares with another item.
pub(super) fn the_same(passage: &Passage, index: usize) -> Option<usize> {
    let sentence = passage.sentences.get(index).filter(|_| starts_docs(passage, index))?;
    let compared = ["as", "but", "for", "of", "way", "with", "without"];
    sentence.windows(2).enumerate().find_map(|(at, words)| {
        let is_same = words[0].lower == "the" && words[1].lower == "same";
        let next = sentence.get(at + 2).filter(|_| words[1].after.is_empty());
        let is_compared = at == 0 || next.is_none_or(|next| compared.contains(&&*next.lower));
        (is_same && is_compared).then_some(at)
    })
}

/// Finds a function's documentation that starts without a verb.
pub(super) fn function(passage: &Passage, index: usize) -> Option<usize> {
    let is_first = passage.role == Role::Function && index == 0;
    let first = passage.sentences[index].first().filter(|_| is_first)?;
    NO_VERBS.contains(&&*first.lower).then_some(0)
}

/// Finds a paragraph about errors that starts with their condition.
pub(super) fn error(passage: &Passage, index: usize) -> Option<usize> {
    let is_first = passage.role == Role::Errors && index == 0;
    let first = passage.sentences[index].first().filter(|_| is_first)?;
    ["if", "when", "where", "what", "as", "unless"].contains(&&*first.lower).then_some(0)
}

/// Finds a sentence whose verb comes before its subject.
pub(super) fn inverted(passage: &Passage, index: usize) -> Option<usize> {
    let [first, second, ..] = passage.sentences[index].as_slice() else { return None };
    let verbs = ["is", "are", "was", "were", "do", "does", "has", "have", "can", "comes", "stands"];
    let is_inverted = ["so", "not", "never", "only"].contains(&&*first.lower);
    let is_inverted = is_inverted && verbs.contains(&&*second.lower);
    (is_inverted && !is_question(&passage.sentences[index])).then_some(0)
}

fn starts_docs(passage: &Passage, index: usize) -> bool {
    passage.role.starts_docs() && index == 0
}

fn is_question(sentence: &[Word]) -> bool {
    sentence.last().is_some_and(|word| word.after.contains('?'))
}

fn is_headless(passage: &Passage, sentence: &[Word]) -> bool {
    let [first, second, ..] = sentence else { return false };
    if sentence.len() < MIN_WORDS {
        return false;
    }
    match &*first.lower {
        "what" => true,
        // A literal may continue another text.
        _ if passage.role == Role::Literal => false,
        "who" | "whose" | "whom" => true,
        "those" => {
            ["who", "of", "that", "in", "with", "for", "which", "whose"].contains(&&*second.lower)
        }
        "that" => second.lower == "of",
        "of" => second.lower != "course",
        _ => false,
    }
}
