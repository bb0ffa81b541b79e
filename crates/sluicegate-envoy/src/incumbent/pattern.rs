//! Keys with the wildcard `*`.

/// The key of a descriptor with wildcards. Each one stands for any number of characters.
#[derive(Debug)]
pub(crate) struct Pattern {
    before: Box<str>,
    between: Box<[Box<str>]>,
    after: Box<str>,
    /// The number of bytes without the wildcards.
    fixed: usize,
}

impl Pattern {
    /// Makes a pattern, if `key` has a wildcard.
    pub(crate) fn new(key: &str) -> Option<Self> {
        let (before, rest) = key.split_once('*')?;
        let (between, after) = match rest.rsplit_once('*') {
            Some((between, after)) => (between.split('*').map(Box::from).collect(), after),
            None => (Box::default(), rest),
        };
        let fixed = key.len() - key.matches('*').count();
        Some(Self { before: before.into(), between, after: after.into(), fixed })
    }

    /// Returns whether the pattern stands for `text`.
    pub(crate) fn matches(&self, text: &str) -> bool {
        if text.len() < self.fixed {
            return false;
        }
        let Some(inner) =
            text.strip_prefix(&*self.before).and_then(|rest| rest.strip_suffix(&*self.after))
        else {
            return false;
        };
        let mut parts = self.between.iter();
        parts
            .try_fold(inner, |rest, part| rest.split_once(&**part).map(|(_, after)| after))
            .is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        for (pattern, text, matches) in [
            ("k_*", "k_", true),
            ("k_*", "k_v", true),
            ("k_*", "j_v", false),
            ("k_v*", "k_", false),
            ("*", "", true),
            ("k_a*b", "k_ab", true),
            ("k_a*a", "k_a", false),
            ("k_a*b*c", "k_a1b2c", true),
            ("k_a*b*c", "k_acb", false),
            ("k_**x", "k_x", true),
            ("k_*b*b*", "k_b", false),
            ("k_*b*b*", "k_abab", true),
            ("*_*", "k_v", true),
        ] {
            let made = Pattern::new(pattern).expect("it has a wildcard");
            assert_eq!(made.matches(text), matches, "{pattern} {text}");
        }
        assert!(Pattern::new("k_v").is_none());
    }
}
