//! The words of a spec with their locations, and suggestions for misspelt ones.

/// A range of characters in a spec: the first, counted from 0, and how many.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Location {
    pub(crate) column: usize,
    pub(crate) width: usize,
}

/// A word of a spec and its location.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word<'a> {
    pub(crate) text: &'a str,
    pub(crate) location: Location,
}

impl<'a> Word<'a> {
    /// The parts before and after the first `separator`.
    pub(crate) fn split_once(self, separator: char) -> Option<(Self, Self)> {
        let (before, after) = self.text.split_once(separator)?;
        let width = before.chars().count();
        let column = self.location.column;
        Some((
            Self { text: before, location: Location { column, width } },
            Self {
                text: after,
                location: Location {
                    column: column + width + 1,
                    width: self.location.width - width - 1,
                },
            },
        ))
    }

    /// The word as a message shows it: shortened, because the word can be as long as the spec.
    pub(crate) fn shown(self) -> String {
        const MOST: usize = 40;
        if self.location.width <= MOST {
            return self.text.to_owned();
        }
        self.text.chars().take(MOST).chain(['…']).collect()
    }
}

/// Splits `spec` into words at white space.
pub(crate) fn split(spec: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut column = 0;
    for piece in spec.split(char::is_whitespace) {
        let width = piece.chars().count();
        if width > 0 {
            words.push(Word { text: piece, location: Location { column, width } });
        }
        column += width + 1;
    }
    words
}

/// A question to append to a message: those of `candidates` that `word` may be a misspelling or an
/// abbreviation of.
pub(crate) fn did_you_mean<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    let word = word.to_lowercase();
    // A longer word resembles none, and computing the distance takes time.
    if !(2..=24).contains(&word.chars().count()) {
        return None;
    }
    let mut best = usize::MAX;
    let mut near: Vec<&str> = Vec::new();
    for candidate in candidates {
        let tolerated = if candidate.len() >= 5 { 2 } else { 1 };
        let distance = match distance(&word, candidate) {
            distance if distance <= tolerated => distance,
            _ if word.len() >= 3 && candidate.starts_with(&word) => tolerated + 1,
            _ => continue,
        };
        if distance < best {
            near.clear();
            best = distance;
        }
        if distance == best {
            near.push(candidate);
        }
    }
    let (last, others) = near.split_last()?;
    let others: String = others.iter().map(|word| format!("`{word}` or ")).collect();
    Some(format!("did you mean {others}`{last}`?"))
}

/// The edit distance: how many characters to insert, delete, replace or swap with a neighbour.
fn distance(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().collect();
    let to: Vec<char> = to.chars().collect();
    let mut before_last = vec![0; to.len() + 1];
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for row in 1..=from.len() {
        let mut current = vec![row; to.len() + 1];
        for column in 1..=to.len() {
            let replaced = last[column - 1] + usize::from(from[row - 1] != to[column - 1]);
            current[column] = replaced.min(last[column] + 1).min(current[column - 1] + 1);
            let swapped = row > 1
                && column > 1
                && from[row - 1] == to[column - 2]
                && from[row - 2] == to[column - 1];
            if swapped {
                current[column] = current[column].min(before_last[column - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last[to.len()]
}
