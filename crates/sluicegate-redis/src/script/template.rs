//! Lua files with template constants, whose values come from Rust, and with [fragments](super::fragment). The
//! files are valid Lua for any editor, and no number and no rule is written twice.

use super::fragment::{FragmentError, Fragments};
use super::source::{Place, Source};

/// A file of Lua.
#[derive(Debug)]
pub(super) struct Template {
    /// The name of the file.
    pub(super) file: &'static str,
    pub(super) text: &'static str,
}

impl Template {
    /// Adds the fragments of the file.
    pub(super) fn add_to(&self, fragments: &mut Fragments<'static>) -> Result<(), FragmentError> {
        fragments.add(self.file, self.text())
    }

    /// Makes the script of this text.
    pub(super) fn script(&self, fragments: &Fragments<'_>) -> Result<Source, FragmentError> {
        fragments.script(self.text(), Place { file: self.file, line: 1 })
    }

    fn text(&self) -> &'static str {
        #[cfg(lua_mutants)]
        return super::mutant::in_place_of(self.text);
        #[cfg(not(lua_mutants))]
        self.text
    }
}
