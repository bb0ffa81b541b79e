//! Kinds of texts, by who reads them.

/// The readers of a text.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Category {
    /// Markdown files
    Guides,
    /// Documentation of public items
    Rustdoc,
    /// Errors, log lines, help and pages that the service sends
    Texts,
    /// Comments, and documentation of private items
    Rest,
}

impl Category {
    /// All of them, in the order in which they are printed.
    pub(super) const ALL: [Self; 4] = [Self::Guides, Self::Rustdoc, Self::Texts, Self::Rest];

    /// Returns the name in the list of counts.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Guides => "guides",
            Self::Rustdoc => "rustdoc",
            Self::Texts => "texts",
            Self::Rest => "rest",
        }
    }

    /// Returns the name in the totals.
    pub(super) fn heading(self) -> &'static str {
        match self {
            Self::Guides => "guides",
            Self::Rustdoc => "public rustdoc",
            Self::Texts => "errors, logs and help",
            Self::Rest => "the rest",
        }
    }

    /// Returns the category with that name in the list of counts.
    pub(super) fn from_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|category| category.key() == key)
    }
}
