//! The committed list of how many findings each file has.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};

use super::category::Category;

/// The number of findings of each file and category; none is zero.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Counts(BTreeMap<String, BTreeMap<Category, usize>>);

impl Counts {
    /// Reads a list: one line a file, as in `docs/a.md guides=2`.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut counts = Self::default();
        for (index, line) in text.lines().enumerate() {
            let mut words = line.split(' ');
            let file = words.next().unwrap_or_default();
            for word in words {
                let parsed = word
                    .split_once('=')
                    .and_then(|(key, count)| Some((Category::from_key(key)?, count.parse().ok()?)));
                let (category, count) = parsed.with_context(|| {
                    format!("line {}: `{word}` isn't a count: write guides=2", index + 1)
                })?;
                counts.add(file, category, count);
            }
        }
        Ok(counts)
    }

    /// Returns the list as text, sorted by file.
    pub(super) fn text(&self) -> String {
        let lines = self.0.iter().map(|(file, counts)| {
            let counts =
                counts.iter().map(|(category, count)| format!(" {}={count}", category.key()));
            format!("{file}{}\n", counts.collect::<String>())
        });
        lines.collect()
    }

    /// Adds findings of a file.
    pub(super) fn add(&mut self, file: &str, category: Category, count: usize) {
        if count > 0 {
            let counts = self.0.entry(file.to_owned()).or_default();
            *counts.entry(category).or_default() += count;
        }
    }

    /// Returns the number of findings of a file in a category.
    pub(super) fn of(&self, file: &str, category: Category) -> usize {
        self.0.get(file).and_then(|counts| counts.get(&category)).copied().unwrap_or_default()
    }

    /// Returns the number of findings in a category.
    pub(super) fn total(&self, category: Category) -> usize {
        self.0.values().filter_map(|counts| counts.get(&category)).sum()
    }

    /// Returns each file and category with a higher count here than in `other`, and both counts.
    pub(super) fn above(&self, other: &Self) -> Vec<(&str, Category, usize, usize)> {
        let counts = self.0.iter().flat_map(|(file, counts)| {
            counts.iter().map(move |(category, count)| (&**file, *category, *count))
        });
        let pairs =
            counts.map(|(file, category, count)| (file, category, count, other.of(file, category)));
        pairs.filter(|(_, _, count, others)| count > others).collect()
    }

    /// Returns the lower count of both lists for each file and category.
    pub(super) fn lower(&self, other: &Self) -> Self {
        let mut lower = Self::default();
        for (file, counts) in &self.0 {
            for (category, count) in counts {
                lower.add(file, *category, other.of(file, *category).min(*count));
            }
        }
        lower
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_compared_and_only_lowered() {
        let text = "a.md guides=2\nb.rs rustdoc=1 rest=3\n";
        let listed = Counts::parse(text).unwrap();
        assert_eq!(listed.text(), text);
        let found = Counts::parse("b.rs rustdoc=2 rest=1\nc.md guides=1\n").unwrap();
        let risen = [("b.rs", Category::Rustdoc, 2, 1), ("c.md", Category::Guides, 1, 0)];
        assert_eq!(found.above(&listed), risen);
        let fallen = [("a.md", Category::Guides, 2, 0), ("b.rs", Category::Rest, 3, 1)];
        assert_eq!(listed.above(&found), fallen);
        assert_eq!(listed.lower(&found).text(), "b.rs rustdoc=1 rest=1\n");
        assert_eq!(found.total(Category::Rest), 1);
        assert!(Counts::parse("a.md guides=x").is_err());
    }
}
