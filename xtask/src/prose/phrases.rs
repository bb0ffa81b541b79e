//! Finds phrases in sentences.
//!
//! A phrase is words apart by spaces. `a|b` is either word, `*` any word. `!a|b` before the first word
//! means that neither precedes the phrase, and after the last word that neither follows it. `#` in such
//! a list is a number.

use std::collections::HashMap;

use super::passage::Word;

/// Phrases by their first words. Each belongs to a pattern, known by its index.
#[derive(Debug, Default)]
pub(super) struct Phrases {
    by_first: HashMap<&'static str, Vec<Phrase>>,
}

#[derive(Clone, Debug)]
struct Phrase {
    pattern: usize,
    not_before: Vec<&'static str>,
    words: Vec<Vec<&'static str>>,
    not_after: Vec<&'static str>,
}

impl Phrases {
    /// Adds a phrase of a pattern.
    pub(super) fn add(&mut self, pattern: usize, phrase: &'static str) {
        let mut parts: Vec<Vec<&str>> =
            phrase.split(' ').map(|part| part.split('|').collect()).collect();
        let not_before = taken(parts.first_mut());
        let not_after = taken(parts.last_mut());
        let words: Vec<Vec<&str>> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let firsts = words.first().cloned().unwrap_or_default();
        let phrase = Phrase { pattern, not_before, words, not_after };
        for first in firsts {
            self.by_first.entry(first).or_default().push(phrase.clone());
        }
    }

    /// Returns the pattern and the first word of each phrase in a sentence.
    pub(super) fn find(&self, sentence: &[Word]) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        for (at, word) in sentence.iter().enumerate() {
            let phrases = self.by_first.get(&*word.lower).into_iter().flatten();
            for phrase in phrases.filter(|phrase| phrase.is_at(sentence, at)) {
                found.push((phrase.pattern, at));
            }
        }
        found
    }
}

impl Phrase {
    fn is_at(&self, sentence: &[Word], at: usize) -> bool {
        let end = at + self.words.len();
        let Some(words) = sentence.get(at..end) else { return false };
        let fits = |(word, wanted): (&Word, &Vec<&str>)| {
            wanted.contains(&&*word.lower) || wanted.contains(&"*")
        };
        let last = words.len() - 1;
        let is_whole = words[..last].iter().all(|word| word.after.is_empty());
        let before = at.checked_sub(1).map(|at| &sentence[at]);
        let before = before.filter(|word| word.after.is_empty());
        let after = sentence.get(end).filter(|_| words[last].after.is_empty());
        is_whole
            && words.iter().zip(&self.words).all(fits)
            && before.is_none_or(|word| !lists(&self.not_before, word))
            && after.is_none_or(|word| !lists(&self.not_after, word))
    }
}

/// Takes a list that starts with `!`.
fn taken(part: Option<&mut Vec<&'static str>>) -> Vec<&'static str> {
    let Some(part) = part else { return Vec::new() };
    match part.first_mut().and_then(|first| first.strip_prefix('!').map(|word| (first, word))) {
        Some((first, word)) => {
            *first = word;
            std::mem::take(part)
        }
        None => Vec::new(),
    }
}

fn lists(words: &[&str], word: &Word) -> bool {
    let is_number = word.lower.starts_with(|letter: char| letter.is_ascii_digit());
    words.iter().any(|listed| *listed == word.lower || *listed == "#" && is_number)
}

#[cfg(test)]
mod tests {
    use super::super::category::Category;
    use super::super::passage::{Passage, Role};
    use super::*;

    #[test]
    fn words_alternatives_and_their_neighbours_count() {
        let mut phrases = Phrases::default();
        phrases.add(0, "by hand");
        phrases.add(1, "!there|# is|are no !longer");
        phrases.add(2, "so * that");
        let found = |text: &str| {
            let lines = [(1, text.to_owned())];
            let passage = Passage::new(Category::Rest, Role::Plain, &lines);
            phrases.find(&passage.sentences[0])
        };
        assert_eq!(found("A key is banned by hand."), [(0, 4)]);
        assert_eq!(found("By hand, so far that"), [(0, 0), (2, 2)]);
        assert_eq!(found("handed by, hand"), []);
        assert_eq!(found("This is no key, and there is no other"), [(1, 1)]);
        assert_eq!(found("It is no longer there, 5 are no"), []);
        assert_eq!(found("They are no."), [(1, 1)]);
    }
}
